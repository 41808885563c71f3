# SPDX-License-Identifier: Apache-2.0
"""The pageblocks of a CMA area, found by the orders of their free blocks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from pagetape import cma
from pagetape.schemas import TABLES

ORDER = 3  # of a pageblock
Free = list[tuple[int, int]]  # pfn and order of a free block


def area_in(blocks: int, free: Free, area: Free, nr: int, *, zone: str = "NORMAL") -> list[int]:
    """The pageblocks found in a zone of `blocks`, if `nr` have the free blocks of `area`."""
    where = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL"}
    pageblocks = [
        where | {"pfn": block << ORDER, "migratetype": "UNMOVABLE", "guessed": True}
        for block in range(blocks)
    ]
    listed: list[dict[str, Any]] = [
        where | {"pfn": pfn, "page_order": order} for pfn, order in free
    ]
    orders = {
        "CMA": Counter(order for _, order in area),
        "MOVABLE": Counter(order for pfn, order in free if pfn not in dict(area)),
    }
    found = cma.marked(
        pa.record_batch(TABLES["pageblock"].batch(pageblocks)),
        pa.record_batch(TABLES["block_guess"].batch(listed)),
        [
            {"node": 0, "zone": zone, "migratetype": type_, "page_order": o, "nr_free": nr_free[o]}
            for type_, nr_free in orders.items()
            for o in range(5)
        ],
        [{"node": 0, "zone": zone, "migratetype": "CMA", "nr_blocks": nr}],
        ORDER,
    )
    found.validate(full=True)
    assert found.schema.equals(TABLES["pageblock"].arrow)
    return [row["pfn"] >> ORDER for row in found.to_pylist() if row["migratetype"] == "CMA"]


def test_the_area_is_the_run_with_its_free_blocks() -> None:
    area = [(16, 4), (32, 3), (40, 2)]
    free = [(0, 3), *area, (64, 4), (80, 1)]
    assert area_in(11, free, area, 4) == [2, 3, 4, 5]


def test_of_equal_runs_the_area_is_the_highest() -> None:
    free = [(pfn, 4) for pfn in range(0, 96, 16)]
    assert area_in(13, free, free[:2], 4) == [8, 9, 10, 11]


def test_a_free_block_is_in_the_area_or_outside() -> None:
    free = [(pfn, 4) for pfn in range(0, 96, 16)]
    assert area_in(11, free, free[:1], 2) == [8, 9]


def test_a_few_pages_may_change_between_the_two_files() -> None:
    free = [(0, 2), *((pfn, 4) for pfn in range(16, 272, 16))]
    freed_since = (8, 0)
    assert area_in(36, free, [*free[1:], freed_since], 32) == list(range(2, 34))


def test_the_rest_of_the_zone_has_the_other_free_blocks() -> None:
    # A block of the area was split since. One before the area would take its place.
    same = [*((pfn, 4) for pfn in range(272, 1248, 16)), (1280, 0)]
    free = [(256, 4), *same, (1248, 3)]
    assert area_in(170, free, [*same, (1248, 4)], 128) == list(range(34, 162))


def test_an_area_may_end_with_the_zone() -> None:
    assert area_in(4, [(0, 3), (24, 3)], [(24, 3)], 1) == [3]


def test_two_areas_are_no_run() -> None:
    free = [(0, 4), (64, 4)]
    assert area_in(10, free, free, 4) == []


def test_a_zone_without_an_area_keeps_its_types() -> None:
    free = [(0, 4)]
    assert area_in(4, free, free, 0) == []
    assert area_in(4, free, free, 5) == []
    assert area_in(4, free, free, 2, zone="DMA32") == []
