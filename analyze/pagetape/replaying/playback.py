# SPDX-License-Identifier: Apache-2.0
"""Free runs: a tape through the replay engine; the result is a tape, or totals only."""

import contextlib
import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape import _replay
from pagetape.replaying import (
    NOT_MODELLED,
    hindsight,
    kernels,
    reclaim_input,
    reclaim_mode,
    replay_span,
    rewrite,
    start_variation,
)
from pagetape.replaying.engine_run import (
    EngineRun,
    Progress,
    Tables,
    event_batches,
    silent,
)
from pagetape.replaying.lock_costs import fitted
from pagetape.replaying.preference import SCHEMA, chosen, corrected, shares
from pagetape.replaying.recorded_counts import RecordedCounts
from pagetape.replaying.requests import requests
from pagetape.schemas import TABLES
from pagetape.schemas.form import BATCH_ROWS
from pagetape.schemas.memory_tape import MemoryTape
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import cache, fallback_unit, origin, output, played_span, zone_events
from pagetape.tapes.loss import counted_kinds
from pagetape.tapes.machine import recorder_pids, topology

_INFERRED = TABLES["inferred"].arrow

# Tables that the run copies from its input.
COPIED = ("task", "lost")

# Tables of the snapshots that a counted run leaves out: see Playback.
_BULKY = {"pageblock", "block_guess", "free_block", "pcp_page"}

# Totals that reclaim would react to: R0 counts them without feedback.
_FEEDBACK = {"slowpath_wake_calls", "below_low", "below_min", "failed"}

# Totals of what the per-CPU lists serve, which a tape of the event set zone does not show.
_OF_LISTS = ("allocs", "alloc_pages", "frees", "free_pages", "pcp_hits", "decays", "decay_pages")

# From here on, totals of the model's own reclaim and compaction; R0 does not have them.
_FIRST_OF_FEEDBACK = "kswapd_wakeups"


@dataclass(frozen=True)
class Run:
    """The rules to play a tape under."""

    kernel: str  # a row of the feature matrix, or "auto"
    policies: tuple[str, ...]
    reclaim: str = "R0"  # one of RECLAIM_MODES
    policy_libs: tuple[str, ...] = ()  # shared objects with policies from outside the tree
    preference: str = "auto"  # one of PREFERENCES
    memory_policies: tuple[tuple[int, str], ...] = ()  # by thread: preference.known_preferences()
    cpu_parts: tuple[int, ...] = ()  # node of each CPU, where fake_numa splits a node
    assisted: bool = False  # also takes what the recorded policy decided: validation.requests()
    rewrite: tuple[str, ...] = ()  # other requests in the place of recorded ones: rewrite.py

    @property
    def own(self) -> "Run":
        """The run with which this one is compared: the tape's own rules, with the same inputs."""
        return Run("auto", (), self.reclaim, assisted=self.assisted)

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


@lru_cache
def _passive() -> set[str]:
    """The policies that leave every decision as it is."""
    return {p["name"] for p in _replay.policies() if p["choices"] == ["lock_costs"]}


def is_own(tape: Tape, run: Run) -> bool:
    """Whether the run is under the kernel and the policy of the tape itself."""
    own = kernels.own(tape)
    mainline = {p for p in run.policies if p.partition(":")[0] not in _passive()} <= {"mainline"}
    mainline = mainline and run.preference == "auto" and not run.memory_policies
    mainline = mainline and not run.rewrite
    return mainline and own is not None and kernels.row(tape, run.kernel) == own.row


# Policies with zones and pfns that the machine did not have.
_SYNTHETIC = {"fake_numa", "split_zone"}


def synthetic(run: Run) -> list[str]:
    """The synthetic parts of a run: neither from the recording nor from the model's rules."""
    found = []
    if _SYNTHETIC & {spec.partition(":")[0] for spec in run.policies}:
        found.append(
            "the nodes or zones: only the sizes and numbers of pages are meaningful, not the pfns"
        )
    if run.reclaim == "R2":
        found.append("the supply of reclaim: the oldest MOVABLE pages")
    return found


def in_mode(tape: Tape, run: Run, mode: str) -> Run:
    """The run in a reclaim mode, or for "auto" in that of its tier (reclaim_mode.chosen)."""
    about = run.kernel, run.policies, run.policy_libs
    return replace(run, reclaim=reclaim_mode.chosen(mode, tape, *about))


def run_tier(tape: Tape, run: Run) -> str:
    """A if the run is placement only, B if its mode, a policy or its kernel row has feedback."""
    about = run.kernel, run.policies, run.policy_libs
    return "B" if run.reclaim != "R0" or reclaim_mode.acting(tape, *about) else "A"


def without_verdict(tape: Tape, run: Run) -> str | None:
    """Why the run's difference to the own rules is no verdict; None if it is one."""
    about = run.kernel, run.policies, run.policy_libs
    return reclaim_mode.no_verdict(run.reclaim, tape, *about)


class Source:
    """A tape as input of the engine: read once, for any number of runs.

    `inferred` has the rows of validation.inferred(), `preferences` those of
    validation.preferences().
    """

    def __init__(
        self, tape: Tape, inferred: pa.Table | None = None, preferences: pa.Table | None = None
    ) -> None:
        self.tape = tape
        self._inferred = inferred
        self._preferences = preferences if preferences is not None else SCHEMA.empty_table()
        self._instead: Mapping[str, pa.Table] = {}
        self._made: dict[Run, dict[str, Any]] = {}
        self._rewrites: dict[tuple[str, ...], list[dict[str, Any]]] = {(): []}

    def _rules(self, rules: tuple[str, ...]) -> list[dict[str, Any]]:
        """The rules of a run for the engine; the tape is asked once for all members."""
        if rules not in self._rewrites:
            self._rewrites[rules] = rewrite.compiled(self.tape, rules)
        return self._rewrites[rules]

    def with_start(self, tables: Mapping[str, pa.Table]) -> "Source":
        """The same source, with these tables at the start instead of the tape's."""
        source = copy.copy(self)
        source._instead = {**self._instead, **tables}
        return source

    def at_start(self, name: str) -> pa.Table:
        """The rows of a table at the start."""
        batches = [batch for other, batch in self._begun(0) if other == name]
        return pa.Table.from_batches(batches, TABLES[name].arrow)

    def preference(self, run: Run) -> pa.Table:
        """The rows of `preference` that a run takes as input."""
        return chosen(corrected(self._preferences, dict(run.memory_policies)), run.preference)

    @cached_property
    def topology(self) -> dict[str, Any]:
        return topology(self.tape, free=True)

    @cached_property
    def spans(self) -> list[replay_span.Span]:
        return replay_span.spans(self.tape)

    @cached_property
    def _interval_ts(self) -> int:
        """An end of a run's intervals: where in each second the recorder sampled the zones. Half of
        the free pages can go within a second, so samples of other moments do not compare."""
        samples = self.tape.span("free_count")
        return samples[0] if samples else 0

    @cached_property
    def _recorder_pids(self) -> set[int]:
        return recorder_pids(self.tape)

    @cached_property
    def begin(self) -> hindsight.Start | None:
        """The start from hindsight of a tape that begins with /proc."""
        return hindsight.start(self.tape)

    @cached_property
    def _reclaim_input(self) -> list[tuple[str, pa.RecordBatch]]:
        """The further input of a run with feedback: reclaim_input.py."""
        found = reclaim_input.read(self.tape)
        return [(name, batch) for name, rows in found.items() for batch in rows.to_batches()]

    @cached_property
    def _start(self) -> list[tuple[str, pa.RecordBatch]]:
        return list(hindsight.tables(self.tape, self.begin, "reclaim", "new_limit"))

    @cached_property
    def guesses(self) -> start_variation.Guesses | None:
        """What a start from hindsight guesses; None for an exact start."""
        return start_variation.guesses(self.tape, self.begin) if self.begin else None

    def _start_of(self, seed: int) -> Tables:
        """The tables of the start, varied for the seed of a member."""
        if not seed or self.guesses is None:
            return self._start
        made = self.guesses.varied(seed)
        others = [(name, batch) for name, batch in self._start if name not in made]
        return [*others, *hindsight.made_tables(made)]

    def _begun(self, seed: int) -> Tables:
        """The tables of the start, those of `with_start` in the places of the tape's."""
        left = dict(self._instead)
        for name, batch in self._start_of(seed):
            if name not in self._instead:
                yield name, batch
            elif name in left:
                yield from ((name, other) for other in left.pop(name).to_batches())
        for name, rows in left.items():
            yield from ((name, batch) for batch in rows.to_batches())

    @property
    def all_inferred(self) -> pa.Table:
        """All rows of `inferred`, those of outcomes included."""
        return self._inferred if self._inferred is not None else _INFERRED.empty_table()

    def inferred(self, run: Run) -> Iterator[pa.RecordBatch]:
        """The rows of `inferred` that a run takes as input; they are not kept."""
        if run.assisted:  # the engine takes no slices
            return iter(self.all_inferred.combine_chunks().to_batches())
        return map(requests, self.all_inferred.to_batches(BATCH_ROWS))

    @cached_property
    def copied(self) -> list[tuple[str, pa.RecordBatch]]:
        """The tables that each run copies from its input: those of the start, and COPIED."""
        rows = hindsight.tables(self.tape, self.begin, *COPIED)
        if not self.begin:
            return list(rows)
        proven = TABLES["snapshot"].batch(hindsight.snapshot(self.tape))
        others = [(name, batch) for name, batch in rows if name != "snapshot"]
        return [*others, ("snapshot", proven)]

    def made_by(self, run: Run) -> dict[str, Any]:
        """The fact `replay` of a tape that the run makes; the tape is asked once for each run."""
        if run not in self._made:
            self._made[run] = made_by(self.tape, run)
        return self._made[run]

    def tables(self, run: Run, seed: int = 0) -> Tables:
        """The tables that a run loads before the first event; `seed` of a member, or 0."""
        yield from self._begun(seed)
        yield from (("inferred", batch) for batch in self.inferred(run))
        if run.reclaim != "R0":
            yield from self._reclaim_input
        yield from (("preference", batch) for batch in self.preference(run).to_batches())

    def engine(self, run: Run, own: kernels.Own | None = None, **options: Any) -> _replay.Replay:
        """The engine for a run, with nothing loaded. `own` stands for the tape's kernel."""
        own = own or kernels.own(self.tape)
        return _replay.Replay(
            own.row if own and run.kernel == "auto" else kernels.row(self.tape, run.kernel),
            [fitted(self.tape, spec) for spec in run.policies] or ["mainline"],
            **self.topology,
            recorded_kernel=own.row if own else "",
            reclaim=run.reclaim,
            compacts_for_record=self.tape.num_rows("compaction") > 0,
            spans=self.spans,
            interval_ts=self._interval_ts,
            cpu_parts=run.cpu_parts,
            recorder_pids=self._recorder_pids,
            policy_libs=run.policy_libs,
            rewrites=self._rules(run.rewrite),
            **options,
        )


NewRows = Writer | MemoryTape  # what takes the rows of a run


class _Output:
    """The sink of a run: counts the rows, and writes them to the output tape, if any.

    It writes a batch while the engine fills the next one. `counts` gets the events written.
    """

    def __init__(
        self, writer: NewRows | None, leave_out: set[str], counts: RecordedCounts | None
    ) -> None:
        self._writer = writer
        self._leave_out = leave_out
        self._counts = counts
        self._pool = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self.events: Counter[str] = Counter()
        self.counted: dict[str, pa.Table] = {}  # tables of `counts`, after the run
        self.anomalies: Counter[str] = Counter()

    def take(self, name: str, batch: pa.RecordBatch) -> None:
        if name == "anomaly":
            self.anomalies += counted_kinds(batch)
        self._wait()
        if self._writer is not None and name not in self._leave_out:
            self._writing = self._pool.submit(self._write, self._writer, name, batch)

    def _write(self, writer: NewRows, name: str, batch: pa.RecordBatch) -> None:
        if name == "event" and self._counts is not None:
            self._counts.feed(batch)
        else:
            self._count(name, batch)
        writer.write(name, batch)

    def _count(self, name: str, rows: pa.RecordBatch | pa.Table) -> None:
        if name == "event":
            self.events += counted_kinds(rows)
        elif name == "event_count":
            for row in rows.to_pylist():
                self.events[row["kind"]] += row["events"]

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Wait until all rows are written."""
        self._pool.shutdown()

    def finish(self, source: Source, effects: list[dict[str, Any]]) -> None:
        """Write the tables that come from the input, the counts, and what the policies decided."""
        self._wait()
        if self._writer is None:
            return
        for name, batch in source.copied:
            if name not in self._leave_out:
                self._writer.write(name, batch)
        if self._counts is not None:
            found = self._counts.tables()
            self.counted = {name: found[name] for name in ("event", "event_count")}
            for name, rows in self.counted.items():
                self._count(name, rows)
        points = [
            {
                "name": kind.tracepoints[0].partition(":")[2],
                "system": "kmem",
                "events": self.events[kind.name],
                "stored": "event",
            }
            for kind in TABLES["event"].kinds
        ]
        for name, made in (("policy_effect", effects), ("tracepoint", points)):
            self._writer.write(name, TABLES[name].batch(made))


def _fallback_events(tape: Tape, run: Run, row: str) -> dict[str, str]:
    """What one fallback event counts (tapes/fallback_unit.py): of the own rules, and of the run."""
    own = kernels.own(tape)
    this = fallback_unit.of_run(row, run.policies)
    return {"own": fallback_unit.of_row(own.row) if own else this, "this": this}


def made_by(tape: Tape, run: Run) -> dict[str, Any]:
    """The fact `replay` of a replayed tape."""
    about = kernels.about(tape, run.kernel)
    return {
        **about,
        **origin.made_from(tape),
        "policies": list(run.policies) or ["mainline"],
        "reclaim": run.reclaim,
        "prefer": run.preference,
        "assisted": run.assisted,
        "nodes": run.nodes,
        "own": is_own(tape, run),
        "fallback_events": _fallback_events(tape, run, about["kernel"]),
        "recording": replay_span.kind(tape),
        "clock": tape.clock,
        "tier": run_tier(tape, run),
        "no_verdict": without_verdict(tape, run),
        "synthetic": synthetic(run),
        **({"rewrite": list(run.rewrite)} if run.rewrite else {}),
    }


def identity(tape: Tape, run: Run) -> dict[str, Any]:
    """What decides the result of a run of a tape, besides pagetape itself; for json."""
    kernel, policies = kernels.row(tape, run.kernel), list(run.policies) or ["mainline"]
    what = vars(run) | {"kernel": kernel, "policies": policies}
    return what | {"policy_libs": cache.digest(map(Path, run.policy_libs))}


def of_replay(tape: Tape, recording: Tape) -> Run | None:
    """The run that made a replayed tape of a recording, to repeat it; None if it is of another
    recording, or if its facts do not have all of the run."""
    made = tape.facts.get("replay")
    if made is None or made.get("clock") != list(recording.clock or ()) or made.get("nodes"):
        return None
    if origin.kin(origin.of(tape), origin.of(recording)) == origin.OTHER:
        return None
    known = {policy["name"] for policy in _replay.policies()}
    if not {spec.partition(":")[0] for spec in made["policies"]} <= known:
        return None
    return Run(
        made["kernel"],
        tuple(made["policies"]),
        made["reclaim"],
        preference=made.get("prefer", "auto"),
        assisted=made.get("assisted", False),
        rewrite=tuple(made.get("rewrite", ())),
    )


class Playback:
    """One free run in progress: feed it every batch of `event`, then finish it.

    Its rows go to `writer`, if any. A `counted` run writes only the fallbacks among its events,
    the counts of the other events, the end state without lists of pages, and no inferred rows.
    `variation` has the engine's keywords of a member (ensemble.py). As a context manager, it waits
    for the writer.
    """

    def __init__(
        self,
        source: Source,
        run: Run,
        writer: NewRows | None = None,
        *,
        counted: bool = False,
        variation: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._run = run
        engine = source.engine(run, events=writer is not None, counted=counted, **(variation or {}))
        counts = None if writer is None or counted else RecordedCounts(source.tape, played_span.ALL)
        self._output = _Output(writer, _BULKY if counted else set(), counts)
        tables = source.tables(run, (variation or {}).get("seed", 0))
        self._playing = EngineRun(engine, source.tape, tables, self._output.take)
        self._preference = source.preference(run)
        if writer is not None:
            inferred = iter(()) if counted else source.inferred(run)
            preferences = self._preference.to_batches()
            for name, rows in (("preference", preferences), ("inferred", inferred)):
                for batch in rows:
                    writer.write(name, batch)

    def __enter__(self) -> "Playback":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the writer."""
        self._output.close()

    def feed(self, batch: pa.RecordBatch) -> None:
        self._playing.feed(batch)

    def finish(self) -> dict[str, Any]:
        """The JSON object of `pagetape replay`."""
        self._playing.finish()
        return self._result()

    @property
    def drawn(self) -> dict[str, int]:
        """The changes of a member, by kind."""
        return self._playing.engine.drawn

    @property
    def counted(self) -> dict[str, pa.Table]:
        """Of a finished run that wrote all events: their counts, which replace tables of the run's
        tape in the report metrics."""
        return self._output.counted

    def play(self, progress: Progress) -> dict[str, Any]:
        """Feed the whole tape; the JSON object of `pagetape replay`."""
        tape = self._source.tape
        self._playing.play(event_batches(tape), tape.num_rows("event"), progress)
        return self._result()

    def _result(self) -> dict[str, Any]:
        made = self._source.made_by(self._run)
        of_run = {"tier": made["tier"]}
        effects = [dict(effect) | of_run for effect in self._playing.engine.policies_effect]
        self._output.finish(self._source, effects)
        totals = dict(self._playing.engine.totals)
        seconds = totals.pop("loop_seconds")
        events = totals.pop("events")
        if self._run.reclaim == "R0":
            known = list(totals)
            for name in known[known.index(_FIRST_OF_FEEDBACK) :]:
                del totals[name]
        for name in _OF_LISTS if zone_events.is_zone(self._source.tape) else ():
            del totals[name]
        changed = self._playing.engine.rewritten
        return made | {
            **({"rewritten": changed} if self._run.rewrite else {}),
            "events": events,
            "events_per_s": events / seconds if seconds else None,
            "anomalies": self._output.anomalies.total(),
            "anomaly_kinds": dict(self._output.anomalies),
            "preference": shares(self._preference, self._run.preference),
            "hindsight": begin.coverage if (begin := self._source.begin) else None,
            "totals": {
                name: {"value": value, "tier": "B" if name in _FEEDBACK else made["tier"]}
                for name, value in totals.items()
            },
            "policies_effect": effects,
            "not_modelled": NOT_MODELLED,
        }


def check(tape: Tape, run: Run) -> None:
    """Raise an error if the run cannot start, before any long step."""
    kernels.check(tape, run.kernel)
    Source(tape).engine(run, kernels.unproven(tape))


@dataclass(frozen=True)
class NewTape:
    """A tape for a run to write."""

    path: Path
    replace: bool = False  # replace an existing tape
    counted: bool = False  # see Playback


def _facts(source: Source, run: Run) -> dict[str, Any]:
    return source.tape.facts | {"replay": source.made_by(run)}


def in_memory(source: Source, run: Run) -> MemoryTape:
    """The tape of a counted run that nobody keeps. Errors about it name the recording."""
    return MemoryTape(source.tape.path, _facts(source, run))


def new_writer(source: Source, run: Run, new: NewTape) -> contextlib.AbstractContextManager[Writer]:
    """The tape of a run, which gets its name when it is complete."""
    facts = _facts(source, run)
    inputs = [source.tape.path]
    durable = not new.counted
    return output.whole_tape(new.path, facts, replace=new.replace, inputs=inputs, durable=durable)


def play(
    tape: Tape | Source, run: Run, out: Path | NewTape | None = None, progress: Progress = silent
) -> dict[str, Any]:
    """Play a tape, and write the tape `out`, if any; returns the JSON object of `pagetape replay`.

    A Source has inferred rows and preferences, a Tape does not.
    """
    source = Source(tape) if isinstance(tape, Tape) else tape
    new = NewTape(out) if isinstance(out, Path) else out
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(new_writer(source, run, new)) if new else None
        counted = new is not None and new.counted
        playback = stack.enter_context(Playback(source, run, writer, counted=counted))
        return playback.play(progress)
