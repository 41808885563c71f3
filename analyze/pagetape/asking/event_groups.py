# SPDX-License-Identifier: Apache-2.0
"""Counts of the events of a tape by what they have in common: event_groups.h."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pagetape import _sequence
from pagetape.asking.only import Only
from pagetape.asking.sequence_dataset import (
    Events,
    KeptDataset,
    Pass,
    SequenceDataset,
    bitmap,
    values,
)
from pagetape.schemas import TABLES
from pagetape.tapes import played_span

_EVENT = TABLES["event"]
_INTERRUPT = 0b110  # hardirq and softirq, of `flags`

_BITS = ("played", "recorder", "in_interrupt", "percpu_refill", "change_ownership")
_WIDTHS = {
    "kind": 1, "cpu": 2, "pid": 4, "page_order": 1, "migratetype": 1, "gfp_flags": 4,
    "fallback_order": 1, "fallback_migratetype": 1,
    "events": 8, "without_page": 8, "runs": 8, "first_ts": 8, "last_ts": 8,
}  # fmt: skip
_NULL = (
    "page_order", "migratetype", "gfp_flags", "percpu_refill",
    "fallback_order", "fallback_migratetype", "change_ownership",
)  # fmt: skip


def _type(name: str) -> pa.DataType:
    if name in _BITS:
        return pa.bool_()
    if name in ("events", "without_page", "runs", "first_ts", "last_ts"):
        return pa.uint64()
    return _EVENT.column(name).arrow.type


class Played(SequenceDataset):
    """The span that a replay covers: view played."""

    schema = pa.schema([("since", pa.uint64()), ("until", pa.uint64())])

    def _found(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        since, until = played_span.of_tape(self.tape)
        rows = [{"since": since, "until": until}]
        yield pa.RecordBatch.from_pylist(rows, self.schema).select(columns)


class _Part:
    """A pass over the events that meet some conditions."""

    def __init__(self, made: Pass, only: Sequence[Only]) -> None:
        self._made, self._only = made, only

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        rows = events.rows
        for condition in self._only:
            rows = condition.rows(rows)
        return self._made.read(Events(rows))

    def end(self) -> Iterator[pa.RecordBatch]:
        return self._made.end()


class EventGroups(KeptDataset):
    """Groups of events: view event_group."""

    names = tuple(column.name for column in _EVENT.columns)
    schema = pa.schema([(name, _type(name)) for name in (*_BITS, *_WIDTHS)])
    BEFORE_END = False
    only: Sequence[Only] = ()  # conditions on the events that count

    def _begun(self, columns: list[str], most: int) -> Pass:
        made = super()._begun(columns, most)
        return _Part(made, self.only) if self.only else made

    def made(self, most: int) -> Any:
        tape = self.tape
        recorder = tape.facts.get("recorder_pid")
        threads = tape.table("task").to_pylist() if recorder is not None else []
        pids = pa.array(sorted({t["pid"] for t in threads if t["tgid"] == recorder}), pa.int32())
        return _sequence.EventGroups(
            self._kinds,
            played_span.of_tape(tape),
            _INTERRUPT,
            (len(pids), pids.buffers()[1]),
            most,
        )

    def room(self, rows: int) -> dict[str, pa.Buffer]:
        room = {name: values(rows, width) for name, width in _WIDTHS.items()}
        bitmaps = (*_BITS, *(f"{name}_valid" for name in _NULL))
        return room | {name: bitmap(rows) for name in bitmaps}

    def batch(self, nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
        arrays = []
        for field in self.schema:
            of = field.type
            coded = pa.types.is_dictionary(of)
            valid = out[f"{field.name}_valid"] if field.name in _NULL else None
            index = of.index_type if coded else of
            array = pa.Array.from_buffers(index, nr, [valid, out[field.name]])
            if coded:
                labels = pa.array(_EVENT.column(field.name).labels, pa.utf8())
                array = pa.DictionaryArray.from_arrays(array, labels)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
