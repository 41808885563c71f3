# SPDX-License-Identifier: Apache-2.0
"""Rows about sequences of events, which one pass over a tape finds: sequence.h.

A view or query names its rows `sequence_NAME`. Each scan of it is a pass.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.dataset as ds

from pagetape import _sequence
from pagetape.asking.event_groups import EventCounts, EventGroups, Played
from pagetape.asking.rare_events import EventsNearSnapshots, RareEvents
from pagetape.asking.sequence_dataset import KeptDataset, SequenceDataset
from pagetape.asking.tape_dataset import Filter, by_label, words_of
from pagetape.asking.zone_free import FreeAtFailure, FreeAtKswapd, LowFree, ZoneFree
from pagetape.schemas import TABLES

_MIGRATETYPE = TABLES["event"].column("migratetype")
assert len(_MIGRATETYPE.labels) <= 16  # page_uses.c has 4 bits for one


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
    valid: ClassVar = {
        **dict.fromkeys(("ts", "cpu", "pid"), "begun"),
        **dict.fromkeys(("until_ts", "freed"), "until_valid"),
        "page_order": "page_order_valid",
        "migratetype": "migratetype_valid",
    }

    def made(self, most: int) -> Any:
        return _sequence.PageUses(self._kinds, self._choice(), not self.BEFORE_END, most)

    def _choice(self) -> tuple[int, tuple[int, int]] | None:
        return None


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
    labels: ClassVar = {"what": ("take", "give", "trace")}
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
            return by_label("what", self.labels["what"], wanted)
        return super()._filter(wanted)

    def made(self, most: int) -> Any:  # noqa: ARG002
        return _sequence.LockRuns(self._kinds)


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
    "sequence_event_near_snapshot": EventsNearSnapshots,
    "sequence_zone_free": ZoneFree,
    "sequence_free_at_failure": FreeAtFailure,
    "sequence_free_at_kswapd": FreeAtKswapd,
    "sequence_low_free": LowFree,
}
