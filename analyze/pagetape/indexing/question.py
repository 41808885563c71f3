# SPDX-License-Identifier: Apache-2.0
"""One question over an archive: which of its tapes, and an answer from their aggregates.

A report that the aggregates can answer has a query in queries/internal/fleet/: of each tape, some
columns that say what a row counts, the count `nr`, and further sums. Its answer over a fleet has a
row for each count of each cohort: the sums, and percentiles over hosts of `nr` per hour. All hosts
of a cohort that recorded such events count, also those without one.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from pagetape.answer import Answer, amount
from pagetape.archive.store import Object, Store, StoreError
from pagetape.asking import archived, query
from pagetape.asking.database import Database, quoted
from pagetape.indexing.fleet_index import FleetIndex
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

_GROUP = "fleet."  # of the queries of aggregates
_COUNT = "nr"


class Refused(ValueError):
    """A question that cannot be asked; the message says why."""


@dataclass(frozen=True)
class Wanted:
    """Which tapes a question is about, and what tells its cohorts apart."""

    where: str | None = None  # a condition of SQL on the columns of fleet_tape
    since: datetime | None = None  # first begin of a tape, UTC without a zone
    until: datetime | None = None  # first begin that is too late
    by: tuple[str, ...] = ()  # columns of fleet_tape

    def check(self) -> None:
        """Raise Refused for a condition that is not one expression, or for an unknown column."""
        known = columns()
        for name in self.by:
            if name not in known:
                raise Refused(f"--by '{name}' is no column of fleet_tape ({', '.join(known)})")
        if self.where is None:
            return
        try:
            duckdb.SQLExpression(self.where)
        except duckdb.Error as e:
            raise self.refusal(e) from e

    def refusal(self, error: duckdb.Error) -> Refused:
        """The error of the condition in one line."""
        why = str(error).splitlines()[0]
        return Refused(f"--where '{self.where}': {why} (columns: {', '.join(columns())})")

    @property
    def sql(self) -> str:
        """The condition on fleet_tape; empty for all tapes."""
        limits = ((">=", self.since), ("<", self.until))
        began = "coalesce(began, try_cast(date AS TIMESTAMP))"  # a tape that cannot be read has a day
        parts = [f"{began} {sign} TIMESTAMP '{at}'" for sign, at in limits if at is not None]
        if self.where is not None:
            parts.append(f"(\n{self.where}\n)")
        return " AND ".join(parts)

    @property
    def days(self) -> tuple[str | None, str | None]:
        """The first and the last day of the archive that may have such tapes."""
        first, last = (at and at.date().isoformat() for at in (self.since, self.until))
        return first, last

    @property
    def words(self) -> list[str]:
        """What the question leaves out."""
        said = [f"only tapes that began at {self.since} UTC or later"] if self.since else []
        said += [f"only tapes that began before {self.until} UTC"] if self.until else []
        return [*said, *([f"only tapes where {self.where}"] if self.where is not None else [])]


def columns() -> list[str]:
    """The columns that a condition may have."""
    (view,) = (view for view in query.views() if view.name == archived.TAPE)
    return [column.name for column in view.columns]


def answered(name: str) -> bool:
    """Whether aggregates answer a report."""
    return _GROUP + name in query.internal()


def of_archive(q: query.Query) -> bool:
    """Whether the index answers a report about an archive."""
    return q.name.startswith(_GROUP) or answered(q.name)


def names_answered() -> str:
    """The reports that aggregates answer, in words."""
    names = [name for name in query.reports() if answered(name)]
    return f"the index answers {', '.join(names)}"


def tables_of(sql: str) -> set[str]:
    """The tables of an archive that statements read."""
    words = query.words_of([sql])
    return {name for name in archived.tables() if archived.source(name) in words}


def reads_tapes(sql: str) -> bool:
    """Whether statements read tables of tapes, not only the index."""
    return not query.words_of([sql]).keys().isdisjoint({*TABLES, "machine", "node_distance"})


class Fleet:
    """The tapes of an archive that a question is about."""

    def __init__(self, store: Store, wanted: Wanted) -> None:
        """Raises Refused and StoreError."""
        wanted.check()
        self.store, self.wanted = store, wanted
        self.index = FleetIndex(store, wanted.days)
        self._stack = ExitStack()
        self._stack.callback(self.index.copies.close)
        self._segments: set[int] | None = None  # with its tapes; None until they are known
        self.totals = self._counted()

    def _counted(self) -> dict[str, Any]:
        """Numbers of all its tapes: tapes, unreadable, replays, hosts, hours, bytes, lost (null:
        unknown of a tape). Finds the segments that have them."""
        sql = """
            SELECT
                list(DISTINCT tape >> 32) AS segments,
                count(*) AS tapes,
                count(problem) AS unreadable,
                count(*) FILTER (replayed) AS replays,
                count(DISTINCT machine) FILTER (NOT replayed) AS hosts,
                coalesce(sum(hours) FILTER (NOT replayed), 0) AS hours,
                coalesce(sum(bytes), 0)::BIGINT AS bytes,
                sum(lost) FILTER (NOT replayed)::BIGINT AS lost,
                count(*) FILTER (lost IS NULL AND problem IS NULL) AS lost_unknown
            FROM fleet_tape
        """
        with self.database(["tape"]) as db:
            (found,) = self._asked(db, sql).objects()
        self._segments = {*(found.pop("segments") or ())}
        if found.pop("lost_unknown"):
            found["lost"] = None
        return found

    def database(
        self, tables: Collection[str], tapes: Sequence[Tape] = (), *, unsafe: bool = False
    ) -> Database:
        """A database with these tables of the archive, of its own tapes only, and with the tables of
        `tapes`. `unsafe`: as of Database."""
        found = self.index.tables(sorted(tables), self._segments)
        db = Database(tapes, unsafe=unsafe)
        db.read_archive(found, self.wanted.sql)
        return db

    def _asked(self, db: Database, sql: str) -> Answer:
        try:
            return db.ask(sql)
        except duckdb.Error as e:
            if self.wanted.where is None:
                raise
            raise self.wanted.refusal(e) from e

    def run(self, q: query.Query, values: dict[str, Any]) -> Answer:
        """The answer to a report about an archive."""
        with self.database(tables_of(q.sql)) as db:
            return db.run(q, values)

    # ---- aggregates

    def counts(self, name: str) -> tuple[Answer, list[str]]:
        """The answer to a report from aggregates, and lines about it."""
        q = query.internal()[_GROUP + name]
        measured = _measured(q)
        tables = {"tape", *tables_of(q.sql)}
        with self.database(tables) as db:
            found = self._asked(db, self._cohorts(q, measured))
            lines = self._about(db, q, measured)
        return found, lines

    def _cohorts(self, q: query.Query, measured: str) -> str:
        by = [f'"{name}"' for name in self.wanted.by]
        names = [column.name for column in q.columns]
        keys = names[1 : names.index(_COUNT)]
        sums = names[names.index(_COUNT) :]

        def listed(*parts: str) -> str:
            return ", ".join(filter(None, parts))

        def same(one: str, other: str, some: Sequence[str]) -> str:
            return " AND ".join(["true", *(f"{one}.{c} IS NOT DISTINCT FROM {other}.{c}" for c in some)])

        cohort, key = ", ".join(by), ", ".join(keys)
        each = ", ".join(f"sum(p.{name}) AS {name}" for name in sums)
        totals = ", ".join(f"{_sum(q, name)} AS {name}" for name in sums)
        cells = "SELECT 1 AS cell" if not keys else f"SELECT DISTINCT {key} FROM host"
        return f"""
            WITH chosen AS MATERIALIZED (
                SELECT {listed("tape, machine, hours", cohort)}
                FROM fleet_tape
                WHERE problem IS NULL AND NOT replayed AND hours > 0 AND {measured}
            ),
            part AS (
                {q.sql}
            ),
            member AS (
                SELECT {listed(cohort, "machine, sum(hours) AS hours, count(*) AS tapes")}
                FROM chosen
                GROUP BY ALL
            ),
            cohort AS (
                SELECT {listed(cohort, "count(*) AS hosts, sum(hours) AS hours, sum(tapes) AS tapes")}
                FROM member
                GROUP BY ALL
            ),
            host AS (
                SELECT {listed(*(f"c.{one}" for one in by), "c.machine", *(f"p.{k}" for k in keys), each)}
                FROM part AS p
                JOIN chosen AS c USING (tape)
                GROUP BY ALL
            ),
            cell AS ({cells}),
            rate AS (
                SELECT
                    {listed(*(f"m.{one}" for one in by), *(f"k.{one}" for one in keys))}{", " if by or keys else ""}
                    h.* EXCLUDE ({listed(*by, "machine", *keys)}),
                    coalesce(h.{_COUNT}, 0) / m.hours AS per_hour
                FROM member AS m
                CROSS JOIN cell AS k
                LEFT JOIN host AS h
                    ON h.machine = m.machine AND {same("h", "m", by)} AND {same("h", "k", keys)}
            )
            SELECT
                {listed(*(f"r.{one}" for one in (*by, *keys)), totals)},
                round(coalesce(sum(r.{_COUNT}), 0) / any_value(c.hours), 6) AS per_hour,
                count(*) FILTER (r.{_COUNT} > 0) AS hosts_with,
                round(quantile_cont(r.per_hour, 0.5), 6) AS p50,
                round(quantile_cont(r.per_hour, 0.9), 6) AS p90,
                round(quantile_cont(r.per_hour, 0.99), 6) AS p99,
                any_value(c.hosts) AS hosts,
                round(any_value(c.hours), 3) AS hours,
                any_value(c.tapes)::BIGINT AS tapes
            FROM rate AS r
            JOIN cohort AS c ON {same("r", "c", by)}
            GROUP BY {listed(*(f"r.{one}" for one in (*by, *keys))) or "()"}
            ORDER BY {listed(*(f"r.{one}" for one in by), f"{_COUNT} DESC", *(f"r.{one}" for one in keys))}
        """

    def _about(self, db: Database, q: query.Query, measured: str) -> list[str]:
        """What does not count."""
        sql = f"""
            SELECT
                count(*) FILTER (problem IS NULL AND NOT replayed AND NOT {measured}) AS other,
                count(*) FILTER (problem IS NULL AND NOT replayed AND {measured} AND hours = 0) AS short,
                count(DISTINCT fallback_unit) FILTER (problem IS NULL AND NOT replayed) AS units
            FROM fleet_tape
        """
        ((other, short, units),) = db.ask(sql).rows
        lines = [f"{amount(other, 'tape')} did not record such events and do not count"] if other else []
        if short:
            lines.append(f"{amount(short, 'tape')} cover no time and do not count")
        if units > 1 and q.name.startswith(f"{_GROUP}extfrag."):
            lines.append(
                "a steal is one event for each block on some of these kernels, and for each page on"
                " others: compare them with --by fallback_unit"
            )
        return lines

    def lines(self) -> list[str]:
        """What the answer is made from, and what it lacks."""
        totals = self.totals
        of = f"{amount(totals['tapes'], 'tape')} of {amount(totals['hosts'], 'host')}"
        hours = totals["hours"]
        found = [*self.wanted.words, f"{of}, {hours:,.{1 if hours >= 10 else 3}f} host-hours"]
        if totals["unreadable"]:
            found.append(f"{amount(totals['unreadable'], 'tape')} cannot be read: report fleet.coverage")
        if totals["replays"]:
            found.append(f"{amount(totals['replays'], 'replay')} in the archive: only recordings count")
        return [*found, *self.missing()]

    def missing(self) -> list[str]:
        """Whether the index has all tapes of the archive."""
        known = self.index.unlisted()
        step = f"pagetape compact {self.store.url}"
        if known is None:
            return [f"the index was not compared with the archive's list of tapes: {step}"]
        new, gone = known
        lines = []
        if new:
            are = "is" if new == 1 else "are"
            lines.append(f"{amount(new, 'tape')} {are} not in the index yet; {step}")
        if gone:
            are = "is" if gone == 1 else "are"
            lines.append(f"{amount(gone, 'tape')} of the index {are} no longer in the archive; {step}")
        return lines

    # ---- tapes

    def objects(self, most: int) -> list[Object]:
        """The readable tapes of the question, oldest first; raises Refused for more than `most`."""
        sql = f"""
            SELECT object, bytes, etag
            FROM fleet_tape
            WHERE problem IS NULL
            ORDER BY began, identity
            LIMIT {most + 1}
        """
        with self.database(["tape"]) as db:
            rows = self._asked(db, sql).rows
        if len(rows) > most:
            total = self.totals["tapes"]
            why = f"this report reads tapes, not the index: {total:,} tapes, the limit is {most:,}"
            raise Refused(f"{why}; choose fewer with --where and --since, or allow more: --most {total}")
        if not rows:
            raise StoreError(errno.ENOENT, f"{self.store.url}: no tape of the index meets this")
        return [Object(name, size, etag, datetime.min) for name, size, etag in rows]

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sum(q: query.Query, name: str) -> str:
    """The sum of a column over all tapes, in the column's type."""
    (of,) = (column.type for column in q.columns if column.name == name)
    if of == "DOUBLE":
        return f"round(sum(r.{name}), 3)"
    return f"coalesce(sum(r.{name}), 0)::{of}" if name == _COUNT else f"sum(r.{name})::{of}"


def _measured(q: query.Query) -> str:
    """The condition that a tape would have such events if something had happened."""
    points = set()
    for need in q.needs:
        for one in need:
            table, _, kind = one.partition(".")
            kinds = [k for k in TABLES[table].kinds if kind in ("", k.name)]
            points |= {point for k in kinds for point in k.tracepoints}
    if not points:
        return "true"
    words = ", ".join(map(quoted, sorted(points)))
    return f"(recorded IS NULL OR list_has_any(string_split(recorded, ' '), [{words}]))"
