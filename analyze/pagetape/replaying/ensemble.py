# SPDX-License-Identifier: Apache-2.0
"""Ensembles: a run played several times, each time with other small changes that no event shows.

Under memory pressure one page more or less decides where hundreds of later pages go. One run is
therefore one draw of many. A *member* of an ensemble is the run with changes drawn from a seed
(freerun/variation.h): a page is held for a while, an entry of a list moves to its end, a list
drains some pages, a zone's counter is off by what a CPU has not added yet. Where only /proc showed
the start, a member also has another of the starts that the tape leaves possible
(start_variation.py), or another order of the free lists without such a start. Members of two runs
with the same seed have the same changes at the same events, so a comparison member by member shows
the difference of the rules.

How often each kind of change comes is measured on the tape: as often as validate inferred an
outcome of that kind, within bounds.

Two more kinds of change follow the tape one by one. An inferred row has another moment, drawn from
the window that the tape proves (column `since`). A decision is taken otherwise, at the rate at
which validate missed decisions of its kind (model/flips.h).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from pagetape.asking.comparison import metrics
from pagetape.replaying import fanout, kernels, model_memory
from pagetape.replaying.engine_run import Progress, event_batches, silent
from pagetape.replaying.playback import Playback, Run, Source, identity, is_own, made_by
from pagetape.replaying.validation import miss_rates
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError, Writer
from pagetape.tapes import cache, output

# Members of an ensemble by default.
DEFAULT = 16

# The table of the members' metrics.
SCHEMA = TABLES["member"].arrow

# Outcomes of validate that show how often the model is off in a way that a change stands for.
_SHOWN_BY = {
    "held": ("landed", "dirty", "clean"),
    "moved": ("cut", "moved", "retyped"),
    "sized": ("tuned", "refill", "put_off", "overflow"),
    "counted": ("counted_more", "counted_less", "unboosted", "touched"),
}

# Metrics of a member with this prefix are the numbers of its changes, by kind.
DRAWN = "changes: "

# Decisions of a rate: model/flips.h.
_FLIPS_PER = 1_000_000_000

# Changes of each kind in a run, at least and at most.
_CHANGES = (20, 200)


def changes(tape: Tape, inferred: pa.Table) -> dict[str, int]:
    """The changes of each kind, per million rows of `event`, for a tape and its inferred rows."""
    found = Counter(inferred["kind"].to_pylist())
    least, most = _CHANGES
    rows = max(tape.num_rows("event"), 1)
    out = {}
    for change, kinds in _SHOWN_BY.items():
        nr = min(max(sum(found[kind] for kind in kinds), least), most)
        out[change] = max(1, round(nr * 1e6 / rows))
    return out


def variation(tape: Tape, inferred: pa.Table) -> dict[str, Any]:
    """The keywords of the engine for a member, except its seed."""
    flips = {kind: round(rate * _FLIPS_PER) for kind, rate in miss_rates(tape).items()}
    return {"changes": changes(tape, inferred), "flips": flips, "moments": True}


def drawn(rows: pa.Table) -> dict[str, dict[str, int]]:
    """The changes of all members of each run, by kind, of rows of the table `member`."""
    found: dict[str, Counter[str]] = {}
    for row in rows.to_pylist():
        if row["metric"].startswith(DRAWN):
            kinds = found.setdefault(row["run"], Counter())
            kinds[row["metric"].removeprefix(DRAWN)] += row["value"]
    return {run: dict(kinds) for run, kinds in found.items()}


@contextlib.contextmanager
def named(tape: Tape, scratch: Path) -> Iterator[None]:
    """Name the recording in errors about a scratch tape made from it: its values are to blame."""
    try:
        yield
    except TapeError as e:
        text = str(e.strerror).replace(str(scratch), str(tape.path))
        raise TapeError(e.errno, text) from e


class _Member:
    """A member in progress, as a reader of the tape's events; at the end it has its metrics."""

    def __init__(self, source: Source, run: Run, variation: Mapping[str, Any], path: Path) -> None:
        self._source = source
        self._run = run
        self._variation = variation
        self._path = path
        self._open = contextlib.ExitStack()
        self._playback: Playback | None = None
        self.metrics: dict[str, dict[str, Any]] = {}

    def _start(self) -> Playback:
        tape = self._source.tape
        facts = tape.facts | {"replay": made_by(tape, self._run)}
        writer = self._open.enter_context(Writer(self._path, facts))
        playing = Playback(self._source, self._run, writer, counted=True, variation=self._variation)
        return self._open.enter_context(playing)

    def feed(self, batch: pa.RecordBatch) -> None:
        if self._playback is None:
            self._playback = self._start()
        self._playback.feed(batch)

    def finish(self) -> None:
        if self._playback is None:  # a tape without events
            self._playback = self._start()
        self._playback.finish()
        changes = self._playback.drawn
        self.close()
        with named(self._source.tape, self._path):
            self.metrics = metrics(Tape(self._path), threads=1)
        for kind, nr in changes.items():
            self.metrics[DRAWN + kind] = {"unit": "changes", "tier": "A", "value": nr}
        shutil.rmtree(self._path)

    def close(self) -> None:
        self._open.close()
        self._playback = None  # and with it the memory of the model


def play(
    source: Source,
    runs: Mapping[str, Run],
    nr: int,
    near: Path,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> pa.Table:
    """Play `nr` members of each run; returns their rows of the table `member`.

    `runs` has each run under its label in that table. Scratch files go beside `near`.
    """
    tape = source.tape
    varied = variation(tape, source.all_inferred)
    _ = source.guesses  # once for all members, which read it on several threads
    threads = threads or len(os.sched_getaffinity(0))
    size = model_memory.model_bytes(tape, (run.reclaim for run in runs.values()))
    models = model_memory.most_models(size, threads)
    count = _Progress(tape.num_rows("event") * nr * len(runs), progress)
    with output.scratch_dir(near) as directory:
        members = [
            (label, seed, _Member(source, run, {"seed": seed} | varied, directory / name))
            for seed in range(1, nr + 1)
            for label, run in runs.items()
            for name in [f"{label}-{seed}.tape"]
        ]
        groups = [
            _group(tape, [member for _, _, member in members[i : i + models]], count)
            for i in range(0, len(members), models)
        ]
        fanout.read_all(groups, threads, models)
    rows = [
        {"run": label, "seed": seed, "metric": name}
        | {column: row[column] for column in ("unit", "tier", "value")}
        for label, seed, member in members
        for name, row in member.metrics.items()
    ]
    return pa.Table.from_batches([TABLES["member"].batch(rows)])


class _Progress:
    """Counts the events that all members have read; they read on several threads."""

    def __init__(self, rows: int, progress: Progress) -> None:
        self._rows = max(rows, 1)
        self._progress = progress
        self._read = 0
        self._lock = Lock()

    def counted(self, batches: Iterator[pa.RecordBatch], readers: int) -> Iterator[pa.RecordBatch]:
        """The batches; each counts for all readers when it is read."""
        for batch in batches:
            yield batch
            with self._lock:
                self._read += batch.num_rows * readers
            self._progress(self._read / self._rows)


def _group(tape: Tape, members: Sequence[_Member], count: _Progress) -> fanout.Group:
    def start() -> tuple[Iterator[pa.RecordBatch], Sequence[_Member]]:
        return count.counted(event_batches(tape), len(members)), members

    return fanout.Group(len(members), start)


def _played(
    source: Source,
    run: Run,
    nr: int,
    near: Path,
    *,
    threads: int | None,
    progress: Progress,
) -> pa.Table:
    """The rows of `member` for one run; cached."""
    label = "own" if is_own(source.tape, run) else "this"
    rules = json.dumps(identity(source.tape, run), sort_keys=True)
    key = blake2b(rules.encode(), digest_size=16).hexdigest()
    return cache.table(
        source.tape,
        f"member-{label}-{key}-{nr}",
        SCHEMA,
        lambda: play(source, {label: run}, nr, near, threads=threads, progress=progress),
    )


def own(
    source: Source,
    run: Run,
    nr: int,
    near: Path,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> pa.Table:
    """The rows of `member` for the own rules, with the inputs of a run; cached.

    There are none if the tape's kernel is unknown, or if the tape is a replay.
    """
    tape = source.tape
    if not nr or "replay" in tape.facts or kernels.own(tape) is None:
        return SCHEMA.empty_table()
    return _played(source, run.own, nr, near, threads=threads, progress=progress)


def with_own(
    source: Source,
    run: Run,
    nr: int,
    near: Path,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> pa.Table:
    """The rows of `member` for the own rules, and for the run if it has other rules; cached."""
    tape = source.tape
    found = own(source, run, nr, near, threads=threads, progress=progress)
    if not found.num_rows or is_own(tape, run):
        return found
    this = _played(source, run, nr, near, threads=threads, progress=progress)
    return pa.concat_tables([found, this])
