# SPDX-License-Identifier: Apache-2.0
"""The form in which a tape's file has a table: its columns as they are, or in groups.

Tables that TOML gives `group` columns are stored in groups of rows that are equal in these:

    group_0, group_1    the bytes of the number of each row's group, in the order of the rows
    ts_0 .. ts_3        the low bytes of a column of differences (`differences = true`), each minus
    ts_high             the value before it in its group; the upper 32 bits
    all others          values as they are, one group after the other

See grouped.h. A batch in groups has at most BATCH_ROWS rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa

from pagetape.schemas import TABLES, Column, Table
from pagetape.schemas._grouped import LOW_BYTES, ROWS_MOST, Order, number

BATCH_ROWS = ROWS_MOST  # most rows of a batch in groups

# How every file of a table is written. Threads would wake for each batch of an idle recorder.
WRITTEN = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)

_NUMBERS = ("group_0", "group_1")
_MAX = (1 << 64) - 1


def _bits(array: pa.Array) -> pa.Buffer | None:
    return array.buffers()[0] if array.null_count else None


def _values(array: pa.Array) -> pa.Array:
    """The numbers of a column: those of an enum's labels."""
    return array.indices if pa.types.is_dictionary(array.type) else array


def _nulls(array: pa.Array) -> pa.Array:
    """As many nulls, of the same type and labels: their order does not matter."""
    values = pa.nulls(len(array), _values(array).type)
    if values.type == array.type:
        return values
    return pa.DictionaryArray.from_arrays(values, array.dictionary)


def _width(array: pa.Array) -> int:
    return int(array.type.bit_width) // 8


def _array(
    kind: pa.DataType, nr: int, valid: bytearray | None, values: bytearray | pa.Buffer
) -> pa.Array:
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, nr, buffers)


class Form:
    """The fields of a table's file, and the table's column of each."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.fields: list[pa.Field] = []
        self.columns: list[int] = []  # by field; -1: it tells the order of all
        for i, column in enumerate(table.columns):
            for field in self._fields(column):
                self.fields.append(field)
                self.columns.append(i)

    def _fields(self, column: Column) -> list[pa.Field]:
        return [column.arrow.remove_metadata()]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.fields)

    def chosen(self, columns: list[int]) -> list[int]:
        """The fields that have these columns."""
        return [i for i, column in enumerate(self.columns) if column in columns]

    def parts(self, column: int) -> list[int]:
        """The fields that have the values of a column."""
        return [i for i, of in enumerate(self.columns) if of == column]

    def first(self, parts: list[pa.Array]) -> Any:
        """The value of a batch's first row, from the parts of its column."""
        return parts[0][0].as_py()

    def stored(self, batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
        """A batch of the table as its file has it, in pieces of at most `most` rows."""
        for first in range(0, max(batch.num_rows, 1), most):
            yield batch.slice(first, most)

    def arrays(self, batch: pa.RecordBatch, columns: list[int]) -> list[pa.Array]:
        """These columns from the batch of their fields. ValueError if it is not of this form."""
        found: list[pa.Array] = batch.columns[: len(columns)]
        return found


class Grouped(Form):
    """The form of a table with `group` columns."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.fields[:0] = [pa.field(name, pa.uint8(), nullable=False) for name in _NUMBERS]
        self.columns[:0] = [-1, -1]
        self._key = [table.arrow.get_field_index(name) for name in table.group]

    def _fields(self, column: Column) -> list[pa.Field]:
        if not column.differences:
            return super()._fields(column)
        low = [pa.field(f"{column.name}_{i}", pa.uint8(), False) for i in range(LOW_BYTES)]
        low[0] = low[0].with_nullable(column.null)
        return [*low, pa.field(f"{column.name}_high", pa.uint32(), False)]

    def chosen(self, columns: list[int]) -> list[int]:
        return [0, 1, *super().chosen(columns)]

    def first(self, parts: list[pa.Array]) -> Any:
        """The first row is the first of its group, and that group the first."""
        if len(parts) == 1:
            return super().first(parts)
        *low, high = (part[0].as_py() for part in parts)
        folded = high << 32 | int.from_bytes(low, "little")
        return (folded >> 1 ^ -(folded & 1)) & _MAX

    def stored(self, batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
        for piece in super().stored(batch, min(most, BATCH_ROWS)):
            yield self._grouped(piece)

    def _grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        nr = batch.num_rows
        key = [_values(batch.column(i)) for i in self._key]
        key_parts = [(one.buffers()[1], _width(one), _bits(one), one.offset) for one in key]
        numbers = number(key_parts, nr)
        order = Order(*numbers, nr)
        arrays = [_array(pa.uint8(), nr, None, one) for one in numbers]
        for column, array in zip(self.table.columns, batch.columns, strict=True):
            arrays += self._stored(order, column, array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @staticmethod
    def _stored(order: Order, column: Column, array: pa.Array) -> list[pa.Array]:
        """A column in the order of groups."""
        nr, values = len(array), _values(array)
        if array.null_count == nr and not column.differences:
            return [_nulls(array)]
        bits = _bits(values)
        valid = None if bits is None else order.group_bits(bits, values.offset)
        grouped = order.group(values.buffers()[1], _width(values), values.offset)
        if column.differences:
            *low, high = order.differences(grouped, valid)
            made = [_array(pa.uint8(), nr, None, one) for one in low]
            made[0] = _array(pa.uint8(), nr, valid, low[0])
            return [*made, _array(pa.uint32(), nr, None, high)]
        made_values = _array(values.type, nr, valid, grouped)
        if not column.labels:
            return [made_values]
        return [pa.DictionaryArray.from_arrays(made_values, array.dictionary)]

    def arrays(self, batch: pa.RecordBatch, columns: list[int]) -> list[pa.Array]:
        low, high, *fields = batch.columns
        order = Order(low.buffers()[1], high.buffers()[1], batch.num_rows)
        there = iter(fields)
        return [self._in_time(order, self.table.columns[i], there) for i in columns]

    @staticmethod
    def _in_time(order: Order, column: Column, there: Iterator[pa.Array]) -> pa.Array:
        """A column in the order of the rows, from its next fields."""
        array = next(there)
        nr, values = len(array), _values(array)
        if array.null_count == nr and not column.differences:
            return _nulls(array)
        bits = _bits(values)
        valid = None if bits is None else order.ungroup_bits(bits)
        if column.differences:
            parts = [array, *(next(there) for _ in range(LOW_BYTES))]
            stored = [part.buffers()[1] for part in parts]
            return _array(pa.uint64(), nr, valid, order.values(stored, bits))
        ordered = order.ungroup(values.buffers()[1], _width(values))
        made = _array(values.type, nr, valid, ordered)
        return pa.DictionaryArray.from_arrays(made, array.dictionary) if column.labels else made


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
