# SPDX-License-Identifier: Apache-2.0
"""Rows that one pass over the events of a tape finds, as DuckDB reads them.

Datasets of few rows share a pass: the events are decoded once for all that a command needs.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeAlias
from weakref import ref

import pyarrow as pa

from pagetape.asking import query_memory
from pagetape.asking.tape_dataset import Dataset
from pagetape.schemas import TABLES
from pagetape.schemas.form import GroupedRows
from pagetape.schemas.table_file import Glance
from pagetape.schemas.tape import Tape, TapeError

Buffers: TypeAlias = dict[str, tuple[pa.Buffer | None, pa.Buffer]]
Chooser: TypeAlias = Callable[[list[Glance]], list[bool]]

_EVENT = TABLES["event"]
_KEPT = 1 << 20  # rows of a KeptDataset
_PARTS = 64  # parts of them that are joined: see _Keeper
_EMPTY = 1 << 16  # rows of a batch after the last event


def bitmap(rows: int) -> pa.Buffer:
    return pa.py_buffer(bytearray(-(-rows // 64) * 8))


def values(rows: int, width: int) -> pa.Buffer:
    return pa.allocate_buffer(max(rows, 1) * width)


def copied(array: pa.Array) -> pa.Array:
    """The values in memory of their own size, without an offset."""
    return pa.concat_arrays([array, array[:0]])


def buffers_of(batch: pa.RecordBatch) -> Buffers:
    """The buffers of a batch of events."""
    found = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if isinstance(array, pa.DictionaryArray):
            array = array.indices
        if array.offset:
            array = copied(array)
        valid, values = array.buffers()
        found[name] = (valid if array.null_count else None, values)
    return found


def _stored(of: pa.DataType) -> pa.DataType:
    """The type of a column's values: of labels, that of their indices."""
    return of.index_type if pa.types.is_dictionary(of) else of


class Events:
    """A batch of events with rows, as the passes read it."""

    def __init__(self, groups: GroupedRows) -> None:
        self.groups, self.rows = groups, groups.rows
        self.nr, self.nr_groups = len(groups), groups.keys.num_rows
        self.buffers = buffers_of(groups.rows) | buffers_of(groups.keys)


class Pass(Protocol):
    """One pass over the events of a tape. It raises MemoryError beyond its bytes."""

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        """The rows that the next batch of events shows."""

    def end(self) -> Iterator[pa.RecordBatch]:
        """The rows after the last batch."""


class SequenceDataset(Dataset):
    """The rows of one pass over the events of `tape`, which another tape may replace."""

    names: ClassVar[tuple[str, ...]]  # columns of `event` that the pass reads
    schema: pa.Schema
    valid: ClassVar[dict[str, str]] = {}  # the bitmaps of columns that may be null
    labels: ClassVar[dict[str, tuple[str, ...]]] = {}  # of columns that `event` does not have
    BEFORE_END: ClassVar[bool] = True  # the pass finds rows before its end

    def __init__(self, tape: Tape, span: tuple[int, int]) -> None:
        """`span`: the first time of the events that count, and the first after them."""
        self.tape = tape
        self.error: TapeError | None = None  # of the last scan; DuckDB keeps only its text
        kinds = _EVENT.column("kind").labels
        self._kinds: dict[str, Any] = {label: i for i, label in enumerate(kinds)}
        self._kinds["span"] = self._span = span

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._found(columns)
        except MemoryError:
            why = "the pages of the tape need more memory than the query may take: --memory SIZE"
            self.error = TapeError(errno.ENOMEM, f"{self.tape.path}: {why} allows more")
            raise self.error from None
        except TapeError as e:
            self.error = e
            raise

    def _found(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a pass of its own, with these columns."""
        made = self._begun(columns, query_memory.of_duckdb())
        for rows in filter(len, self._events(columns)):
            yield from made.read(Events(rows))
        yield from made.end()

    def _events(self, columns: list[str]) -> Iterator[GroupedRows]:  # noqa: ARG002
        """The batches of `event` for a pass that finds rows with these columns."""
        return self.tape.grouped("event", self.names)

    def _begun(self, columns: list[str], most: int) -> Pass:
        """A pass that finds rows with these columns, in so many bytes."""
        return _Filled(self, self.made(most), columns)

    def made(self, most: int) -> Any:
        """The pass of _sequence, at its beginning; `most`: bytes."""
        raise NotImplementedError

    def room(self, rows: int) -> dict[str, pa.Buffer]:
        """Memory for so many rows: the columns of `schema`, and the bitmaps."""
        room = {
            field.name: bitmap(rows)
            if pa.types.is_boolean(field.type)
            else values(rows, _stored(field.type).byte_width)
            for field in self.schema
        }
        return room | {name: bitmap(rows) for name in self.valid.values()}

    def batch(self, nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
        """The first rows in that memory, with `schema`."""
        arrays = []
        for field in self.schema:
            name, stored = field.name, _stored(field.type)
            buffers = [out[self.valid[name]] if name in self.valid else None, out[name]]
            array = pa.Array.from_buffers(stored, nr, buffers)
            if stored is not field.type:
                labels = self.labels[name] if name in self.labels else _EVENT.column(name).labels
                array = pa.DictionaryArray.from_arrays(array, pa.array(labels, pa.utf8()))
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _Filled:
    """A pass of _sequence that fills the memory of its dataset."""

    def __init__(self, of: SequenceDataset, made: Any, columns: list[str]) -> None:
        self._of, self._made, self._columns = of, made, columns
        self._no_room = of.room(0)

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        out = self._of.room(events.nr) if self._of.BEFORE_END else self._no_room
        nr = self._made.read(events.nr, events.nr_groups, events.buffers, out)
        if nr:
            yield self._of.batch(nr, out).select(self._columns)

    def end(self) -> Iterator[pa.RecordBatch]:
        while True:
            out = self._of.room(_EMPTY)
            if not (nr := self._made.end(_EMPTY, out)):
                return
            yield self._of.batch(nr, out).select(self._columns)


class KeptDataset(SequenceDataset):
    """Rows of a pass that are kept for the next scan, unless they are many."""

    shared: SharedPass  # that it joined
    sole: bool = False  # one scan reads the rows: only its columns are kept

    def __init__(self, tape: Tape, span: tuple[int, int]) -> None:
        super().__init__(tape, span)
        self._kept: tuple[ref[Tape], pa.Table | None] | None = None  # None: a pass of its own
        self._asked: set[str] = set()  # columns

    @property
    def is_known(self) -> bool:
        """A shared pass over the tape has been made."""
        if self._kept is None or self._kept[0]() is not self.tape:
            return False
        rows = self._kept[1]
        return rows is None or {*self.kept_names} <= {*rows.column_names}

    @property
    def kept_names(self) -> list[str]:
        """The columns of the kept rows."""
        return [name for name in self.schema.names if not self.sole or name in self._asked]

    def reads(self, columns: list[str]) -> Collection[str]:  # noqa: ARG002
        """The columns of `event` that a pass needs for these columns of its rows."""
        return self.names

    def chooser(self) -> Chooser | None:
        """Says which batches of `event` a pass needs; None: all. `has_null` is of `pfn`."""
        return None

    def keep(self, rows: pa.Table | None) -> None:
        """Keep the rows of a shared pass; None if it could not have them."""
        self._kept = ref(self.tape), rows

    def _found(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self._asked.update(columns or self.schema.names[:1])
        self.shared.make(self)
        assert self._kept is not None
        rows = self._kept[1]
        if rows is None:
            yield from super()._found(columns)
        else:
            yield from rows.select(columns).to_batches()

    def _events(self, columns: list[str]) -> Iterator[GroupedRows]:
        return events_for(self.tape, [self], self.reads(columns))

    def begun_to_keep(self, most: int) -> Pass:
        """A pass whose rows are kept, in so many bytes."""
        return self._begun(self.kept_names, most)

    def finished(self, made: Pass, parts: list[pa.RecordBatch]) -> pa.Table:  # noqa: ARG002
        """The rows of that pass, at its end."""
        schema = pa.schema([self.schema.field(name) for name in self.kept_names])
        return pa.Table.from_batches(parts, schema)


def events_for(
    tape: Tape, members: Sequence[KeptDataset], columns: Collection[str]
) -> Iterator[GroupedRows]:
    """The batches of `event` that passes of these datasets need."""
    choosers = [one.chooser() for one in members]
    known = [chooser for chooser in choosers if chooser]

    def choice(glances: list[Glance]) -> list[bool]:
        return list(map(any, zip(*(choose(glances) for choose in known), strict=True)))

    return tape.grouped("event", columns, ("pfn", choice) if known == choosers else None)


class _Keeper:
    """The rows of a dataset in a shared pass, until they are too many or need too much memory.

    Small parts are joined: each would stay in a hole of the heap that the next batch's columns
    need, and the heap would grow by a column with every batch.
    """

    def __init__(self, of: KeptDataset, most: int) -> None:
        self.of = of
        self._parts: list[pa.RecordBatch] = []
        self._left, self._joined = _KEPT, 0  # rows; the parts that are joined
        self.failed = False
        self._guarded(lambda: self._begin(most))

    def _begin(self, most: int) -> Iterator[pa.RecordBatch]:
        self._made = self.of.begun_to_keep(most)
        return iter(())

    def _guarded(self, found: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """Keep the rows. An error is that of the dataset's own pass, if a query makes one."""
        try:
            for part in found():
                # A pass of _sequence has room for a whole batch, and fills a part of it.
                first = part.column(0)
                if first.get_total_buffer_size() > 2 * first.nbytes:
                    columns = [copied(column) for column in part.columns]
                    part = pa.RecordBatch.from_arrays(columns, schema=part.schema)
                self._parts.append(part)
                self._left -= part.num_rows
            if len(self._parts) - self._joined >= _PARTS:
                last = pa.Table.from_batches(self._parts[self._joined :])
                self._parts[self._joined :] = last.combine_chunks().to_batches()
                self._joined = len(self._parts)
        except (MemoryError, TapeError):
            self._left = -1
        if self._left < 0:
            self.failed = True
            self._parts.clear()

    def read(self, events: Events) -> None:
        self._guarded(lambda: self._made.read(events))

    def end(self) -> None:
        if not self.failed:
            self._guarded(self._made.end)
        self.of.keep(None if self.failed else self.of.finished(self._made, self._parts))


class SharedPass:
    """One pass over the events of a tape for all kept datasets that have joined by then."""

    def __init__(self) -> None:
        self.members: list[KeptDataset] = []
        self.making: list[KeptDataset] = []  # the members whose rows the pass under way finds
        self._lock = Lock()  # scans of one query run at the same time

    def join(self, member: KeptDataset) -> None:
        for other in self.members:
            other.sole = False
        self.members.append(member)
        member.shared = self

    def make(self, wanted: KeptDataset) -> None:
        """Find the rows of all members that have none, unless those of `wanted` are known."""
        with self._lock:
            if not wanted.is_known:
                self._make(wanted.tape)

    def _make(self, tape: Tape) -> None:
        # Two passes need memory in proportion to the machine: pages in use, blocks of a count.
        most = query_memory.of_duckdb() // 2
        self.making = [member for member in self.members if not member.is_known]
        keepers = [_Keeper(member, most) for member in self.making]
        names = {n for one in self.making for n in one.reads(one.kept_names)}
        for rows in filter(len, events_for(tape, self.making, names)):
            reading = [keeper for keeper in keepers if not keeper.failed]
            if not reading:
                break
            events = Events(rows)
            for keeper in reading:
                keeper.read(events)
        for keeper in keepers:
            keeper.end()
