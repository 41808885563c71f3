# SPDX-License-Identifier: Apache-2.0
"""Rows about sequences of events, which one pass over a tape finds: sequence.h.

A view or query names its rows `sequence_NAME`. Each scan of it is a pass.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from pagetape import _sequence
from pagetape.asking.event_groups import EventCounts, EventGroups, Played
from pagetape.asking.rare_events import RareEvents
from pagetape.asking.sequence_dataset import KeptDataset, SequenceDataset, bitmap, values
from pagetape.asking.tape_dataset import Filter, by_label, words_of
from pagetape.asking.zone_free import FreeAtFailure, FreeAtKswapd, LowFree, ZoneFree
from pagetape.schemas import TABLES

_MIGRATETYPE = TABLES["event"].column("migratetype")


class PageUses(SequenceDataset):
    """Uses of pages: view page_use."""

    names = ("ts", "cpu", "pid", "kind", "pfn", "page_order", "migratetype")
    schema = pa.schema(
        [
            pa.field("pfn", pa.uint64(), nullable=False),
            pa.field("ts", pa.uint64()),
            pa.field("cpu", pa.uint16()),
            pa.field("pid", pa.int32()),
            pa.field("page_order", pa.uint8()),
            pa.field("migratetype", _MIGRATETYPE.arrow.type),
            pa.field("until_ts", pa.uint64()),
            pa.field("freed", pa.bool_()),
            pa.field("freed_before", pa.bool_(), nullable=False),
        ]
    )

    def made(self, most: int) -> Any:
        return _sequence.PageUses(self._kinds, self._choice(), not self.BEFORE_END, most)

    def _choice(self) -> tuple[int, tuple[int, int]] | None:
        return None

    def room(self, rows: int) -> dict[str, pa.Buffer]:
        widths = {"pfn": 8, "ts": 8, "cpu": 2, "pid": 4, "page_order": 1, "migratetype": 1}
        room = {name: values(rows, width) for name, width in widths.items()}
        room |= {"until_ts": values(rows, 8)}
        bitmaps = ("begun", "page_order_valid", "migratetype_valid", "until_valid")
        return room | {name: bitmap(rows) for name in (*bitmaps, "freed", "freed_before")}

    def batch(self, nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
        def column(name: str, values: str, valid: str | None) -> pa.Array:
            of = self.schema.field(name).type
            index = of.index_type if pa.types.is_dictionary(of) else of
            array = pa.Array.from_buffers(index, nr, [valid and out[valid], out[values]])
            if index is of:
                return array
            return pa.DictionaryArray.from_arrays(array, pa.array(_MIGRATETYPE.labels, pa.utf8()))

        arrays = [
            column("pfn", "pfn", None),
            *(column(name, name, "begun") for name in ("ts", "cpu", "pid")),
            column("page_order", "page_order", "page_order_valid"),
            column("migratetype", "migratetype", "migratetype_valid"),
            column("until_ts", "until_ts", "until_valid"),
            column("freed", "freed", "until_valid"),
            column("freed_before", "freed_before", None),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class MovablePageUses(PageUses):
    """Uses of MOVABLE pages, single or huge: view movable_page_use."""

    def _choice(self) -> tuple[int, tuple[int, int]]:
        order = int(self.tape.facts.get("pageblock_order") or 0)
        return _MIGRATETYPE.labels.index("MOVABLE"), (0, order if order < 256 else 0)


class PagesInUse(KeptDataset, PageUses):
    """Pages in use at the end: view page_in_use."""

    BEFORE_END = False


class LockRuns(SequenceDataset):
    """Runs of events under the zone lock: view lock_run."""

    names = ("ts", "cpu", "kind", "percpu_refill")
    _WHAT = ("take", "give", "trace")
    schema = pa.schema(
        [
            pa.field("what", pa.dictionary(pa.uint8(), pa.utf8()), nullable=False),
            pa.field("cpu", pa.uint16(), nullable=False),
            pa.field("blocks", pa.uint64(), nullable=False),
            pa.field("from_ts", pa.uint64(), nullable=False),
            pa.field("until_ts", pa.uint64(), nullable=False),
        ]
    )

    def _filter(self, wanted: ds.Expression) -> Filter:
        if words_of(wanted) & {*self.schema.names} == {"what"}:
            return by_label("what", self._WHAT, wanted)
        return super()._filter(wanted)

    def made(self, most: int) -> Any:  # noqa: ARG002
        return _sequence.LockRuns(self._kinds)

    def room(self, rows: int) -> dict[str, pa.Buffer]:
        widths = {"what": 1, "cpu": 2, "blocks": 8, "from_ts": 8, "until_ts": 8}
        return {name: values(rows, width) for name, width in widths.items()}

    def batch(self, nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
        arrays = [
            pa.Array.from_buffers(pa.uint8() if i == 0 else field.type, nr, [None, out[field.name]])
            for i, field in enumerate(self.schema)
        ]
        arrays[0] = pa.DictionaryArray.from_arrays(arrays[0], pa.array(self._WHAT, pa.utf8()))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class ListDemand(KeptDataset):
    """Net demand of each CPU for pages of its lists, in bins of `ts`: query diagnose.pcp_curve."""

    names = ("ts", "cpu", "kind", "pfn", "page_order")
    schema = pa.schema([("cpu", pa.uint16()), ("bin", pa.uint64()), ("pages", pa.int64())])
    _MOST, _LEAST_NS = 60_000, 1_000_000  # bins, and the length of one

    def made(self, most: int) -> Any:  # noqa: ARG002
        first, last = self.tape.clock or (0, 0)
        first, last = max(first, self._span[0]), min(last, self._span[1] - 1)
        order = int(self.tape.facts.get("pageblock_order") or 0)
        width = max((last - first) // self._MOST, self._LEAST_NS)
        return _sequence.ListDemand(self._kinds, width, order if order < 256 else 0)

    def room(self, rows: int) -> dict[str, pa.Buffer]:
        return {"cpu": values(rows, 2), "bin": values(rows, 8), "pages": values(rows, 8)}

    def batch(self, nr: int, out: dict[str, pa.Buffer]) -> pa.RecordBatch:
        arrays = [pa.Array.from_buffers(f.type, nr, [None, out[f.name]]) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


SEQUENCES: dict[str, type[SequenceDataset]] = {
    "sequence_page_use": PageUses,
    "sequence_page_in_use": PagesInUse,
    "sequence_movable_page_use": MovablePageUses,
    "sequence_lock_run": LockRuns,
    "sequence_list_demand": ListDemand,
    "sequence_played": Played,
    "sequence_event_count": EventCounts,
    "sequence_event_group": EventGroups,
    "sequence_rare_event": RareEvents,
    "sequence_zone_free": ZoneFree,
    "sequence_free_at_failure": FreeAtFailure,
    "sequence_free_at_kswapd": FreeAtKswapd,
    "sequence_low_free": LowFree,
}
