# SPDX-License-Identifier: Apache-2.0
"""What differs between kernels. Every value is a fact about the named release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .names import MOVABLE, RECLAIMABLE, UNMOVABLE


@dataclass(frozen=True)
class Kernel:
    """One kernel's rules. The defaults are those of 6.18."""

    name: str

    # Per-CPU lists.
    pcp_types: tuple[str, str, str] = (UNMOVABLE, MOVABLE, RECLAIMABLE)  # in list order
    pcp_max_order: int = 3  # besides the huge page's
    thp_lists: int = 2  # lists of huge pages: none, 1, 2 (not movable, movable), 3 (by type)
    drain: Literal["round robin", "round robin to the end", "whole lists"] = "whole lists"
    drained_to: Literal["index", "recorded", "block"] = "block"
    tuning: Literal["fixed", "free_factor", "auto"] = "auto"
    free_factor_max: int | None = None
    free_high: bool = True  # frees of orders 1..3 in a row empty the lists
    free_high_bias: bool = True  # ... later, by half of high_min
    decay_in_batches: bool = True
    overflow_in_batches: bool = False  # with the zone lock dropped between
    drain_all_in_pieces: bool = True
    drain_all_by_caller: bool = True  # or on each CPU by itself
    cold_pages: bool = False  # __GFP_COLD takes the tail
    mixed_list: bool = False  # one list for all types
    pcp_miss_tries_buddy: bool = True

    # Buddy lists.
    likely_merge_to_tail: bool = True
    moved_block_to: Literal["head", "tail"] = "tail"
    merge_guard: Literal["none", "isolate", "mergeable", "retype first", "retype all"] = (
        "retype all"
    )
    free_by_block: bool = True  # frees larger than a pageblock go pageblock by pageblock

    # Fallback.
    fallback: Literal["largest", "move then decide", "claim or single", "claim then steal"] = (
        "claim then steal"
    )
    claim_tests_list_type: bool = True  # "was it a movable block" looks at the list's type
    retype_larger_chunks: bool = True  # 2.6.31 retyped only chunks of exactly a pageblock
    skips_awake_nodes: bool = True  # a pass first leaves out nodes whose kswapd works
    nofragment: Literal["never", "first pass"] = "first pass"
    nofragment_any_order: bool = False  # it binds requests of a pageblock and more, too
    boost: Literal["never", "always", "unless small"] = "unless small"
    cma_balance: bool = True
    cma_needs_right: bool = True

    # Watermarks and reserves.
    watermark: Literal["2.6", "harder", "graded"] = "graded"
    unusable: Literal["cma", "reserved", "free highatomic"] = "free highatomic"
    unboosted_by: Literal["ATOMIC", "HIGH"] = "HIGH"  # who ignores the boost above the min mark
    below_high: bool = True
    highatomic_reserve: bool = True
    highatomic_needs_high: bool = True  # the right needs __GFP_HIGH too
    highatomic_whole_percent: bool = True  # no reserve in zones below 100 pageblocks
    highatomic_by_order: bool = True  # chunks above a pageblock count with all their blocks
    # Whose pageblock the reserve gets: any with the right; past the lists; that and below low
    highatomic_grows: Literal["any", "buddy", "buddy below low"] = "any"
    highatomic_refills: bool = True  # a request with the right refills its empty list
    highatomic_at_once: bool = False  # the right is there above the low mark, too
    highatomic_last: bool = True  # the reserve is the last resort of what cannot sleep
    harder_any_order: bool = False  # single pages may come from the reserve too

    # Slow path.
    compacts: bool = True  # 2.6.35
    first_compaction_is_a_turn: bool = False  # the loop begins anew after it, whatever it found
    defrag_raises: bool = False  # defrag_mode raises reclaim and compaction to a pageblock's order
    defrag_raises_turns: bool = False  # such turns have limits of their own
    boost_wakes_any: bool = False  # a boost wakes kswapd for callers without the right, too

    # Compaction.
    folios_move: bool = True  # blocks below the order of the run, too
    targets_below_order: bool = True  # pages do not move behind a free chunk of the run's order
    gap_most: int | None = None  # most pages that compaction needs above the mark
    async_needs_own_pages: bool = True  # costly, asynchronous: the gap without CMA pages
    cma_sources_need_right: bool = False  # a request leaves CMA blocks that it cannot use
    ready_at_costly_gap: bool = True  # reclaim leaves a zone with the gap above the high mark

    # Events.
    zone_locked_by: Literal["core", "smallest"] = "smallest"
    zone_locked_without_page: bool = False
    free_twice: bool = False  # an order-0 free is traced twice
    contiguous_frees: Literal["page by page", "as blocks"] = "page by page"
    batch_prepares: bool = True  # a batch traces mm_page_free for all its pages first
    isolated_in_batch: Literal["as others", "at once", "untraced"] = "untraced"


_V618 = Kernel("6.18")
_V619 = replace(_V618, name="6.19", overflow_in_batches=True)
_V70 = replace(_V619, name="7.0", first_compaction_is_a_turn=True)
_V71 = replace(_V70, name="7.1", highatomic_grows="buddy", highatomic_refills=False)
_V72 = replace(
    _V71,
    name="7.2",
    contiguous_frees="as blocks",
    defrag_raises=True,
    gap_most=32,
    cma_sources_need_right=True,
)
_V73 = replace(
    _V72,
    name="7.3",
    highatomic_grows="buddy below low",
    highatomic_at_once=True,
    defrag_raises_turns=True,
)
_V612_117 = replace(
    _V618,
    name="6.12.117",
    free_high_bias=False,
    claim_tests_list_type=False,
    skips_awake_nodes=False,
    async_needs_own_pages=False,
    ready_at_costly_gap=False,
)
_V617 = replace(_V618, name="6.17", decay_in_batches=False, skips_awake_nodes=False)
_V615 = replace(_V617, name="6.15")  # proactive compaction is not the oracle's
_V612_19 = replace(
    _V612_117,
    name="6.12.19",
    decay_in_batches=False,
    fallback="claim or single",
    merge_guard="retype first",
    highatomic_needs_high=False,
)
_V614 = replace(_V612_19, name="6.14")
_V68 = replace(
    _V612_19,
    name="6.8",
    thp_lists=1,
    drained_to="recorded",
    merge_guard="mergeable",
    free_by_block=False,
    fallback="move then decide",
    unusable="reserved",
    highatomic_by_order=False,
    highatomic_last=False,
    isolated_in_batch="at once",
    drain_all_in_pieces=False,
    folios_move=False,
    targets_below_order=False,
)
_V65 = replace(
    _V68, name="6.5", tuning="free_factor", below_high=False, highatomic_whole_percent=False
)
_V61_192 = replace(
    _V65,
    name="6.1.192",
    thp_lists=2,
    free_factor_max=5,
    unboosted_by="ATOMIC",
    highatomic_needs_high=True,
    highatomic_last=True,
    drain_all_in_pieces=True,
    boost_wakes_any=True,
)
_V61_0 = replace(_V65, name="6.1.0", watermark="harder", boost_wakes_any=True)
_V519 = replace(
    _V61_0, name="5.19", thp_lists=3, pcp_miss_tries_buddy=False, drain_all_by_caller=False
)
_V514 = replace(
    _V519,
    name="5.14",
    isolated_in_batch="as others",
    drain="round robin to the end",
    free_high=False,
    merge_guard="isolate",
    zone_locked_by="core",
)
_V510 = replace(
    _V514,
    name="5.10",
    pcp_max_order=0,
    thp_lists=0,
    tuning="fixed",
    nofragment_any_order=True,
)
_V58 = replace(_V510, name="5.8")  # the same
_V50 = replace(
    _V510,
    name="5.0",
    moved_block_to="head",
    nofragment="never",
    boost="always",
    cma_balance=False,
    cma_needs_right=False,
    unusable="cma",
    harder_any_order=True,
    zone_locked_without_page=True,
)
_V420 = replace(_V50, name="4.20", nofragment_any_order=False, boost="never")
_V2633 = replace(
    _V420,
    name="2.6.33",
    pcp_types=(UNMOVABLE, RECLAIMABLE, MOVABLE),
    drain="round robin",
    cold_pages=True,
    likely_merge_to_tail=False,
    merge_guard="none",
    fallback="largest",
    watermark="2.6",
    highatomic_reserve=False,
    free_twice=True,
    batch_prepares=False,
    compacts=False,
)
_V2632 = replace(_V2633, name="2.6.32", drained_to="index")
_V2631 = replace(
    _V2633, name="2.6.31", mixed_list=True, drain="whole lists", retype_larger_chunks=False
)

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        _V2631, _V2632, _V2633, _V420, _V50, _V58, _V510, _V514, _V519,
        _V61_0, _V61_192, _V65, _V68, _V612_19, _V614, _V612_117, _V615, _V617, _V618,
        _V619, _V70, _V71, _V72, _V73,
    )
}  # fmt: skip
