# SPDX-License-Identifier: Apache-2.0
"""Tapes of the event set zone, on the oracle: refills and drains as requests.

Pages on the other side of the per-CPU lists are pages in use. A refill takes its pages for a list
that hands them out at once; a drain gives a page back as if it had just been freed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from .oracle import CMA, HIGHATOMIC, KERNELS, MOVABLE, RECLAIMABLE, UNMOVABLE, Kernel, Machine
from .oracle.machine import Zone
from .oracle.pcp import BATCH_SCALE_MAX, TUNINGS, Fixed, Pcp
from .tapes import Row
from .world import World

KINDS = ("alloc_zone_locked", "pcpu_drain", "alloc_extfrag", "free")

_SLEEPS = frozenset({"IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM"})
# What a refill of a type asks with: its requests have no events.
_GFP = {
    UNMOVABLE: _SLEEPS,
    MOVABLE: _SLEEPS | {"MOVABLE", "HIGHMEM"},
    RECLAIMABLE: _SLEEPS | {"RECLAIMABLE"},
}
_ASKED = {CMA: MOVABLE, HIGHATOMIC: UNMOVABLE}  # other types are asked for by their name


def lists_up_to(world: World, orders: Collection[int]) -> World:
    """A machine whose pages on per-CPU lists of other orders are in use."""
    return replace(
        world,
        zones=[
            replace(zone, pcp_pages=[page for page in zone.pcp_pages if page[2] in orders])
            for zone in world.zones
        ],
    )


@dataclass
class Refill:
    """Pages that left the free lists of a zone under one hold of its lock."""

    cpu: int
    zone: Zone  # the recorded one
    order: int
    migratetype: str
    pages: list[int]  # the first one of each chunk, as recorded


@dataclass
class Return:
    """A recorded chunk that goes back to the free lists."""

    cpu: int
    pfn: int
    order: int
    drained: bool  # else a free past the lists
    continues: bool  # a drain under one hold of the lock


@dataclass
class Take:
    """Page `number` of a refill."""

    refill: Refill
    number: int


def requests(rows: Sequence[Row], recorded: Kernel, machine: Machine) -> list[Take | Return]:
    """The requests that the rows of a tape stand for. `machine` has the zones of the tape."""
    found: list[Take | Return] = []
    holder: dict[int, int] = {}  # zone -> the CPU that had its lock last
    latest: dict[int, Take | Return] = {}  # by CPU
    for row in _pages(rows, recorded):
        event = row.event
        assert event.pfn is not None
        assert event.page_order is not None
        zone = machine.zone_of(event.pfn)
        last = latest.get(event.cpu) if holder.get(id(zone)) == event.cpu else None
        holder[id(zone)] = event.cpu
        one: Take | Return
        if event.kind == "alloc_zone_locked":
            assert event.migratetype is not None
            asked = _ASKED.get(event.migratetype, event.migratetype)
            new = Refill(event.cpu, zone, event.page_order, asked, [])
            same = isinstance(last, Take) and _are_alike(last.refill, new, machine, zone)
            refill = last.refill if same and isinstance(last, Take) else new
            refill.pages.append(event.pfn)
            one = Take(refill, len(refill.pages) - 1)
        else:
            drained = event.kind == "pcpu_drain"
            goes_on = drained and isinstance(last, Return) and last.drained
            goes_on = goes_on and machine.zone_of(last.pfn) is zone  # type: ignore[union-attr]
            one = Return(event.cpu, event.pfn, event.page_order, drained, goes_on)
        latest[event.cpu] = one
        found.append(one)
    return found


def _are_alike(one: Refill, other: Refill, machine: Machine, zone: Zone) -> bool:
    listed = zone.pcp_order(one.order) and one.migratetype in machine.kernel.pcp_types
    return listed and (one.zone, one.order, one.migratetype) == (
        other.zone,
        other.order,
        other.migratetype,
    )


def _pages(rows: Sequence[Row], recorded: Kernel) -> list[Row]:
    """The rows, with fallbacks folded into their pages. A fallback before its page is left out; one
    after it has its page in the row before, or none."""
    before = recorded.fallback in ("largest", "move then decide")
    found: list[Row] = []
    latest: dict[int, int] = {}  # by CPU: the number of its row in `found`
    for row in rows:
        event = row.event
        folded = event.kind == "alloc_extfrag"
        if event.pfn is None or (folded and before):
            continue
        if folded:
            row = replace(row, event=event._replace(kind="alloc_zone_locked"))
            page = found[latest[event.cpu]].event if event.cpu in latest else event
            if page[:4] == row.event[:4]:
                found[latest[event.cpu]] = row
                continue
        latest[event.cpu] = len(found)
        found.append(row)
    return found


class Given(Fixed):
    """The lists of the boundary: the tape says how much to refill, and a drain empties them."""

    size = 0  # of the next refill as recorded, in chunks
    recorded = False  # whether it is of this zone

    def __init__(self, pcp: Pcp) -> None:
        super().__init__(pcp)
        self.own = TUNINGS[pcp.kernel.tuning](pcp)

    def refill(self, order: int) -> int:
        """In its own zone as recorded, but several refills may look like one; in another, by the
        rules of its lists."""
        own = self.own.refill(order)
        if self.recorded:
            scale = BATCH_SCALE_MAX if self.pcp.kernel.tuning == "auto" and not order else 0
            own = self.pcp.batch << scale
            own = max(own >> order, 2) if own > 1 else 1
        return min(self.size, own)

    def overflow(self, order: int) -> int:
        return 1 << order


@dataclass
class Boundary:
    """Plays requests on an oracle whose per-CPU lists are empty."""

    machine: Machine
    pages: dict[int, int | None] = field(default_factory=dict)  # recorded page -> the model's
    left: dict[int, list[int]] = field(default_factory=dict)  # by CPU: the rest of its refill

    def __post_init__(self) -> None:
        for zone in self.machine.zones:
            zone.boost, zone.reclaim_active = 0, False
            for pcp in zone.pcps:
                pcp.tuning = Given(pcp)

    def play(self, rows: Sequence[Row], recorded: str) -> None:
        for request in requests(rows, KERNELS[recorded], self.machine):
            if isinstance(request, Take):
                self.take(request.refill, request.number)
            elif request.drained:
                self.drain(request)
            else:
                self.free(request)

    def take(self, refill: Refill, number: int) -> None:
        """One page of a refill; the first one brings the others. If the lists lose them, the rest
        is asked for again."""
        self.left = self.left if number else self.left | {refill.cpu: []}
        rest = self.left[refill.cpu]
        if number and rest and (zone := self.machine.zone_of(rest[0])).pcps[refill.cpu].count:
            place: int | None = self._next(zone, refill)
            rest.pop(0)
        else:
            place = self._refill(refill, len(refill.pages) - number)
        for page in range(1 << refill.order):
            self.pages[refill.pages[number] + page] = None if place is None else place + page

    def _refill(self, refill: Refill, nr: int) -> int | None:
        for zone in self.machine.zones:
            tuning = zone.pcps[refill.cpu].tuning
            assert isinstance(tuning, Given)
            tuning.size, tuning.recorded = nr, zone is refill.zone
        place = self.machine.alloc(
            refill.cpu, refill.order, refill.migratetype, _GFP[refill.migratetype]
        )
        assert self.machine.trace.events.pop().kind == "alloc"
        self.left[refill.cpu] = []
        if place is not None:
            zone = self.machine.zone_of(place)
            if zone.pcp_order(refill.order):
                entries = zone.pcps[refill.cpu].lists
                index = zone.pcps[refill.cpu].index_of(refill.order, refill.migratetype)
                self.left[refill.cpu] = list(entries[index])
        return place

    def _next(self, zone: Zone, refill: Refill) -> int:
        pcp = zone.pcps[refill.cpu]
        pfn = pcp.lists[pcp.index_of(refill.order, refill.migratetype)].pop(0)
        del pcp.recorded[pfn]
        pcp.count -= 1 << refill.order
        if refill.migratetype == MOVABLE:
            zone.movable.update(range(pfn, pfn + (1 << refill.order)))
        near = self.machine._request(
            refill.cpu,
            refill.order,
            refill.migratetype,
            _GFP[refill.migratetype],
            self.machine.geometry.cpu_nodes[refill.cpu],
        ).preferred
        if zone.node != near.node:
            zone.count("remote_node")
        elif zone is not near:
            zone.count("lower_zone")
        return pfn

    def _place(self, request: Return) -> tuple[Zone, int] | None:
        """Where the model has a chunk, which leaves its hands."""
        place = self.pages.get(request.pfn, request.pfn)
        for page in range(request.pfn, request.pfn + (1 << request.order)):
            self.pages.pop(page, None)
        if place is None:
            return None
        zone = self.machine.zone_of(place)
        zone.movable.difference_update(range(place, place + (1 << request.order)))
        self.machine.trace.cpu = request.cpu
        return zone, place

    def drain(self, request: Return) -> None:
        if (found := self._place(request)) is None:
            return
        zone, place = found
        zone.pcps[request.cpu].alloc_factor = 0  # many frees led to it
        if zone.pcp_order(request.order):
            zone.pcps[request.cpu].free(place, request.order)
        else:
            zone.count("drains")
            zone.count("drain_pages", 1 << request.order)
            zone.buddy.free(place, request.order)
            zone.trace_pcpu_drain(place, request.order, zone.buddy.block_type(place))
            zone.recheck_below_high()
        zone.count("drains", -request.continues)

    def free(self, request: Return) -> None:
        if (found := self._place(request)) is None:
            return
        zone, place = found
        self.machine.trace_free(request.cpu, place, request.order)
        zone.count("buddy_frees")
        zone.buddy.free(place, request.order)
