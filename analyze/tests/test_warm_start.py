# SPDX-License-Identifier: Apache-2.0
"""Per-CPU lists of a what-if that begins after a warm-up."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pagetape.replaying.playback import Playback, Run, Source
from pagetape.replaying.warm_start import filled, tuned, warmed
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

FIXED = {"snapshot": 0, "node": 0, "zone": "NORMAL", "count": 40, "high": 60, "batch": 63}


def lists(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_batches([TABLES["pcp"].batch(list(rows))])


def test_only_lists_with_other_limits_get_the_size_of_the_end() -> None:
    tuning = {"high_min": 63, "high_max": 500}
    start = lists(
        FIXED | {"cpu": 0, "high_min": 60, "high_max": 60}, FIXED | tuning | {"cpu": 1, "high": 99}
    )
    end = lists(FIXED | tuning | {"cpu": 0, "high": 480}, FIXED | tuning | {"cpu": 1, "high": 300})
    found = [(row["high"], row["high_max"], row["count"]) for row in tuned(start, end).to_pylist()]
    assert found == [(480, 500, 40), (99, 500, 40)]


FREE = {"snapshot": 0, "ts": 7, "node": 0, "zone": "NORMAL", "migratetype": "MOVABLE"}
SMALL = FIXED | {"cpu": 0, "high_min": 60, "high_max": 60}
LARGE = SMALL | {"high_max": 500}


def start_with(*blocks: dict[str, Any]) -> dict[str, pa.Table]:
    """A start with one list of 40 pages, of which the rows have none, and these free blocks."""
    rows = {"pcp": [SMALL], "pcp_page": [], "free_block": [FREE | block for block in blocks]}
    return {name: pa.Table.from_batches([TABLES[name].batch(rows[name])]) for name in rows}


def free_blocks(tables: dict[str, pa.Table]) -> list[tuple[int, int]]:
    return [(row["pfn"], row["page_order"]) for row in tables["free_block"].to_pylist()]


def test_a_larger_list_has_the_smallest_movable_blocks_of_its_zone() -> None:
    start = start_with(
        {"pfn": 64, "page_order": 4},
        {"pfn": 8, "page_order": 1},
        {"pfn": 20, "page_order": 0},
        {"pfn": 21, "page_order": 0, "migratetype": "UNMOVABLE"},
        {"pfn": 22, "page_order": 0, "zone": "DMA"},
        {"pfn": 23, "page_order": 0, "node": 1},
    )
    made = filled(start, lists(LARGE | {"count": 46}))
    assert made["pcp_page"]["pfn"].to_pylist() == [20, 8, 9, 64, 65, 66]
    assert set(made["pcp_page"]["cpu"].to_pylist()) == {0}
    assert free_blocks(made) == [(21, 0), (22, 0), (23, 0), (67, 0), (68, 2), (72, 3)]
    assert made["pcp"]["count"].to_pylist() == [46]


def test_a_list_gets_no_more_pages_than_there_are() -> None:
    made = filled(start_with({"pfn": 8, "page_order": 1}), lists(LARGE | {"count": 100}))
    assert made["pcp_page"]["pfn"].to_pylist() == [8, 9] and not free_blocks(made)
    assert made["pcp"]["count"].to_pylist() == [42]


def test_a_list_with_fewer_pages_or_the_same_limits_stays() -> None:
    start = start_with({"pfn": 8, "page_order": 1})
    for end in (LARGE | {"count": 39}, SMALL | {"count": 60}):
        assert filled(start, lists(end)) == start


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 200))
def test_every_page_is_on_a_list_or_in_a_block(orders: list[int], wanted: int) -> None:
    blocks = [{"pfn": 64 * i, "page_order": order} for i, order in enumerate(orders)]
    made = filled(start_with(*blocks), lists(LARGE | {"count": 40 + wanted}))
    pages = made["pcp_page"]["pfn"].to_pylist()
    assert len(pages) == min(wanted, sum(1 << order for order in orders))
    for pfn, order in free_blocks(made):
        assert pfn % (1 << order) == 0
        pages.extend(range(pfn, pfn + (1 << order)))
    assert sorted(pages) == sorted(
        b["pfn"] + i for b in blocks for i in range(1 << b["page_order"])
    )


def test_a_warmed_source_begins_with_the_new_size(small: Path) -> None:
    source = Source(Tape(small))
    run = Run("auto", ("pcp:percpu_pagelist_high_fraction=8",))
    warm = warmed(source, run)
    assert set(warm.at_start("pcp")["high"].to_pylist()) == {2048}
    assert set(source.at_start("pcp")["high"].to_pylist()) == {64}
    with Playback(warm, run) as playback:
        assert not playback.play(lambda _: None)["anomalies"]
