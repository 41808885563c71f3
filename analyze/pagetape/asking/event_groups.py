# SPDX-License-Identifier: Apache-2.0
"""Counts of the events of a tape: by what they have in common (event_groups.h), and by time
(event_counts.h)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.dataset as ds

from pagetape import _sequence
from pagetape.asking.only import Only
from pagetape.asking.sequence_dataset import Events, KeptDataset, Pass, SequenceDataset
from pagetape.asking.tape_dataset import Scanner
from pagetape.schemas import TABLES
from pagetape.schemas.form import GroupedRows
from pagetape.tapes import played_span

_EVENT = TABLES["event"]
_INTERRUPT = 0b110  # hardirq and softirq, of `flags`

_BITS = ("played", "recorder", "in_interrupt", "percpu_refill", "change_ownership")
_SAME = (
    "kind", "cpu", "pid", "page_order", "migratetype", "gfp_flags",
    "fallback_order", "fallback_migratetype",
)  # fmt: skip
_SUMS = ("events", "without_page", "runs", "first_ts", "last_ts")
_NULL = (
    "page_order", "migratetype", "gfp_flags", "percpu_refill",
    "fallback_order", "fallback_migratetype", "change_ownership",
)  # fmt: skip

# The columns of `event` behind those columns of a group that it does not have by that name.
_OF = {
    "recorder": "pid", "in_interrupt": "flags", "runs": "pid",
    "without_page": "pfn", "first_ts": "pfn", "last_ts": "pfn",
}  # fmt: skip


class Played(SequenceDataset):
    """The span that a replay covers: view played."""

    schema = pa.schema([("since", pa.uint64()), ("until", pa.uint64())])

    def _found(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        since, until = played_span.of_tape(self.tape)
        first, last = self.tape.clock or played_span.ALL
        rows = [{"since": max(since, first), "until": min(until, last)}]
        yield pa.RecordBatch.from_pylist(rows, self.schema).select(columns)


class _Part:
    """A pass over the events that meet some conditions."""

    def __init__(self, made: Pass, only: Sequence[Only]) -> None:
        self._made, self._only = made, only

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        rows = events.rows
        for condition in self._only:
            rows = condition.rows(rows)
        found = GroupedRows(rows.drop_columns("group"), rows["group"], events.groups.keys)
        return self._made.read(Events(found))

    def end(self) -> Iterator[pa.RecordBatch]:
        return self._made.end()


class Counted(KeptDataset):
    """Counts of the events that meet some conditions."""

    only: Sequence[Only] = ()

    def _begun(self, columns: list[str], most: int) -> Pass:
        made = super()._begun(columns, most)
        return _Part(made, self.only) if self.only else made


class EventCounts(Counted):
    """Events by interval, kind and order: query events.over_time. An interval may have several rows
    of a kind and order. The filter of a scan says how long an interval is: interval_ms = N."""

    names = ("ts", "pid", "kind", "pfn", "page_order")  # pid and pfn: of conditions
    schema = pa.schema(
        [
            ("interval_ms", pa.int64()),
            ("interval", pa.uint64()),
            *((name, _EVENT.column(name).arrow.type) for name in ("kind", "page_order")),
            ("events", pa.uint64()),
            ("with_page", pa.uint64()),
        ]
    )
    valid: ClassVar = {"page_order": "page_order_valid"}
    interval_ms: int = 1000
    _kept_ms: int | None = None  # the interval of the rows that are kept

    def scanner(
        self, columns: list[str] | None = None, filter: ds.Expression | None = None
    ) -> Scanner:
        if wanted := re.search(r"\binterval_ms == (\d+)\b", str(filter)):
            self.interval_ms = int(wanted[1])
        return super().scanner(columns, filter)

    @property
    def is_known(self) -> bool:
        return super().is_known and self._kept_ms == self.interval_ms

    def keep(self, rows: pa.Table | None) -> None:
        super().keep(rows)
        self._kept_ms = self.interval_ms

    def made(self, most: int) -> Any:  # noqa: ARG002
        first, _ = self.tape.clock or (0, 0)
        start = max(first, self._span[0])
        return _sequence.EventCounts(self._kinds, start, self.interval_ms * 1_000_000)

    def room(self, rows: int) -> dict[str, pa.Buffer]:
        length = pa.repeat(pa.scalar(self.interval_ms, pa.int64()), rows)
        return super().room(rows) | {"interval_ms": length.buffers()[1]}


class EventGroups(Counted):
    """Groups of events: view event_group."""

    names = tuple(column.name for column in _EVENT.columns)
    schema = pa.schema(
        [
            *((name, pa.bool_()) for name in _BITS),
            *((name, _EVENT.column(name).arrow.type) for name in _SAME),
            *((name, pa.uint64()) for name in _SUMS),
        ]
    )
    valid: ClassVar = {name: f"{name}_valid" for name in _NULL}
    BEFORE_END = False

    def reads(self, columns: list[str]) -> Collection[str]:
        of_groups = {_OF.get(name, name) for name in columns}
        return {"ts", "cpu", "kind", *(only.column for only in self.only), *of_groups} & {
            *self.names
        }

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
