# SPDX-License-Identifier: Apache-2.0
"""A part of a report: a time, a zone, a node, a task, or some of its rows.

A filter acts on the events before the report counts them, if all that the report reads is events
that have the property. Otherwise it acts on the rows of the report, if these have the property as
a column. Else the report refuses it in words: a part of a sum that mixes zones is not known.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import duckdb

from pagetape.asking import needs
from pagetape.asking.database import quoted
from pagetape.asking.only import Only
from pagetape.asking.query import ParameterError, Query, views
from pagetape.asking.span import NEVER, Span
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

# Tables that describe what others name. They stay whole.
_NAMES = {"frame", "snapshot", "stack", "task", "tracepoint", "zone"}

# The columns of a report that say what a row is about.
_ROWS = {"zone": ("zone",), "node": ("node",), "task": ("comm", "task")}

# ... and the tables whose events have it.
_EVENTS = {"zone": {"event"}, "node": {"event"}, "task": {"event", "reclaim", "compaction"}}


class Filters(NamedTuple):
    """What a user asks for; None is everything. Times are seconds from the first event of a tape,
    negative ones from its end."""

    since: float | None = None
    until: float | None = None
    zone: str | None = None
    node: int | None = None
    task: str | None = None
    where: str | None = None  # a condition of SQL on the report's columns
    sort: str | None = None  # columns, each with a '-' before it for descending order
    limit: int | None = None

    def given(self) -> dict[str, Any]:
        """The filters that were given, for JSON."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass
class Part:
    """A report with its filters: what a Database and a reader must know."""

    question: Query
    values: dict[str, Any]
    span: Span | None = None
    only: dict[tuple[int, str], list[Only]] = field(default_factory=dict)  # by place, table
    said: list[str] = field(default_factory=list)


def part(q: Query, tapes: Sequence[Tape], values: Mapping[str, Any], filters: Filters) -> Part:
    """The part of a report; raises ParameterError for a filter that it cannot have, and
    duckdb.Error for a `where` that is not one expression."""
    found = Part(q, dict(values))
    conditions: list[str] = []
    if filters.where is not None:
        duckdb.SQLExpression(filters.where)  # raises duckdb.Error unless it is one expression
        conditions.append(f"(\n{filters.where}\n)")
        found.said.append(f"only rows where {filters.where}")
    conditions += _time(found, tapes, filters)
    for name in ("zone", "node", "task"):
        if (value := getattr(filters, name)) is not None:
            conditions += _property(found, tapes, name, value)
    order = _order(q, filters.sort)
    if conditions or order or filters.limit is not None:
        _lift_top(found, q)
        found.question = _wrapped(q, conditions, order)
    return found


def _lift_top(found: Part, q: Query) -> None:
    """A report's own limit would come before the filters."""
    for parameter in q.parameters:
        if parameter.name == "top" and found.values.get("top") in (None, parameter.default):
            found.values["top"] = parameter.most


def _wrapped(q: Query, conditions: Sequence[str], order: str) -> Query:
    where = " AND ".join(conditions) or "true"
    return replace(q, sql=f"SELECT * FROM (\n{q.sql}\n) AS report WHERE {where} {order}")


# ---- time


def _has_time(q: Query) -> bool:
    """Whether what the report reads has events or intervals, rather than states at snapshots."""
    known = {name: {c.name for c in table.columns} for name, table in TABLES.items()}
    known |= {view.name: {c.name for c in view.columns} for view in views()}
    read = [known[name] for name in needs.named(q.sql) if name in known.keys() - _NAMES]
    return any(
        {"ts", "from_ts", "first_ts"} & columns and "snapshot" not in columns for columns in read
    )


def _time(found: Part, tapes: Sequence[Tape], filters: Filters) -> list[str]:
    if filters.since is None and filters.until is None:
        return []
    q = found.question
    span = Span(filters.since, filters.until)
    begin = "its begin" if filters.since is None else _second(filters.since)
    end = "its end" if filters.until is None else _second(filters.until)
    what = f"only the time from {begin} to {end} of the tape"
    if any(c.name == "at_s" for c in q.columns) and found.values.get("interval_ms") != 0:
        found.said.append(f"{what}: rows with at_s in it")
        return [_seconds(span, tapes)]
    if not _has_time(q):
        raise ParameterError(
            f"{q.name} shows the state at the snapshots, not a time: leave out --since and --until"
        )
    found.span = span
    found.said.append(f"{what}; losses and anomalies are those of the whole tape")
    return []


def _second(value: float) -> str:
    return f"{value:g} s" if value >= 0 else f"{-value:g} s before the end"


def _seconds(span: Span, tapes: Sequence[Tape]) -> str:
    """The condition on at_s. Reports with at_s have one tape."""
    (tape,) = tapes
    start, end = tape.clock or (0, 0)
    first, last = ((limit - start) / 1e9 for limit in span.limits(start, end))
    return f"at_s >= {first if span.begin is not None else '-inf'!r}::DOUBLE AND at_s < {last}"


# ---- zone, node and task


def _property(found: Part, tapes: Sequence[Tape], name: str, value: Any) -> list[str]:
    q = found.question
    counted = {
        table for table in needs.tables(q) - _NAMES if any(tape.num_rows(table) for tape in tapes)
    }
    of_events = counted and counted <= _EVENTS[name] and not q.whole
    column = next((c.name for c in q.columns if c.name in _ROWS[name]), None)
    if not of_events and column is None:
        why = "follows the events of all of them" if q.whole else "mixes them"
        raise ParameterError(f"--{name} {value}: {q.name} {why}: leave out --{name}")
    conditions = _conditions(tapes, name, value)  # a wrong name is an error, no empty report
    if not of_events:
        found.said.append(f"only rows of {name} {value}")
        text = value.upper() if name == "zone" else str(value)
        return [f"{column}::VARCHAR = {quoted(text)}"]
    for table in counted:
        for place, condition in enumerate(conditions):
            found.only.setdefault((place, table), []).append(condition)
    found.said.append(f"only events of {name} {value}")
    return []


def _conditions(tapes: Sequence[Tape], name: str, value: Any) -> list[Only]:
    """The condition on events, for each tape; raises ParameterError if no tape has the value."""
    known: set[str] = set()
    found = []
    for tape in tapes:
        if name == "task":
            condition, names = _of_task(tape, value)
        else:
            condition, names = _of_place(tape, name, value)
        known |= names
        found.append(condition)
    if not any(only.values or only.ranges for only in found):
        tape_names = ", ".join(str(tape.path) for tape in tapes)
        near = difflib.get_close_matches(str(value), known, n=5, cutoff=0.5)
        have = ", ".join(near or sorted(known)[:8]) or "none"
        raise ParameterError(f"no {name} '{value}' on {tape_names} (there are: {have})")
    return found


def _of_task(tape: Tape, value: str) -> tuple[Only, set[str]]:
    """Threads of that name, or the thread with that number."""
    rows = [(row["pid"], row["comm"]) for row in tape.rows("task")]
    pids = {pid for pid, comm in rows if comm == value}
    if not pids and value.isdecimal() and len(value) < 10:
        pids = {int(value)}
    return Only("pid", tuple(sorted(pids))), {comm for _, comm in rows if comm is not None}


def _of_place(tape: Tape, name: str, value: Any) -> tuple[Only, set[str]]:
    """Pages of a zone, or of a node: those within its pfns at the first snapshot."""
    wanted = value.upper() if name == "zone" else str(value)
    zones = [row for row in tape.rows("zone") if row["snapshot"] == 0 and row["spanned"]]
    ranges = [
        (row["start_pfn"], min(row["start_pfn"] + row["spanned"] - 1, NEVER))
        for row in zones
        if str(row[name]) == wanted
    ]
    return Only("pfn", ranges=tuple(ranges)), {str(row[name]) for row in zones}


# ---- order


def _order(q: Query, sort: str | None) -> str:
    if sort is None:
        return ""
    known = [column.name for column in q.columns]
    parts = []
    for word in sort.split(","):
        name = word.strip().removeprefix("-")
        if name not in known:
            raise ParameterError(f"{q.name} has no column '{name}' (there are: {', '.join(known)})")
        parts.append(f'"{name}"{" DESC" if word.strip().startswith("-") else ""} NULLS LAST')
    return f"ORDER BY {', '.join(parts)}"
