# SPDX-License-Identifier: Apache-2.0
"""Plays a tape through the replay engine; the result is a tape, or totals only."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay
from pagetape.replaying import feedback, kernels, replay_span
from pagetape.replaying.lock_costs import fitted
from pagetape.replaying.preference import SCHEMA, chosen, corrected, shares
from pagetape.replaying.prefetch import prefetch
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import output
from pagetape.tapes.machine import SNAPSHOT, snapshot_rows, topology

# What the run takes over from its input as it is.
KEPT = ("task", "lost")

# Of the snapshots, what only a run that keeps all its events has rows of.
_BULKY = {"pageblock", "block_guess", "free_block", "pcp_page"}

# Totals that say how reclaim would have reacted: counted, but not fed back.
_FEEDBACK = {"slowpath_wake_calls", "below_low", "below_min", "failed"}

# Totals of the model's own reclaim and compaction, which R0 does not have: from here on.
_FIRST_OF_FEEDBACK = "kswapd_wakeups"

# What no replay can tell, and why. Nobody is given a number for these.
NOT_MODELLED = {
    "refaults": "which reclaimed pages are wanted again depends on what programs do next",
    "io": "the tape has no requests for I/O, and a replay makes none",
    "swap": "what is swapped depends on the LRU lists, which no event tells",
    "throughput": "requests come when the record made them, however fast they are served",
    "latency": "no request waits for another: single stalls are modelled, their effect is not",
    "efficiency": "how many pages are scanned for one reclaimed depends on the LRU lists",
    "writeback": "which pages are dirty, and when they are written, no event tells",
    "throttling": "who waits for writeback depends on pages that are dirty or congested",
}


@dataclass(frozen=True)
class Run:
    """What to play a tape under."""

    kernel: str  # a row of the feature matrix, or "auto"
    policies: tuple[str, ...]
    reclaim: str = "R0"
    policy_libs: tuple[str, ...] = ()  # shared objects with policies from outside the tree
    prefer: str = "auto"  # one of preference.MODES
    memory_policies: tuple[tuple[int, str], ...] = ()  # told of threads: preference.told()
    cpu_parts: tuple[int, ...] = ()  # of the nodes fake_numa makes of one, that of each CPU

    @property
    def nodes(self) -> str | None:
        """The CPUs of each node that --nodes makes, as 0-3/4-7."""
        ranges: dict[int, list[str]] = {}
        first = 0
        for node, same in groupby(self.cpu_parts):
            last = first + len(list(same)) - 1
            ranges.setdefault(node, []).append(f"{first}-{last}" if last > first else f"{first}")
            first = last + 1
        return "/".join(",".join(ranges[node]) for node in sorted(ranges)) or None


def is_own(tape: Tape, run: Run) -> bool:
    """Whether the run is under the kernel and the policy of the tape itself."""
    own = kernels.own(tape)
    looking_on = {p["name"] for p in _replay.policies() if p["choices"] == ["lock_costs"]}
    mainline = {p for p in run.policies if p.partition(":")[0] not in looking_on} <= {"mainline"}
    mainline = mainline and run.prefer == "auto" and not run.memory_policies
    return mainline and own is not None and kernels.row(tape, run.kernel) == own.row


# Policies whose zones, and their pfns, no machine had.
_SYNTHETIC = {"fake_numa", "split_zone"}


def synthetic(run: Run) -> list[str]:
    """What of a run is neither recorded nor the record's in another place."""
    found = []
    if _SYNTHETIC & {spec.partition(":")[0] for spec in run.policies}:
        found.append("the nodes or zones: of the pages only sizes and numbers mean something")
    if run.reclaim == "R2":
        found.append("the supply of reclaim: the oldest MOVABLE pages")
    return found


def run_tier(run: Run) -> str:
    """A where the run is placement alone, B where its reclaim mode or a policy is feedback."""
    known = {policy["name"]: str(policy["tier"]) for policy in _replay.policies(run.policy_libs)}
    tiers = [_policy_tier(spec, known) for spec in run.policies]
    return "B" if run.reclaim != "R0" or "B" in tiers else "A"


def _policy_tier(spec: str, known: dict[str, str]) -> str:
    """The tier of a policy as it is set; "A; mode=always: B" says which setting changes it."""
    name, _, settings = spec.partition(":")
    tier, *others = known[name].split("; ")
    for other in others:
        setting, _, its = other.partition(": ")
        if setting in settings.split(","):
            return its
    return tier


def tier(name: str, run: Run) -> str:
    """The tier of one total of the run."""
    return "B" if name in _FEEDBACK else run_tier(run)


class Source:
    """A tape as the engine takes it: read once, for any number of runs.

    `inferred` is what the tape's events leave out, see validation.inferred(), and `preferences`
    which nodes its requests prefer, see validation.preferences().
    """

    def __init__(
        self, tape: Tape, inferred: pa.Table | None = None, preferences: pa.Table | None = None
    ) -> None:
        self.tape = tape
        self.inferred = inferred
        self._preferences = preferences if preferences is not None else SCHEMA.empty_table()

    def preference(self, run: Run) -> pa.Table:
        """The rows of `preference` that a run is given."""
        return chosen(corrected(self._preferences, dict(run.memory_policies)), run.prefer)

    @cached_property
    def topology(self) -> dict[str, Any]:
        return topology(self.tape)

    @cached_property
    def spans(self) -> list[replay_span.Span]:
        return replay_span.spans(self.tape)

    @cached_property
    def lessons(self) -> list[tuple[str, pa.RecordBatch]]:
        """What a run with feedback is given besides: see feedback.py."""
        learned = feedback.learn(self.tape)
        return [(name, batch) for name, rows in learned.items() for batch in rows.to_batches()]

    @cached_property
    def start(self) -> list[tuple[str, pa.RecordBatch]]:
        """Tables, batch by batch, that are loaded before the first event."""
        found = [(name, batch) for name in SNAPSHOT for batch in snapshot_rows(self.tape, name, 0)]
        found += [("reclaim", batch) for batch in self.tape.batches("reclaim")]
        inferred = self.inferred.to_batches() if self.inferred is not None else []
        return found + [("inferred", batch) for batch in inferred]

    def engine(self, run: Run, **options: Any) -> _replay.Replay:
        """The engine for a run, before it has seen anything of the tape."""
        return _replay.Replay(
            kernels.row(self.tape, run.kernel),
            [fitted(self.tape, spec) for spec in run.policies] or ["mainline"],
            **self.topology,
            recorded_kernel=own.row if (own := kernels.own(self.tape)) else "",
            reclaim=run.reclaim,
            compacts_for_record=self.tape.num_rows("compaction") > 0,
            spans=self.spans,
            cpu_parts=run.cpu_parts,
            policy_libs=run.policy_libs,
            **options,
        )


class _Output:
    """Where the model's rows go: counted, and written if a tape is wanted.

    A batch is written while the engine fills the next.
    """

    def __init__(self, writer: Writer | None, leave_out: set[str]) -> None:
        self._writer = writer
        self._leave_out = leave_out
        self._pool = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self.events: Counter[str] = Counter()
        self.anomalies = 0

    def drain(self, engine: _replay.Replay) -> None:
        while (row := engine.read()) is not None:
            name, batch = row[0], pa.record_batch(row[1])
            if name == "anomaly":
                self.anomalies += batch.num_rows
            self._wait()
            if self._writer is not None and name not in self._leave_out:
                self._writing = self._pool.submit(self._write, self._writer, name, batch)

    def _write(self, writer: Writer, name: str, batch: pa.RecordBatch) -> None:
        if name == "event":
            for kind in pc.value_counts(batch.column("kind")).to_pylist():
                self.events[kind["values"]] += kind["counts"]
        elif name == "event_count":
            for row in batch.to_pylist():
                self.events[row["kind"]] += row["events"]
        writer.write(name, batch)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Nothing is being written any more."""
        self._pool.shutdown()

    def finish(self, tape: Tape) -> None:
        """The tables that come from the input, and the counts."""
        self._wait()
        if self._writer is None:
            return
        for name in (*SNAPSHOT, *KEPT):
            if name in self._leave_out:
                continue
            for batch in snapshot_rows(tape, name, 0) if name in SNAPSHOT else tape.batches(name):
                self._writer.write(name, batch)
        self._writer.rows(
            "tracepoint",
            [
                {
                    "name": kind.tracepoints[0].partition(":")[2],
                    "system": "kmem",
                    "events": self.events[kind.name],
                    "stored": "event",
                }
                for kind in TABLES["event"].kinds
            ],
        )


def made_by(tape: Tape, run: Run) -> dict[str, Any]:
    """What a replayed tape says of itself: fact `replay`."""
    return {
        "kernel": kernels.row(tape, run.kernel),
        "kernel_because": kernels.because(tape, run.kernel),
        "policies": list(run.policies) or ["mainline"],
        "reclaim": run.reclaim,
        "prefer": run.prefer,
        "nodes": run.nodes,
        "own": is_own(tape, run),
        "tier": run_tier(run),
        "synthetic": synthetic(run),
    }


class Playback:
    """One run on its way: feed it every batch of `event`, then finish it.

    Its rows go to `writer`, if there is one. With `counted`, of the events only fallbacks
    are written, of the others their numbers, and the end state without lists of pages.
    As a context manager it lets go of the writer.
    """

    def __init__(
        self, source: Source, run: Run, writer: Writer | None = None, *, counted: bool = False
    ) -> None:
        self._source = source
        self._run = run
        self._engine = source.engine(run, events=writer is not None, counted=counted)
        self._sink = _Output(writer, _BULKY if counted else set())
        for name, batch in source.start + (source.lessons if run.reclaim != "R0" else []):
            self._engine.load(name, batch)
        self._preference = source.preference(run)
        for batch in self._preference.to_batches():
            self._engine.load("preference", batch)
            if writer is not None:
                writer.write("preference", batch)

    def __enter__(self) -> Playback:
        return self

    def __exit__(self, *_: object) -> None:
        self._sink.close()

    def feed(self, batch: pa.RecordBatch) -> None:
        self._engine.feed(batch)
        self._sink.drain(self._engine)

    def finish(self) -> dict[str, Any]:
        """The JSON object of `pagetape replay`."""
        self._engine.finish()
        self._sink.drain(self._engine)
        self._sink.finish(self._source.tape)
        totals = dict(self._engine.totals)
        seconds = totals.pop("loop_seconds")
        events = totals.pop("events")
        if self._run.reclaim == "R0":
            known = list(totals)
            for name in known[known.index(_FIRST_OF_FEEDBACK) :]:
                del totals[name]
        return made_by(self._source.tape, self._run) | {
            "events": events,
            "events_per_s": events / seconds if seconds else None,
            "anomalies": self._sink.anomalies,
            "preference": shares(self._preference, self._run.prefer),
            "totals": {
                name: {"value": value, "tier": tier(name, self._run)}
                for name, value in totals.items()
            },
            "not_modelled": NOT_MODELLED,
        }


def check(tape: Tape, run: Run) -> None:
    """An error unless the run can begin: before anything is done that takes long."""
    Source(tape).engine(run)


def play(
    tape: Tape,
    run: Run,
    out: Path | None = None,
    *,
    replace: bool = False,
    progress: Callable[[float], None] = lambda _share: None,
    inferred: pa.Table | None = None,
    preferences: pa.Table | None = None,
    model_error: pa.Table | None = None,
    counted: bool = False,
) -> dict[str, Any]:
    """Play `tape`; the JSON object of `pagetape replay`.

    `inferred` and `preferences` are as for Source. With `out`, also a tape; `model_error` is
    what its table of that name is to hold. For `counted`, see Playback.
    """
    rows = tape.num_rows("event")
    source = Source(tape, inferred, preferences)
    fed = 0
    with contextlib.ExitStack() as stack:
        writer = None
        if out is not None:
            facts = tape.facts | {"replay": made_by(tape, run)}
            writer = stack.enter_context(output.whole_tape(out, facts, replace=replace))
            for name, rows_of in (("inferred", inferred), ("model_error", model_error)):
                for batch in rows_of.to_batches() if rows_of else []:
                    writer.write(name, batch)
        playback = stack.enter_context(Playback(source, run, writer, counted=counted))
        for batch in prefetch(tape.batches("event")):
            playback.feed(batch)
            fed += batch.num_rows
            progress(fed / rows if rows else 1.0)
        return playback.finish()
