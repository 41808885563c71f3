# SPDX-License-Identifier: Apache-2.0
"""Every policy, kernel, reclaim mode, preferred node and map of nodes on every tape: one run each.

A run leaves two files in the sweep's directory:

    NAME.tape  the tape of `pagetape replay -o`, with rows for fallbacks only; other page events
               are counted (table event_count)
    NAME.json  the run, its totals and its metrics, with the model's error on the recording

NAME ends with a hash of the run, of the recording's contents and of this pagetape. The .json is
written last and atomically. A repeated sweep therefore makes only the missing runs, and several
shards and machines can fill one directory.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from pagetape import answer
from pagetape.asking import comparison
from pagetape.asking.database import labels
from pagetape.replaying import fanout, model_error, presets
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import Playback, Run, Source, made_by
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, output
from pagetape.tapes.loss import Loss

_BRACES = re.compile(r"\{([^{}]*)\}")
_FRAME_BYTES = 16  # bytes of a model per page of the machine


def expand(text: str) -> list[str]:
    """'a:b={1,2}' as 'a:b=1' and 'a:b=2'; several braces make every combination."""
    pieces = _BRACES.split(text)
    if any(c in piece for piece in pieces for c in "{}"):
        raise ValueError(f"'{text}': braces do not match")
    choices = [piece.split(",") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    if any(choice == "" for choice in itertools.chain(*choices[1::2])):
        raise ValueError(f"'{text}': an empty choice")
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def stack(spec: str) -> tuple[str, ...]:
    """'a:y=1,x=2 + b' as the policies of a run, their settings in one order; presets too."""
    policies = []
    for policy in spec.split("+"):
        name, colon, settings = policy.strip().partition(":")
        policies.append(name + colon + ",".join(sorted(settings.split(","))))
    return presets.expand(policies)


def words(result: dict[str, Any]) -> str:
    """The policies of a run, its preferred node and its map of nodes, as a column of a table."""
    text = " + ".join(result["policies"])
    if result["prefer"] != "auto":
        text += f", prefer {result['prefer']}"
    return f"{text}, CPUs {result['nodes']}" if result["nodes"] else text


@dataclass(frozen=True)
class Case:
    """One run of the matrix."""

    tape: Tape
    label: str  # of the tape, among the tapes of the sweep
    run: Run
    name: str  # of its files

    @classmethod
    def of(cls, tape: Tape, label: str, contents: str, run: Run) -> Case:
        made = made_by(tape, run)
        what = vars(run) | {"kernel": made["kernel"], "policies": made["policies"]}
        what |= {"policy_libs": cache.digest(map(Path, run.policy_libs))}
        identity = json.dumps([contents, cache.build(), what], sort_keys=True)
        parts = [label, words(made), made["kernel"], run.reclaim]
        slug = re.sub(r"[^\w.=-]+", "-", "_".join(parts)).strip("-.")
        key = blake2b(identity.encode(), digest_size=6).hexdigest()
        return cls(tape, label, run, f"{slug[:160]}_{key}")

    def result(self, directory: Path) -> dict[str, Any] | None:
        """The run's .json, if the run was made."""
        with contextlib.suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads((directory / f"{self.name}.json").read_text())
            return found
        return None


def matrix(tapes: Sequence[Tape], runs: Sequence[Run]) -> list[Case]:
    """Every run on every tape, once; raises an error if one of them cannot start."""
    cases: dict[str, Case] = {}
    for tape, label in zip(tapes, labels(tapes), strict=True):
        source, contents = Source(tape), cache.contents(tape)
        for run in runs:
            source.engine(run)
            case = Case.of(tape, label, contents, run)
            cases.setdefault(case.name, case)
    return list(cases.values())


def shard(cases: Sequence[Case], number: int, of: int) -> list[Case]:
    """The `number`-th of `of` parts, counted from 1; runs on one tape stay together."""
    nr = len(cases)
    return list(cases[nr * (number - 1) // of : nr * number // of])


def prepare(tape: Tape, directory: Path) -> tuple[pa.Table, pa.Table]:
    """The inferred rows and the model's error, which all runs on a tape share."""
    return inferred(tape), model_error.measure(tape, directory / "model")


class _Recording:
    """A tape with the result of prepare(), made when it is first needed."""

    def __init__(
        self, tape: Tape, directory: Path, prepared: tuple[pa.Table, pa.Table] | None
    ) -> None:
        self._tape = tape
        self._directory = directory
        self._prepared = prepared
        self._lock = Lock()
        self._made: tuple[Source, pa.Table] | None = None

    def made(self) -> tuple[Source, pa.Table]:
        """The source, and the model's error on it."""
        with self._lock:
            if self._made is None:
                found, error = self._prepared or prepare(self._tape, self._directory)
                self._made = Source(self._tape, found, preferences(self._tape)), error
            return self._made


class _Unfinished(Exception):
    """Discards a tape that is not wanted."""


class _Reader:
    """A case in progress. The first call starts its run."""

    def __init__(
        self,
        case: Case,
        recording: tuple[Source, pa.Table],
        directory: Path,
        count: Callable[[int], None],
    ) -> None:
        self._source, self._error = recording
        self._case = case
        self._directory = directory
        self._count = count  # takes the number of events that were fed
        self._open = contextlib.ExitStack()

    @cached_property
    def _playback(self) -> Playback:
        case = self._case
        made = made_by(case.tape, case.run) | {"clock": case.tape.clock}
        facts = case.tape.facts | {"replay": made}
        path = self._directory / f"{case.name}.tape"
        writer = self._open.enter_context(
            output.whole_tape(path, facts, replace=True, inputs=[case.tape.path], durable=False)
        )
        for batch in self._error.to_batches():
            writer.write("model_error", batch)
        return self._open.enter_context(Playback(self._source, case.run, writer, counted=True))

    def feed(self, batch: pa.RecordBatch) -> None:
        self._playback.feed(batch)
        self._count(batch.num_rows)

    def finish(self) -> None:
        found = self._playback.finish()
        self._open.close()
        del found["events_per_s"]
        tape = Tape(self._directory / f"{self._case.name}.tape")
        metrics = comparison.beside_model(comparison.metrics(tape, threads=1), self._error)
        made = {"tape": self._case.label, "name": self._case.name} | found
        made |= {"lost": Loss.of(tape).total, "metrics": metrics}
        text = json.dumps(answer.plain(made), indent=1) + "\n"
        with output.whole_file(
            self._directory / f"{self._case.name}.json",
            replace=True,
            mark=json.dumps(self._case.name).encode(),
            inputs=[self._case.tape.path],
            durable=False,
        ) as file:
            file.write(text.encode())

    def close(self) -> None:
        self._open.__exit__(_Unfinished, _Unfinished(), None)


def _model_bytes(tape: Tape) -> int:
    """Approximate memory of a model of the tape's machine, in bytes."""
    zones = [zone for zone in tape.rows("zone") if zone["snapshot"] == 0]
    return _FRAME_BYTES * sum(int(zone["spanned"]) for zone in zones)


def most_models(tapes: Sequence[Tape], jobs: int) -> int:
    """The number of models at once: four per job, in at most half of the free memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    largest = max(map(_model_bytes, tapes), default=0)
    return max(min(4 * jobs, free // 2 // max(largest, 1)), 1)


def play(
    cases: Sequence[Case],
    directory: Path,
    *,
    jobs: int,
    models: int,
    progress: Progress = silent,
    prepared: tuple[pa.Table, pa.Table] | None = None,
) -> None:
    """Make the results of the cases, on `jobs` threads, with up to `models` models at once.

    `prepared` is the result of prepare(), for cases that are all on one tape.
    """
    rows = sum(case.tape.num_rows("event") for case in cases)
    lock = Lock()
    fed = 0

    def count(nr: int) -> None:
        nonlocal fed
        with lock:
            fed += nr
        progress(fed / rows if rows else 1.0)

    def group(cases: Sequence[Case], recording: _Recording) -> fanout.Group:
        def start() -> tuple[Iterator[pa.RecordBatch], list[_Reader]]:
            readers = [_Reader(case, recording.made(), directory, count) for case in cases]
            return cases[0].tape.batches("event"), readers

        return fanout.Group(len(cases), start)

    groups = []
    for _, same in itertools.groupby(cases, key=lambda case: case.label):
        runs = list(same)
        recording = _Recording(runs[0].tape, directory, prepared)
        groups += [group(runs[i : i + models], recording) for i in range(0, len(runs), models)]
    fanout.read_all(groups, jobs, models)
