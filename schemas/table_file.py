# SPDX-License-Identifier: Apache-2.0
"""One table of a tape on disk: its Arrow IPC file, checked before anyone computes with it.

Every reader of a tape (pyarrow, DuckDB, the engine) gets its rows from `TableFile.batches`:

    the file    a regular file, not a link, without large holes; nothing else is opened
    its sizes   decoded bytes in proportion to the file, before a byte is decoded
    its schema  the table's columns and types; nullable columns at the end may be missing
    its rows    buffers, offsets, indices, UTF-8, no null in a column without nulls

Enum columns leave with the labels of this pagetape in their order: labels are matched by name.
A batch is a copy of the file, so it stays as it was checked. The file is not mapped: a mapping
would change with the file, and count as memory of this process.
"""

import io
import os
import stat
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import compress, islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from pagetape.schemas import Column, Table, batch_sizes
from pagetape.schemas.batch_sizes import MAGIC, Size
from pagetape.schemas.form import (
    NUMBERS,
    Form,
    Grouped,
    GroupedRows,
    Kinds,
    Metadata,
    form_of,
    in_groups,
    plain_form,
)

# Limits of decoded bytes. Rows of zeros compress by 5,000 and more, those of recordings do not.
_RATIO = 1024  # decoded bytes per byte of the file, ...
_SMALL = 64 << 20  # ... beyond this many
_BATCH = 1 << 30  # of one batch
_LABELS = 1 << 20  # of the labels of a column

_CHUNK = 1 << 20  # bytes of a file that are read at once

_WORDS = 200  # most characters of a message of pyarrow

_Reader: TypeAlias = "pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader"

# What pyarrow raises for damaged bytes; UnicodeDecodeError is a ValueError.
_UNREADABLE = (pa.ArrowException, OSError, ValueError)


class TableError(Exception):
    """A file is not its table, or is damaged; the message is a predicate without the path."""


def _words(text: object) -> str:
    """A text of the file or of pyarrow on one line, without control characters."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_WORDS]


class _Sizes(NamedTuple):
    """The sizes of a file's batches."""

    rows: tuple[int, ...]  # of each batch
    decoded: int  # bytes


def _field(field: pa.Field) -> str:
    return _words(f"'{field.name}' ({field.type}{'' if field.nullable else ' not null'})")


@contextmanager
def _explained() -> Iterator[None]:
    """Report damage as a TableError."""
    try:
        yield
    except (ValueError, pa.ArrowException) as e:
        raise TableError(f"is damaged: {_words(e)}") from e


def _validate(batch: pa.RecordBatch) -> None:
    """Raise TableError for a batch whose memory is not what its schema says."""
    at = None
    try:
        for i, array in enumerate(batch.columns):
            at = i
            array.validate(full=True)
        at = None
        batch.validate()
    except pa.ArrowException as e:
        where = "" if at is None else f" in column '{_words(batch.schema.names[at])}'"
        raise TableError(f"is damaged{where}: {_words(e)}") from e


def _check_nulls(batch: pa.RecordBatch) -> None:
    """Raise TableError for a null in a column without nulls."""
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if array.null_count and not field.nullable:
            raise TableError(f"is damaged: nulls in column '{field.name}'")


def _checked_sizes(sizes: list[Size], file_bytes: int) -> _Sizes:
    """The sums of the sizes. Raises TableError for sizes that no writer of tapes makes."""
    decoded = 0
    for size in sizes:
        most = _LABELS if size.dictionary else _BATCH
        if size.decoded > most:
            raise TableError(f"has {size.decoded:,} bytes in one batch; the limit is {most:,}")
        decoded += size.decoded
    most = _SMALL + _RATIO * file_bytes
    if decoded > most:
        raise TableError(f"decodes from {file_bytes:,} bytes to {decoded:,}; the limit is {most:,}")
    return _Sizes(tuple(size.rows for size in sizes if not size.dictionary), decoded)


# Device, inode, size, times and place of a file: equal as long as its content is.
_Identity: TypeAlias = "tuple[int, ...]"

# A process reads the sizes of a file once.
_known_sizes: dict[_Identity, _Sizes] = {}

# Of a table that stays in memory; not `event`, of which most readers want a part.
_KEPT = 16 << 20  # most decoded bytes, ...
_KEPT_ALL = 48 << 20  # ... and of all of them


class _Kept:
    """The latest small tables: a command asks for one a dozen times."""

    def __init__(self) -> None:
        self._batches: OrderedDict[_Identity, tuple[int, list[pa.RecordBatch]]] = OrderedDict()
        self._lock = Lock()

    def find(self, identity: _Identity) -> list[pa.RecordBatch] | None:
        with self._lock:
            if identity not in self._batches:
                return None
            self._batches.move_to_end(identity)
            return self._batches[identity][1]

    def keep(self, identity: _Identity, decoded: int, batches: list[pa.RecordBatch]) -> None:
        with self._lock:
            self._batches[identity] = decoded, batches
            while sum(size for size, _ in self._batches.values()) > _KEPT_ALL:
                self._batches.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._batches.clear()


_kept = _Kept()


def forget() -> None:
    """Let go of all that is known about files: a recorder reads each of its tapes once."""
    _known_sizes.clear()
    _kept.clear()


def _check_holes(handle: int, file_bytes: int) -> None:
    """Raise TableError for a file with large holes: it would be read for hours."""
    file = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        holes = at = 0
        while (hole := os.lseek(file, at, os.SEEK_HOLE)) < file_bytes:
            try:
                at = os.lseek(file, hole, os.SEEK_DATA)
            except OSError:  # no data after the hole
                at = file_bytes
            holes += at - hole  # block counts lag behind on some filesystems, holes do not
            if holes > _SMALL:
                raise TableError(f"has holes among its {file_bytes:,} bytes")
            if at == file_bytes:
                return
    finally:
        os.close(file)


class Section(NamedTuple):
    """Where the file of a table is: a file, or a part of one."""

    path: Path
    offset: int = 0  # bytes
    bytes: int | None = None  # None: to the end
    inflated: int | None = None  # bytes of a part that is deflated; None: it is not
    crc: int | None = None  # CRC-32 of a part that is whole; None: unknown


class _Part(io.RawIOBase):
    """Reads a part of an open file, for pyarrow, whose own files begin at 0."""

    def __init__(self, handle: int, offset: int, size: int) -> None:
        self._handle, self._offset, self._size = handle, offset, size
        self._at = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        left = max(self._size - self._at, 0)
        found = os.pread(
            self._handle, left if size < 0 else min(size, left), self._offset + self._at
        )
        self._at += len(found)
        return found

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()


def _inflated(packed: bytes, size: int) -> bytes:
    """The bytes of a deflated part; raises TableError unless they are as many."""
    try:
        found = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size + 1)
    except zlib.error as e:
        raise TableError(f"is damaged: {e}") from e
    if len(found) != size:
        raise TableError(f"is damaged: not the {size:,} bytes that its entry names")
    return found


def _check_crc(source: pa.NativeFile, crc: int) -> None:
    """Raise TableError unless the bytes have this checksum."""
    found = 0
    for at in range(0, source.size(), _CHUNK):
        found = zlib.crc32(source.read_at(_CHUNK, at), found)
    if found != crc:
        raise TableError("is damaged: its checksum differs (unzip writes what is there)")


def _open_regular(section: Section) -> tuple[pa.NativeFile, _Identity]:
    """The open file and its identity. Raises TableError for anything but a regular file."""
    handle = os.open(section.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # no device or FIFO
    try:
        found = os.fstat(handle)
        if stat.S_ISLNK(found.st_mode):
            raise TableError("is a link; the tables of a tape are regular files")
        if not stat.S_ISREG(found.st_mode):
            raise TableError("is not a regular file")
        if found.st_size > _SMALL and 512 * found.st_blocks < found.st_size // 2:
            _check_holes(handle, found.st_size)
        times = found.st_mtime_ns, found.st_ctime_ns
        identity = found.st_dev, found.st_ino, found.st_size, *times, section.offset
        opened = f"/proc/self/fd/{handle}"
        if section.bytes is None:
            return pa.OSFile(opened), identity
        part = _Part(os.open(opened, os.O_RDONLY | os.O_CLOEXEC), section.offset, section.bytes)
        if section.inflated is None:
            return pa.PythonFile(part, mode="r"), identity
        with part:
            return pa.BufferReader(_inflated(part.read(), section.inflated)), identity
    finally:
        os.close(handle)


def check_regular(path: Path) -> None:
    """Raise TableError, or OSError, unless `path` is a regular file that can be read."""
    _open_regular(Section(path))


def _open_arrow(source: pa.NativeFile, columns: list[int] | None = None) -> _Reader:
    """A reader of the given columns, or all. A file without a footer is read as a stream.

    It decodes on the caller's thread: waking others for each buffer costs more CPU than it saves.
    """
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    try:
        try:
            return pa.ipc.open_file(source, options=options)
        except pa.ArrowException:
            if source.size() < len(MAGIC) or source.read_at(len(MAGIC), 0) != MAGIC:
                raise
            source.seek(len(MAGIC))
            return pa.ipc.open_stream(source, options=options)
    except _UNREADABLE as e:
        raise TableError(f"is not an Arrow file: {_words(e)}") from e


def read_metadata(section: Section) -> dict[bytes, bytes]:
    """The metadata of the schema in any table's file; raises as TableFile."""
    source, _ = _open_regular(section)
    return dict(_open_arrow(source).schema.metadata or {})


class Glance(NamedTuple):
    """What a batch in groups shows before it is decoded."""

    first: int  # value of the first column, which is that of time
    kinds: frozenset[str]  # labels of `kind`
    has_null: bool  # in the column looked at


# Says of all batches which are to be decoded.
Choice: TypeAlias = Callable[[list[Glance]], list[bool]]


class TableFile:
    """The open file of a table. Opening checks its sizes and schema; reading checks each batch.

    Raises TableError, and OSError if the file cannot be opened.
    """

    def __init__(self, section: Section, table: Table) -> None:
        self._table = table
        self._source, identity = _open_regular(section)
        self._identity = identity
        self.bytes = self._source.size()
        if section.crc is not None and identity not in _known_sizes:
            _check_crc(self._source, section.crc)
        self._reader = reader = _open_arrow(self._source)
        self.torn = isinstance(reader, pa.ipc.RecordBatchStreamReader)
        self.metadata = reader.schema.metadata
        self._form = self._form_of(reader.schema)
        self._there = self._check_schema(reader.schema)
        if identity not in _known_sizes:
            _known_sizes[identity] = self._sizes()
        self._rows, self.decoded = _known_sizes[identity]
        self._small = not self.torn and self.decoded <= _KEPT and table.name != "event"

    def _form_of(self, schema: pa.Schema) -> Form:
        """The form of the file, which has the field `group_0` if its rows are in groups."""
        form = form_of(self._table.name)
        if schema.get_field_index(NUMBERS[0]) < 0:
            return plain_form(self._table.name)
        with _explained():
            return form.of_file(schema.metadata)

    def _check_schema(self, schema: pa.Schema) -> set[int]:
        """The columns that are there; raises TableError unless the fields are the form's first
        ones, and those of missing columns are nullable."""
        known = self._form.fields
        try:
            names = schema.names
        except UnicodeDecodeError:
            raise TableError("has other columns: a name is not UTF-8") from None
        if len(names) > len(known):
            raise TableError(f"has other columns: {len(names)}, not {len(known)}")
        for there, here in zip(schema, known, strict=False):
            if not there.equals(here):
                raise TableError(f"has other columns: {_field(there)}, not {_field(here)}")
        missing = self._form.columns[len(names) :]
        whole = not missing or missing[0] != self._form.columns[len(names) - 1]
        if not whole or not all(self._table.columns[i].null for i in missing):
            raise TableError(f"has other columns: {len(names)}, not {len(known)}")
        return {*self._form.columns[: len(names)], *self._form.keys}

    def _sizes(self) -> _Sizes:
        try:
            read = batch_sizes.of_stream if self.torn else batch_sizes.of_file
            return _checked_sizes(list(read(self._source)), self.bytes)
        except struct.error as e:
            raise TableError(f"is damaged: {e}") from e

    @property
    def nr_batches(self) -> int:
        """The number of batches; not of a torn file."""
        return int(self._reader.num_record_batches)

    @property
    def num_rows(self) -> int:
        """The number of rows; of a torn file, it takes a pass over all of them."""
        return sum(batch.num_rows for batch in self.batches()) if self.torn else sum(self._rows)

    def batches(
        self,
        columns: Collection[str] | None = None,
        choice: tuple[str, Choice] | None = None,
        kinds: Kinds = None,
    ) -> Iterator[pa.RecordBatch]:
        """The checked batches in file order; with `columns` only those, in the table's order.

        With `choice`, a column to look at and a function, only the batches that it chooses, if the
        table is in groups. A torn file has no choice, and ends at its first damage. With `kinds`,
        rows of others may be missing.
        """
        chosen = self._chosen(columns)
        if self._small:
            read, nr = self._reading(columns)
            yield from map(read, range(nr))
            return
        for batch, about in self._found(chosen, choice):
            yield self._finished(batch, about, chosen, kinds)

    def grouped(
        self, columns: Collection[str], choice: tuple[str, Choice] | None = None
    ) -> Iterator[GroupedRows]:
        """The same rows, with the columns of their groups apart."""
        if isinstance(self._form, Grouped):
            chosen = self._chosen(columns)
            for batch, about in self._found(chosen, choice):
                yield self._parts(batch, about, chosen)
        else:
            for rows in self.batches(columns, choice):
                yield from in_groups(rows, self._table)

    def _found(
        self, chosen: list[int], choice: tuple[str, Choice] | None
    ) -> Iterator[tuple[pa.RecordBatch, Metadata]]:
        """The batches of the file, of a torn one up to its first damage, and their metadata."""
        reader = self._opened(chosen)
        if not self.torn:
            glances = self._glances(choice[0]) if choice else []
            places = range(reader.num_record_batches)
            wanted = choice[1](glances) if choice and glances else [True] * len(places)
            yield from (self._valid(reader, i) for i in compress(places, wanted))
            return
        while True:
            try:
                batch, about = reader.read_next_batch_with_custom_metadata()
                _validate(batch)
            except (StopIteration, TableError, *_UNREADABLE):
                return
            _check_nulls(batch)
            yield batch, about

    def _glances(self, column: str) -> list[Glance]:
        """A glance at each batch; none of a table that is not in groups."""
        form = self._form
        if not isinstance(form, Grouped):
            return []
        field = form.columns.index(self._table.arrow.get_field_index(column))
        reader = self._opened_fields([field])
        found = []
        for i in range(reader.num_record_batches):
            batch, about = self._valid(reader, i)
            with _explained():
                kinds = form.labels(about, "kind")
            found.append(Glance(self._first(batch, about), kinds, batch.column(0).null_count > 0))
        return found

    def _first(self, batch: pa.RecordBatch, about: Metadata) -> int:
        """The first value of the first column; 0 without rows. A plain batch has it in `heads`."""
        with _explained():
            return self._form.first((batch, about)) if batch.num_rows else 0

    def _all(self) -> list[pa.RecordBatch]:
        """The batches of a small table with all columns."""
        found = _kept.find(self._identity)
        if found is None:
            chosen = self._chosen(None)
            found = [self._finished(*each, chosen) for each in self._found(chosen, None)]
            _kept.keep(self._identity, self.decoded, found)
        return found

    def span(self, column: str) -> tuple[int, int] | None:
        """The first and the last value of a column; None without rows. Only a torn file is read
        whole."""
        if self.torn:
            filled = (batch.column(0) for batch in self.batches([column]) if batch.num_rows)
            ends = [*islice(filled, 1), *deque(filled, 1)]
        else:
            chosen = self._chosen([column])
            reader = self._opened(chosen)
            places = [i for i, nr in enumerate(self._rows) if nr]
            read = [self._valid(reader, i) for i in dict.fromkeys([*places[:1], *places[-1:]])]
            ends = [self._finished(*one, chosen).column(0) for one in read]
        return (ends[0][0].as_py(), ends[-1][-1].as_py()) if ends else None

    def between(self, first: int, last: int) -> tuple[int, list[pa.RecordBatch]]:
        """The batches with values from `first` to `last` of the first column, by which the rows are
        sorted, and the number of rows before them. Only a torn file is read whole."""
        if self.torn:
            return self._between(first, last)
        heads = self._opened_fields(self._form.heads)
        nr = heads.num_record_batches

        def head(i: int) -> int:
            return self._first(*self._valid(heads, i))

        # Of the batches that begin before `first`, only the last can have such a row.
        begin = max(bisect_left(range(nr), first, key=head) - 1, 0)
        end = bisect_right(range(nr), last, key=head)
        read, _ = self._reading(None)
        found = list(map(read, range(begin, end)))
        if found and (not len(found[0]) or found[0].column(0)[-1].as_py() < first):
            begin, found = begin + 1, found[1:]
        return sum(self._rows[:begin]), found

    def _between(self, first: int, last: int) -> tuple[int, list[pa.RecordBatch]]:
        """between() for a torn file."""
        before = 0
        found: list[pa.RecordBatch] = []
        for batch in self.batches():
            values = batch.column(0)
            if not len(values) or values[-1].as_py() < first:
                before += 0 if found else len(values)
            elif values[0].as_py() <= last:
                found.append(batch)
        return before, found

    def _reading(
        self, columns: Collection[str] | None
    ) -> tuple[Callable[[int], pa.RecordBatch], int]:
        """A function that reads a batch by its number, and the number of batches; not if torn."""
        chosen = self._chosen(columns)
        if self._small:
            whole = self._all()
            names = [self._table.columns[i].name for i in chosen]
            return lambda i: whole[i].select(names), len(whole)
        reader = self._opened(chosen)
        return lambda i: self._finished(*self._valid(reader, i), chosen), reader.num_record_batches

    def _chosen(self, columns: Collection[str] | None) -> list[int]:
        names = self._table.arrow.names
        return [i for i, name in enumerate(names) if columns is None or name in columns]

    def _opened(self, chosen: list[int]) -> _Reader:
        """A reader of the chosen columns that the file has; of its first column if it has none."""
        there = [i for i in chosen if i in self._there]
        return self._opened_fields(self._form.chosen(there) or [0])

    def _opened_fields(self, fields: list[int]) -> _Reader:
        whole = len(fields) == len(self._reader.schema) and not self.torn
        return self._reader if whole else _open_arrow(self._source, fields)

    @staticmethod
    def _valid(reader: _Reader, i: int) -> tuple[pa.RecordBatch, Metadata]:
        """A batch of the file, and its metadata."""
        try:
            batch, about = reader.get_batch_with_custom_metadata(i)
        except _UNREADABLE as e:
            raise TableError(f"is damaged: {_words(e)}") from e
        _validate(batch)
        _check_nulls(batch)
        return batch, about

    def _finished(
        self, batch: pa.RecordBatch, about: Metadata, chosen: list[int], kinds: Kinds = None
    ) -> pa.RecordBatch:
        """A valid batch of the file as one of the table."""
        there = [i for i in chosen if i in self._there]
        with _explained():
            arrays = self._form.arrays(batch, about, there, kinds)
        nr = len(arrays[0]) if arrays else batch.num_rows
        return self._batch(dict(zip(there, arrays, strict=True)), nr, chosen)

    def _parts(self, batch: pa.RecordBatch, about: Metadata, chosen: list[int]) -> GroupedRows:
        """The same of a table in groups, with the columns of these apart."""
        form = self._form
        assert isinstance(form, Grouped)
        with _explained():
            order, found, keys = form.parts(batch, about, [i for i in chosen if i in self._there])
        apart = [i for i in chosen if self._table.columns[i].name in self._table.group]
        rows = self._batch(found, batch.num_rows, [i for i in chosen if i not in apart])
        number = pa.Array.from_buffers(pa.uint16(), batch.num_rows, [None, order.number])
        return GroupedRows(rows, number, self._batch(keys, order.nr_groups, apart))

    def _batch(self, found: dict[int, pa.Array], nr: int, chosen: list[int]) -> pa.RecordBatch:
        """These columns of the table, of which the file has those that were found."""
        columns = self._table.columns
        arrays = [
            self._labelled(columns[i], found[i]) if i in found else columns[i].nulls(nr)
            for i in chosen
        ]
        schema = pa.schema([self._table.arrow.field(i) for i in chosen])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _labelled(self, column: Column, array: pa.Array) -> pa.Array:
        """The column; the labels of an enum are in the order of the table.

        A label that the table does not have is null, in a column without nulls an error.
        """
        if not column.labels or array.dictionary.equals(column.arrow_labels):
            return array
        numbers = {label: i for i, label in enumerate(column.labels)}
        labels = array.dictionary.to_pylist()
        codes = [numbers.get(label) for label in labels]
        indices = pa.array(codes, pa.uint8()).take(array.indices)
        if indices.null_count and not column.null:
            unknown = [label for label, code in zip(labels, codes, strict=True) if code is None]
            raise TableError(
                f"has a value in column '{column.name}' that this pagetape does not know, one of"
                f" {', '.join(map(repr, unknown))}"[:_WORDS]
            )
        return pa.DictionaryArray.from_arrays(indices, column.arrow_labels)
