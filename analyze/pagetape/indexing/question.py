# SPDX-License-Identifier: Apache-2.0
"""One question over an archive: which of its tapes, and an answer from their aggregates."""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, time
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from pagetape.answer import Answer, amount
from pagetape.archive.store import Object, Store, StoreError
from pagetape.asking import archived, query
from pagetape.asking.database import Database, quoted
from pagetape.indexing import host_rows
from pagetape.indexing.cohorts import HOSTS, MEMBERS, Cohorts, cohort_columns
from pagetape.indexing.fleet_index import FleetIndex, Single
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

_READ = "NOT unreadable AND NOT replayed"  # the tapes whose rows and hours count


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
            if name == "hours":
                raise Refused("--by hours: the answer has a column of that name")
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
        # A tape that cannot be read has a day.
        began = "coalesce(began, try_cast(date AS TIMESTAMP))"
        parts = [f"{began} {sign} TIMESTAMP '{at}'" for sign, at in limits if at is not None]
        if self.where is not None:
            parts.append(f"(\n{self.where}\n)")
        return " AND ".join(parts)

    @property
    def days(self) -> tuple[str | None, str | None]:
        """The first and the last day of the archive that may have such tapes."""
        first = None if self.since is None else str(self.since.date())
        return first, None if self.until is None else str(self.until.date())

    @property
    def cut_days(self) -> set[str]:
        """The days of which it may have some tapes only."""
        limits = (at for at in (self.since, self.until) if at is not None)
        return {str(at.date()) for at in limits if at.time() != time.min}

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


def tables_of(sql: str) -> set[str]:
    """The tables of an archive that statements read."""
    words = query.words_of([sql])
    return {name for name in archived.tables() if archived.source(name) in words}


def reads_tapes(sql: str) -> bool:
    """Whether statements read tables of tapes, not only the index."""
    try:
        with duckdb.connect() as db:
            found = (db.get_table_names(one.query) for one in duckdb.extract_statements(sql))
            named = {name.lower() for names in found for name in names}
    except duckdb.Error:
        return False  # the statement will say it
    views = {view.name for view in query.views() if not view.name.startswith(archived.PREFIX)}
    return not named.isdisjoint({*TABLES, *views, "machine", "node_distance"})


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
        self._groups = self._grouped()
        self._segments = {*self._groups["segment"].to_pylist()}
        self.totals = self._counted()

    def _grouped(self) -> pa.Table:
        """The tapes in groups: what a question needs of them, in one scan of the index."""
        sql = f"""
            SELECT
                {cohort_columns(self.wanted.by)}{", " if self.wanted.by else ""}
                tape >> 32 AS segment,
                machine,
                recorded,
                fallback_unit,
                problem IS NOT NULL AS unreadable,
                replayed IS true AS replayed,
                hours > 0 AS has_hours,
                sum(tapes) AS tapes,
                coalesce(sum(hours), 0) AS hours,
                sum(bytes)::BIGINT AS bytes,
                sum(lost)::BIGINT AS lost,
                coalesce(sum(tapes) FILTER (lost IS NULL), 0) AS lost_unknown
            FROM fleet_tape
            GROUP BY ALL
        """
        try:
            with self.database({"tape"}, single=self.single()) as db:
                return db.evaluate(db.relation(sql).to_arrow_table)
        except duckdb.Error as e:
            if self.wanted.where is None:
                raise
            raise self.wanted.refusal(e) from e

    def _of_groups(self, sql: str) -> dict[str, Any]:
        """The one row of a statement on the groups."""
        with Database([]) as db:
            db.read_archive({MEMBERS: ds.dataset(self._groups)})
            (found,) = db.ask(sql).objects()
        return found

    def _counted(self) -> dict[str, Any]:
        """Numbers of all its tapes: tapes, unreadable, replays, hosts, hours, bytes, lost (null:
        unknown of a tape)."""
        return self._of_groups(f"""
            SELECT
                coalesce(sum(tapes), 0)::BIGINT AS tapes,
                coalesce(sum(tapes) FILTER (unreadable), 0)::BIGINT AS unreadable,
                coalesce(sum(tapes) FILTER (replayed), 0)::BIGINT AS replays,
                count(DISTINCT machine) FILTER (NOT replayed) AS hosts,
                coalesce(sum(hours) FILTER (NOT replayed), 0) AS hours,
                coalesce(sum(bytes), 0)::BIGINT AS bytes,
                if(
                    sum(lost_unknown) FILTER (NOT unreadable) > 0,
                    NULL,
                    coalesce(sum(lost) FILTER (NOT replayed), 0)
                )::BIGINT AS lost
            FROM {MEMBERS}
        """)

    def single(self, sql: str = "", at: datetime | None = None) -> Single:
        """The days of which a statement needs the tapes one by one, also if it divides them at a
        moment; None: all days."""
        chosen = " ".join([self.wanted.where or "", *self.wanted.by])
        if not host_rows.can_choose(chosen) or not host_rows.can_answer(sql, tables_of(sql)):
            return None
        return self.wanted.cut_days | ({str(at.date())} if at and at.time() != time.min else set())

    def database(
        self,
        tables: Collection[str],
        tapes: Sequence[Tape] = (),
        *,
        single: Single = None,
        unsafe: bool = False,
    ) -> Database:
        """A database with these tables of the archive, of its own tapes only, and with the tables
        of `tapes`. `unsafe`: as of Database."""
        found = self.index.tables(sorted(tables), self._segments, single)
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

    def run(
        self,
        q: query.Query,
        values: dict[str, Any],
        more: Mapping[str, ds.Dataset] = MappingProxyType({}),
    ) -> Answer:
        """The answer to a report about an archive; `more`: tables besides its own, by name."""
        with self.database(tables_of(q.sql), single=self.single(q.sql)) as db:
            db.read_archive(more, self.wanted.sql)
            return db.run(q, values)

    # ---- aggregates

    def counts(self, name: str) -> tuple[Answer, list[str]]:
        """The answer to a report from aggregates, and lines about it.

        Some segments at a time are summed up by host: a month of many hosts takes little memory,
        and the tapes of a join fit into the CPU's cache.
        """
        q = query.internal()[query.FLEET + name]
        measured = self._measured(q)
        cohorts = Cohorts(q, self.wanted.by, measured)
        single = self.single(q.sql)
        tables = self.index.tables({"tape", *tables_of(q.sql)}, (), single)
        sums = []
        with Database([]) as db:
            db.read_archive(tables, self.wanted.sql)
            for some in self.index.parts(self._segments, single):
                for rows in tables.values():
                    rows.choose(some)
                sums.append(db.evaluate(db.relation(cohorts.sums()).to_arrow_table))
        with Database([]) as db:
            parts = {MEMBERS: self._groups, HOSTS: pa.concat_tables(sums)}
            db.read_archive({name: ds.dataset(rows) for name, rows in parts.items()})
            return db.ask(cohorts.answer()), self._about(q, measured)

    def _measured(self, q: query.Query) -> str:
        """The condition that a tape would have such events if something had happened."""
        points = set()
        for one in (one for need in q.needs for one in need):
            table, _, kind = one.partition(".")
            kinds = [k for k in TABLES[table].kinds if kind in ("", k.name)]
            points |= {point for k in kinds for point in k.tracepoints}
        sets = [one for one in self._groups["recorded"].unique().to_pylist() if one is not None]
        some = [one for one in sets if not points or not points.isdisjoint(one.split())]
        if len(some) == len(sets):
            return _READ
        known = f" OR recorded IN ({', '.join(map(quoted, some))})" if some else ""
        return f"{_READ} AND (recorded IS NULL{known})"

    def _about(self, q: query.Query, measured: str) -> list[str]:
        """What does not count."""
        other, short, units = self._of_groups(f"""
            SELECT
                coalesce(sum(tapes) FILTER ({_READ} AND NOT ({measured})), 0)::BIGINT AS other,
                coalesce(sum(tapes) FILTER ({measured} AND has_hours IS NOT true), 0)::BIGINT
                    AS short,
                count(DISTINCT fallback_unit) FILTER ({measured}) AS units
            FROM {MEMBERS}
        """).values()
        lines = []
        if other:
            lines.append(f"not counted: {amount(other, 'tape')} that did not record such events")
        if short:
            lines.append(f"not counted: {amount(short, 'tape')} without a length")
        if units > 1 and q.name.startswith(f"{query.FLEET}extfrag.") and not self.wanted.by:
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
            bad = amount(totals["unreadable"], "tape")
            found.append(f"{bad} cannot be read: report fleet.coverage")
        if totals["replays"]:
            others = amount(totals["replays"], "replay")
            found.append(f"{others} in the archive: only recordings count")
        return [*found, *self.missing()]

    def missing(self) -> list[str]:
        """Whether the index has all tapes of the archive."""
        known = self.index.unlisted()
        step = f"pagetape compact {self.store.url}"
        if known is None:
            return [f"the index was not compared with the archive's list of tapes: {step}"]
        lines = []
        if not (self.index.tapes or known[0]):
            lines.append(f"{self.store.url}: no tapes there; pagetape ship DIR {self.store.url}")
        what = ("not in the index yet", "in the index and no longer in the archive")
        for nr, where in zip(known, what, strict=True):
            if nr:
                lines.append(f"{amount(nr, 'tape')} {'is' if nr == 1 else 'are'} {where}; {step}")
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
            why = (
                f"this question reads tapes, not the index: {total:,} tapes, the limit is {most:,}"
            )
            more = f"choose fewer with --where and --since, or allow more: --most {total}"
            raise Refused(f"{why}; {more}")
        if not rows:
            why = "no tape of the index meets this"
            raise StoreError(errno.ENOENT, f"{self.store.url}: {why}")
        return [Object(name, size, etag, datetime.min) for name, size, etag in rows]

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
