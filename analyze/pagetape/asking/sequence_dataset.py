# SPDX-License-Identifier: Apache-2.0
"""Rows that one pass over the events of a tape finds, as DuckDB reads them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from threading import Lock
from typing import Any, ClassVar, TypeAlias
from weakref import ref

import pyarrow as pa

from pagetape.asking.tape_dataset import Dataset
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError

Buffers: TypeAlias = dict[str, tuple[pa.Buffer | None, pa.Buffer]]

_KIND = TABLES["event"].column("kind").labels
_KEPT = 1 << 20  # rows of a KeptDataset
_EMPTY = 1 << 16  # rows of a batch after the last event


def bitmap(rows: int) -> pa.Buffer:
    return pa.py_buffer(bytearray(-(-rows // 64) * 8))


def values(rows: int, width: int) -> pa.Buffer:
    return pa.allocate_buffer(max(rows, 1) * width)


def buffers_of(batch: pa.RecordBatch) -> Buffers:
    """The buffers of a batch of events."""
    found = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if isinstance(array, pa.DictionaryArray):
            array = array.indices
        if array.offset:
            array = array.take(pa.array(range(len(array))))
        valid, values = array.buffers()
        found[name] = (valid if array.null_count else None, values)
    return found


class SequenceDataset(Dataset):
    """The rows of one pass over the events of `tape`, which another tape may replace."""

    names: ClassVar[tuple[str, ...]]  # columns of `event` that the pass reads
    schema: pa.Schema
    _BEFORE_END: ClassVar[bool] = True  # rows that the pass finds before its end count

    def __init__(self, tape: Tape, span: tuple[int, int]) -> None:
        """`span`: the first time of the events that count, and the first after them."""
        self.tape = tape
        self.error: TapeError | None = None  # of the last scan; DuckDB keeps only its text
        self._kinds: dict[str, Any] = {label: i for i, label in enumerate(_KIND)}
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
        """The rows, with these columns."""
        made = self._pass()
        for batch in self.tape.batches("event", list(self.names)):
            if batch.num_rows:
                out = self._room(batch.num_rows)
                nr = made.read(batch.num_rows, buffers_of(batch), out)
                if nr and self._BEFORE_END:
                    yield self._rows(nr, out).select(columns)
        while True:
            out = self._room(_EMPTY)
            if not (nr := made.end(_EMPTY, out)):
                return
            yield self._rows(nr, out).select(columns)

    def _pass(self) -> Any:
        """The pass, at its beginning."""
        raise NotImplementedError

    def _room(self, rows: int) -> dict[str, pa.Buffer]:
        """Memory for so many rows."""
        raise NotImplementedError

    def _rows(self, nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
        """The first rows in that memory, with `schema`."""
        raise NotImplementedError


class KeptDataset(SequenceDataset):
    """Rows of a pass that are kept for the next scan, unless they are many."""

    def __init__(self, tape: Tape, span: tuple[int, int]) -> None:
        super().__init__(tape, span)
        self._lock = Lock()  # scans of one query run at the same time
        self._kept: tuple[ref[Tape], pa.Table | None] | None = None  # None: there are too many

    def _found(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with self._lock:
            if self._kept is None or self._kept[0]() is not self.tape:
                self._kept = ref(self.tape), self._held(_KEPT)
        rows = self._kept[1]
        if rows is None:
            yield from super()._found(columns)
        else:
            yield from rows.select(columns).to_batches()

    def _held(self, most: int) -> pa.Table | None:
        """The rows of a pass; None for more than `most`."""
        total, parts = 0, []
        for part in super()._found(self.schema.names):
            total += part.num_rows
            if total > most:
                return None
            parts.append(part)
        return pa.Table.from_batches(parts, self.schema)
