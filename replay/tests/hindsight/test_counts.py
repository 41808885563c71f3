# SPDX-License-Identifier: Apache-2.0
"""A start without kpageflags: counted free blocks are placed by events, or where none shows use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from pagetape._replay import Hindsight
from pagetape.schemas import TABLES

Rows = list[dict[str, Any]]

BLOCK = 512
PAGES = 8 * BLOCK
_PLACE = ("migratetype", "page_order", "pfn")


def _zone() -> dict[str, Any]:
    row: dict[str, Any] = {c.name: 0 for c in TABLES["zone"].columns if not c.null}
    sizes = dict.fromkeys(("spanned", "present", "managed"), PAGES)
    return row | {"zone": "NORMAL", "wmark_min": 8, "wmark_low": 16, "wmark_high": 32} | sizes


def _event(kind: str, pfn: int, order: int = 0, migratetype: str | None = "MOVABLE") -> Any:
    row: dict[str, Any] = dict.fromkeys(TABLES["event"].arrow.names)
    row |= {c.name: 0 for c in TABLES["event"].columns if not c.null}
    return row | {"kind": kind, "pfn": pfn, "page_order": order, "migratetype": migratetype}


def _taken(pfn: int, order: int = 0, migratetype: str = "MOVABLE") -> Any:
    return _event("alloc_zone_locked", pfn, order, migratetype)


def start(counts: dict[tuple[str, int], int], blocks: dict[str, int], events: Rows) -> Any:
    """The free blocks and the pageblocks of the start, and its coverage."""
    engine = Hindsight(
        "6.18",
        nr_cpus=1,
        cpu_nodes=[0],
        node_distances=[[10]],
        pageblock_order=9,
        nr_rows=len(events),
    )
    where = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL"}
    areas = [
        where | {"migratetype": kind, "page_order": order, "nr_free": nr, "capped": False}
        for (kind, order), nr in counts.items()
    ]
    numbers = [where | {"migratetype": kind, "nr_blocks": nr} for kind, nr in blocks.items()]
    for name, rows in (("zone", [_zone()]), ("free_area", areas), ("block_count", numbers)):
        engine.load(name, TABLES[name].batch(rows))
    batch = TABLES["event"].batch([row | {"ts": n} for n, row in enumerate(events)])
    engine.preview(batch)
    engine.feed(batch)
    engine.finish()
    found: dict[str, Rows] = {"free_block": [], "pageblock": []}
    while (read := engine.read()) is not None:
        if read[0] in found:
            found[read[0]] += pa.record_batch(read[1]).to_pylist()
    free = sorted(tuple(row[name] for name in _PLACE) for row in found["free_block"])
    types = {row["pfn"]: (row["migratetype"], row["guessed"]) for row in found["pageblock"]}
    return free, types, engine.coverage


def _counted(free: list[tuple[str, int, int]]) -> Counter[tuple[str, int]]:
    return Counter((kind, order) for kind, order, _ in free)


def test_events_show_the_place_of_a_counted_block() -> None:
    """Two pages of the block leave it; the other pages have no event."""
    counts = {("MOVABLE", 4): 1}
    free, types, coverage = start(counts, {"MOVABLE": 8}, [_taken(1040), _taken(1041)])
    assert free == [("MOVABLE", 4, 1040)]
    assert types[1024] == ("MOVABLE", False)
    assert coverage["free_blocks_proven"] == 1
    assert coverage["free_blocks_guessed"] == coverage["contradictions"] == 0


def test_no_guess_is_on_a_page_in_use_or_merges_with_another() -> None:
    counts = {("MOVABLE", order): 2 for order in range(10)} | {("UNMOVABLE", 0): 3}
    used = [_event("free", pfn, 0, None) for pfn in range(0, PAGES // 2, 3)]
    free, types, coverage = start(counts, {"UNMOVABLE": 1, "MOVABLE": 7}, used)
    assert _counted(free) == counts
    assert coverage["free_blocks_guessed"] == len(free) == 23
    pages = [pfn + n for _, order, pfn in free for n in range(1 << order)]
    assert len(pages) == len(set(pages))
    assert not {row["pfn"] for row in used} & set(pages)
    assert Counter(kind for kind, _ in types.values()) == {"UNMOVABLE": 1, "MOVABLE": 7}
    assert all(types[pfn // BLOCK * BLOCK][0] == kind for kind, _, pfn in free)


def test_guesses_go_to_pageblocks_whose_type_events_show() -> None:
    counts = {("UNMOVABLE", 0): 1, ("UNMOVABLE", 3): 2}
    free, _, _ = start(counts, {"UNMOVABLE": 1, "MOVABLE": 7}, [_taken(2064, 3, "UNMOVABLE")])
    assert _counted(free) == counts
    assert ("UNMOVABLE", 3, 2064) in free
    assert {pfn // BLOCK for _, _, pfn in free} == {2048 // BLOCK}


def test_pages_that_are_free_beyond_the_counts_take_the_place_of_guesses() -> None:
    """The block of order 3 was cut between the snapshot and the first event."""
    events = [_event("free", 1025, 0, None), *(_taken(pfn) for pfn in (1024, 1026, 1027))]
    free, _, coverage = start({("MOVABLE", 2): 1}, {"MOVABLE": 8}, events)
    assert free == [("MOVABLE", 0, 1024), ("MOVABLE", 1, 1026)]
    assert coverage["free_blocks_guessed"] == 0
    assert coverage["contradictions"] == 3


def test_the_same_input_has_the_same_start() -> None:
    counts = {("MOVABLE", order): 1 for order in range(11)}
    events = [_taken(pfn) for pfn in range(700, 900, 7)]
    assert start(counts, {"MOVABLE": 8}, events) == start(counts, {"MOVABLE": 8}, events)
