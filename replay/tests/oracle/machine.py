# SPDX-License-Identifier: Apache-2.0
"""The whole allocator: zones, the zonelist scan, requests in and events out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from . import fallback, watermark
from .buddy import Buddy
from .fallback import Want
from .kernels import Kernel
from .names import HIGHATOMIC, ISOLATE, MERGEABLE, MOVABLE, RECLAIMABLE, RESERVE, UNMOVABLE, ZONES
from .pcp import Pcp, Settings
from .watermark import Mark, Rights

# When requests refuse to mix migratetypes: never; on the first pass, if there are lower zones;
# until reclaim would have run.
Nofragment = Literal["off", "lowzone", "always"]


class Event(NamedTuple):
    """One row of a tape's event table, without its time and task."""

    kind: str
    cpu: int
    pfn: int | None
    page_order: int | None = None
    migratetype: str | None = None
    fallback_order: int | None = None
    fallback_migratetype: str | None = None
    change_ownership: bool | None = None
    percpu_refill: bool | None = None


@dataclass(frozen=True)
class Geometry:
    """Sizes and topology that a run does not change."""

    cpu_nodes: Sequence[int] = (0,)  # node of each CPU
    node_distances: Sequence[Sequence[int]] = ((10,),)
    pageblock_order: int = 9
    max_order: int = 10
    thp_order: int | None = None  # the pageblock's unless given
    watermark_boost_factor: int = 15000

    @property
    def nodes(self) -> int:
        return len(self.node_distances)

    @property
    def pageblock(self) -> int:
        """Pages of a pageblock."""
        return 1 << self.pageblock_order


class Trace:
    """Where events go. `cpu` is the one that runs."""

    def __init__(self) -> None:
        self.cpu = 0
        self.events: list[Event] = []

    def add(self, kind: str, pfn: int | None, *rest: object) -> None:
        self.events.append(Event(kind, self.cpu, pfn, *rest))  # type: ignore[arg-type]


@dataclass
class Marks:
    """Watermarks in pages, without the boost."""

    min: int = 0
    low: int = 0
    high: int = 0
    promo: int = 0  # unknown


@dataclass(kw_only=True)
class ZoneSpec:
    """A zone at the start, with nothing free: all of its pages are in use, none movable."""

    node: int = 0
    name: str = "NORMAL"
    start: int = 0
    spanned: int
    marks: Marks = field(default_factory=Marks)
    lowmem_reserve: dict[str, int] = field(default_factory=dict)  # absent zones: 0
    boost: int = 0
    reserved_highatomic: int = 0
    pcps: Sequence[Settings]  # by CPU
    blocks: Sequence[str]  # migratetype of each pageblock


class Zone:
    """One zone: its free lists, its per-CPU lists, its marks, and which used pages can move."""

    def __init__(self, kernel: Kernel, geometry: Geometry, trace: Trace, spec: ZoneSpec) -> None:
        self.kernel = kernel
        self.geometry = geometry
        self.trace = trace
        self.node = spec.node
        self.name = spec.name
        self.managed = spec.spanned
        self.marks = spec.marks
        self.lowmem_reserve = dict.fromkeys(ZONES, 0) | spec.lowmem_reserve
        self.boost = spec.boost
        self.boosts_act = False  # else only counted: the tape does not record kswapd
        self.wakes_kswapd = False  # the running request may
        self.boosted = False  # by a request that may wake kswapd, which was not called since
        self.boost_seen = 0  # boost that the running pass of kswapd found
        self.owed = 0  # pages that the record's reclaim frees later than a request needed them
        self.reserved_highatomic = spec.reserved_highatomic
        self.below_high = False
        self.reclaim_active = False
        self.movable: set[int] = set()  # used pages on an LRU list
        self.users: set[int] = set()  # CPUs that changed a counter of the zone since their tick
        self.counters: Counter[str] = Counter()
        self.buddy = Buddy(
            kernel,
            start=spec.start,
            end=spec.start + spec.spanned,
            pageblock_order=geometry.pageblock_order,
            max_order=geometry.max_order,
            zone_locked=self.trace_zone_locked,
        )
        first = spec.start >> geometry.pageblock_order
        self.buddy.block_types = dict(enumerate(spec.blocks, first))
        self.thp_order = geometry.thp_order or geometry.pageblock_order
        self.pcps = [Pcp(self, cpu, settings) for cpu, settings in enumerate(spec.pcps)]
        self.fallback = fallback.FAMILIES[kernel.fallback](self)
        self.watermark = watermark.FAMILIES[kernel.watermark](kernel)

    def count(self, counter: str, by: int = 1) -> None:
        self.counters[counter] += by

    def free_for_marks(self) -> int:
        return self.buddy.free_pages() + self.owed

    # Events

    def trace_zone_locked(self, pfn: int | None, order: int, migratetype: str) -> None:
        refill = None
        if self.kernel.zone_locked_by == "smallest":
            refill = self.pcp_order(order) and migratetype in self.kernel.pcp_types
        self.trace.add("alloc_zone_locked", pfn, order, migratetype, None, None, None, refill)

    def trace_pcpu_drain(self, pfn: int, order: int, migratetype: str) -> None:
        self.trace.add("pcpu_drain", pfn, order, migratetype)

    def trace_extfrag(
        self,
        pfn: int,
        order: int,
        fallback_order: int,
        migratetype: str,
        fallback_migratetype: str,
        *,
        owned: bool | None = None,
    ) -> None:
        if owned is None:
            owned = self.buddy.block_type(pfn) == migratetype
        self.trace.add(
            "alloc_extfrag", pfn, order, migratetype, fallback_order, fallback_migratetype, owned
        )
        if fallback_order >= self.buddy.pageblock_order:
            self.count("fallback_whole")
        else:
            self.count("fallback_claim" if owned else "fallback_steal")

    # Pages in use

    def used_by(self, cpu: int) -> None:
        self.users.add(cpu)

    def movable_between(self, start: int, end: int) -> int:
        return sum(start <= pfn < end for pfn in self.movable)

    # Marks

    def mark_unboosted(self, mark: Mark) -> int:
        return {"min": self.marks.min, "low": self.marks.low, "high": self.marks.high}[mark]

    def mark(self, mark: Mark) -> int:
        return self.mark_unboosted(mark) + self.boost

    def boost_watermark(self) -> None:
        """A fallback below pageblock order asks for reclaim: the boost raises every mark."""
        pageblock = self.geometry.pageblock
        highest = self.marks.high * self.geometry.watermark_boost_factor // 10000
        small = 4 * pageblock > self.managed
        if self.kernel.boost == "never" or (self.kernel.boost == "unless small" and small):
            return
        self.boosted |= self.wakes_kswapd and (highest > 0 or self.kernel.boost == "always")
        if highest:
            self.count("boost_asks")
            if self.boosts_act:
                self.boost = min(self.boost + pageblock, max(pageblock, highest))

    def stall(self, most: int) -> None:
        """A refused fallback of fragmentation avoidance v5: 7 pageblocks, up to the limit."""
        if most:
            self.boost = min(self.boost + 7 * self.geometry.pageblock, most)

    def recheck_below_high(self) -> None:
        """After a drain the zone may be above its high mark again."""
        if self.below_high and self.watermark.full(
            self, 0, self.mark("high"), MOVABLE, Rights(), cma=False
        ):
            self.below_high = False

    def isolation_is_seen(self) -> bool:
        return self.buddy.has_isolated()

    # Taking pages

    def pcp_order(self, order: int) -> bool:
        if order <= self.kernel.pcp_max_order:
            return True
        return self.kernel.thp_lists > 0 and order == self.thp_order

    def rmqueue(
        self, cpu: int, want: Want, rights: Rights, *, below_low: bool = False
    ) -> int | None:
        """One chunk, from the CPU's lists or from the buddy lists."""
        self.used_by(cpu)
        grows = rights.highatomic or (rights.harder and want.order > 0)
        grows &= self.kernel.highatomic_reserve
        if self.pcp_order(want.order):
            refills = self.kernel.highatomic_refills or not rights.highatomic
            pfn = self.pcps[cpu].alloc(want, refills=refills)
            if pfn is not None and grows and self.kernel.highatomic_grows == "any":
                self.reserve_highatomic(pfn, want.order)
            if pfn is not None or not self.kernel.pcp_miss_tries_buddy:
                return pfn
        pfn = self._rmqueue_buddy(want, rights)
        if self.kernel.highatomic_grows == "buddy below low":
            grows &= below_low
        if pfn is not None and grows:
            self.reserve_highatomic(pfn, want.order)
        return pfn

    def _rmqueue_buddy(self, want: Want, rights: Rights) -> int | None:
        if rights.highatomic or (rights.harder and self._harder_takes_reserve(want.order)):
            pfn = self.buddy.smallest(want.order, HIGHATOMIC)
            if pfn is not None:
                if self.kernel.zone_locked_by == "core":
                    self.trace_zone_locked(pfn, want.order, want.migratetype)
                return pfn
        pfn = self.fallback.rmqueue(want)
        if pfn is None and self.kernel.highatomic_last and rights.non_block:
            pfn = self.buddy.smallest(want.order, HIGHATOMIC)
        return pfn

    def _harder_takes_reserve(self, order: int) -> bool:
        return self.kernel.highatomic_reserve and (order > 0 or self.kernel.harder_any_order)

    def bulk(self, nr: int, want: Want) -> list[tuple[int, str]]:
        """Up to nr chunks for a per-CPU list, each with the type it counts as there."""
        rmqueue = self.fallback.bulk()
        taken: list[tuple[int, str]] = []
        while len(taken) < nr:
            pfn = rmqueue(want)
            if pfn is None:
                break
            as_asked = self.kernel.fallback == "largest"
            taken.append((pfn, want.migratetype if as_asked else self.buddy.taken_from))
        return taken

    def reserve_highatomic(self, pfn: int, order: int) -> None:
        """Keep the pageblock of a high-order atomic allocation for more of them."""
        pageblock = self.buddy.pageblock_pages
        percent = self.managed // 100
        limit = percent + pageblock
        if self.kernel.highatomic_whole_percent:
            limit = -(-percent // pageblock) * pageblock if percent >= pageblock else 0
        if self.reserved_highatomic >= limit or self.buddy.block_type(pfn) not in MERGEABLE:
            return
        start, end = self.buddy.block_range(pfn)
        whole = self.buddy.in_zone(start) and self.buddy.in_zone(end - 1)
        if self.kernel.highatomic_by_order and order >= self.buddy.pageblock_order:
            self.buddy.set_range_type(pfn, order, HIGHATOMIC)
            self.reserved_highatomic += 1 << order
            return
        if self.kernel.highatomic_by_order and not whole:
            return
        self.reserved_highatomic += pageblock
        self.buddy.set_block_type(pfn, HIGHATOMIC)
        if self.buddy.in_zone(end - 1):
            first = start if self.buddy.in_zone(start) else pfn
            self.buddy.move_range(first, end, HIGHATOMIC)

    def unreserve_highatomic(self, migratetype: str) -> bool:
        """Give one reserved pageblock that has free pages to a type; whether there was one."""
        pageblock = self.buddy.pageblock_pages
        for order in range(self.buddy.max_order + 1):
            pfn = self.buddy.head(order, HIGHATOMIC)
            if pfn is None:
                continue
            if self.kernel.highatomic_by_order:
                self.reserved_highatomic -= min(
                    max(pageblock, 1 << order), self.reserved_highatomic
                )
            elif self.buddy.block_type(pfn) == HIGHATOMIC:
                self.reserved_highatomic -= min(pageblock, self.reserved_highatomic)
            if self._give_block(pfn, order, migratetype):
                return True
        return False

    def _give_block(self, pfn: int, order: int, migratetype: str) -> bool:
        """Retype the pageblock around a free chunk; whether pages moved with it."""
        start, end = self.buddy.block_range(pfn)
        if self.kernel.highatomic_by_order:
            if order >= self.buddy.pageblock_order:
                self.buddy.set_range_type(pfn, order, migratetype)
                return self.buddy.move_range(pfn, pfn + 1, migratetype) > 0
            if not (self.buddy.in_zone(start) and self.buddy.in_zone(end - 1)):
                return False
        self.buddy.set_block_type(pfn, migratetype)
        if not self.buddy.in_zone(end - 1):
            return False
        first = start if self.buddy.in_zone(start) else pfn
        return self.buddy.move_range(first, end, migratetype) > 0

    # MIGRATE_RESERVE

    def set_reserve_blocks(self) -> None:
        """2.6.32, 2.6.33: up to two pageblocks are a reserve, the last resort of every request."""
        pageblock = self.buddy.pageblock_pages
        wanted = min(2, -(-self.marks.min // pageblock))
        for pfn in range(self.buddy.start, self.buddy.end, pageblock):
            block_type = self.buddy.block_type(pfn)
            if wanted and block_type in (RESERVE, MOVABLE):
                wanted -= 1
                new_type = RESERVE
            elif block_type == RESERVE:
                new_type = MOVABLE
            else:
                continue
            if new_type != block_type:
                self.buddy.set_block_type(pfn, new_type)
                start, end = self.buddy.block_range(pfn)
                if self.buddy.in_zone(end - 1):
                    first = start if self.buddy.in_zone(start) else pfn
                    self.buddy.move_range(first, end, new_type)


@dataclass
class Request:
    """One allocation on its way through the zones."""

    cpu: int
    order: int
    migratetype: str
    gfp: frozenset[str]
    zonelist: list[Zone]
    top: str  # highest zone allowed: the class zone of the watermark tests
    cma: bool

    @property
    def preferred(self) -> Zone:
        return self.zonelist[0]


class Machine:
    """Zones and CPUs under one kernel's rules."""

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry | None = None,
        *,
        nofragment: Nofragment | None = None,  # None: the kernel's own
    ) -> None:
        self.kernel = kernel
        self.geometry = geometry or Geometry()
        self.nofragment: Nofragment = nofragment or (
            "off" if kernel.nofragment == "never" else "lowzone"
        )
        self.trace = Trace()
        self.zones: list[Zone] = []
        self.boosted_nodes: set[int] = set()  # boosts woke their kswapd since the last look

    # Building

    def add_zone(self, spec: ZoneSpec) -> Zone:
        zone = Zone(self.kernel, self.geometry, self.trace, spec)
        self.zones.append(zone)
        return zone

    # Requests

    def alloc(
        self,
        cpu: int,
        order: int,
        migratetype: str,
        gfp: frozenset[str] = frozenset(),
        *,
        node: int | None = None,  # first node, instead of the CPU's
    ) -> int | None:
        """An allocation by a task on this CPU; the first pfn, or None if nothing is left."""
        self.trace.cpu = cpu
        if node is None:
            node = self.geometry.cpu_nodes[cpu]
        request = self._request(cpu, order, migratetype, gfp, node)
        found = self._serve(request)
        if found is None:
            self.trace.add("alloc", None, order, migratetype)
            return None
        zone, pfn = found
        if migratetype == MOVABLE:
            zone.movable.update(range(pfn, pfn + (1 << order)))
        if zone.node != request.preferred.node:
            zone.count("remote_node")
        elif zone is not request.preferred:
            zone.count("lower_zone")
        zone.count("allocs")
        zone.count("alloc_pages", 1 << order)
        self.trace.add("alloc", pfn, order, migratetype)
        return pfn

    def free(self, cpu: int, pfn: int, order: int) -> None:
        """An ordinary free by a task on this CPU."""
        self.trace_free(cpu, pfn, order)
        if self.kernel.free_twice and order == 0:
            self.trace_free(cpu, pfn, order)
        self.release(cpu, pfn, order)

    def trace_free(self, cpu: int, pfn: int, order: int) -> None:
        self.trace.cpu = cpu
        self.trace.add("free", pfn, order)

    def trace_free_batched(self, cpu: int, pfn: int) -> None:
        self.trace.cpu = cpu
        self.trace.add("free_batched", pfn)

    def free_contiguous(self, cpu: int, pfn: int, pages: int) -> None:
        """Single pages side by side, freed in one go: what vfree does with its pages."""
        if self.kernel.contiguous_frees == "page by page":
            for page in range(pfn, pfn + pages):
                self.free(cpu, page, 0)
            return
        for page in range(pfn, pfn + pages):
            self.trace_free(cpu, page, 0)
        while pages:
            orders = range(self.geometry.max_order, -1, -1)
            order = next(o for o in orders if pfn % (1 << o) == 0 and 1 << o <= pages)
            self.release(cpu, pfn, order)
            pfn += 1 << order
            pages -= 1 << order

    def free_batch(self, cpu: int, pages: Sequence[tuple[int, int]]) -> None:
        """A list of (pfn, order) freed in one go."""
        later = []
        for pfn, order in pages:
            if self.kernel.batch_prepares:
                self.trace_free(cpu, pfn, order)
            at_once = self.kernel.isolated_in_batch == "at once" and self._isolated(pfn)
            if at_once or not self.zone_of(pfn).pcp_order(order):
                self.release(cpu, pfn, order)
            else:
                later.append((pfn, order))
        if not self.kernel.batch_prepares:
            later.reverse()
        for pfn, order in later:
            if self.kernel.isolated_in_batch == "as others" or not self._isolated(pfn):
                self.trace_free_batched(cpu, pfn)
            self.release(cpu, pfn, order)

    def _isolated(self, pfn: int) -> bool:
        return self.zone_of(pfn).buddy.block_type(pfn) == ISOLATE

    def tick(self, cpu: int) -> None:
        """The vmstat worker of one CPU."""
        self.trace.cpu = cpu
        for zone in self.zones:
            zone.pcps[cpu].tick(remote=zone.node != self.geometry.cpu_nodes[cpu])

    def boosted_top(self, node: int) -> str:
        """The highest zone of a node with a boost."""
        names = [zone.name for zone in self.zones if zone.node == node and zone.boost]
        return max(names, key=ZONES.index, default=ZONES[0])

    def node_balanced(self, node: int, top: str) -> bool:
        """Whether kswapd may sleep for single pages of `top`; a node without boosts may."""
        zones = [zone for zone in self.zones if zone.node == node]
        balanced = any(
            zone.watermark.full(zone, 0, zone.mark("high"), top, Rights(), cma=False)
            for zone in zones
            if ZONES.index(zone.name) <= ZONES.index(top)
        )
        return balanced or not any(zone.boost for zone in zones)

    def forgive(self, node: int) -> None:
        """The record's kswapd of a node sleeps: no reclaim is owed any more."""
        for zone in self.zones:
            if zone.node == node:
                zone.owed = 0

    def kswapd_begin(self, node: int, top: str) -> None:
        """kswapd begins a pass over zones up to `top`, and will take back the boost it finds."""
        for zone in self.zones:
            if zone.node == node and ZONES.index(zone.name) <= ZONES.index(top):
                zone.boost_seen = zone.boost
                zone.reclaim_active = True

    def kswapd_end(self, node: int) -> None:
        for zone in self.zones:
            if zone.node == node:
                zone.boost -= min(zone.boost, zone.boost_seen)
                zone.boost_seen = 0
                zone.reclaim_active = False

    def drain_all(self, alone: Zone | None = None) -> None:
        """Every per-CPU list back to the buddy lists, or those of one zone."""
        caller = self.trace.cpu
        for cpu in range(len(self.geometry.cpu_nodes)):
            if not self.kernel.drain_all_by_caller:
                self.trace.cpu = cpu
            for zone in self.zones if alone is None else [alone]:
                zone.pcps[cpu].drain_all()
        self.trace.cpu = caller

    def zone_of(self, pfn: int) -> Zone:
        return next(zone for zone in self.zones if zone.buddy.in_zone(pfn))

    def release(self, cpu: int, pfn: int, order: int) -> None:
        """The free takes effect."""
        self.trace.cpu = cpu
        zone = self.zone_of(pfn)
        zone.movable.difference_update(range(pfn, pfn + (1 << order)))
        zone.count("frees")
        zone.count("free_pages", 1 << order)
        if zone.pcp_order(order) and zone.buddy.block_type(pfn) != ISOLATE:
            zone.pcps[cpu].free(pfn, order)
        else:
            zone.used_by(cpu)
            zone.count("buddy_frees")
            zone.buddy.free(pfn, order)

    # The zonelist scan

    def _request(
        self, cpu: int, order: int, migratetype: str, gfp: frozenset[str], node: int
    ) -> Request:
        top = highest_zone(gfp)
        nodes = sorted(
            range(self.geometry.nodes), key=lambda other: self.geometry.node_distances[node][other]
        )
        if "THISNODE" in gfp:
            nodes = [node]
        zonelist = [
            zone
            for near in nodes
            for name in reversed(ZONES[: ZONES.index(top) + 1])
            for zone in self.zones
            if zone.node == near and zone.name == name
        ]
        return Request(cpu, order, migratetype, gfp, zonelist, top, cma=migratetype == MOVABLE)

    def _first_pass_nofragment(self, request: Request) -> bool:
        if self.nofragment != "lowzone":
            return self.nofragment == "always"
        preferred = request.preferred
        has_dma32 = any(z.name == "DMA32" and z.node == preferred.node for z in self.zones)
        return preferred.name == "NORMAL" and (self.geometry.nodes == 1 or has_dma32)

    def _serve(self, request: Request) -> tuple[Zone, int] | None:
        """The low mark; the min mark with the request's rights; then no mark counts.

        For a tape's allocations succeeded, so what reclaim did for them is granted. Who finds
        no page even so has the reserved pageblocks released and the per-CPU lists emptied. Who
        never mixes mixes after that.
        """
        if not request.zonelist:
            return None
        rights = request.preferred.watermark.slow_rights(request.gfp, request.order)
        always = self.nofragment == "always"
        nofragment = self._first_pass_nofragment(request)
        first = request.preferred.watermark.first_rights(request.gfp, request.order)
        found = self._scan(request, "low", first, nofragment=nofragment)
        if found is None:
            request.preferred.count("below_low")
            found = self._slow_path(request, rights, nofragment=always)
        if found is None:
            request.preferred.count("failed")
        return found

    def _slow_path(
        self, request: Request, rights: Rights, *, nofragment: bool
    ) -> tuple[Zone, int] | None:
        found = self._scan(request, "min", rights, nofragment=nofragment)
        if found is None:
            request.preferred.count("below_min")
            found = self._grant(request, rights, nofragment=nofragment)
        return found

    def _grant(
        self, request: Request, rights: Rights, *, nofragment: bool
    ) -> tuple[Zone, int] | None:
        granted = replace(rights, no_watermarks=True)
        found = None
        if (zone := self._granting_zone(request, rights)) is not None:
            self._owe(zone, request, rights)
            pfn = self._try(zone, request, "min", granted, nofragment=nofragment)
            found = None if pfn is None else (zone, pfn)
        if found is None:
            found = self._scan(request, "min", granted, nofragment=nofragment)
        if found is None and self._give_up_reserves(request):
            found = self._scan(request, "min", granted, nofragment=nofragment)
        if found is None and nofragment:
            request.preferred.count("nofragment_retries")
            found = self._scan(request, "min", granted, nofragment=False)
        return found

    @staticmethod
    def _spare(zone: Zone, request: Request, rights: Rights) -> int:
        unusable = zone.watermark.unusable(zone, rights, cma=request.cma)
        reserved = zone.mark("min") + zone.lowmem_reserve[request.top]
        return zone.free_for_marks() - unusable - reserved

    def _granting_zone(self, request: Request, rights: Rights) -> Zone | None:
        """The tape's reclaim comes later: the first zone that keeps half of its min mark."""
        for zone in request.zonelist:
            kept = zone.mark("min") // 2 + self._spare(zone, request, rights)
            if kept > 0 and zone.watermark.has_chunk(zone, request, rights):
                return zone
        return self._least_short(request, rights)

    def _least_short(self, request: Request, rights: Rights) -> Zone | None:
        """Reclaim lifts the zone that lacks the fewest pages above its min mark first."""
        with_chunk = [z for z in request.zonelist if z.watermark.has_chunk(z, request, rights)]
        return max(with_chunk, key=lambda zone: self._spare(zone, request, rights), default=None)

    def _owe(self, zone: Zone, request: Request, rights: Rights) -> None:
        """Direct reclaim lifts the zone to its mark and by 32 pages, which the tape frees later."""
        if "DIRECT_RECLAIM" in request.gfp:
            lacks = max(-self._spare(zone, request, rights), 0)
            zone.owed += lacks + 32 + (1 << request.order)

    def _give_up_reserves(self, request: Request) -> bool:
        """Release reserved pageblocks and empty the per-CPU lists; whether there was anything."""
        any_held = any(pcp.count for zone in self.zones for pcp in zone.pcps)
        for zone in request.zonelist:
            while zone.unreserve_highatomic(request.migratetype):
                any_held = True
        self.drain_all()
        return any_held

    def _scan(
        self,
        request: Request,
        mark: Mark,
        rights: Rights,
        *,
        nofragment: bool,
        leaves_out: bool | None = None,  # nodes with an awake kswapd; None: the kernel's own
    ) -> tuple[Zone, int] | None:
        first_pass_only = nofragment and self.nofragment == "lowzone"
        if leaves_out is None:
            leaves_out = self.kernel.skips_awake_nodes and self.geometry.nodes > 1
        left_out = False
        for zone in request.zonelist:
            if first_pass_only and zone.node != request.preferred.node:
                left_out = False
                break
            if leaves_out and self._is_awake(zone.node):
                left_out = True
                continue
            pfn = self._try(zone, request, mark, rights, nofragment=nofragment)
            if pfn is not None:
                return zone, pfn
        if left_out:
            return self._scan(request, mark, rights, nofragment=nofragment, leaves_out=False)
        if first_pass_only:
            request.preferred.count("nofragment_retries")
            return self._scan(request, mark, rights, nofragment=False, leaves_out=leaves_out)
        return None

    def _try(
        self, zone: Zone, request: Request, mark: Mark, rights: Rights, *, nofragment: bool
    ) -> int | None:
        if not self._admits(zone, request, mark, rights):
            return None
        want = self._want(request, nofragment=nofragment)
        zone.wakes_kswapd = "KSWAPD_RECLAIM" in request.gfp
        pfn = zone.rmqueue(request.cpu, want, rights, below_low=mark != "low")
        self._after_rmqueue(zone, request)
        return pfn

    def _is_awake(self, node: int) -> bool:
        """Whether the node's kswapd is not on its wait queue."""
        return any(zone.reclaim_active for zone in self.zones if zone.node == node)

    def _after_rmqueue(self, zone: Zone, request: Request) -> None:
        """A zone was searched for a page, found or not. A boost wakes kswapd."""
        may_wake = self.kernel.boost_wakes_any or "KSWAPD_RECLAIM" in request.gfp
        if zone.boosted and may_wake:
            zone.boosted = False
            if zone.boosts_act:
                self.boosted_nodes.add(zone.node)

    def _want(self, request: Request, *, nofragment: bool) -> Want:
        return Want(
            request.order,
            request.migratetype,
            nofragment=nofragment,
            cma=request.cma,
            cold=self.kernel.cold_pages and "COLD" in request.gfp,
        )

    def _admits(self, zone: Zone, request: Request, mark: Mark, rights: Rights) -> bool:
        def above(which: Mark) -> bool:
            return zone.watermark.fast(
                zone, request.order, which, request.top, rights, cma=request.cma
            )

        if self.kernel.below_high and not zone.below_high:
            if above("high"):
                return True
            zone.below_high = True
        return above(mark) or rights.no_watermarks

    def fail(self, cpu: int, order: int, gfp: frozenset[str]) -> None:
        """An allocation that failed on the record: it tried its zones, and marked the low ones."""
        kind = next((kind for kind in (MOVABLE, RECLAIMABLE) if kind in gfp), UNMOVABLE)
        request = self._request(cpu, order, kind, gfp, self.geometry.cpu_nodes[cpu])
        for zone in request.zonelist:
            self._admits(zone, request, "high", Rights())


def highest_zone(gfp: frozenset[str]) -> str:
    """The zone that the low four gfp bits allow on x86-64."""
    if "MOVABLE" in gfp and "HIGHMEM" in gfp:
        return "MOVABLE"
    if "DMA" in gfp:
        return "DMA"
    if "DMA32" in gfp:
        return "DMA32"
    return "NORMAL"
