# SPDX-License-Identifier: Apache-2.0
"""A machine whose requests reclaim and compact by themselves.

No page can be reclaimed, and daemons that are woken do not run before the end. What requests ask
of them is a list of calls.
"""

from __future__ import annotations

from typing import NamedTuple

from .compaction import (
    Compactor,
    Goal,
    Moved,
    Suits,
    has_gap,
    pages_in_pieces,
    reclaim_leaves,
    suits,
)
from .kernels import Kernel
from .machine import Geometry, Machine, Nofragment, Request, Zone, ZoneSpec
from .names import ZONES
from .slow_path import Ask, Path
from .watermark import Rights

LETTERS = {
    "DIRECT_RECLAIM": "D",
    "KSWAPD_RECLAIM": "K",
    "IO": "I",
    "NORETRY": "N",
    "RETRY_MAYFAIL": "M",
    "THISNODE": "T",
}


def near_reclaim(mode: int, recorded_mode: int, recorded: int | None, order: int) -> int:
    """Pages that a request frees on a near node (node_reclaim), where reclaim has enough to free.

    A recording with the same mode shows it. Else only a reclaim with the rights to write (2) and to
    unmap (4) frees any page: lru_gen_shrink_node does nothing without both, and without them the
    pages that the older LRU could free are unknown.
    """
    if mode == recorded_mode and recorded is not None:
        return recorded
    return max(32, 1 << order) if {2, 4} <= {bit for bit in (1, 2, 4) if mode & bit} else 0


class Call(NamedTuple):
    """A daemon is woken, or a request compacts."""

    kind: str
    node: int | None
    zone: str | None
    page_order: int


class Feedback(Machine):
    """The machine; vm.defrag_mode is `defrag_mode`."""

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry | None = None,
        *,
        nofragment: Nofragment | None = None,
        defrag_mode: bool = False,
    ) -> None:
        super().__init__(kernel, geometry, nofragment="always" if defrag_mode else nofragment)
        self.defrag_mode = defrag_mode
        self.tiers = False  # kernel.numa_balancing: memory tiering
        self.calls: list[Call] = []
        self.kswapds_woken: set[int] = set()
        self.kcompactds_woken: set[int] = set()
        self.kcompactd_wants: dict[int, tuple[int, str]] = {}
        self.used: dict[int, int] = {}  # blocks above order 0 in use: first pfn -> order
        self.listeners: list[Moved] = []  # called for each block that moves
        self.compactors: dict[Zone, Compactor] = {}

    def add_zone(self, spec: ZoneSpec) -> Zone:
        zone = super().add_zone(spec)
        zone.boosts_act = True
        self.compactors[zone] = Compactor(zone, self.used, self._moved)
        return zone

    def _moved(self, pfn: int, to: int, order: int) -> None:
        for listener in self.listeners:
            listener(pfn, to, order)

    def alloc(
        self,
        cpu: int,
        order: int,
        migratetype: str,
        gfp: frozenset[str] = frozenset(),
        *,
        node: int | None = None,
    ) -> int | None:
        pfn = super().alloc(cpu, order, migratetype, gfp, node=node)
        if pfn is not None and order:
            self.used[pfn] = order
        return pfn

    def release(self, cpu: int, pfn: int, order: int) -> None:
        self._cut(pfn, order)
        super().release(cpu, pfn, order)

    def _cut(self, pfn: int, order: int) -> None:
        """Of a block in use a part is freed; the rest stays, in halves."""
        for page in range(pfn, pfn + (1 << order)):
            self.used.pop(page, None) if self.used.get(page, 0) <= order else None
        whole = next((h for h, o in self.used.items() if h <= pfn < h + (1 << o)), None)
        if whole is None:
            return
        size = self.used.pop(whole)
        while size > order:
            size -= 1
            half = whole + (1 << size)
            rest = half if pfn < half else whole
            whole = whole if pfn < half else half
            if size:
                self.used[rest] = size

    # Daemons

    def node_zones(self, node: int, top: str) -> list[Zone]:
        reach = ZONES[: ZONES.index(top) + 1]
        return [zone for zone in self.zones if zone.node == node and zone.name in reach]

    def _promo(self, zone: Zone) -> int:
        return zone.marks.promo + zone.boost if self.tiers and zone.marks.promo else 0

    def balanced(self, node: int, order: int, top: str) -> bool:
        """pgdat_balanced: one zone suffices. With memory tiering it needs the promo mark."""
        zones = self.node_zones(node, top)
        whole = self.defrag_mode and order > 0
        return not zones or any(
            zone.watermark.full(
                zone,
                order,
                (self._promo(zone) or zone.mark("high")) + (pages_in_pieces(zone) if whole else 0),
                top,
                Rights(),
                cma=False,
            )
            for zone in zones
        )

    def wake_kswapd(self, node: int, order: int, top: str, gfp: frozenset[str]) -> None:
        if node in self.kswapds_woken:
            return
        boosted = any(zone.boost for zone in self.node_zones(node, top))
        if self.balanced(node, order, top) and not boosted:
            if "DIRECT_RECLAIM" not in gfp:
                self.wake_kcompactd(node, order, top)
            return
        self.kswapds_woken.add(node)
        self.calls.append(Call("wakeup_kswapd", node, top, order))

    def wake_kcompactd(self, node: int, order: int, top: str) -> None:
        if not order or not self.kernel.compacts:
            return
        before, below = self.kcompactd_wants.get(node, (0, ZONES[-1]))
        most, lowest = max(before, order), min(below, top, key=ZONES.index)
        self.kcompactd_wants[node] = most, lowest
        if node in self.kcompactds_woken:
            return
        goal = Goal(most, whole_blocks=self.defrag_mode)
        if any(suits(zone, goal, lowest) == "suits" for zone in self.node_zones(node, lowest)):
            self.kcompactds_woken.add(node)
            self.calls.append(Call("wakeup_kcompactd", node, top, order))

    def wake_all(self, request: Request) -> None:
        """wake_all_kswapds: vm.defrag_mode asks for whole pageblocks."""
        order = request.order
        if self.defrag_mode:
            order = max(order, self.geometry.pageblock_order)
        last = None
        for zone in request.zonelist:
            if zone.node != last:
                self.wake_kswapd(zone.node, order, request.top, request.gfp)
            last = zone.node

    def _is_awake(self, node: int) -> bool:
        return node in self.kswapds_woken or super()._is_awake(node)

    def _after_rmqueue(self, zone: Zone, request: Request) -> None:
        may_wake = self.kernel.boost_wakes_any or "KSWAPD_RECLAIM" in request.gfp
        if zone.boosted and may_wake:
            zone.boosted = False
            zone.count("slowpath_wake_calls")
            self.wake_kswapd(zone.node, 0, zone.name, frozenset())

    # The slow path

    def _slow_path(
        self, request: Request, rights: Rights, *, nofragment: bool
    ) -> tuple[Zone, int] | None:
        if "KSWAPD_RECLAIM" in request.gfp:
            request.preferred.count("slowpath_wake_calls")
        turns = Turns(self, request, rights, nofragment=nofragment)
        try:
            turns.run()
        except Served as served:
            return served.found
        request.preferred.count("would_fail", "DIRECT_RECLAIM" in request.gfp)
        return self._grant(request, rights, nofragment=not turns.mixes)

    def _granting_zone(self, request: Request, rights: Rights) -> Zone | None:
        return self._least_short(request, rights)

    def _owe(self, zone: Zone, request: Request, rights: Rights) -> None:
        """Reclaim is the machine's own: nothing is freed later."""

    def unreserve(self, request: Request, *, force: bool) -> bool:
        """One pageblock of the reserve; without force only if there are more."""
        return any(
            (force or zone.reserved_highatomic > zone.buddy.pageblock_pages)
            and zone.unreserve_highatomic(request.migratetype)
            for zone in request.zonelist
        )

    def compact(self, request: Request, rights: Rights, order: int, priority: int) -> str:
        """try_to_compact_pages: K skipped, D deferred, C complete, S success."""
        self.calls.append(Call("try_to_compact_pages", None, None, order))
        goal = Goal(order, request.migratetype, priority, rights, request.cma)
        furthest = "K"
        for zone in request.zonelist:
            result = self._compact_zone(zone, goal, request.top)
            furthest = max(furthest, result, key="KDCS".index)
            if result == "S":
                break
        return furthest

    def _compact_zone(self, zone: Zone, goal: Goal, top: str) -> str:
        compactor = self.compactors[zone]
        if not goal.thorough and compactor.deferral.defers(goal.order):
            zone.count("direct_compactions_deferred")
            return "D"
        answer: Suits = suits(zone, goal, top)
        made = answer == "serves"
        if answer == "cannot":
            return "K"
        if answer == "suits":
            zone.count("direct_compactions")
            made = compactor.run(goal, top)
        if made:
            compactor.deferral.succeed(goal.order, allocated=False)
            return "S"
        if not goal.asynchronous:
            compactor.deferral.fail(goal.order)
        return "C"


class Served(Exception):
    def __init__(self, found: tuple[Zone, int]) -> None:
        super().__init__()
        self.found = found


class Turns(Path):
    """The turns of one request on a machine; ends with Served when a zone has a page."""

    def __init__(
        self, machine: Feedback, request: Request, rights: Rights, *, nofragment: bool
    ) -> None:
        ask = Ask(
            request.order,
            request.migratetype,
            frozenset(LETTERS[bit] for bit in request.gfp if bit in LETTERS),
            machine.geometry.pageblock_order,
            defrag_mode=nofragment,
        )
        super().__init__(machine.kernel, ask, "0", "K")
        self.machine = machine
        self.request = request
        self.rights = rights
        self.refused = nofragment  # so far
        self.scans = 0

    def run(self) -> None:
        super().run()
        if "D" not in self.ask.gfp and "K" in self.ask.gfp and not self.mixes:
            self.mixes = True
            self.scan()

    def scan(self) -> tuple[Zone, int] | None:
        preferred = self.request.preferred
        if self.refused and self.mixes:
            self.refused = False
            preferred.count("nofragment_retries")
        found = self.machine._scan(self.request, "min", self.rights, nofragment=not self.mixes)
        if found is not None:
            raise Served(found)
        self.scans += 1
        if self.scans == 1:
            preferred.count("below_min")
        return found

    def wake(self) -> None:
        if "K" in self.ask.gfp:
            self.machine.wake_all(self.request)
        self.scan()

    def reclaim_leaves(self) -> bool:
        """Whether a zone is left to compaction; that is progress, too."""
        return "I" in self.ask.gfp and any(
            reclaim_leaves(zone, self.order, self.request.top) for zone in self.request.zonelist
        )

    def reclaim(self) -> None:
        request, machine = self.request, self.machine
        request.preferred.count("direct_reclaims")
        self.progress = self.reclaim_leaves()
        if self.progress:
            self.scan()
            machine.unreserve(request, force=False)
            machine.drain_all()
            self.scan()

    def compact(self, priority: int) -> None:
        order = self.order
        self.result = "K"
        if not order or not self.may_compact:
            return
        self.result = self.machine.compact(self.request, self.rights, order, priority)
        if self.result == "K" or (self.result == "D" and self.kernel.first_compaction_is_a_turn):
            return
        try:
            self.scan()
        except Served as served:
            zone = served.found[0]
            self.machine.compactors[zone].deferral.succeed(order, allocated=True)
            raise

    def reclaim_again(self) -> bool:
        request = self.request
        fresh = self.progress and not self.costly and not self.raised
        self.in_vain = 0 if fresh else self.in_vain + 1
        if self.progress and self.in_vain <= 16:
            for zone in request.zonelist:
                if zone.watermark.full(
                    zone, request.order, zone.mark("min"), request.top, self.rights,
                    cma=request.cma,
                ):  # fmt: skip
                    return True
        return self.machine.unreserve(request, force=True)

    def reclaim_helps(self) -> bool:
        return any(
            has_gap(zone, self.ask.order, zone.mark("min"), self.request.top)
            for zone in self.request.zonelist
        )
