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
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from pagetape import answer
from pagetape.asking import no_verdict
from pagetape.replaying import (
    ensemble,
    fanout,
    isolated,
    kernels,
    model_error,
    model_memory,
    presets,
)
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import (
    Playback,
    Run,
    Source,
    identity,
    in_mode,
    is_own,
    made_by,
)
from pagetape.replaying.prediction import with_intervals
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, fallback_unit, output, regular, temporary
from pagetape.tapes.loss import Loss

MOST_RUNS = 10_000
_BRACES = re.compile(r"\{([^{}]*)\}")


def expand(text: str) -> list[str]:
    """'a:b={1,2}' as 'a:b=1' and 'a:b=2'; several braces make every combination."""
    pieces = _BRACES.split(text)
    if any(c in piece for piece in pieces for c in "{}"):
        raise ValueError(f"'{text}': braces do not match")
    choices = [piece.split(",") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    if any(choice == "" for choice in itertools.chain(*choices[1::2])):
        raise ValueError(f"'{text}': an empty choice")
    check_number(math.prod(map(len, choices)))
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def check_number(runs: int) -> None:
    """Raise ValueError for more runs than one sweep takes."""
    if runs > MOST_RUNS:
        most = f"a sweep takes at most {MOST_RUNS:,}: sweep parts of it into one directory"
        raise ValueError(f"{runs:,} runs; {most}" if runs < 10**12 else f"over 10^12 runs; {most}")


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


def kernel_warnings(results: Sequence[dict[str, Any]]) -> list[str]:
    """The different warnings of runs about their kernel rows."""
    return list(dict.fromkeys(line for run in results for line in run["kernel_warnings"]))


def not_compared(results: Sequence[dict[str, Any]]) -> list[str]:
    """The different reasons why figures of runs are not compared with the own rules."""
    found = (
        line for run in results for line in (fallback_unit.why_not(run), no_verdict.of_run(run))
    )
    return list(dict.fromkeys(filter(None, found)))


_CHECKSUM = "checksum"  # of the other keys of a run's .json
_MOST = 1 << 26  # bytes of a .json


def _checksum(result: dict[str, Any]) -> str:
    text = json.dumps(result, sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Case:
    """One run of the matrix."""

    tape: Tape
    label: str  # of the tape, among the tapes of the sweep
    run: Run
    members: int  # of its ensemble; 0: one run
    name: str  # of its files

    @classmethod
    def of(cls, tape: Tape, label: str, contents: str, run: Run, members: int) -> Case:
        made = made_by(tape, run)
        what = identity(tape, run) | {"members": members}
        whole = json.dumps([contents, cache.build(), what], sort_keys=True)
        parts = [label, words(made), made["kernel"], run.reclaim]
        slug = re.sub(r"[^\w.=-]+", "-", "_".join(parts)).strip("-.")
        key = blake2b(whole.encode(), digest_size=6).hexdigest()
        return cls(tape, label, run, members, f"{slug[:160]}_{key}")

    @property
    def mark(self) -> bytes:
        """What pagetape's own .json of the run has near its begin."""
        return json.dumps(self.name).encode()

    def result(self, directory: Path) -> dict[str, Any] | None:
        """The run's .json, if the run was made; None if that file or the tape is damaged."""
        try:
            text = regular.read(directory / f"{self.name}.json", _MOST)
            found = json.loads(text)
            checksum = found.pop(_CHECKSUM)
        except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
            return None
        whole = checksum == _checksum(found) and output.is_own(directory / f"{self.name}.tape")
        return dict(found) if whole else None


@dataclass(frozen=True)
class Failed:
    """A run that has no result, or all runs of a tape."""

    tape: str  # label
    run: Run | None  # None: every run on the tape
    reason: str

    def line(self) -> str:
        """One line about it; the same for all runs of a tape that fail for one reason."""
        return self.reason if self.tape in self.reason else f"{self.tape}: {self.reason}"

    def json(self) -> dict[str, Any]:
        """The failed row of a sweep."""
        run = self.run
        return {
            "tape": self.tape,
            "policies": run and (list(run.policies) or ["mainline"]),
            "kernel": run and run.kernel,
            "reclaim": run and run.reclaim,
            "prefer": run and run.preference,
            "nodes": run and run.nodes,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Plan:
    """The runs on one tape."""

    cases: list[Case]
    failed: list[Failed]
    note: str | None  # about the tape's kernel
    model_bytes: int  # memory of a model


def plan(path: Path, label: str, runs: Sequence[Run], members: int) -> Plan:
    """Every run on a tape, once, as an ensemble of `members`; "auto" is the mode of its tier.

    A run that cannot start has failed.
    """
    tape = Tape(path)
    source, contents = Source(tape), cache.contents(tape)
    note = kernels.note(tape, "auto") if any(run.kernel == "auto" for run in runs) else None
    cases: dict[str, Case] = {}
    failed = []
    for run in runs:
        try:
            source.engine(replace(run, reclaim="R0"))  # a bad policy has no mode
            run = in_mode(tape, run, run.reclaim)
            case = Case.of(tape, label, contents, run, members)
            cases.setdefault(case.name, case)
        except (OSError, ValueError) as e:
            failed.append(Failed(label, run, isolated.reason(e)))
    size = model_memory.model_bytes(tape, (case.run.reclaim for case in cases.values()))
    return Plan(list(cases.values()), failed, note, size)


def shard(cases: Sequence[Case], number: int, of: int) -> list[Case]:
    """The `number`-th of `of` parts, counted from 1; runs on one tape stay together."""
    nr = len(cases)
    return list(cases[nr * (number - 1) // of : nr * number // of])


Prepared = tuple[pa.Table, pa.Table]  # inferred rows, preferences


def prepare(tape: Tape) -> Prepared:
    """The inferred rows and the preferences, which all runs on a tape share."""
    return inferred(tape), preferences(tape)


class _Recording:
    """What the runs on a tape share, made when it is first needed."""

    def __init__(self, case: Case, directory: Path, prepared: Prepared | None) -> None:
        self._tape = case.tape
        self._directory = directory
        self._prepared = prepared
        self._lock = Lock()
        self._source: Source | None = None
        self._own: dict[str, dict[str, pa.Table]] = {}
        self.members = case.members

    @property
    def source(self) -> Source:
        with self._lock:
            if self._source is None:
                self._source = Source(self._tape, *(self._prepared or prepare(self._tape)))
            return self._source

    def own(self, run: Run) -> dict[str, pa.Table]:
        """The tables model_error and member of the own rules, with the inputs of a run."""
        source, near = self.source, self._directory / "own"
        with self._lock:
            what = model_error.inputs(run)
            if what not in self._own:
                self._own[what] = {
                    "model_error": model_error.measure(self._tape, run, near),
                    "member": ensemble.own(source, run, self.members, near, threads=1),
                }
            return self._own[what]


class _Unfinished(Exception):
    """Discards a tape that is not wanted."""


class _Reader:
    """A case in progress. The first call starts its run.

    An error ends the case, not the others: `error` has it.
    """

    def __init__(
        self,
        case: Case,
        recording: _Recording,
        directory: Path,
        count: Callable[[int], None],
    ) -> None:
        self._recording = recording
        self._case = case
        self._directory = directory
        self._count = count  # takes the number of events that were fed
        self._open = contextlib.ExitStack()
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Discard the run, and keep its first error."""
        self.error = self.error or error
        self.close()

    @cached_property
    def _playback(self) -> Playback:
        case = self._case
        facts = case.tape.facts | {"replay": made_by(case.tape, case.run)}
        path = self._directory / f"{case.name}.tape"
        output.check_file_free(
            path.with_suffix(".json"), replace=True, mark=case.mark, inputs=[], stream=False
        )
        writer = self._open.enter_context(
            output.whole_tape(path, facts, replace=True, inputs=[case.tape.path], durable=False)
        )
        self._writer = writer
        source = self._recording.source
        return self._open.enter_context(Playback(source, case.run, writer, counted=True))

    def feed(self, batch: pa.RecordBatch) -> None:
        if self.error is None:
            try:
                self._playback.feed(batch)
            except Exception as e:
                self.fail(e)
        self._count(batch.num_rows)

    def finish(self) -> None:
        if self.error is None:
            try:
                self._finish()
            except Exception as e:
                self.fail(e)

    def _finish(self) -> None:
        found = self._playback.finish()
        for name, rows in self._compared().items():
            for batch in rows.to_batches():
                self._writer.write(name, batch)
        self._open.close()
        del found["events_per_s"]
        tape = Tape(self._directory / f"{self._case.name}.tape")
        error = self._recording.own(self._case.run)["model_error"]
        found = with_intervals(found, tape, error, threads=1)
        made = {"tape": self._case.label, "name": self._case.name} | found
        made |= {"lost": Loss.of(tape).total}
        plain = json.loads(json.dumps(answer.plain(made)))
        text = json.dumps(plain | {_CHECKSUM: _checksum(plain)}, indent=1) + "\n"
        with output.whole_file(
            self._directory / f"{self._case.name}.json",
            replace=True,
            mark=self._case.mark,
            inputs=[self._case.tape.path],
            durable=False,
        ) as file:
            file.write(text.encode())

    def _compared(self) -> dict[str, pa.Table]:
        """The tables of the own rules, and the members of this run."""
        run, recording = self._case.run, self._recording
        tables = recording.own(run)
        if not tables["member"].num_rows or is_own(self._case.tape, run):
            return tables
        members = ensemble.play(
            recording.source,
            {"this": run},
            recording.members,
            self._directory / self._case.name,
            threads=1,
        )
        return tables | {"member": pa.concat_tables([tables["member"], members])}

    def close(self) -> None:
        with contextlib.suppress(_Unfinished, OSError):
            self._open.__exit__(_Unfinished, _Unfinished(), None)


class _Group:
    """Runs on one tape that read its events together."""

    def __init__(
        self,
        cases: Sequence[Case],
        recording: _Recording,
        directory: Path,
        count: Callable[[int], None],
    ) -> None:
        self.cases = cases
        self._recording = recording
        self._directory = directory
        self._count = count
        self._readers: list[_Reader] = []
        self._error: Exception | None = None  # of all cases

    def start(self) -> tuple[Iterator[pa.RecordBatch], list[_Reader]]:
        """The events and their readers; none if the tape cannot be prepared."""
        try:
            _ = self._recording.source
        except Exception as e:
            self._error = e
            return iter(()), []
        self._readers = [
            _Reader(case, self._recording, self._directory, self._count) for case in self.cases
        ]
        return self._batches(), self._readers

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The tape's events; if one cannot be read, every reader of them fails."""
        try:
            yield from self.cases[0].tape.batches("event")
        except Exception as e:
            self._error = e
            for reader in self._readers:
                reader.error = reader.error or e

    def failed(self) -> list[Failed]:
        """The cases that have no result."""
        errors = [reader.error for reader in self._readers] or [self._error] * len(self.cases)
        return [
            Failed(case.label, case.run, isolated.reason(error))
            for case, error in zip(self.cases, errors, strict=True)
            if error is not None
        ]


def play(
    cases: Sequence[Case],
    directory: Path,
    jobs: int,
    models: int,
    prepared: Prepared | None = None,
    *,
    progress: Progress = silent,
) -> list[Failed]:
    """Make the results of the cases, on `jobs` threads, with up to `models` models at once.

    `prepared` is the result of prepare(), for cases that are all on one tape. Returns the cases
    that failed.
    """
    rows = sum(case.tape.num_rows("event") for case in cases)
    lock = Lock()
    fed = 0

    def count(nr: int) -> None:
        nonlocal fed
        with lock:
            fed += nr
        progress(fed / rows if rows else 1.0)

    groups = []
    for _, same in itertools.groupby(cases, key=lambda case: case.label):
        runs = list(same)
        recording = _Recording(runs[0], directory, prepared)
        groups += [
            _Group(runs[i : i + models], recording, directory, count)
            for i in range(0, len(runs), models)
        ]
    fanout.read_all([fanout.Group(len(g.cases), g.start) for g in groups], jobs, models)
    return [failed for group in groups for failed in group.failed()]


class Player:
    """Plans and plays in another process, which a tape may end without ending the sweep."""

    def __init__(self, process: isolated.Process, directory: Path, jobs: int) -> None:
        self._process = process
        self._directory = directory
        self._jobs = jobs

    def plan(self, path: Path, label: str, runs: Sequence[Run], members: int) -> Plan:
        """plan(). A tape that cannot be read has failed as a whole."""
        try:
            found: Plan = self._process.call(plan, path, label, runs, members)
        except isolated.Crash as e:
            if len(runs) == 1:
                return Plan([], [Failed(label, runs[0], str(e))], None, 0)
            return _joined([self.plan(path, label, [run], members) for run in runs])
        except (OSError, isolated.Failure) as e:
            return Plan([], [Failed(label, None, isolated.reason(e))], None, 0)
        return found

    def prepare(self, tape: Tape) -> Prepared | str:
        """prepare(), or the reason why it failed."""
        try:
            found: Prepared = self._process.call(prepare, tape)
        except (OSError, isolated.Crash, isolated.Failure) as e:
            return isolated.reason(e)
        return found

    def play(
        self,
        cases: Sequence[Case],
        models: int,
        progress: Progress = silent,
        prepared: Prepared | None = None,
    ) -> list[Failed]:
        """play(). If the process ends, the rest goes on tape by tape, then run by run."""
        if not cases:
            return []
        args = (play, cases, self._directory, self._jobs, models, prepared)
        try:
            found: list[Failed] = self._process.call(*args, progress=progress)
        except isolated.Crash as e:
            temporary.remove_leftovers(self._directory, ".")
            rest = [case for case in cases if case.result(self._directory) is None]
            if len(rest) == 1 == len(cases):
                return [Failed(rest[0].label, rest[0].run, str(e))]
            return [
                failed
                for part in _parts(rest)
                for failed in self.play(part, models, prepared=prepared)
            ]
        return found


def _joined(plans: Sequence[Plan]) -> Plan:
    """One plan of several for the same tape."""
    return Plan(
        [case for plan in plans for case in plan.cases],
        [failed for plan in plans for failed in plan.failed],
        next((plan.note for plan in plans if plan.note), None),
        max(plan.model_bytes for plan in plans),
    )


def _parts(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases of each tape, or if all are on one tape each of them."""
    by_tape = [list(same) for _, same in itertools.groupby(cases, key=lambda case: case.label)]
    return by_tape if len(by_tape) > 1 else [[case] for case in cases]
