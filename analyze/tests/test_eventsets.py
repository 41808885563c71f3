# SPDX-License-Identifier: Apache-2.0
"""The tracepoints of each event set."""

import pytest

from pagetape.recording.eventsets import SETS, tracepoints

PAGE = {
    "kmem:mm_page_alloc",
    "kmem:mm_page_alloc_extfrag",
    "kmem:mm_page_alloc_zone_locked",
    "kmem:mm_page_free",
    "kmem:mm_page_free_batched",
    "kmem:mm_page_pcpu_drain",
}
OLD_NAMES = {"kmem:mm_page_free_direct", "kmem:mm_pagevec_free"}
RARE = {
    "kmem:mm_page_alloc_extfrag",
    "vmscan:mm_vmscan_wakeup_kswapd",
    "vmscan:mm_vmscan_kswapd_wake",
    "vmscan:mm_vmscan_kswapd_sleep",
    "vmscan:mm_vmscan_kswapd_reclaim_fail",
    "vmscan:mm_vmscan_kswapd_clear_hopeless",
    "vmscan:mm_vmscan_balance_pgdat_begin",
    "vmscan:mm_vmscan_balance_pgdat_end",
    "vmscan:mm_vmscan_direct_reclaim_begin",
    "vmscan:mm_vmscan_direct_reclaim_end",
    "compaction:mm_compaction_begin",
    "compaction:mm_compaction_end",
    "compaction:mm_compaction_wakeup_kcompactd",
    "compaction:mm_compaction_kcompactd_wake",
    "compaction:mm_compaction_kcompactd_sleep",
    "oom:mark_victim",
}
REST = {
    "vmscan:mm_vmscan_lru_shrink_inactive",
    "vmscan:mm_vmscan_memcg_reclaim_begin",
    "vmscan:mm_vmscan_node_reclaim_end",
    "vmscan:mm_vmscan_throttled",
    "vmscan:mm_shrink_slab_end",
    "compaction:mm_compaction_isolate_freepages",
    "compaction:mm_compaction_migratepages",
    "compaction:mm_compaction_deferred",
    "migrate:mm_migrate_pages",
    "kmem:mm_setup_per_zone_wmarks",
    "kmem:mm_setup_per_zone_lowmem_reserve",
    "kmem:mm_calculate_totalreserve_pages",
    "oom:compact_retry",
    "oom:reclaim_retry_zone",
    "workqueue:workqueue_execute_start",
}


def test_page_is_every_page_event_and_nothing_else() -> None:
    assert set(tracepoints("page")) == PAGE | OLD_NAMES


def test_cheap_has_only_rare_events() -> None:
    cheap = set(tracepoints("cheap"))
    assert cheap >= RARE
    assert cheap & PAGE == {"kmem:mm_page_alloc_extfrag"}
    assert "workqueue:workqueue_execute_start" not in cheap


def test_zone_is_all_without_what_the_per_cpu_lists_serve() -> None:
    lists = {"kmem:mm_page_alloc", "kmem:mm_page_free_batched", "kmem:mm_pagevec_free"}
    assert set(tracepoints("zone")) == set(tracepoints("all")) - lists


def test_all_is_page_and_cheap_and_the_rest() -> None:
    every = set(tracepoints("all"))
    assert every >= set(tracepoints("page")) | set(tracepoints("cheap")) | REST


@pytest.mark.parametrize("which", SETS)
def test_no_tracepoint_is_asked_for_twice(which: str) -> None:
    assert len(tracepoints(which)) == len(set(tracepoints(which)))
