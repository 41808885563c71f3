# SPDX-License-Identifier: Apache-2.0
"""A replay with its interval: one run, the members of its ensemble, and those of the own rules.

The tape of a replay holds the events and the end of the one run without changes, and the metrics
of all members (table `member`).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.asking import comparison
from pagetape.replaying import ensemble, model_error, players
from pagetape.replaying.engine_run import Progress
from pagetape.replaying.ensemble import Members
from pagetape.replaying.model_error import ModelError, inputs
from pagetape.replaying.playback import NewTape, Run, Source, is_own, of_replay
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.memory_tape import TapeWith
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import kernel_rows, origin

# Metrics that count the same as a total of the engine. The other totals have no interval.
_METRIC_OF = {
    "fallback_claim": "fallbacks claim",
    "fallback_steal": "fallbacks steal",
    "fallback_whole": "fallbacks whole",
    "refills": "PCP refills",
    "refill_pages": "PCP refill pages",
    "drains": "PCP drains",
    "drain_pages": "PCP drain pages",
    "lock_holds": "zone lock holds",
    "nofragment_retries": "zonelist scan restarts",
    "lower_zone": "allocs from a lower zone",
    "remote_node": "allocs from another node",
    "boost_asks": "boosts asked for",
    "slowpath_wake_calls": "slow-path wake calls",
    "below_low": "allocs below low everywhere",
    "below_min": "allocs below min everywhere",
    "failed": "allocs not served",
}
_KEYS = ("median", "low", "high", "scaled")

Bar = Callable[[str], contextlib.AbstractContextManager[Progress]]  # a progress bar of that name


@contextlib.contextmanager
def _named(tape: Tape, made: Path) -> Iterator[None]:
    """Name the recording in errors about a tape made from it: its values are to blame."""
    try:
        yield
    except TapeError as e:
        text = str(e.strerror).replace(str(made), str(tape.path))
        raise TapeError(e.errno, text) from e


class OwnRules:
    """The runs of a tape's own rules that what-ifs are compared with. Each is played once.

    `nr` is the number of members.
    """

    def __init__(self, source: Source, nr: int) -> None:
        self.source = source
        self.nr = ensemble.most(source.tape, nr)
        self._errors: dict[str, ModelError] = {}
        self._members: dict[str, Members] = {}

    def error(self, run: Run) -> ModelError:
        """The model's error with the inputs of a run."""
        if (name := inputs(run)) not in self._errors:
            self._errors[name] = ModelError(self.source, run)
        return self._errors[name]

    def members(self, run: Run) -> Members:
        """The members of the own rules with the inputs of a run."""
        if (name := inputs(run)) not in self._members:
            self._members[name] = Members(self.source, "own", run.own, self.nr)
        return self._members[name]


class WhatIf(players.Task):
    """A run, its members and those of the own rules; complete, it has the JSON object of
    `pagetape replay` in `result`.

    With `stored`, its members are cached. The tape gets `error`, or the model's error is that of
    this run of the own rules.
    """

    def __init__(
        self,
        own: OwnRules,
        run: Run,
        new: NewTape | None,
        error: ModelError | None,
        *,
        stored: bool,
    ) -> None:
        nr = 0 if is_own(own.source.tape, run) else own.nr
        this = Members(own.source, "this", run, nr, cached=stored)
        self._members = own.members(run), this
        self._error = error
        self.result: dict[str, Any] = {}
        needs = [*self._members, error] if error else self._members
        super().__init__([players.Part(own.source, run, new)], needs)

    def complete(self) -> None:
        (part,) = self.parts
        tables = {"member": pa.concat_tables([one.table for one in self._members])}
        if self._error:
            tables["model_error"] = self._error.table
        made = part.whole(tables)
        tape = part.source.tape
        with _named(tape, made.path):
            found = comparison.metrics_of_run(TapeWith(made, part.counted))
            error = self._error.table if self._error else model_error.side_by_side(tape, found)
            self.result = with_intervals(part.result, found, error, tables["member"])


def predict(
    source: Source, run: Run, members: int, new: NewTape | None, bar: Bar
) -> dict[str, Any]:
    """Play a run, and its ensemble of `members`, if any.

    Returns the JSON object of `pagetape replay`: `metrics` compares the run with the own rules and
    the recording, `totals` has intervals.
    """
    own = OwnRules(source, members)
    error = None if is_own(source.tape, run) else own.error(run)
    task = WhatIf(own, run, new, error, stored=True)
    with bar(f"ensemble of {members}" if members else "replay") as progress:
        players.play([task], progress=progress)
    return task.result


def with_intervals(
    result: dict[str, Any], found: comparison.Metrics, error: pa.Table, rows: pa.Table
) -> dict[str, Any]:
    """The result of a run with the metrics of its tape, and with intervals in its totals.

    `error` has the rows of model_error, and `rows` those of member.
    """
    members = comparison.members_of(rows)
    metrics = comparison.beside_model(found, error, members, result)
    by_name = {metric["metric"]: metric for metric in metrics}
    totals = {}
    for name, total in result["totals"].items():
        metric = by_name.get(_METRIC_OF.get(name, ""), {})
        totals[name] = total | {key: metric.get(key) for key in _KEYS}
    seeds = sorted(set(rows["seed"].to_pylist()))
    changes = {"changes": ensemble.drawn(rows)} if seeds else {}
    return result | {"totals": totals, "metrics": metrics, "seeds": seeds} | changes


def label(run: Run) -> str:
    """What differs in a run from the recording, in words."""
    parts = [" + ".join(run.policies)] if run.policies else []
    parts += [f"rewrite '{rule}'" for rule in run.rewrite]
    if run.kernel != "auto":
        parts.append(f"kernel {kernel_rows.named(kernel_rows.asked(run.kernel))}")
    if run.reclaim != "R0":
        parts.append(f"reclaim {run.reclaim}")
    if run.preference != "auto":
        parts.append(f"prefer {run.preference}")
    if run.nodes:
        parts.append(f"CPUs {run.nodes}")
    if run.memory_policies:
        parts.append("known memory policies")
    return ", ".join(parts) or "this run"


def _members(tapes: Sequence[Tape], nr: int, bar: Bar) -> dict[Path, pa.Table]:
    """Members for the replays that have none, if the first tape is their recording."""
    base = tapes[0]
    if not nr or "replay" in base.facts:
        return {}
    found = {}
    for tape in tapes[1:]:
        run = of_replay(tape, base)
        if run is not None and not tape.num_rows("member"):
            source = Source(base, inferred(base), preferences(base))
            with bar(tape.path.name) as progress:
                found[tape.path] = ensemble.with_own(source, run, nr, progress=progress)
    return found


def _recorded(tapes: Sequence[Tape]) -> comparison.Metrics | None:
    """The metrics of the first tape, if it is the recording of one of the others."""
    base = tapes[0]
    played = any(of_replay(tape, base) is not None for tape in tapes[1:])
    return model_error.recorded_metrics(base) if played else None


def compare(tapes: Sequence[Tape], members: int, bar: Bar) -> comparison.Comparison:
    """Compare the first tape with the others, with `members` for replays of it that have none; 0:
    without intervals, also of the tapes that have members.

    Raises TapeError for a replay of another recording than the first tape's.
    """
    origin.check_together(tapes)
    played = _members(tapes, members, bar)
    return comparison.compare(tapes, played, _recorded(tapes), one_run=not members)
