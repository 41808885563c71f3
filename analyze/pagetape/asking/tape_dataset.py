# SPDX-License-Identifier: Apache-2.0
"""Tables of tapes as DuckDB reads them: batch by batch, only the columns of the query, checked.

DuckDB would read the tape's file through a pyarrow dataset, which checks nothing: an offset
outside its buffer then reads memory of the process, or ends it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError

Filter: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

_JOINED = 1 << 14  # rows of small batches that become one
_RARE = 1 << 19  # rows of rare kinds that stay in memory


def _indices(name: str, known: Sequence[str], wanted: ds.Expression) -> pa.ChunkedArray:
    """The numbers of the labels that pass a filter by one enum column; null if a row without a
    label does."""
    labels = pa.array([*known, None], pa.utf8())
    indices = pa.array([*range(len(known)), None], pa.uint8())
    return pa.table([labels, indices], [name, "index"]).filter(wanted)["index"]


def by_label(name: str, known: Sequence[str], wanted: ds.Expression) -> Filter:
    """A filter by one enum column, decided once per label: pyarrow's own compares text per row."""
    wanted_indices = _indices(name, known, wanted)

    def filtered(batch: pa.RecordBatch) -> pa.RecordBatch:
        there = batch.column(name).indices
        masks = [pc.equal(there, i) if i.is_valid else there.is_null() for i in wanted_indices]
        if not masks:
            return batch.slice(0, 0)
        # `equal` is null for a row without a label: or_kleene keeps is_null's true beside it.
        mask = reduce(pc.or_kleene, masks)
        return batch if mask.true_count == len(mask) else batch.filter(mask)

    return filtered


def words_of(wanted: ds.Expression | None) -> set[str]:
    """The words of an expression: it gives no list of its columns, but each of them is a word."""
    return set(re.findall(r"\w+", str(wanted)))


class Scanner:
    """One scan. pyarrow's own scanner would run the batches on its thread pool, where decoding,
    which uses the pool too, can wait for itself."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches)


class Dataset(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """Rows that each scan reads anew. DuckDB asks for `schema` once, and for a scanner per scan."""

    schema: pa.Schema

    def __init__(self) -> None:
        """Without that of pyarrow, which needs rows."""

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: ds.Expression | None = None,
    ) -> Scanner:
        """The rows that pass `filter`, with `columns` or all."""
        columns = self.schema.names if columns is None else columns
        words = words_of(filter)
        read = [name for name in self.schema.names if name in columns or name in words]
        schema = pa.schema([self.schema.field(name) for name in columns])
        filtered = None if filter is None else self._filter(filter)
        batches = self._batches(read) if filter is None else self._filled(read, filter)
        return Scanner(schema, self._selected(batches, columns, filtered))

    def _filter(self, wanted: ds.Expression) -> Filter:
        return lambda batch: batch.filter(wanted)

    @staticmethod
    def _selected(
        batches: Iterator[pa.RecordBatch], columns: list[str], filtered: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield (batch if filtered is None else filtered(batch)).select(columns)

    def _filled(self, columns: list[str], wanted: ds.Expression) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The rows, at least those that pass the filter, with these columns."""
        return self._batches(columns)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows, at least with these columns."""
        raise NotImplementedError


def required_labels(wanted: ds.Expression) -> dict[str, str]:
    """Labels that rows must have to pass a filter, by enum column."""
    text = str(wanted)
    if " or " in text or "invert" in text or "if_else" in text:
        return {}
    return dict(re.findall(r'\((\w+) == "(\w+)"\)', text))


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in fewer batches: those of samples are small, and each call of pyarrow takes as long
    as a thousand rows."""
    waiting, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _JOINED:
            yield batch if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


class TapeDataset(Dataset):
    """Table `name` of `tape`, which another tape may replace between two scans."""

    def __init__(self, tape: Tape, name: str) -> None:
        self.tape = tape
        self._name = name
        self.error: TapeError | None = None  # of the last scan; DuckDB keeps only its text

    @property
    def schema(self) -> pa.Schema:
        return TABLES[self._name].arrow

    def _filter(self, wanted: ds.Expression) -> Filter:
        words = words_of(wanted)
        named = [column for column in TABLES[self._name].columns if column.name in words]
        if len(named) == 1 and named[0].labels:
            return by_label(named[0].name, named[0].labels, wanted)
        codes = {
            name: pa.scalar(TABLES[self._name].column(name).labels.index(label), pa.uint8())
            for name, label in required_labels(wanted).items()
            if label in TABLES[self._name].column(name).labels
        }

        def filtered(batch: pa.RecordBatch) -> pa.RecordBatch:
            # First by numbers of labels: pyarrow compares the text of each row.
            for name, code in codes.items():
                batch = batch.filter(pc.equal(batch.column(name).indices, code))
            return batch.filter(wanted)

        return filtered

    def _kinds(self, wanted: ds.Expression) -> set[str] | None:
        """The kinds of all rows that pass a filter; None: it may be any."""
        if "kind" not in self.schema.names:
            return None
        labels = TABLES[self._name].column("kind").labels
        if words_of(wanted) & {*self.schema.names} == {"kind"}:
            places = _indices("kind", labels, wanted).to_pylist()
            return None if None in places else {labels[i] for i in places}
        label = required_labels(wanted).get("kind")
        return {label} if label in labels else None

    def _filled(self, columns: list[str], wanted: ds.Expression) -> Iterator[pa.RecordBatch]:
        return self._batches(columns, self._kinds(wanted))

    def _batches(
        self, columns: list[str], kinds: set[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from _joined(self.tape.batches(self._name, columns, None, kinds))
        except TapeError as e:
            self.error = e
            raise


class KindsDataset(TapeDataset):
    """A table of events in a database for several queries: one scan finds the rows of all rare
    kinds, which stay in memory for the next."""

    def __init__(self, tape: Tape, name: str, parts: Collection[set[str]]) -> None:
        """`parts`: the words of each part of a query of the table, among them the columns that it
        reads, and the kinds."""
        super().__init__(tape, name)
        self._kind = TABLES[name].column("kind")
        self._lock = Lock()  # scans of one query run at the same time
        self._rare = self._few()
        words = set[str]().union(*(part for part in parts if part & self._rare))
        self._names = [column for column in TABLES[name].arrow.names if column in words]
        self._rows: list[pa.RecordBatch] | None = None

    def _few(self) -> set[str]:
        """The rarest kinds."""
        events = Counter[str]()
        for point in self.tape.rows("tracepoint"):
            events[f"{point['system']}:{point['name']}"] += point["events"]
        found, rows = set[str](), 0
        kinds = TABLES[self._name].kinds if events else ()
        for kind in sorted(kinds, key=lambda kind: sum(events[p] for p in kind.tracepoints)):
            rows += sum(events[point] for point in kind.tracepoints)
            if rows > _RARE:
                break
            found.add(kind.name)
        return found

    def _filled(self, columns: list[str], wanted: ds.Expression) -> Iterator[pa.RecordBatch]:
        kinds = self._kinds(wanted)
        if (
            self._rare
            and kinds is not None
            and {*columns} <= {*self._names}
            and kinds <= self._rare
        ):
            with self._lock:
                self._find()
            if self._rows is not None:
                return (batch.select(columns) for batch in self._rows)
        return self._batches(columns, kinds)

    def _find(self) -> None:
        """Find the rows of the rare kinds; more than the tape says are not kept."""
        if self._rows is not None or not self._rare:
            return
        rare = by_label("kind", self._kind.labels, ds.field("kind").isin([*self._rare]))
        found, rows = [], 0
        for batch in self._batches(self._names, self._rare):
            found.append(rare(batch))
            rows += found[-1].num_rows
            if rows > _RARE:
                self._rare = set()
                return
        self._rows = [pa.concat_batches(found)] if found else []


class RowsDataset(Dataset):
    """Rows in memory, which others may replace between two scans."""

    def __init__(self, schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> None:
        self._schema = schema
        self.replace(rows)

    def replace(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._table = pa.Table.from_pylist(list(rows), self._schema)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns).to_batches()
