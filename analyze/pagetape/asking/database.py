# SPDX-License-Identifier: Apache-2.0
"""Tapes as views of DuckDB.

Every table of the schema is a view; it is empty if no tape has the table. Each view has one more
column, `tape`: the name of the row's tape. Booleans are BOOLEAN, enums VARCHAR. Further names
are

    machine                          one row of facts per tape
    archived_tape, archived_*        index and aggregates of an archive, behind the views fleet_*
    node_distance                    the distance of each node from each CPU
    the views of queries/views/
    gfp_names(), context_names()     macros: the bits of a mask in words; gfp_mask(): the reverse
    the macros of queries/macros/    the kernel's indices of fragmentation, and other rules

A query reads only the columns that it names. Every batch is checked before DuckDB sees it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from pagetape.answer import Answer
from pagetape.asking import archived, query, query_memory
from pagetape.asking.event_groups import Counted
from pagetape.asking.machine_rows import DISTANCE, MACHINE, distances, machine
from pagetape.asking.only import Only
from pagetape.asking.rare_events import FewEvents
from pagetape.asking.sequence_dataset import KeptDataset, SequenceDataset, SharedPass
from pagetape.asking.sequences import SEQUENCES
from pagetape.asking.span import NEVER, Span
from pagetape.asking.spill_dir import spill_dir
from pagetape.asking.tape_dataset import RowsDataset, TapeDataset
from pagetape.schemas import TABLES, Column, Table
from pagetape.schemas._grouped import keep_freed_memory
from pagetape.schemas.memory_tape import MemoryTape
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import origin

_T = TypeVar("_T")
_ZONED = "WITH TIME ZONE"

# Only the tapes, and the directory for spilled rows, which DuckDB allows itself.
_LOCKED = """
SET autoinstall_known_extensions = false;
SET autoload_known_extensions = false;
SET python_enable_replacements = false;
SET enable_external_access = false;
SET lock_configuration = true;
"""

# Words of statements that show, or may show, which views there are.
_LISTS = re.compile(
    r"\b(show|describe|summarize|pragma|use|query|query_table|copy|export|information_schema"
    r"|(duckdb|pg|sqlite)_\w+)\b",
    re.IGNORECASE,
)


_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def names_of(paths: Sequence[Path]) -> list[str]:
    """A short name for each tape: its file name, or its whole path if two file names are equal.

    Raises TapeError for a path that is there twice: the rows of its tapes would have one name.
    """
    for path in paths:
        if paths.count(path) > 1:
            raise TapeError(errno.EINVAL, f"{path}: is named twice")
    _check_places(paths)
    short = [path.name.removesuffix(".tape") for path in paths]
    named = zip(short, map(str, paths), strict=True)
    found = [name if short.count(name) == 1 else path for name, path in named]
    return [origin.as_text(name) for name in found]


def _check_places(paths: Sequence[Path]) -> None:
    """Raise TapeError if two paths lead to one tape."""
    first: dict[str, Path] = {}
    for path in paths:
        one = first.setdefault(os.path.realpath(path), path)
        if one is not path:
            raise TapeError(errno.EINVAL, f"{path}: is the same tape as {one}")


def labels(tapes: Sequence[Tape]) -> list[str]:
    """names_of() the tapes."""
    return names_of([tape.path for tape in tapes])


def quoted(text: str) -> str:
    """`text` as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _select(table: Table, source: str, label: str) -> str:
    columns = ", ".join(
        f'"{c.name}"::BOOLEAN AS "{c.name}"' if c.type == "bool" else f'"{c.name}"'
        for c in table.columns
    )
    return f"SELECT {quoted(label)} AS tape, {columns} FROM {source}"


def _typed(column: Column) -> str:
    """The SQL of an output column; the labels of an enum get their numbers on a tape."""
    name = f'"{column.name}"'
    if not column.labels:
        return name
    return f"{name}::ENUM({', '.join(map(quoted, column.labels))}) AS {name}"


def _macros() -> dict[str, str]:
    """The statements that create the macros, by name."""
    found = {macro.name: macro.sql for macro in query.macros()}
    for bits, column in (("gfp", "gfp_flags"), ("context", "flags")):
        known = list(TABLES["event"].column(column).bits)
        found[f"{bits}_names"] = (
            f"CREATE TEMP MACRO {bits}_names(mask) AS array_to_string(list_filter({known!r}, "
            f"lambda name, i: (mask >> (i - 1)) & 1 = 1), '|')"
        )
    gfp = list(TABLES["event"].column("gfp_flags").bits)
    found["gfp_mask"] = (
        "CREATE TEMP MACRO gfp_mask(names) AS list_sum(list_transform(names, "
        f"lambda name: 1::BIGINT << (list_position({gfp!r}, name) - 1)::INTEGER))::UINTEGER"
    )
    return found


def _end(db: duckdb.DuckDBPyConnection, spill_dir: contextlib.ExitStack) -> None:
    """Close a Database, or what is left of one that nobody closed."""
    db.close()
    spill_dir.close()


class Database:
    """A DuckDB connection over some tapes. It creates a view or macro when a statement names it."""

    _kept: Collection[str] = ()  # views whose rows are found once
    _archive_where = ""  # condition on the tapes of an archive

    def __init__(
        self,
        tapes: Sequence[Tape],
        threads: int | None = None,
        *,
        span: Span | None = None,
        only: Mapping[tuple[int, str], list[Only]] | None = None,
        unsafe: bool = False,
    ) -> None:
        """`unsafe`: statements may read and write files, load extensions and read Python variables;
        otherwise they see the tapes and nothing else. `threads`: number of threads of a query; None
        for one per CPU. `span`: only events of that time. `only`: conditions on rows, by the place
        of the tape and the table."""
        keep_freed_memory()
        self._span = span
        self._only = dict(only or {})
        self._db = duckdb.connect(config={} if threads is None else {"threads": threads})
        self._db.execute("SET enable_progress_bar = false")
        # Never nested loops for ASOF joins: DuckDB guesses few rows where there are thousands.
        self._db.execute("SET asof_loop_join_threshold = 0")
        # The right side of a join is the smaller one, as the queries have it: DuckDB takes all
        # tables of a tape for equally long, and would hold the events in memory.
        self._db.execute("SET disabled_optimizers = 'build_side_probe_side'")
        self._spill_dir = contextlib.ExitStack()
        directory, limit = self._spill_dir.enter_context(spill_dir())
        self._db.execute(f"SET temp_directory = {quoted(str(directory))}")
        self._db.execute(f"SET max_temp_directory_size = '{limit}B'")
        self._end = weakref.finalize(self, _end, self._db, self._spill_dir)
        self._limit_memory()
        if not unsafe:
            self._db.execute(_LOCKED)
        names = labels(tapes)
        self._tapes = list(zip(tapes, names, strict=True))
        self._scanned: list[TapeDataset | SequenceDataset] = []
        self._shared = [SharedPass() for _ in tapes]
        self._unmade: dict[str, Table | query.Query | type[SequenceDataset] | ds.Dataset | str]
        self._unmade = {**TABLES, **_macros(), **SEQUENCES, **archived.nothing()}
        self._unmade |= {view.name: view for view in query.views()}
        self._prepared: set[str] = set()
        self._machines = RowsDataset(MACHINE, self._machine_rows())
        self._distances = RowsDataset(DISTANCE, self._distance_rows())
        about = {"machine": self._machines, "node_distance": self._distances}
        for name, rows in about.items():
            self._db.register(f"tape_{name}", rows)
            self._view(name, f"SELECT * FROM tape_{name}")

    @property
    def tapes(self) -> list[Tape]:
        """The tapes, in their order."""
        return [tape for tape, _ in self._tapes]

    def read_archive(self, tables: Mapping[str, ds.Dataset], where: str = "") -> None:
        """Give the views fleet_* the tables of an archive, by archived.source(), before the first
        query. `where`: a condition on fleet_tape. Only tapes that meet it are in any of them."""
        self._unmade |= tables
        self._archive_where = where

    @property
    def _where(self) -> str:
        return ", ".join(str(tape.path) for tape in self.tapes) or "the index of the archive"

    def _machine_rows(self) -> list[dict[str, Any]]:
        return [self._within(machine(*tape, place)) for place, tape in enumerate(self._tapes)]

    def _distance_rows(self) -> list[dict[str, Any]]:
        return [row for tape in self._tapes for row in distances(*tape)]

    def _within(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row of `machine` with the limits of the span instead of the tape's."""
        if self._span is None or row["start_ts"] is None:
            return row
        first, last = self._span.limits(row["start_ts"], row["end_ts"])
        first = max(first, row["start_ts"])
        return row | {"start_ts": first, "end_ts": max(min(last - 1, row["end_ts"]), first)}

    def _limit_memory(self) -> None:
        """Lower DuckDB's own limit, most of the machine's memory. Larger results go to the disk."""
        limit = query_memory.of_duckdb()
        ((own,),) = self._db.execute("SELECT current_setting('memory_limit')").fetchall()
        number, unit = own.split()
        if limit < float(number) * _UNITS[unit]:
            self._db.execute(f"SET memory_limit = '{limit}B'")

    def _make_for(self, question: query.Query) -> None:
        self._make(re.findall(r"\w+", question.sql))

    def _make(self, names: Iterable[str]) -> None:
        """Create the missing views and macros of these names, after those that each view names."""
        for name in names:
            missing = self._unmade.pop(name, None)
            if isinstance(missing, Table):
                self._view(name, " UNION ALL ".join(self._selects(missing)))
            elif isinstance(missing, type):
                self._view(name, " UNION ALL ".join(self._passes(name, missing)))
            elif isinstance(missing, ds.Dataset):
                self._db.register(name, missing)
            elif isinstance(missing, str):
                self._make(re.findall(r"\w+", missing))  # macros that it names
                self._db.execute(missing)
            elif missing is not None:
                self._make_for(missing)
                if name in self._kept:
                    sql = f"CREATE TEMP TABLE {name} AS {missing.sql}"
                    self.evaluate(partial(self._db.execute, sql))
                else:
                    self._view(name, self._chosen_tapes(name, missing.sql))

    def _chosen_tapes(self, name: str, sql: str) -> str:
        """The SQL of a view; of an archive, the rows of the tapes of a question."""
        if not self._archive_where or not name.startswith(archived.PREFIX):
            return sql
        if name == archived.TAPE:
            return f"SELECT * FROM (\n{sql}\n) AS {name} WHERE {self._archive_where}"
        self._make([archived.TAPE])
        return f"SELECT * FROM (\n{sql}\n) WHERE tape IN (SELECT tape FROM {archived.TAPE})"

    def _selects(self, table: Table) -> Iterator[str]:
        if not self._tapes:
            self._db.register(f"no_{table.name}", RowsDataset(table.arrow, []))
            yield _select(table, f"no_{table.name}", "")
        for i, (tape, _) in enumerate(self._tapes):
            self._scanned.append(self._dataset(tape, table))
            yield self._selected(table, i, f"tape{i}_{table.name}")

    def _dataset(self, tape: Tape, table: Table) -> TapeDataset:
        return TapeDataset(tape, table.name)

    def _selected(self, table: Table, place: int, source: str) -> str:
        """The rows of the last dataset, which has rows of that table, as far as they count."""
        tape, name = self._tapes[place]
        self._db.register(source, self._scanned[-1])
        only = self._only.get((place, table.name), [])
        conditions = [self._when(table, tape), *(condition.sql for condition in only)]
        where = " AND ".join(filter(None, conditions))
        return _select(table, source, name) + (f" WHERE {where}" if where else "")

    def _passes(self, name: str, kind: type[SequenceDataset]) -> Iterator[str]:
        if not self._tapes:
            self._db.register(f"no_{name}", RowsDataset(kind.schema, []))
            yield f"SELECT '' AS tape, * FROM no_{name}"
        for i, (tape, label) in enumerate(self._tapes):
            source, span = f"tape{i}_{name}", (0, NEVER)
            if self._span is not None and tape.clock is not None:
                span = self._span.limits(*tape.clock)
            found = kind(tape, span)
            if isinstance(found, Counted):
                found.only = self._only.get((i, "event"), [])
            if isinstance(found, KeptDataset):
                self._shared[i].join(found)
            self._scanned.append(found)
            if issubclass(kind, FewEvents):
                yield self._selected(TABLES["event"], i, source)
            else:
                self._db.register(source, self._scanned[-1])
                yield f"SELECT {quoted(label)} AS tape, * FROM {source}"

    def _when(self, table: Table, tape: Tape) -> str:
        """The condition on the time of a table's rows: snapshots are the state, whenever they were
        taken."""
        columns = {column.name for column in table.columns}
        if self._span is None or tape.clock is None or "snapshot" in columns:
            return ""
        first, last = self._span.limits(*tape.clock)
        if "from_ts" in columns:
            return f"coalesce(to_ts, {first}) >= {first} AND coalesce(from_ts, {first}) < {last}"
        return f"ts >= {first} AND ts < {last}" if "ts" in columns else ""

    def _view(self, name: str, sql: str) -> None:
        self._db.execute(f"CREATE TEMP VIEW {name} AS {sql}")

    def run(self, question: query.Query, values: Mapping[str, Any] | None = None) -> Answer:
        """The answer to a query; a parameter that `values` lacks has its default.

        Raises ParameterError for a bad value, TapeError for an unreadable tape.
        """
        chosen = self._chosen(question, values)
        with self._out_of_range(question):
            return self._interruptible(lambda: self._answer(question.sql, chosen))

    def run_on(self, tape: Tape, question: query.Query) -> Answer:
        """The answer to a query without parameters about `tape`, in place of the only tape.

        The query is planned once for all tapes, which takes most of the time if they are small.
        """
        ((_, label),) = self._tapes
        assert self._span is None and not self._only
        self._tapes = [(tape, label)]
        self._machines.replace(self._machine_rows())
        self._distances.replace(self._distance_rows())
        for scanned in self._scanned:
            scanned.tape = tape
        plan = question.name.replace(".", "_")
        with self._out_of_range(question):
            if plan not in self._prepared:
                self._make_for(question)
                self._interruptible(lambda: self._db.execute(f"PREPARE {plan} AS {question.sql}"))
                self._prepared.add(plan)
            return self._interruptible(lambda: self._answer(f"EXECUTE {plan}", {}))

    def forget(self) -> None:
        """Let go of the tape of run_on(), whose rows may be in memory."""
        ((tape, label),) = self._tapes
        self._tapes = [(MemoryTape(tape.path, {}), label)]
        for scanned in self._scanned:
            scanned.tape = self._tapes[0][0]

    def _chosen(self, question: query.Query, values: Mapping[str, Any] | None) -> dict[str, Any]:
        """The parameters of a query, checked; its views are made."""
        chosen = {p.name: p.default for p in question.parameters} | dict(values or {})
        for parameter in question.parameters:
            parameter.check(chosen[parameter.name])
        self._make_for(question)
        return chosen

    def relation(
        self, question: query.Query | str, values: Mapping[str, Any] | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The answer to a query, or to one statement, as a relation: evaluate() reads it."""
        if isinstance(question, str):
            chosen = dict(values or {})
            return self.evaluate(lambda: self._statement(question, chosen))
        chosen = self._chosen(question, values)
        return self.evaluate(lambda: self._db.sql(question.sql, params=chosen or None))

    def evaluate(self, read: Callable[[], _T]) -> _T:
        """The result of `read`, which reads a relation; raises TapeError for an unreadable tape."""

        def checked() -> _T:
            with self._tape_errors():
                return read()

        return self._interruptible(checked)

    def ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Answer:
        """The answer to one statement; raises duckdb.Error if `sql` is not one statement.

        The statement must name all `parameters`.
        """
        return self._interruptible(lambda: self._ask(sql, parameters))

    def rows(self, table: Table, question: query.Query) -> pa.Table:
        """The answer to a query without parameters, as Arrow rows of `table`."""
        columns = ", ".join(_typed(column) for column in table.columns)
        sql = f"SELECT {columns} FROM ({question.sql})"
        self._make_for(question)
        with self._out_of_range(question):
            return self._interruptible(lambda: self._rows(sql, table))

    def _interruptible(self, ask: Callable[[], _T]) -> _T:
        """Run `ask`, not on the main thread: DuckDB reacts late to Ctrl-C there."""
        if current_thread() is not main_thread():
            return ask()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask)
            try:
                return answer.result()
            except BaseException:  # Ctrl-C or SIGTERM
                self._db.interrupt()
                raise

    @contextlib.contextmanager
    def _out_of_range(self, question: query.Query) -> Iterator[None]:
        """Turn DuckDB's errors of arithmetic in our own query into a TapeError: the values are to
        blame, as no kernel writes them."""
        try:
            yield
        except duckdb.DataError as e:
            why = str(e).splitlines()[0]
            raise TapeError(
                errno.EBADMSG, f"{self._where}: {question.name}: impossible values: {why}"
            ) from e

    @contextlib.contextmanager
    def _tape_errors(self) -> Iterator[None]:
        """Turn DuckDB's errors into TapeError or ParameterError."""
        for scanned in self._scanned:
            scanned.error = None
        try:
            yield
        except duckdb.OutOfMemoryException as e:
            why = str(e).splitlines()[0]
            raise TapeError(
                errno.ENOMEM,
                f"the query needs more memory or disk space than is free: {why} (--memory SIZE of"
                " report, sql, diagnose, html and compare allows more memory, TMPDIR another disk)",
            ) from e
        except (pa.ArrowException, duckdb.IOException, duckdb.InvalidInputException) as e:
            for scanned in self._scanned:
                if scanned.error:
                    raise scanned.error from e
            if (refused := str(e).partition(query.REFUSAL))[1]:
                raise query.ParameterError(refused[2]) from e
            why = str(e).partition("\n")[0]
            raise TapeError(errno.EBADMSG, f"{self._where}: cannot be queried: {why}") from e

    def _ask(self, sql: str, parameters: Mapping[str, Any] | None) -> Answer:
        with self._tape_errors():
            relation = self._statement(sql, parameters)
            if relation is None:
                return Answer([], [], [])
            names, types = relation.columns, [str(t) for t in relation.types]
            if any(_ZONED in one for one in types):  # values need pytz, texts do not
                texts = ("::VARCHAR" if _ZONED in one else "" for one in types)
                relation = relation.project(", ".join(f"#{n}{t}" for n, t in enumerate(texts, 1)))
            return Answer(names, types, relation.fetchall())

    def _statement(self, sql: str, parameters: Mapping[str, Any] | None) -> duckdb.DuckDBPyRelation:
        """A statement of a user. One that lists views needs all of them, which takes 0.2 s; so does
        DuckDB's error about an unknown name, with the names that are like it."""
        chosen = dict(parameters) if parameters else None
        self._make([*self._unmade] if _LISTS.search(sql) else re.findall(r"\w+", sql.lower()))
        try:
            return self._db.sql(sql, params=chosen)
        except duckdb.CatalogException:
            self._make([*self._unmade])
            return self._db.sql(sql, params=chosen)

    def _answer(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        """The answer to one of our own queries: a relation would be planned twice."""
        with self._tape_errors():
            found = self._db.execute(sql, dict(parameters) or None)
            columns = found.description
            names, types = [column[0] for column in columns], [str(column[1]) for column in columns]
            return Answer(names, types, found.fetchall())

    def _rows(self, sql: str, table: Table) -> pa.Table:
        with self._tape_errors():
            answer = self._db.sql(sql).to_arrow_table().cast(table.arrow)
        return answer.combine_chunks()  # the engine takes no slices

    def close(self) -> None:
        self._end()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
