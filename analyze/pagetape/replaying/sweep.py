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

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from pagetape import answer
from pagetape.asking import no_verdict
from pagetape.replaying import isolated, kernels, players, presets
from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import NewTape, Run, Source, identity, in_mode, made_by
from pagetape.replaying.prediction import OwnRules, WhatIf
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, fallback_unit, kernel_rows, output, regular, temporary
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


FAILED = ("failed", "policy", "kernel", "reclaim", "reason")


def failed_line(row: dict[str, Any]) -> tuple[str, ...]:
    """A failed row as the columns FAILED of a table."""
    policy = "all" if row["policies"] is None else words(row)
    kernel = kernel_rows.named(row["kernel"] or "")
    return row["tape"], policy, kernel, row["reclaim"] or "", row["reason"]


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
    note: str | None  # about the kernel

    @classmethod
    def of(cls, tape: Tape, label: str, contents: str, run: Run, members: int) -> "Case":
        made = made_by(tape, run)
        what = identity(tape, run) | {"members": members}
        whole = json.dumps([contents, cache.build(), what], sort_keys=True)
        parts = [label, words(made), made["kernel"], run.reclaim]
        slug = re.sub(r"[^\w.=-]+", "-", "_".join(parts)).strip("-.")
        key = blake2b(whole.encode(), digest_size=6).hexdigest()
        note = kernels.note(tape, run.kernel)
        return cls(tape, label, run, members, f"{slug[:160]}_{key}", note)

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


class Asked(NamedTuple):
    """A run as it was asked for: with --kernel auto, each tape has its own kernel."""

    policies: tuple[str, ...]
    kernel: str
    reclaim: str
    prefer: str
    nodes: str | None

    @classmethod
    def of(cls, run: Run) -> "Asked":
        policies = run.policies or ("mainline",)
        return cls(policies, run.kernel, run.reclaim, run.preference, run.nodes)


@dataclass(frozen=True)
class Failed:
    """A run that has no result, or all runs of a tape."""

    tape: str  # label
    run: Run | None  # None: every run on the tape
    reason: str

    @property
    def asked(self) -> dict[str, Any]:
        """The run, key by key; each is None for every run on the tape."""
        return Asked.of(self.run)._asdict() if self.run else dict.fromkeys(Asked._fields)

    def line(self) -> str:
        """One line about it; the same for all runs of a tape that fail for one reason."""
        return self.reason if self.tape in self.reason else f"{self.tape}: {self.reason}"

    def json(self) -> dict[str, Any]:
        """The failed row of a sweep."""
        return {"tape": self.tape, **self.asked, "reason": self.reason}


# Of each run that was asked for; of a tape that cannot be read one for all.
Planned = list[Case | Failed]


def plan(path: Path, label: str, runs: Sequence[Run], members: int) -> Planned:
    """The case of every run on a tape, as an ensemble of `members`; "auto" is the mode of its tier.

    Runs that are the same have equal cases. A run that cannot start has failed.
    """
    tape = Tape(path)
    source, contents = Source(tape), cache.contents(tape)
    found: Planned = []
    for run in runs:
        try:
            kernels.check(tape, run.kernel)
            source.engine(replace(run, reclaim="R0"))  # a bad policy has no mode
            fitting = in_mode(tape, run, run.reclaim)
            found.append(Case.of(tape, label, contents, fitting, members))
        except (OSError, ValueError) as e:
            found.append(Failed(label, run, isolated.reason(e)))
    return found


def cases_of(plans: Iterable[Planned]) -> list[Case]:
    """The cases of plans, each once."""
    planned = itertools.chain(*plans)
    return [*{one.name: one for one in planned if isinstance(one, Case)}.values()]


def failed_of(plans: Iterable[Planned]) -> list[Failed]:
    """The runs that cannot start."""
    return [one for one in itertools.chain(*plans) if isinstance(one, Failed)]


def shard(cases: Sequence[Case], number: int, of: int) -> list[Case]:
    """The `number`-th of `of` parts, counted from 1; runs on one tape stay together."""
    nr = len(cases)
    return list(cases[nr * (number - 1) // of : nr * number // of])


class _Played(WhatIf):
    """A case in progress; complete, it has its files in a directory."""

    def __init__(self, own: OwnRules, case: Case, directory: Path) -> None:
        self._case = case
        self._file = directory / f"{case.name}.json"
        output.check_file_free(self._file, replace=True, mark=case.mark, inputs=[], stream=False)
        new = NewTape(directory / f"{case.name}.tape", replace=True, counted=True)
        super().__init__(own, case.run, new, own.error(case.run), stored=False)

    def complete(self) -> None:
        super().complete()
        del self.result["events_per_s"]
        case = self._case
        made = {"tape": case.label, "name": case.name} | self.result
        made |= {"lost": Loss.of(Tape(self._file.with_suffix(".tape"))).total}
        plain = json.loads(json.dumps(answer.plain(made)))
        text = json.dumps(plain | {_CHECKSUM: _checksum(plain)}, indent=1) + "\n"
        inputs = [case.tape.path]
        with output.whole_file(
            self._file, replace=True, mark=case.mark, inputs=inputs, durable=False
        ) as file:
            file.write(text.encode())


def _begun(cases: Sequence[Case], directory: Path) -> list[_Played | Exception]:
    """The cases on a tape, or why they cannot begin."""
    tape = cases[0].tape
    found: list[_Played | Exception] = []
    try:
        own = OwnRules(Source(tape, inferred(tape), preferences(tape)), cases[0].members)
    except Exception as e:
        return [e for _ in cases]
    for case in cases:
        try:
            found.append(_Played(own, case, directory))
        except Exception as e:
            found.append(e)
    return found


def play(
    cases: Sequence[Case],
    directory: Path,
    jobs: int,
    models: int | None = None,
    *,
    progress: Progress = silent,
) -> list[Failed]:
    """Make the results of the cases, on `jobs` threads, with up to `models` models at once.

    Returns the cases that failed.
    """
    by_tape = [list(same) for _, same in itertools.groupby(cases, key=lambda case: case.label)]
    with ThreadPoolExecutor(jobs) as pool:
        begun = pool.map(lambda same: _begun(same, directory), by_tape)
        played = list(itertools.chain(*begun))
        tasks = [one for one in played if isinstance(one, _Played)]
        players.play(tasks, jobs, models, progress, goes_on=True)
    errors = [one.error if isinstance(one, _Played) else one for one in played]
    return [
        Failed(case.label, case.run, isolated.reason(error))
        for case, error in zip(cases, errors, strict=True)
        if error is not None
    ]


class Player:
    """Plans and plays in another process, which a tape may end without ending the sweep."""

    def __init__(self, process: isolated.Process, directory: Path, jobs: int) -> None:
        self._process = process
        self._directory = directory
        self._jobs = jobs

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Another function in that process."""
        return self._process.call(function, *args)

    def plan(self, path: Path, label: str, runs: Sequence[Run], members: int) -> Planned:
        """plan(). A tape that cannot be read has failed as a whole."""
        try:
            found: Planned = self._process.call(plan, path, label, runs, members)
        except isolated.Crash as e:
            if len(runs) == 1:
                return [Failed(label, runs[0], str(e))]
            return [one for run in runs for one in self.plan(path, label, [run], members)]
        except (OSError, isolated.Failure) as e:
            return [Failed(label, None, isolated.reason(e))]
        return found

    def play(
        self,
        cases: Sequence[Case],
        models: int | None = None,
        progress: Progress = silent,
    ) -> list[Failed]:
        """play(). If the process ends, the rest goes on tape by tape, then run by run."""
        if not cases:
            return []
        args = (play, cases, self._directory, self._jobs, models)
        try:
            found: list[Failed] = self._process.call(*args, progress=progress)
        except isolated.Crash as e:
            temporary.remove_leftovers(self._directory, ".")
            rest = [case for case in cases if case.result(self._directory) is None]
            if len(rest) == 1 == len(cases):
                return [Failed(rest[0].label, rest[0].run, str(e))]
            return [failed for part in _parts(rest) for failed in self.play(part, models)]
        return found


def _parts(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases of each tape, or if all are on one tape each of them."""
    by_tape = [list(same) for _, same in itertools.groupby(cases, key=lambda case: case.label)]
    return by_tape if len(by_tape) > 1 else [[case] for case in cases]
