# SPDX-License-Identifier: Apache-2.0
"""Free pages of each zone, counted from the events between readings of /proc: zone_free.h.

The view zone_free has a row for each change. free_at_failure and free_at_kswapd have the count at
some moments only, and their rows are kept for the next query; so are the low counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _sequence
from pagetape.asking import query_memory
from pagetape.asking.sequence_dataset import (
    Events,
    KeptDataset,
    Pass,
    SequenceDataset,
    bitmap,
    buffers_of,
    copied,
    values,
)
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import fallback_unit, kernel_rows

_ROOM = 1 << 16  # rows of a batch

_READING = ["ts", "node", "zone", "free"]
_COMPACTION = ("ts", "pid", "kind", "start_pfn", "nr_taken", "nr_migrated")
_ZONE = TABLES["zone"].column("zone")
_TS = pa.schema([TABLES["reclaim"].arrow.field("ts")])
_ALL_SEEN = "mm_compaction_fast_isolate_freepages"  # with it, all targets have an event

_BITS = ("reading", "before_reading", "has_before")  # bitmaps of struct zone_free_out


class _Places(NamedTuple):
    """The zones of a tape, by number."""

    node: pa.Array
    zone: pa.Array


class _Errors(NamedTuple):
    """What a pass knows at its end."""

    of_number: pa.Array  # by number of a reading: what the count has too many at the next one
    widest: pa.Array  # by place
    locked: bool  # the tape has an alloc_zone_locked


# By tape: the span of a pass over its events, and what it found.
_known: WeakKeyDictionary[Tape, tuple[tuple[int, int], _Errors]] = WeakKeyDictionary()


def _keys(rows: pa.Table) -> pa.Array:
    """A number for each node and zone."""
    node = pc.multiply(rows["node"].cast(pa.int32()), 256).combine_chunks()
    return pc.add(node, rows["zone"].combine_chunks().indices.cast(pa.int32()))


def _column(rows: pa.Table, name: str, of: pa.DataType) -> pa.Array:
    return rows[name].cast(of).combine_chunks()


def _buffer(array: pa.Array) -> pa.Buffer | None:
    """The values, without an offset."""
    buffer: pa.Buffer | None = (copied(array) if array.offset else array).buffers()[1]
    return buffer


def _next(place: pa.Array, ts: pa.Array) -> pa.Array:
    """By number of a reading: the time of the next one of its place; null without one."""
    by_place = pc.sort_indices(place)
    sorted_place, sorted_ts = place.take(by_place), ts.take(by_place)
    none = pa.nulls(min(len(ts), 1), pa.uint64())
    after = pa.concat_arrays([sorted_ts[1:], none])
    same = pc.equal(sorted_place, pa.concat_arrays([sorted_place[1:], none.cast(pa.uint32())]))
    found = pc.if_else(same, after, pa.scalar(None, pa.uint64()))
    return pa.concat_arrays([pa.nulls(1, pa.uint64()), found.take(pc.sort_indices(by_place))])


def _lists(tape: Tape) -> bytes:
    """By order, whether its blocks have per-CPU lists; as the macro has_lists."""
    row = kernel_rows.row_of(tape) or kernel_rows.known()[-1].name
    high = kernel_rows.rules(row)["pcp_lists"] not in ("PCP_LISTS_1", "PCP_LISTS_3")
    huge = tape.facts.get("pageblock_order")
    return bytes(order == 0 or (high and (order <= 3 or order == huge)) for order in range(256))


class _Input:
    """What the pass reads beside `event` and `compaction`."""

    def __init__(self, tape: Tape, span: tuple[int, int]) -> None:
        self.tape, self._span = tape, span
        zones = tape.table("zone")
        first = zones.filter(pc.equal(zones["snapshot"], 0))
        keys, ts, free = self._readings(zones)
        by_time = pc.sort_indices(ts)
        every = pa.concat_arrays([_keys(first), keys.take(by_time)]).dictionary_encode()
        number = every.indices.cast(pa.uint32())
        self.places = _Places(
            pc.divide(every.dictionary, 256).cast(pa.uint16()),
            pa.DictionaryArray.from_arrays(
                pc.bit_wise_and(every.dictionary, 255).cast(pa.uint8()),
                pa.array(_ZONE.labels, pa.utf8()),
            ),
        )
        self.reading_place = number[len(first) :]
        self.next_ts = _next(self.reading_place, ts.take(by_time))
        self._low = self._marks(first, number.to_pylist())
        start = _column(first, "start_pfn", pa.uint64())
        self._tables = {
            "ranges": (start, pc.add(start, _column(first, "spanned", pa.uint64())), number),
            "readings": (ts.take(by_time), free.take(by_time), self.reading_place),
            "listed": self._listed(),
        }
        self._facts = self._about()

    def _inside(self, rows: pa.Table) -> pa.Table:
        """The rows of the span."""
        first, end = (pa.scalar(ts, pa.uint64()) for ts in self._span)
        ts = rows["ts"]
        return rows.filter(pc.and_(pc.greater_equal(ts, first), pc.less(ts, end)))

    def _readings(self, zones: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Key, time and free pages of each reading."""
        start = end = 0
        if clock := self.tape.clock:
            start = max(clock[0], self._span[0])
            end = max(min(clock[1], self._span[1] - 1), start)
        else:
            zones = zones.filter(pc.greater(zones["ts"], 0))
        edge = pc.if_else(
            pc.equal(zones["snapshot"], 0),
            pa.scalar(start, pa.uint64()),
            pa.scalar(end, pa.uint64()),
        )
        ts = pc.if_else(pc.greater(zones["ts"], 0), zones["ts"], edge).combine_chunks()
        sampled = self._sampled()
        both = ((zones, "free"), (sampled, "free"))
        return (
            pa.concat_arrays([_keys(zones), _keys(sampled)]),
            pa.concat_arrays([ts, _column(sampled, "ts", pa.uint64())]),
            pa.concat_arrays([_column(rows, name, pa.int64()) for rows, name in both]),
        )

    def _sampled(self) -> pa.Table:
        """The readings of samples: ts, node, zone, free."""
        rows = self._inside(self.tape.table("free_count"))
        rows = rows.filter(pc.is_valid(rows["began"]))
        if len(rows):
            order = rows["page_order"].cast(pa.uint64())
            rows = rows.append_column("free", pc.shift_left_checked(rows["nr_free"], order))
            by_zone = rows.group_by(["ts", "node", "zone"], use_threads=False)
            summed = by_zone.aggregate([("free", "sum")])
            return summed.select(["ts", "node", "zone", "free_sum"]).rename_columns(_READING)
        rows = self._inside(self.tape.table("sample"))
        rows = rows.filter(pc.and_(pc.equal(rows["name"], "free"), pc.is_valid(rows["zone"])))
        rows = rows.filter(pc.is_valid(rows["began"]))
        return rows.select(["ts", "node", "zone", "value"]).rename_columns(_READING)

    def _marks(self, zones: pa.Table, places: list[int]) -> pa.Array:
        """By place: no count that is at least so large is below a watermark of min_free."""
        marks = pc.max_element_wise(zones["wmark_min"], zones["wmark_low"]).cast(pa.int64())
        found = [0] * len(self.places.node)
        for place, mark in zip(places, marks.to_pylist(), strict=False):
            found[place] = max(found[place], mark)
        return pa.array(found, pa.int64())

    def _listed(self) -> tuple[pa.Array, pa.Array]:
        """The blocks on per-CPU lists at the start."""
        rows = self.tape.table("pcp_page")
        rows = rows.filter(pc.equal(rows["snapshot"], 0))
        return _column(rows, "pfn", pa.uint64()), _column(rows, "page_order", pa.uint8())

    def _about(self) -> dict[str, Any]:
        tape = self.tape
        compacts = any(
            len(self._inside(pa.Table.from_batches([batch])))
            for batch in tape.batches("compaction", ["ts"])
        )
        points = {row["name"] for row in tape.rows("tracepoint")}
        labels = TABLES["compaction"].column("kind").labels
        starts = (row for row in tape.rows("snapshot") if row["snapshot"] == 0)
        return {
            "places": (len(self._low), _buffer(self._low)),
            "compaction": {label: i for i, label in enumerate(labels)},
            "has_lists": pa.py_buffer(_lists(tape)),
            "fallback_is_page": fallback_unit.of_tape(tape) == "page",
            "captures": compacts,
            "exact_start": any(row["how"] == "exact" for row in starts),
            "unseen": compacts and _ALL_SEEN not in points,
        }

    def given(self, moments: pa.Table) -> dict[str, Any]:
        """The input of a pass."""
        times = pc.unique(self._inside(moments)["ts"])
        tables = self._tables | {"moments": (times.sort(),)}
        found = {
            name: (len(columns[0]), *map(_buffer, columns)) for name, columns in tables.items()
        }
        return found | self._facts


class _Merged:
    """A pass over `event`, merged with `compaction`; `batch` makes rows of their columns."""

    def __init__(
        self,
        wanted: _Input,
        made: Any,
        batch: Callable[[int, dict[str, pa.Buffer]], pa.RecordBatch],
    ) -> None:
        self.wanted, self.made, self._batch = wanted, made, batch
        self._room = _ROOM + 2 * wanted.tape.num_rows("zone")
        self._nr, self._out = 0, dict[str, pa.Buffer]()  # the rows found, in that memory
        self._compaction = filter(len, wanted.tape.batches("compaction", _COMPACTION))
        self._given = self._next()

    def _next(self) -> tuple[int, dict[str, Any]]:
        """The number of rows of the next batch of compaction, and its columns; 0 at its end."""
        rows = next(self._compaction, None)
        return (rows.num_rows, buffers_of(rows)) if rows else (0, {})

    def _rows(self, *events: Any) -> Iterator[pa.RecordBatch]:
        """The rows as soon as the memory for them is full, or at the end."""
        while True:
            if not self._out:
                self._out = {name: bitmap(self._room) for name in _BITS}
                numbers = (field for field in _RAW if field.name not in _BITS)
                self._out |= {f.name: values(self._room, f.type.byte_width) for f in numbers}
            room = self._nr, self._room
            self._nr, *used = self.made.read(*events, *self._given, *room, self._out)
            if used[1]:
                self._given = self._next()
            if used[0] or not (self._nr or used[1]):
                return
            if not used[1]:
                rows = self._batch(self._nr, self._out)
                self._nr, self._out = 0, {}
                yield rows

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        return self._rows(events.nr, events.nr_groups, events.buffers)

    def end(self) -> Iterator[pa.RecordBatch]:
        return self._rows(0, 0, {})


class ZoneFree(SequenceDataset):
    """Free pages after each change: view zone_free."""

    names = ("ts", "cpu", "kind", "pfn", "page_order")
    schema = pa.schema(
        [
            pa.field("place", pa.uint32(), nullable=False),
            pa.field("node", pa.uint16(), nullable=False),
            pa.field("zone", _ZONE.arrow.type, nullable=False),
            pa.field("ts", pa.uint64(), nullable=False),
            pa.field("free_pages", pa.int64(), nullable=False),
            pa.field("error_pages", pa.int64()),
            pa.field("widest_pages", pa.int64()),
            pa.field("reading", pa.bool_(), nullable=False),
            pa.field("next_ts", pa.uint64()),
            pa.field("before_ts", pa.uint64()),
            pa.field("before_pages", pa.int64()),
            pa.field("before_error_pages", pa.int64()),
            pa.field("before_reading", pa.bool_()),
        ]
    )
    ROWS: ClassVar[str] = "changes"  # of _sequence.ROWS
    _ONLY_LOCKED: ClassVar[bool] = False  # rows only if the tape has an alloc_zone_locked

    def _found(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if self._ONLY_LOCKED and not self._found_errors(self.input()).locked:
            return
        yield from super()._found(columns)

    def input(self) -> _Input:
        """What a pass reads beside the events."""
        return _Input(self.tape, self._span)

    def _begun(self, columns: list[str], most: int) -> Pass:
        """A pass; a pass before it finds the errors if the columns have some."""
        wanted = self.input()
        errors = None
        if any("error" in n or "widest" in n for n in columns):
            errors = self._found_errors(wanted)
        counting = self.counting(wanted, [self.ROWS], most)
        return _Merged(wanted, counting, partial(self._batch, wanted, errors, columns=columns))

    def _moments(self) -> pa.Table:
        """The times at which a kswapd woke or went to sleep: column ts."""
        kinds = TABLES["reclaim"].column("kind").labels
        edges = [kinds.index(kind) for kind in ("kswapd_wake", "kswapd_sleep")]
        codes = pa.array(edges, pa.uint8())
        found = (
            batch.filter(pc.is_in(batch["kind"].indices, codes)).select(["ts"])
            for batch in self.tape.batches("reclaim", ["ts", "kind"])
        )
        return pa.Table.from_batches(found, _TS)

    def counting(self, wanted: _Input, rows: Sequence[str], most: int) -> Any:
        """A pass of _sequence that finds these kinds of rows, in so many bytes."""
        moments = self._moments() if "moments" in rows else _TS.empty_table()
        return _sequence.ZoneFree(self._kinds, wanted.given(moments), rows, most)

    def _found_errors(self, wanted: _Input) -> _Errors:
        """The errors, of a pass of their own unless another view of the events has made one."""
        span, errors = _known.get(self.tape, (None, None))
        if errors is None or span != self._span:
            made = self.counting(wanted, [], query_memory.of_duckdb())
            merged = _Merged(wanted, made, partial(self._batch, wanted, None, columns=[]))
            for groups in filter(len, self._events([])):
                any(merged.read(Events(groups)))
            any(merged.end())
            return self.errors(made, wanted)
        return errors

    def errors(self, made: Any, wanted: _Input) -> _Errors:
        """The errors after a pass."""
        nr = len(wanted.reading_place)
        numbers, known, locked, counted = made.result(nr)
        bits = pa.py_buffer(known if counted else bytes(len(known)))
        of_number = pa.Array.from_buffers(pa.int64(), nr + 1, [bits, pa.py_buffer(numbers)])
        readings = pa.table({"place": wanted.reading_place, "error": pc.abs(of_number[1:])})
        widest = readings.group_by("place").aggregate([("error", "max")]).to_pydict()
        of_place = dict(zip(widest["place"], widest["error_max"], strict=True))
        places = range(len(wanted.places.node))
        found = _Errors(of_number, pa.array(map(of_place.get, places), pa.int64()), locked)
        _known[self.tape] = self._span, found
        return found

    def _batch(
        self,
        wanted: _Input,
        errors: _Errors | None,
        nr: int,
        out: dict[str, pa.Buffer],
        *,
        columns: list[str],
    ) -> pa.RecordBatch:
        """The rows as a batch with these columns."""

        def array(name: str, of: pa.DataType, valid: str | None = None) -> pa.Array:
            return pa.Array.from_buffers(of, nr, [valid and out[valid], out[name]])

        def error(number: pa.Array) -> pa.Array:
            return errors.of_number.take(number) if errors else pa.nulls(nr, pa.int64())

        place = array("place", pa.uint32())
        makers: dict[str, Callable[[], pa.Array]] = {
            "place": lambda: place,
            "node": lambda: wanted.places.node.take(place),
            "zone": lambda: wanted.places.zone.take(place),
            "ts": lambda: array("ts", pa.uint64()),
            "free_pages": lambda: array("free", pa.int64()),
            "error_pages": lambda: error(array("number", pa.uint32())),
            "widest_pages": lambda: errors.widest.take(place) if errors else error(place),
            "reading": lambda: array("reading", pa.bool_()),
            "next_ts": lambda: wanted.next_ts.take(array("number", pa.uint32())),
            "before_ts": lambda: array("before_ts", pa.uint64(), "has_before"),
            "before_pages": lambda: array("before_free", pa.int64(), "has_before"),
            "before_error_pages": lambda: error(array("before_number", pa.uint32(), "has_before")),
            "before_reading": lambda: array("before_reading", pa.bool_(), "has_before"),
            "changes": lambda: array("changes", pa.uint32()),
        }
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.RecordBatch.from_arrays([makers[name]() for name in columns], schema=schema)


# The columns of struct zone_free_out: rows before the errors are known.
_RAW = pa.schema(
    [
        ("why", pa.uint8()),
        ("ts", pa.uint64()),
        ("free", pa.int64()),
        ("place", pa.uint32()),
        ("number", pa.uint32()),
        ("changes", pa.uint32()),
        ("before_ts", pa.uint64()),
        ("before_free", pa.int64()),
        ("before_number", pa.uint32()),
        *((name, pa.bool_()) for name in _BITS),
    ]
)


def _raw(nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
    arrays = [pa.Array.from_buffers(field.type, nr, [None, out[field.name]]) for field in _RAW]
    return pa.RecordBatch.from_arrays(arrays, schema=_RAW)


class _Joint:
    """One count that finds the rows of several datasets."""

    def __init__(self, of: Sequence[_FreeAt], most: int) -> None:
        self._of = of[0]
        self.wanted = self._of.input()
        self._made = self._of.counting(self.wanted, [one.ROWS for one in of], most)
        self._merged = _Merged(self.wanted, self._made, _raw)
        self._latest: Events | object | None = self  # what was read last
        self._found: list[pa.RecordBatch] | None = None  # its rows; None: too much memory

    def read(self, events: Events | None) -> list[pa.RecordBatch]:
        """The rows that the next batch of events shows, or those after the last batch. Each
        dataset asks for them."""
        if events is not self._latest:
            self._latest, self._found = events, None
            self._found = list(self._merged.read(events) if events else self._merged.end())
        if self._found is None:
            raise MemoryError
        return self._found

    @cached_property
    def errors(self) -> _Errors:
        """The errors, after the end."""
        return self._of.errors(self._made, self.wanted)


class _Its:
    """The rows of one dataset among those of a joint count."""

    def __init__(self, joint: _Joint, rows: str) -> None:
        self.joint = joint
        self._why = pa.scalar(_sequence.ROWS[rows], pa.uint8())

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        return self._split(self.joint.read(events))

    def end(self) -> Iterator[pa.RecordBatch]:
        return self._split(self.joint.read(None))

    def _split(self, found: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in found:
            yield rows.filter(pc.equal(rows["why"], self._why))


class _FreeAt(KeptDataset, ZoneFree):
    """Rows of the count that are few. Their errors are known at the end of the pass."""

    schema = pa.schema([ZoneFree.schema.field(i) for i in range(7)])
    _joint: _Joint | None = None  # of the shared pass under way

    def begun_to_keep(self, most: int) -> Pass:
        of = [one for one in self.shared.making if isinstance(one, _FreeAt)]
        if self is of[0]:
            joint = _Joint(of, most)
            for one in of:
                one._joint = joint
        if self._joint is None:
            raise MemoryError
        return _Its(self._joint, self.ROWS)

    def keep(self, rows: pa.Table | None) -> None:
        super().keep(rows)
        self._joint = None

    def finished(self, made: Pass, parts: list[pa.RecordBatch]) -> pa.Table:
        assert isinstance(made, _Its)
        errors, wanted = made.joint.errors, made.joint.wanted
        rows = pa.Table.from_batches(parts, _RAW)
        if not len(rows) or (self._ONLY_LOCKED and not errors.locked):
            return self.schema.empty_table()
        out = {name: rows[name].combine_chunks().buffers()[1] for name in _RAW.names}
        columns = self.schema.names
        batch = self._batch(wanted, errors, len(rows), out, columns=columns)
        return pa.Table.from_batches([batch])


class FreeAtFailure(_FreeAt):
    """Free pages when requests failed: view free_at_failure."""

    ROWS = "failures"
    _ONLY_LOCKED = True


class FreeAtKswapd(_FreeAt):
    """Free pages when a kswapd woke or went to sleep: view free_at_kswapd."""

    ROWS = "moments"


class LowFree(_FreeAt):
    """The rows of view zone_free that report reclaim.min_free needs: ROWS_LOW in zone_free.h.

    `changes` is the number of rows of zone_free that a row stands for.
    """

    schema = pa.schema([*ZoneFree.schema, pa.field("changes", pa.uint32(), nullable=False)])
    ROWS = "low"
