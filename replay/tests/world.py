# SPDX-License-Identifier: Apache-2.0
"""A machine and its first snapshot as plain data, for the oracle and for the engine."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pagetape.schemas import TABLES

from .oracle import (
    HIGHATOMIC,
    ISOLATE,
    MOVABLE,
    RESERVE,
    ZONES,
    Geometry,
    Kernel,
    Machine,
    Nofragment,
    Zone,
    ZoneSpec,
)


@dataclass(kw_only=True)
class ZoneState(ZoneSpec):
    """One zone of the snapshot. Pages on neither kind of list are in use."""

    blocks: list[str]
    movable_blocks: frozenset[int]  # pfns of pageblocks whose used pages are all movable
    below_high: bool
    reclaim_active: bool
    boosted: bool = False  # by a fallback, and kswapd was not called yet
    free: list[tuple[str, int, int]] = field(default_factory=list)  # migratetype, order, pfn
    pcp_pages: list[tuple[int, str, int, int]] = field(default_factory=list)  # and the CPU


@dataclass
class World:
    geometry: Geometry
    zones: list[ZoneState]


# In an oracle


def known_type(kernel: Kernel, migratetype: str) -> str:
    """The type of a pageblock in a kernel, which may lack the recorded one."""
    if migratetype == ISOLATE or (migratetype == HIGHATOMIC and not kernel.highatomic_reserve):
        return MOVABLE
    if migratetype == RESERVE and kernel.fallback != "largest":
        return MOVABLE
    return migratetype


def build(world: World, kernel: Kernel, nofragment: Nofragment | None = None) -> Machine:
    """The oracle of a world."""
    machine = Machine(kernel, world.geometry, nofragment=nofragment)
    fill(machine, world)
    return machine


def fill(machine: Machine, world: World) -> None:
    """Give an oracle the zones of a world."""
    kernel = machine.kernel
    for state in world.zones:
        zone = machine.add_zone(
            replace(
                state,
                boost=state.boost * (kernel.boost != "never"),
                reserved_highatomic=state.reserved_highatomic * kernel.highatomic_reserve,
                blocks=[known_type(kernel, migratetype) for migratetype in state.blocks],
            )
        )
        zone.below_high = state.below_high and kernel.below_high
        zone.reclaim_active = state.reclaim_active
        zone.boosted = state.boosted
        _fill(zone, state)
        if kernel.fallback == "largest":
            zone.set_reserve_blocks()


def _fill(zone: Zone, state: ZoneState) -> None:
    unused: set[int] = set()
    for migratetype, order, pfn in state.free:
        _list_free(zone, pfn, order, known_type(zone.kernel, migratetype))
        unused.update(range(pfn, pfn + (1 << order)))
    for cpu, migratetype, order, pfn in state.pcp_pages:
        unused.update(range(pfn, pfn + (1 << order)))
        migratetype = known_type(zone.kernel, migratetype)
        if not zone.pcp_order(order):
            _list_free(zone, pfn, order, migratetype)
            continue
        pcp = zone.pcps[cpu]
        pcp.lists[pcp.index_of(order, migratetype)].append(pfn)
        pcp.recorded[pfn] = migratetype
        pcp.count += 1 << order
    if zone.kernel.drained_to == "block":
        _sort_by_block(zone)
    for pfn in range(state.start, state.start + state.spanned):
        if pfn not in unused and zone.buddy.block_range(pfn)[0] in state.movable_blocks:
            zone.movable.add(pfn)


def _list_free(zone: Zone, pfn: int, order: int, migratetype: str) -> None:
    """At the tail, for a snapshot is in list order; but merged, where the row would have."""
    buddy = pfn ^ (1 << order)
    if (
        order < zone.buddy.max_order
        and zone.buddy.is_chunk(buddy, order)
        and zone.buddy.may_merge(buddy, order, migratetype)
    ):
        zone.buddy.free_one(pfn, order, migratetype)
    else:
        zone.buddy.insert(pfn, order, migratetype, tail=True)


def _sort_by_block(zone: Zone) -> None:
    """Free lists that keep to their pageblock's type take in what another kernel let stray."""
    for pfn, (order, migratetype) in sorted(zone.buddy.chunks.items()):
        block_type = zone.buddy.block_type(pfn)
        if block_type != migratetype:
            zone.buddy.remove(pfn)
            zone.buddy.insert(pfn, order, block_type, tail=True)


# In the tape's tables


def tables(world: World) -> dict[str, pa.RecordBatch]:
    """The snapshot as the tape's tables hold it."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for state in world.zones:
        where = {"snapshot": 0, "ts": 0, "node": state.node, "zone": state.name}
        rows["zone"].append(where | _zone_row(state))
        rows["pageblock"] += [where | row for row in _pageblock_rows(world.geometry, state)]
        rows["pcp"] += [where | _pcp_row(state, cpu) for cpu in range(len(state.pcps))]
        for migratetype, order, pfn in state.free:
            rows["free_block"].append(
                where | {"migratetype": migratetype, "page_order": order, "pfn": pfn}
            )
        for cpu, migratetype, order, pfn in state.pcp_pages:
            rows["pcp_page"].append(
                where | {"cpu": cpu, "migratetype": migratetype, "page_order": order, "pfn": pfn}
            )
    names = ("zone", "pcp", "pageblock", "free_block", "pcp_page")
    return {name: TABLES[name].batch(rows[name]) for name in names}


def _zone_row(state: ZoneState) -> dict[str, Any]:
    return {
        "start_pfn": state.start,
        "spanned": state.spanned,
        "present": state.spanned,
        "managed": state.spanned,
        "free": sum(1 << order for _, order, _ in state.free),
        "wmark_min": state.marks.min,
        "wmark_low": state.marks.low,
        "wmark_high": state.marks.high,
        "nr_reserved_highatomic": state.reserved_highatomic,
        "boost": state.boost,
        "below_high": state.below_high,
        "reclaim_active": state.reclaim_active,
        "boosted_watermark": state.boosted,
    } | {f"lowmem_reserve_{zone.lower()}": state.lowmem_reserve[zone] for zone in ZONES}


def _pageblock_rows(geometry: Geometry, state: ZoneState) -> list[dict[str, Any]]:
    first = state.start // geometry.pageblock
    return [
        {
            "pfn": block * geometry.pageblock,
            "migratetype": migratetype,
            "guessed": False,
            "nr_movable": geometry.pageblock
            if block * geometry.pageblock in state.movable_blocks
            else 0,
        }
        for block, migratetype in enumerate(state.blocks, first)
    ]


def _pcp_row(state: ZoneState, cpu: int) -> dict[str, Any]:
    settings = state.pcps[cpu]
    return {
        "cpu": cpu,
        "count": sum(1 << order for c, _, order, _ in state.pcp_pages if c == cpu),
        "high": settings.high,
        "batch": settings.batch,
        "high_min": settings.high_min,
        "high_max": settings.high_max,
        "alloc_factor": settings.alloc_factor,
        "free_count": settings.free_count,
        "free_factor": settings.free_factor,
        "flags": settings.prev_free_high_order | settings.free_high_batch << 1,
        "expire": 0,
    }
