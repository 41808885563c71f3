# SPDX-License-Identifier: Apache-2.0
"""The form in which a tape's file has a table: its columns as they are, or in groups.

Tables that TOML gives `group` columns are stored in groups of rows that are equal in these:

    `in_time` columns   values as they are, in the order of the rows
    group_0, group_1    the bytes of the number of each row's group, in the order of the rows
    ts_0 .. ts_3        the low bytes of a column of differences (`differences = true`), each minus
    ts_high             the value before it in its group; the upper 32 bits
    all others          values as they are, one group after the other

The `group` columns are no columns of the file. The metadata of each batch have its group table:
their values, and the number of rows of each group. They also have the first value of the first
column, so that a time is found without its column. See grouped.h. A batch in groups has at most
BATCH_ROWS rows.
"""

import json
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import pyarrow as pa

from pagetape.schemas import TABLES, Column, Table, batch_sizes
from pagetape.schemas._grouped import (
    LOW_BYTES,
    ROWS_MOST,
    Groups,
    Order,
    picked,
    picked_bits,
    rows_of,
)

BATCH_ROWS = ROWS_MOST  # most rows of a batch in groups

# How every file of a table is written. Threads would wake for each batch of an idle recorder.
WRITTEN = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)

# In the metadata of a file the schema of its group tables, in those of a batch its group table:
# messages of Arrow IPC, deflated and in base64, as metadata are text.
_GROUPS_KEY = b"pagetape.groups"
_FIRST_KEY = b"pagetape.first"  # of a batch: the first value of its first column, as text
_LABELS_KEY = b"labels"  # of a column of the group table, as JSON; its values are their numbers
_ROWS = pa.field("rows", pa.uint32(), nullable=False)  # of each group; the first column
_MESSAGE = 1 << 24  # most bytes of such a message

Metadata: TypeAlias = "Mapping[bytes, bytes] | None"
Kinds: TypeAlias = Collection[str] | None  # labels of the column `kind`; None: all

NUMBERS = ("group_0", "group_1")
_ORDER = -1  # the number of no column


def _bits(array: pa.Array) -> pa.Buffer | None:
    return array.buffers()[0] if array.null_count else None


def _values(array: pa.Array) -> pa.Array:
    """The numbers of a column: those of an enum's labels."""
    return array.indices if pa.types.is_dictionary(array.type) else array


def _numbers(key: pa.Array) -> pa.Array:
    """Numbers that are equal where the values of a key column are."""
    return _values(key.dictionary_encode() if pa.types.is_string(key.type) else key)


def _like(array: pa.Array, values: pa.Array) -> pa.Array:
    """Values with the labels of an array, whose numbers they have: they are not checked again."""
    if not pa.types.is_dictionary(array.type):
        return values
    return pa.DictionaryArray.from_arrays(values, array.dictionary, safe=False)


def _nulls(array: pa.Array, nr: int) -> pa.Array:
    """Nulls of the type and the labels of an array."""
    return _like(array, pa.nulls(nr, _values(array).type))


def _width(array: pa.Array) -> int:
    return int(array.type.bit_width) // 8


def _array(kind: pa.DataType, nr: int, valid: pa.Buffer | None, values: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, nr, [valid, values])


def _picked(array: pa.Array, at: pa.Buffer, nr: int) -> pa.Array:
    """The values of a column at `nr` places of 16 bits."""
    if array.null_count == len(array):
        return _nulls(array, nr)
    if pa.types.is_string(array.type):
        return array.take(_array(pa.uint16(), nr, None, at))
    values, bits = _values(array), _bits(_values(array))
    of = values.offset, len(values), at, nr
    valid = None if bits is None else picked_bits(bits, *of)
    made = picked(values.buffers()[1], _width(values), *of)
    return _like(array, _array(values.type, nr, valid, made))


class GroupedRows:
    """Rows of a table whose `group` columns stand apart, once for each group."""

    def __init__(self, rows: pa.RecordBatch, number: pa.Array, keys: pa.RecordBatch) -> None:
        """`rows` has the other columns, to which `group` comes: the place in `keys`."""
        schema = rows.schema.append(pa.field("group", pa.uint16()))
        self.rows = pa.RecordBatch.from_arrays([*rows.columns, number], schema=schema)
        self.keys = keys

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def of_groups(self, wanted: bytes, column: str) -> pa.Array:
        """The places of all rows of groups with a byte of 2, and of the rows without a value in
        the column of those with 1."""
        number, valid = self.rows["group"].buffers()[1], _bits(self.rows[column])
        places, nr = rows_of(number, valid, len(self), wanted)
        return _array(pa.uint16(), nr, None, places)

    def taken(self, names: Sequence[str], places: pa.Array) -> pa.RecordBatch:
        """The rows at these places, with these columns."""
        rows = self.rows.take(places)
        keys = self.keys.take(rows["group"])
        schema = pa.schema([*rows.schema, *keys.schema])
        return pa.RecordBatch.from_arrays(rows.columns + keys.columns, schema=schema).select(names)


def in_groups(batch: pa.RecordBatch, table: Table) -> Iterator[GroupedRows]:
    """Rows of a table, in groups by those of its `group` columns that the batch has."""
    names = batch.schema.names
    for first in range(0, batch.num_rows, BATCH_ROWS):
        piece = batch.slice(first, BATCH_ROWS)
        keys = piece.select([name for name in table.group if name in names])
        groups = _groups(keys.columns, len(piece))
        number = _array(pa.uint16(), len(piece), None, groups.number)
        others = piece.select([name for name in names if name not in table.group])
        yield GroupedRows(others, number, keys.take(_first(groups)))


def _groups(keys: Sequence[pa.Array], nr: int) -> Groups:
    # A column of nulls tells no groups apart.
    known = [_numbers(one) for one in keys if one.null_count < nr]
    return Groups([(one.buffers()[1], _width(one), _bits(one), one.offset) for one in known], nr)


def _first(groups: Groups) -> pa.Array:
    """The first row of each group."""
    return _array(pa.uint16(), len(groups), None, groups.first)


class Form:
    """The fields of a table's file, and the table's column of each."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.fields: list[pa.Field] = []
        self.columns: list[int] = []  # by field; _ORDER: it tells the order of all
        self._add(range(len(table.columns)))

    def _add(self, columns: Iterable[int]) -> None:
        for i in columns:
            for field in self._fields(self.table.columns[i]):
                self.fields.append(field)
                self.columns.append(i)

    def _fields(self, column: Column) -> list[pa.Field]:
        return [column.arrow.remove_metadata()]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.fields)

    def file_schema(self, metadata: Mapping[bytes, Any]) -> pa.Schema:
        """The schema of a file that has these metadata."""
        return self.schema.with_metadata(dict(metadata))

    def of_file(self, _: Metadata) -> "Form":
        """The form of a file with these metadata. ValueError if they are damaged."""
        return self

    @property
    def keys(self) -> list[int]:
        """The columns that the metadata of batches have."""
        return []

    def chosen(self, columns: list[int]) -> list[int]:
        """The fields that have these columns."""
        return [i for i, column in enumerate(self.columns) if column in columns]

    @property
    def heads(self) -> list[int]:
        """The fields from which first() has its answer."""
        return [self.columns.index(0)]

    def first(self, found: tuple[pa.RecordBatch, Metadata]) -> int:
        """The first value of the first column, which is that of time, in a batch with rows and its
        metadata. ValueError if there is none."""
        return int(found[0].column(0)[0].as_py())

    def stored(self, batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, Metadata]]:
        """A batch of the table as its file has it, with metadata, in pieces of at most `most`
        rows."""
        for first in range(0, max(batch.num_rows, 1), most):
            yield batch.slice(first, most), None

    def arrays(
        self, batch: pa.RecordBatch, _: Metadata, columns: list[int], _kinds: Kinds = None
    ) -> list[pa.Array]:
        """These columns from the batch of their fields, which has these metadata. Rows of other
        `kinds` may be missing. ValueError if it is not of this form."""
        found: list[pa.Array] = batch.columns[: len(columns)]
        return found


def _packed(message: pa.Buffer) -> bytes:
    return b64encode(zlib.compress(message, 1))


def _unpacked(text: bytes) -> pa.Buffer:
    return pa.py_buffer(zlib.decompressobj().decompress(b64decode(text), _MESSAGE))


def _key_field(column: Column) -> pa.Field:
    """A column of the group table."""
    if not column.labels:
        return column.arrow.remove_metadata()
    labels = json.dumps(column.labels)
    return pa.field(column.name, pa.uint8(), column.null, metadata={_LABELS_KEY: labels})


class Grouped(Form):
    """The form of a table with `group` columns. `there` is the schema of a file's group tables; it
    may lack the last of its columns that can be null."""

    def __init__(self, table: Table, there: pa.Schema | None = None) -> None:
        self.table, self.fields, self.columns = table, [], []
        places = [table.arrow.get_field_index(name) for name in table.in_time]
        self._add(places)
        self.fields += [pa.field(name, pa.uint8(), nullable=False) for name in NUMBERS]
        self.columns += [_ORDER, _ORDER]
        self._in_groups = [i for i in range(len(table.columns)) if i not in places]
        self._add(self._in_groups)
        known = [_ROWS, *(_key_field(table.column(name)) for name in table.group)]
        self._groups = pa.schema(known) if there is None else there
        self._keys = {
            table.arrow.get_field_index(name): i
            for i, name in enumerate(table.group[: len(self._groups) - 1], 1)
        }
        whole = len(self._groups) > 0 and all(
            one.equals(here) for one, here in zip(self._groups, known, strict=False)
        )
        if not whole or not all(field.nullable for field in known[len(self._groups) :]):
            raise ValueError("other columns of groups")
        self._labels = {
            field.name: pa.array(json.loads(field.metadata[_LABELS_KEY]), pa.utf8())
            for field in self._groups
            if field.metadata
        }

    def of_file(self, metadata: Metadata) -> Form:
        if _GROUPS_KEY not in (metadata or {}):
            raise ValueError("no schema of groups, as in tapes of 30 November 2026: record anew")
        try:
            there = pa.ipc.read_schema(_unpacked((metadata or {})[_GROUPS_KEY]))
        except (zlib.error, pa.ArrowException) as e:
            raise ValueError("no schema of groups") from e
        return Grouped(self.table, there)

    def _fields(self, column: Column) -> list[pa.Field]:
        if column.name in self.table.group:
            return []
        if not column.differences:
            return super()._fields(column)
        low = [pa.field(f"{column.name}_{i}", pa.uint8(), False) for i in range(LOW_BYTES)]
        low[0] = low[0].with_nullable(column.null)
        return [*low, pa.field(f"{column.name}_high", pa.uint32(), False)]

    def file_schema(self, metadata: Mapping[bytes, Any]) -> pa.Schema:
        about = _packed(self._groups.serialize())
        return super().file_schema({**metadata, _GROUPS_KEY: about})

    @property
    def keys(self) -> list[int]:
        return list(self._keys)

    def chosen(self, columns: list[int]) -> list[int]:
        return super().chosen([_ORDER, *columns])

    @property
    def heads(self) -> list[int]:
        return [self.columns.index(_ORDER) + 1]

    def first(self, found: tuple[pa.RecordBatch, Metadata]) -> int:
        return int((found[1] or {}).get(_FIRST_KEY, b""))

    def stored(self, batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, Metadata]]:
        for piece, _ in super().stored(batch, min(most, BATCH_ROWS)):
            yield self._grouped(piece)

    def _grouped(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Metadata]:
        nr = batch.num_rows
        key = [batch.column(i) for i in self._keys]
        groups = _groups(key, nr)
        arrays = [batch.column(name) for name in self.table.in_time]
        arrays += [_array(pa.uint8(), nr, None, one) for one in groups.numbers()]
        for i in self._in_groups:
            if self.table.columns[i].name not in self.table.group:
                arrays += self._stored(groups, self.table.columns[i], batch.column(i))
        first = _first(groups)
        table = [_array(pa.uint32(), len(groups), None, groups.rows)]
        table += [_values(one).take(first) for one in key]
        about = pa.RecordBatch.from_arrays(table, schema=self._groups).serialize()
        stored = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        begin = str(batch.column(0)[0].as_py() if nr else 0)
        return stored, {_GROUPS_KEY: _packed(about), _FIRST_KEY: begin.encode()}

    @staticmethod
    def _stored(groups: Groups, column: Column, array: pa.Array) -> list[pa.Array]:
        """A column in the order of groups."""
        if not column.differences:
            return [_picked(array, groups.place, len(array))]
        nr, bits = len(array), _bits(array)
        valid = None if bits is None else picked_bits(bits, array.offset, nr, groups.place, nr)
        *low, high = groups.differences(array.buffers()[1], array.offset, valid)
        made = [_array(pa.uint8(), nr, None, one) for one in low]
        made[0] = _array(pa.uint8(), nr, valid, low[0])
        return [*made, _array(pa.uint32(), nr, None, high)]

    def labels(self, metadata: Metadata, column: str) -> frozenset[str]:
        """The labels of a batch's rows in a column of the group table. ValueError if damaged."""
        numbers = self._table(metadata)[column]
        return frozenset(
            pa.DictionaryArray.from_arrays(numbers, self._labels[column]).unique().to_pylist()
        )

    def _table(self, metadata: Metadata) -> pa.RecordBatch:
        """The group table of a batch. ValueError if it is damaged."""
        try:
            message = _unpacked((metadata or {})[_GROUPS_KEY])
            size = batch_sizes.of_message(message)
            if size.decoded > len(message):
                raise ValueError("its groups are compressed")
            table = pa.ipc.read_record_batch(message, self._groups)
            table.validate(full=True)
        except (KeyError, zlib.error, struct.error, pa.ArrowException) as e:
            raise ValueError("its groups are missing, or no table") from e
        for field, array in zip(self._groups, table.columns, strict=True):
            if array.null_count and not field.nullable:
                raise ValueError(f"nulls in column '{field.name}' of its groups")
        return table

    def parts(
        self, batch: pa.RecordBatch, metadata: Metadata, columns: list[int], kinds: Kinds = None
    ) -> tuple[Order, dict[int, pa.Array], dict[int, pa.Array]]:
        """The order of the rows, and these columns: those of the rows, and those of the groups; all
        as arrays()."""
        nr, table = batch.num_rows, self._table(metadata)
        there = iter(batch.columns)
        found = {
            i: next(there) for i in columns if self.table.columns[i].name in self.table.in_time
        }
        low, high = next(there), next(there)
        rows = table.column(0).buffers()[1]
        order = Order(low.buffers()[1], high.buffers()[1], rows, table.num_rows, nr)
        if kinds is not None and not self.table.in_time:
            kind = pa.DictionaryArray.from_arrays(table["kind"], self._labels["kind"])
            order.choose(bytes(label in kinds for label in kind.to_pylist()))
        keys = {}
        for i in columns:
            column = self.table.columns[i]
            if i in self._keys:
                keys[i] = table.column(self._keys[i])
                if column.labels:
                    # Checks the numbers of few groups, not those of all rows.
                    labels = self._labels[column.name]
                    keys[i] = pa.DictionaryArray.from_arrays(keys[i], labels)
            elif i not in found:
                found[i] = self._in_time(order, column, there)
        return order, found, keys

    def arrays(
        self, batch: pa.RecordBatch, metadata: Metadata, columns: list[int], kinds: Kinds = None
    ) -> list[pa.Array]:
        order, found, keys = self.parts(batch, metadata, columns, kinds)
        found |= {i: _picked(key, order.number, order.nr) for i, key in keys.items()}
        return [found[i] for i in columns]

    @staticmethod
    def _in_time(order: Order, column: Column, there: Iterator[pa.Array]) -> pa.Array:
        """A column in the order of the rows, from its next fields."""
        array = next(there)
        if not column.differences:
            return _picked(array, order.place, order.nr)
        nr, bits = order.nr, _bits(array)
        valid = None if bits is None else picked_bits(bits, 0, len(array), order.place, nr)
        parts = [array, *(next(there) for _ in range(LOW_BYTES))]
        stored = [part.buffers()[1] for part in parts]
        return _array(column.arrow.type, nr, valid, order.sums(stored, bits))


@cache
def form_of(table: str) -> Form:
    """The form in which a tape stores a table."""
    return Grouped(TABLES[table]) if TABLES[table].group else plain_form(table)


@cache
def plain_form(table: str) -> Form:
    """The form of every table in a tape of version 2."""
    return Form(TABLES[table])


def in_batches_of(most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `most` rows, but for the last; at least one."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    large = False
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= most:
            whole = pa.concat_batches(waiting)
            yield from (whole.slice(at, most) for at in range(0, rows - rows % most, most))
            waiting, rows, large = [whole.slice(rows - rows % most)], rows % most, True
    if rows or not large:
        yield pa.concat_batches(waiting)
