# SPDX-License-Identifier: Apache-2.0
"""Compares tapes side by side, with an interval for every prediction.

A tape has one of three roles:

    recorded  a recording of a kernel
    model     its replay under the same kernel's rules
    what-if   its replay under other rules

A what-if is compared with the model, not with the recording, so that the model's error does not
look like an effect. If the model is not among the tapes, the table model_error of the what-if
replaces it. If the first tape is a what-if itself, the others are compared with it: two kernels,
or two policies, on the same recording.

The tape of an ensemble has its members in the table `member`: interval.py makes intervals of them,
and of the differences between members of the same seed. A tape of one run has no interval, and no
verdict on its difference. no_verdict.py decides which other differences are withheld.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Semaphore
from typing import Any

import pyarrow as pa

from pagetape.answer import Answer
from pagetape.asking import interval, no_verdict, query
from pagetape.asking.database import Database, labels
from pagetape.asking.interval import Interval, Paired
from pagetape.asking.no_verdict import Rules
from pagetape.asking.success import SUCCEEDS, Success, is_index, number, numbers
from pagetape.schemas.tape import Tape
from pagetape.tapes import fallback_unit, origin
from pagetape.tapes.absent import lines as absent_lines
from pagetape.tapes.kernel_rows import warnings_of
from pagetape.tapes.loss import Loss

_AT_THE_END = " at the end"  # in the names of metrics of the last state


Metrics = dict[str, dict[str, Any]]  # rows of the report `metrics`, by name


def metrics(tape: Tape) -> Metrics:
    """The rows of the report `metrics`, by name.

    A fragmentation index without a value, as a request would succeed, is SUCCEEDS. If the events
    are cut off, the state at the end is that of a later moment, and left out.
    """
    with Database([tape]) as db:
        return metrics_of(db)


def metrics_of(database: Database) -> Metrics:
    """metrics() of the one tape of a database."""
    (tape,) = database.tapes
    return _by_name(tape, database.run(query.reports()["metrics"]))


def _by_name(tape: Tape, found: Answer) -> Metrics:
    rows = found.objects()
    for row in rows:
        if row["value"] is None and is_index(row["metric"]):
            row["value"] = SUCCEEDS
    cut = tape.is_cut("event")
    return {row["metric"]: row for row in rows if not (cut and _AT_THE_END in row["metric"])}


_PER_PLAN = 4  # CPUs: to plan the report takes as long as to answer it five times


class MetricsOfMany:
    """metrics() of many small tapes, on several threads: a few databases plan the report once."""

    def __init__(self) -> None:
        self._idle: list[Database] = []
        self._room = Semaphore(max(len(os.sched_getaffinity(0)) // _PER_PLAN, 1))

    def of(self, tape: Tape) -> Metrics:
        """The metrics of one tape. After an error its database is not used again."""
        with self._room:
            try:
                db = self._idle.pop()
            except IndexError:
                db = Database([tape], threads=1)
            found = _by_name(tape, db.run_on(tape, query.reports()["metrics"]))
            db.forget()
            self._idle.append(db)
        return found


# metrics() of a tape without many events, as that of a counted run.
metrics_of_run = MetricsOfMany().of

# Values of the members by run and metric, in the order of their seeds.
Members = dict[str, dict[str, list[int]]]


def members_of(rows: pa.Table) -> Members:
    """The members of rows of the table `member`; a metric that one member lacks is left out."""
    found: Members = {}
    seeds: dict[str, set[int]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: row["seed"]):
        seeds.setdefault(row["run"], set()).add(row["seed"])
        if row["value"] is not None:
            found.setdefault(row["run"], {}).setdefault(row["metric"], []).append(row["value"])
    return {
        run: {name: values for name, values in known.items() if len(values) == len(seeds[run])}
        for run, known in found.items()
    }


@dataclass(frozen=True)
class Side:
    """One of the compared tapes."""

    label: str
    role: str
    loss: Loss
    run: dict[str, Any] | None
    metrics: Metrics
    kernel_warnings: list[str] = field(default_factory=list)
    members: Members = field(default_factory=dict)
    effects: list[dict[str, Any]] = field(default_factory=list)  # rows of policy_effect
    fallback_unit: str | None = None  # what one fallback event counts
    error_recorded: "Side | None" = None  # the recording, as the table model_error has it
    absent: list[str] = field(default_factory=list)  # what an import leaves out, in words

    @classmethod
    def of(
        cls,
        tape: Tape,
        label: str,
        members: pa.Table | None = None,
        known_metrics: Metrics | None = None,
    ) -> "Side":
        """`members`: rows of the table `member`, for a tape without rows of its own.
        `known_metrics`: those of the tape, if they are known."""
        run = tape.facts.get("replay")
        role = "recorded" if run is None else "model" if run["own"] else "what-if"
        found = members_of(tape.table("member") if members is None else members)
        return cls(
            label,
            role,
            Loss.of(tape),
            run,
            metrics(tape) if known_metrics is None else known_metrics,
            warnings_of(tape),
            found,
            tape.rows("policy_effect"),
            fallback_unit.of_tape(tape),
            cls.of_model_error(tape, "recorded"),
            absent_lines(tape),
        )

    @property
    def kind(self) -> str:
        """Of the recording: interval.RECORDINGS."""
        return str((self.run or {}).get("recording", interval.KINDS[-1]))

    @property
    def reclaim(self) -> str | None:
        """The reclaim mode of a replay."""
        return (self.run or {}).get("reclaim")

    def counts_otherwise(self, other: "Side") -> bool:
        """Whether fallback events stand for something else than those of the other side."""
        return fallback_unit.differ(self.fallback_unit, other.fallback_unit)

    @property
    def played(self) -> dict[str, list[int]]:
        """The members of the rules that made this tape, by metric; none for one run."""
        return self.members.get("own" if self.role == "model" else "this", {})

    def _members(self, metric: str, run: str | None) -> list[int]:
        return (self.members.get(run, {}) if run else self.played).get(metric, [])

    def interval(self, metric: str, run: str | None = None) -> Interval | None:
        """The interval of a prediction; None for a recording and for one run. `run`: of the
        members with this label, by default those of this tape."""
        values = numbers(metric, self._members(metric, run))
        row = self.metrics.get(metric, {})
        kind = interval.kind_of(self.kind, self.reclaim)
        return _interval(metric, row.get("unit", ""), values, kind, row.get("most"))

    def success(self, metric: str, run: str | None = None) -> Success | None:
        """Of a fragmentation index: of the members as for interval(), or else of the one run."""
        alone = [] if run else [self.metrics.get(metric, {}).get("value")]
        return Success.among(metric, self._members(metric, run) or alone)

    def rules(self, metric: str, run: str | None = None) -> Rules | None:
        """Interval and success of the members."""
        members = self._members(metric, run)
        return Rules.of(self.interval(metric, run), Success.among(metric, members))

    def paired(self, metric: str, base: Mapping[str, list[int]]) -> Paired | None:
        """The difference of this tape's members and those of other rules, member by member.

        Members are in the order of their seeds, which begin with 1: those that only one of the two
        has are left out.
        """
        this, other, row = self.played.get(metric), base.get(metric), self.metrics.get(metric)
        if not this or not other or row is None:  # no row: a table of the tape is damaged
            return None
        nr = min(len(this), len(other))
        about = self.kind, self.reclaim, row.get("most")
        pairs = zip(this[:nr], other[:nr], strict=True)
        return interval.paired(metric, row["unit"], pairs, *about)

    def why_unpaired(self, base: "Side") -> str | None:
        """Why the members of two replays of one recording cannot be paired; None if they can."""
        for side in (self, base):
            if not side.played:
                return f"{side.label} has no members: replay it again, without --ensemble 0"
        assert self.run and base.run
        for name in ("reclaim", "assisted"):
            one, other = base.run.get(name), self.run.get(name)
            if one != other:
                return f"{base.label} was played with {name} {one}, {self.label} with {other}"
        own = [side.members.get("own", {}) for side in (self, base)]
        if any(a[:n] != b[:n] for a, b, n in _of_both(*own)):
            return "their own rules differ: different versions of pagetape made them"
        return None

    @classmethod
    def of_error(cls, rows: list[dict[str, Any]], role: str, made: dict[str, Any]) -> "Side":
        """The recording or the model of rows of model_error; `made`: the fact `replay` there."""
        found = {row["metric"]: row | {"value": row[role]} for row in rows}
        unit = (made.get("fallback_events") or {}).get("own")
        return cls(role, role, Loss(None, {}), None, found, fallback_unit=unit)

    @classmethod
    def of_model_error(cls, tape: Tape, role: str) -> "Side | None":
        """One side of the tape's table model_error, if it has one."""
        rows = tape.rows("model_error")
        return cls.of_error(rows, role, tape.facts.get("replay") or {}) if rows else None

    def value(self, metric: str) -> int | None:
        """None also for a request that would succeed."""
        return number(metric, self.stored(metric))

    def stored(self, metric: str) -> int | None:
        """The value, or SUCCEEDS."""
        row = self.metrics.get(metric)
        return row["value"] if row else None


@dataclass(frozen=True)
class Difference:
    """One metric of one tape against its reference.

    A withheld difference has no numbers, and `no_verdict` says why. `shown` is None for one run.
    """

    value: float | None
    percent: float | None
    low: float | None = None  # the 80 % interval; None if it is unknown or does not apply
    high: float | None = None
    shown: bool | None = None  # the interval excludes 0
    followed: bool | None = None  # no_verdict.follows()
    no_verdict: str | None = None

    @classmethod
    def of_pair(cls, found: Paired, followed: bool | None) -> "Difference":
        return cls(found.value, found.percent, found.low, found.high, found.shown, followed)

    @classmethod
    def of_interval(cls, found: Interval, other: float, followed: bool | None) -> "Difference":
        """The difference of an ensemble and a certain value."""
        value, low, high = (limit - other for limit in (found.median, found.low, found.high))
        percent = 100 * value / other if other else None
        return cls(value, percent, low, high, not low <= 0 <= high, followed)

    @classmethod
    def of_run(cls, value: float, other: float) -> "Difference":
        """The difference of one run and another value."""
        return cls(value - other, 100 * (value - other) / other if other else None)

    @classmethod
    def withheld(cls, why: str, followed: bool | None) -> "Difference":
        return cls(None, None, shown=False, followed=followed, no_verdict=why)


@dataclass(frozen=True)
class Metric:
    """One line of the comparison."""

    name: str
    unit: str
    tier: str
    values: dict[str, int | None]
    intervals: dict[str, Interval | None]
    success: dict[str, Success | None]  # of a fragmentation index
    own: Interval | None  # of the own rules, with the inputs of the first what-if
    own_success: Success | None
    error: int | None
    differences: dict[str, Difference | None]

    @property
    def occurs(self) -> bool:
        """Whether it is other than 0 on any tape, or in any member."""
        found = [*self.intervals.values(), self.own]
        return (
            any(self.values.values())
            or any(i.median or i.high for i in found if i)
            or any(self.success.values())
        )


@dataclass(frozen=True)
class Comparison:
    """The result. `sides[0]` is the base."""

    sides: list[Side]
    error_of: tuple[str, str] | None  # (recorded, model): labels of the sides with the error
    references: dict[str, str]  # label: label of its reference
    metrics: list[Metric]
    incomparable: dict[str, str]  # label: why its fallback counts have no difference
    unpaired: dict[str, str]  # label: why its differences from a what-if have no interval
    beside: dict[str, str]  # label: what to know about it and the base: origin.notes()

    def json(self) -> dict[str, Any]:
        return {
            "tapes": [
                {
                    "tape": side.label,
                    "role": side.role,
                    "run": side.run,
                    "compared_with": self.references.get(side.label),
                    "lost": side.loss.total,
                    "anomalies": side.loss.anomalies,
                    "kernel_warnings": side.kernel_warnings,
                    **({"absent": side.absent} if side.absent else {}),
                    "policies_effect": side.effects,
                    "incomparable": self.incomparable.get(side.label),
                    "unpaired": self.unpaired.get(side.label),
                    "beside": self.beside.get(side.label),
                }
                for side in self.sides
            ],
            "model_error_of": self.error_of
            and dict(zip(("recorded", "model"), self.error_of, strict=True)),
            "metrics": [
                {
                    "metric": m.name,
                    "unit": m.unit,
                    "tier": m.tier,
                    "values": m.values,
                    "intervals": {label: i and vars(i) for label, i in m.intervals.items()},
                    "own": m.own and vars(m.own),
                    **_success_json(m),
                    "model_error": m.error,
                    "differences": {label: d and vars(d) for label, d in m.differences.items()},
                }
                for m in self.metrics
            ],
        }


def _success_json(metric: Metric) -> dict[str, Any]:
    """The keys of a fragmentation index."""
    if not is_index(metric.name):
        return {}
    return {
        "success": {label: found and vars(found) for label, found in metric.success.items()},
        "own_success": metric.own_success and vars(metric.own_success),
    }


def _recorded(side: Side, base: Side | None, metric: str) -> float | None:
    """The value of the recording of a replay: as its own tape has it, or that of `base`."""
    for known in (side.error_recorded, base):
        value = known.stored(metric) if known else None
        if value is not None:
            return value
    return None


def _difference(
    side: Side, reference: Side, recorded: Side | None, metric: str
) -> Difference | None:
    run = "own" if side.role == "what-if" else None
    own = side.rules(metric, run) if side.run else None
    if own is None and reference.role == "model":
        own = reference.rules(metric)
    value = _recorded(side, recorded, metric) if side.run else None
    about = side.run, metric, value, own
    this = side.success(metric) if side.run else None
    why = no_verdict.of_metric(*about, other_unit=side.counts_otherwise(reference), this=this)
    why = why or no_verdict.of_run(reference.run)
    if reference.role == "what-if":
        why = why or no_verdict.of_index(this, reference.success(metric), reference.label)
    followed = no_verdict.follows(metric, value, own)
    if why is not None:
        return Difference.withheld(why, followed)
    if (base := _paired_with(side, reference)) and (pair := side.paired(metric, base)):
        return Difference.of_pair(pair, followed)
    mine, other = side.value(metric), reference.value(metric)
    if mine is None or other is None:
        return None
    found = side.interval(metric)
    if found is not None and reference.interval(metric) is None and reference.role != "what-if":
        return Difference.of_interval(found, other, followed)
    return Difference.of_run(mine, other)


def _paired_with(side: Side, reference: Side) -> Mapping[str, list[int]]:
    """The members with which those of a side are compared; none if the two are not paired."""
    is_error = reference.run is None  # the model of a table model_error: of any run's own rules
    if reference.role == "model" and (side.role == "what-if" or is_error):
        return side.members.get("own", {})
    if side.run and reference.role == "what-if" and not side.why_unpaired(reference):
        return reference.played
    return {}


def _of_both(
    one: Mapping[str, list[int]], other: Mapping[str, list[int]]
) -> Iterator[tuple[list[int], list[int], int]]:
    """The members of the metrics that two runs share, and the number of members of both."""
    for name in one.keys() & other.keys():
        yield one[name], other[name], min(len(one[name]), len(other[name]))


def _why(side: Side, reference: Side) -> str | None:
    """Why the fallback counts of two sides are not compared; None if they are."""
    if not side.counts_otherwise(reference):
        return None
    assert side.fallback_unit and reference.fallback_unit
    return fallback_unit.sentence(reference.fallback_unit, side.fallback_unit)


def beside_model(
    found: dict[str, dict[str, Any]], error: pa.Table, members: Members, made: dict[str, Any]
) -> list[dict[str, Any]]:
    """Compare the metrics of a replay with those of recording and model in a table model_error.

    The result has the error (recording minus model), the difference of replay and model, and with
    members the intervals of both, and `scaled`: recorded x (replay / own rules). `made` is the
    fact `replay` of the tape. `followed` and `no_verdict` are of no_verdict.py; a metric without a
    verdict has neither numbers in its difference nor `scaled`.
    """
    unit = (made.get("fallback_events") or {}).get("this")
    role = "model" if made.get("own") else "what-if"
    side = Side(role, role, Loss(None, {}), made, found, members=members, fallback_unit=unit)
    rows = error.to_pylist()
    recorded, model = (Side.of_error(rows, name, made) for name in ("recorded", "model"))
    out = []
    for name, row in found.items():
        difference, own = _difference(side, model, recorded, name), side.rules(name, "own")
        why = difference and difference.no_verdict
        known, others = recorded.value(name), members.get("own", {}).get(name)
        alike = {"this": side.success(name), "own": own and own.success}
        alike["recorded"] = Success.among(name, [recorded.stored(name)])
        out.append(
            row
            | {"value": side.value(name), "recorded": known, "model": model.value(name)}
            | {"model_error": _far(known, model.value(name))}
            | _limits(side.interval(name))
            | {"own": _limits(own.interval if own else None)}
            | ({"success": {k: v and vars(v) for k, v in alike.items()}} if is_index(name) else {})
            | {"scaled": None if why else _scaled(known, side.played.get(name), others)}
            | {"comparable": why != no_verdict.OTHER_UNIT}
            | {"followed": no_verdict.follows(name, recorded.stored(name), own)}
            | {"no_verdict": why, "difference": difference and vars(difference)}
        )
    return out


def _far(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else abs(other - one)


def _interval(
    metric: str, unit: str, values: Sequence[float], kind: str, most: float | None
) -> Interval | None:
    return interval.interval(metric, unit, values, kind, most) if values else None


def _limits(found: Interval | None) -> dict[str, float | None]:
    """Median and interval as keys of JSON; None without members."""
    return {key: getattr(found, key, None) for key in ("median", "low", "high")}


def _scaled(
    recorded: float | None, this: Sequence[float] | None, own: Sequence[float] | None
) -> float | None:
    """Recorded x (this / own rules): the estimate from which a common bias cancels."""
    if recorded is None or not this or not own or not sum(own):
        return None
    return round(recorded * sum(this) / sum(own), 1)


def _bar(tapes: Sequence[Tape], sides: Sequence[Side]) -> tuple[Side | None, Side | None]:
    """The recording and the model whose difference is the error: arguments, or from a what-if."""
    recorded = next((s for s in sides if s.role == "recorded"), None)
    modes = {s.reclaim for s in sides if s.role == "what-if"}
    # A what-if is compared with own rules of its own reclaim mode, never with those of another.
    model = next((s for s in sides if s.role == "model" and modes <= {s.reclaim}), None)
    for tape, side in zip(tapes, sides, strict=True):
        if side.role == "what-if":
            recorded = recorded or Side.of_model_error(tape, "recorded")
            model = model or Side.of_model_error(tape, "model")
    return recorded, model


def compare(
    tapes: Sequence[Tape],
    members: Mapping[Path, pa.Table] | None = None,
    recorded_metrics: Metrics | None = None,
    *,
    one_run: bool = False,
) -> Comparison:
    """Compare the first tape with the others. Raises TapeError for an unreadable tape, and for a
    replay of another recording than the first tape's.

    `members` has rows of the table `member` for tapes that lack them, by path; `recorded_metrics`
    has the metrics of the first tape, if it is a recording (model_error.recorded_metrics).
    `one_run`: leave out the members that a tape has, and with them all intervals.
    """
    origin.check_together(tapes)
    known, names = members or {}, labels(tapes)
    given = [recorded_metrics, *(None for _ in tapes[1:])]
    sides = [
        Side.of(tape, name, known.get(tape.path), found)
        for tape, name, found in zip(tapes, names, given, strict=True)
    ]
    if one_run:
        sides = [replace(side, members={}) for side in sides]
    base = sides[0]
    recorded, model = _bar(tapes, sides)
    others = sides[1:]
    to_model = model is not None and base.role != "what-if"
    references = {
        s.label: model if to_model and model and s.role == "what-if" else base for s in others
    }
    feedback = any(s.run and s.run["tier"] == "B" for s in sides)
    metrics = []
    for name in dict.fromkeys(name for s in sides for name in s.metrics):
        about = next(s.metrics[name] for s in sides if name in s.metrics)
        error = _far(*(s.value(name) if s else None for s in (recorded, model)))
        metrics.append(
            Metric(
                name,
                about["unit"],
                "B" if feedback else about["tier"],
                {s.label: s.value(name) for s in sides},
                {s.label: s.interval(name) for s in sides},
                {s.label: s.success(name) for s in sides},
                next((s.interval(name, "own") for s in sides if s.role == "what-if"), None),
                next((s.success(name, "own") for s in sides if s.role == "what-if"), None),
                error,
                {s.label: _difference(s, references[s.label], recorded, name) for s in others},
            )
        )
    return Comparison(
        sides,
        (recorded.label, model.label) if recorded and model else None,
        {label: side.label for label, side in references.items()},
        metrics,
        {s.label: why for s in others if (why := _why(s, references[s.label]))},
        {
            s.label: why
            for s in others
            if s.run and base.role == "what-if" and (why := s.why_unpaired(base))
        },
        origin.notes(tapes, names),
    )
