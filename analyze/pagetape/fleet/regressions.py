# SPDX-License-Identifier: Apache-2.0
"""The report fleet.regressions: the rates of the hosts of each cohort, compared with the base."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pagetape.answer import Answer, amount
from pagetape.asking import archived, query
from pagetape.asking.database import Database
from pagetape.fleet.cohort_comparison import Question, regressions
from pagetape.indexing.question import Fleet, Refused

REPORT = "fleet.regressions"
_BEFORE, _AFTER, _UNKNOWN = "before", "after", "unknown"
_TABLES = ("tape", "event", "extfrag", "reclaim", "stall", "counter")  # of the view rare_metric
_UNIT, _GOOD = "1/h", -1  # of all metrics of the view rare_metric: less is better

Rates = dict[str, dict[str, dict[str, float]]]  # by metric and cohort, of each machine


def answer(fleet: Fleet, q: query.Query, values: dict[str, Any]) -> tuple[Answer, list[str]]:
    """The answer, and lines about it; raises Refused for cohorts that there are not."""
    at = _moment(values["change"])
    cohort = _cohort(fleet.wanted.by, at, values["base"])
    with fleet.database(_TABLES, single=fleet.single(at=at)) as db:
        found, hosts = _of_hosts(db, _rates(cohort)), _hosts(db, cohort)
    names = sorted(hosts, key=_in_order)
    base = values["base"] or next(iter(names), None)
    if base is not None and base not in hosts:
        raise Refused(f"--base '{base}' is no cohort (there are: {', '.join(names)})")
    asked = [
        Question(metric, _UNIT, _GOOD, name, rates.get(str(base), {}), rates[name])
        for metric, rates in found.items()
        for name in names
        if name != base and name in rates
    ]
    rows = regressions(asked, str(base))
    lines = [", ".join(f"{name}: {amount(hosts[name], 'host')}" for name in names)]
    if len(names) < 2:
        lines.append("one cohort: there is nothing to compare (--by, --change)")
    shown = fleet.run(q, values, {archived.COMPARISON: archived.comparison(rows)})
    return shown, [*fleet.lines(), *lines]


def _moment(change: str | None) -> datetime | None:
    if change is None:
        return None
    try:
        at = datetime.fromisoformat(change)
    except ValueError:
        raise Refused(f"--change '{change}' is not a time (example: 2026-11-29T12:00)") from None
    return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at


def _cohort(by: tuple[str, ...], at: datetime | None, base: str | None) -> str:
    """The SQL of a tape's cohort."""
    if at is None:
        parts = [f"coalesce(\"{name}\"::VARCHAR, '{_UNKNOWN}')" for name in by or ("kernel",)]
        return f"concat_ws(', ', {', '.join(parts)})"
    if by or base:
        raise Refused("--change makes the cohorts before and after: leave out --by and --base")
    return f"if(began < TIMESTAMP '{at}', '{_BEFORE}', '{_AFTER}')"


def _rates(cohort: str) -> str:
    return f"""
        WITH chosen AS (
            SELECT tape, machine, hours, {cohort} AS cohort FROM fleet_tape WHERE began IS NOT NULL
        ),
        period AS (
            SELECT c.cohort, c.machine, m.measure, sum(c.hours) AS hours
            FROM chosen AS c
            JOIN measured AS m USING (tape)
            GROUP BY ALL
        ),
        found AS (
            SELECT c.cohort, c.machine, r.metric, r.measure, sum(r.total) AS total
            FROM rare_metric AS r
            JOIN chosen AS c USING (tape)
            GROUP BY ALL
        )
        SELECT k.metric, p.cohort, p.machine, coalesce(f.total, 0) / p.hours AS per_hour
        FROM period AS p
        JOIN (SELECT DISTINCT metric, measure FROM found) AS k ON k.measure = p.measure
        LEFT JOIN found AS f
            ON f.cohort = p.cohort AND f.machine = p.machine AND f.metric = k.metric
        ORDER BY ALL
    """


def percentiles(fleet: Fleet) -> Answer:
    """The rates of the hosts of each cohort: p50, p90 and p99 of each metric, with the number of
    hosts; cohorts as of the report without --change."""
    sql = f"""
        SELECT
            metric,
            cohort,
            count(*) AS hosts,
            round(quantile_cont(per_hour, 0.5), 6) AS p50,
            round(quantile_cont(per_hour, 0.9), 6) AS p90,
            round(quantile_cont(per_hour, 0.99), 6) AS p99
        FROM ({_rates(_cohort(fleet.wanted.by, None, None))})
        GROUP BY metric, cohort
    """
    with fleet.database(_TABLES, single=fleet.single()) as db:
        found = db.ask(sql)
    return replace(found, rows=sorted(found.rows, key=lambda row: (row[0], _in_order(row[1]))))


def _of_hosts(db: Database, sql: str) -> Rates:
    found: Rates = {}
    for metric, cohort, machine, rate in db.ask(sql).rows:
        found.setdefault(metric, {}).setdefault(cohort, {})[machine] = rate
    return found


def _hosts(db: Database, cohort: str) -> Mapping[str, int]:
    """The machines of each cohort."""
    sql = f"""
        SELECT {cohort} AS cohort, count(DISTINCT machine)
        FROM fleet_tape
        WHERE problem IS NULL AND NOT replayed AND began IS NOT NULL
        GROUP BY cohort
    """
    rows: Iterable[tuple[Any, ...]] = db.ask(sql).rows
    return dict(rows)


def _in_order(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """The order of versions: 6.9 before 6.12, `before` first, unknown last."""
    parts = re.findall(r"\d+|\D+", name)
    versions = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
    return name in (_AFTER, _UNKNOWN), versions
