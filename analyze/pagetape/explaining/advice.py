# SPDX-License-Identifier: Apache-2.0
"""What decided a failure, what would move it, and what would not."""

from __future__ import annotations

from typing import Any

from pagetape.explaining.verdict import Verdict
from pagetape.explaining.zone_check import Sum

_RESERVES = "vm.min_free_kbytes or vm.watermark_scale_factor: kswapd begins earlier"

_MOVES = {
    "lowmem_reserve": ["vm.lowmem_reserve_ratio", "free memory in the higher zones"],
    "highatomic_reserve": [
        "fewer requests of high order that may not wait: they make the reserve",
        _RESERVES,
    ],
    "cma_only": ["a smaller CMA area (cma=)", "movable requests, which may take CMA pages"],
    "no_block_of_order": [
        "a smaller request, or kvmalloc",
        "compaction, which makes larger blocks of the free pages",
    ],
    "no_block_of_usable_type": [
        "a smaller request, or kvmalloc",
        "compaction of the zone: its free blocks are of other types",
    ],
    "memcg_limit": ["memory.max of the cgroup, or less use of memory in it"],
    "vmalloc_space_or_other": ["the vmalloc area (vmalloc= on 32 bits), or the caller"],
    "not_an_allocator_failure": ["the place that failed: the trace has it"],
    "cannot_tell": [],
}
_NOT = {
    "below_min": ["compaction: the zone lacks pages, not blocks"],
    "lowmem_reserve": ["compaction", "a larger vm.min_free_kbytes"],
    "highatomic_reserve": ["compaction"],
    "cma_only": ["compaction", "a larger vm.min_free_kbytes"],
    "no_block_of_order": ["a larger vm.min_free_kbytes alone: the mark is met"],
    "no_block_of_usable_type": ["a larger vm.min_free_kbytes alone: the mark is met"],
    "memcg_limit": ["any setting of the page allocator"],
    "vmalloc_space_or_other": ["more memory", "any setting of the page allocator"],
    "not_an_allocator_failure": ["more memory", "any setting of the page allocator"],
    "cannot_tell": [],
}


def short(one: Sum) -> int | None:
    """Pages that a zone lacks to pass its mark; None if it passes that, or nothing is known."""
    return (
        one.needed - one.usable + 1 if one.passes_mark is False and one.stopped_at is None else None
    )


def without(one: Sum) -> list[str]:
    """The terms of a failed sum each of which, taken away alone, would let the request pass."""
    lacks = short(one)
    if lacks is None:
        return []
    mark = one.mark or 0
    terms = dict(one.subtracted) | {"lowmem_reserve": one.reserve or 0, "mark": mark}
    if one.boost:
        terms["boost"] = min(one.boost, mark)
    return [name for name, pages in terms.items() if pages >= lacks]


def deciding(found: Verdict) -> dict[str, Any] | None:
    """The zone and the term that decided."""
    one = found.deciding
    if one is None:
        return None
    terms = without(one)
    names = {
        "below_min": "boost" if "boost" in terms else "mark",
        "highatomic_reserve": next((n for n in one.subtracted if "highatomic" in n), "blocks"),
        "cma_only": "free_cma" if "free_cma" in one.subtracted else "blocks",
        "lowmem_reserve": "lowmem_reserve",
    }
    return {
        "zone": one.zone.words,
        "term": names.get(found.name, "blocks"),
        "mark": "high" if found.at_high else "min",
        "short": short(one),
        "without": terms,
    }


def moves(found: Verdict) -> list[str]:
    if found.name != "below_min" or found.deciding is None:
        return list(_MOVES.get(found.name, []))
    words = [_RESERVES] if found.request.context in ("atomic", "nowait") else []
    if "boost" in without(found.deciding):
        words.append("vm.watermark_boost_factor=0: the mark is boosted")
    if found.request.context in ("waits", "optional", "unknown"):
        words.append("less use of memory, or more of it: reclaim found too little")
    return words


def does_not_move(found: Verdict) -> list[str]:
    return list(_NOT.get(found.name, []))
