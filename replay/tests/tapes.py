# SPDX-License-Identifier: Apache-2.0
"""Tapes of requests: recorded on one oracle, played on another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .oracle import KERNELS, Event, Machine
from .world import World, build

SECOND = 1_000_000_000

RECLAIM_EVENTS = ("vmstat_update", "kswapd_wake", "kswapd_sleep")  # kinds of the reclaim table
PASS = SECOND // 1000  # how long a pass of kswapd lasts, unless it sleeps before
KSWAPD = 100  # pid of node 0's
NAP = SECOND // 10  # of kswapd, before it sleeps; it can be woken from it
BOOST_WAIT = 2 * NAP  # a boost waits so long for a recorded pass


@dataclass(frozen=True)
class Row:
    """A request of a tape, or a reclaim event, whose `cpu` is a CPU or a node."""

    ts: int
    event: Event
    gfp: frozenset[str] = frozenset()
    zone: str | None = None  # up to which kswapd works


class Clock:
    """Runs the vmstat ticks that are due: once a second from the first request on."""

    def __init__(self, machine: Machine, *, ticks: bool = True) -> None:
        self.machine = machine
        self.ticks = ticks
        self.next_tick: int | None = None

    def advance(self, ts: int) -> None:
        if self.next_tick is None:
            self.next_tick = ts + SECOND
        while self.ticks and ts >= self.next_tick:
            for cpu in range(len(self.machine.geometry.cpu_nodes)):
                self.machine.tick(cpu)
            self.next_tick += SECOND


class Recorder:
    """Runs requests on an oracle; `rows` is the tape, `boundary` the one of the event set zone.

    Pages in use at the start are blocks of mixed orders, or single pages.
    """

    def __init__(self, world: World, kernel: str, *, singles: bool = False) -> None:
        self.machine = build(world, KERNELS[kernel])
        for zone in self.machine.zones:
            zone.boost, zone.reclaim_active = 0, False
        self.clock = Clock(self.machine)
        self.rows: list[Row] = []
        self.boundary: list[Row] = []
        self.ts = SECOND
        self.live = list(_used_chunks(self.machine, most=0 if singles else 6))

    def wait(self, ns: int) -> None:
        self.ts += ns

    def alloc(self, cpu: int, order: int, migratetype: str, gfp: frozenset[str]) -> None:
        self._begin()
        pfn = self.machine.alloc(cpu, order, migratetype, gfp)
        self._store(gfp)
        if pfn is not None:
            self.live.append((pfn, order))

    def free(self, cpu: int, pick: int, *, in_two: bool = False) -> None:
        """Free something that is in use, whole or one half after the other."""
        if not self.live:
            return
        self._begin()
        pfn, order = self.live.pop(pick % len(self.live))
        if in_two and order:
            self.machine.free(cpu, pfn + (1 << (order - 1)), order - 1)
            self.machine.free(cpu, pfn, order - 1)
        else:
            self.machine.free(cpu, pfn, order)
        self._store()

    def free_batch(self, cpu: int, picks: Sequence[int], max_order: int) -> None:
        self._begin()
        batch: list[tuple[int, int]] = []
        for pick in picks[: len(self.live)]:
            chunk = self.live.pop(pick % len(self.live))
            (batch if chunk[1] <= max_order else self.live).append(chunk)
        self.machine.free_batch(cpu, batch)
        self._store()

    def reclaim_event(self, kind: str, where: int, zone: str | None = None) -> None:
        """A tick of a CPU, or a begin or end of a node's kswapd."""
        self.ts += 1000
        self.rows.append(Row(self.ts, Event(kind, where, None), zone=zone))

    def _begin(self) -> None:
        self.ts += 1000
        self.machine.trace.events.clear()
        self.clock.advance(self.ts)

    def _store(self, gfp: frozenset[str] = frozenset()) -> None:
        zone = self.machine.zones[0]
        for event in self.machine.trace.events:
            if event.kind in ("alloc", "free", "free_batched"):
                self.ts += 1
                self.rows.append(Row(self.ts, event, gfp))
            past = event.kind == "free" and not zone.pcp_order(event.page_order or 0)
            if past or event.kind in ("alloc_zone_locked", "pcpu_drain", "alloc_extfrag"):
                self.boundary.append(Row(self.ts, event))


def _used_chunks(machine: Machine, most: int) -> Iterable[tuple[int, int]]:
    """Pages in use at the start, as aligned chunks of mixed orders."""
    for zone in machine.zones:
        used = set(range(zone.buddy.start, zone.buddy.end))
        for pfn, (order, _) in zone.buddy.chunks.items():
            used.difference_update(range(pfn, pfn + (1 << order)))
        for pcp in zone.pcps:
            for index, entries in enumerate(pcp.lists):
                for pfn in entries:
                    used.difference_update(range(pfn, pfn + (1 << pcp.order_of(index))))
        while used:
            pfn = min(used)
            order = min((pfn >> 4) % 7, most)
            while order and (pfn & ((1 << order) - 1) or pfn + (1 << order) - 1 not in used):
                order -= 1
            pages = set(range(pfn, pfn + (1 << order)))
            if not pages <= used:
                order, pages = 0, {pfn}
            used -= pages
            yield pfn, order


class Player:
    """Plays a tape on an oracle: a recorded pfn is the key of the page that the oracle gave."""

    def __init__(self, machine: Machine, rows: Sequence[Row], *, boosts_act: bool = False) -> None:
        self.machine = machine
        self.pages: dict[int, int | None] = {}  # recorded page -> the model's; None: unserved
        self.passes: dict[int, int] = {}  # nodes whose kswapd works, and until when
        # Passes for boosts that the record has not: until when, and whether they have begun.
        self.own_passes: dict[int, tuple[int, int, bool]] = {}
        # Nodes whose kswapd the record has awake, with the highest zone of its last pass.
        self.awake: dict[int, str] = {}
        self.waiting: set[int] = set()  # of these, those with a boost that woke nobody
        # The wakes and sleeps of kswapd: when, of which node, and in which row.
        self.turns = [
            (row.ts, row.event.cpu, number, row.event.kind)
            for number, row in enumerate(rows)
            if row.event.kind in ("kswapd_wake", "kswapd_sleep")
        ]
        self.orders: dict[int, int] = {}  # pages between their free and their free_batched
        kinds = {row.event.kind for row in rows}
        self.length = PASS if "kswapd_wake" in kinds else 0  # on average, of the recorded passes
        clock = Clock(machine, ticks="vmstat_update" not in kinds)
        self.begin_first_passes()
        for zone in machine.zones:
            zone.boosts_act = boosts_act or not kinds.isdisjoint(("kswapd_wake", "kswapd_sleep"))
            zone.boost *= zone.boosts_act
            zone.reclaim_active &= zone.boosts_act
        batched = _batched(rows)
        for number, row in enumerate(rows):
            if row.event.kind not in RECLAIM_EVENTS:
                self.end_passes(row.ts)
                self.own_boosts(row.ts, number)
            clock.advance(row.ts)
            if row.event.kind in RECLAIM_EVENTS:
                self.reclaim_event(row)
            elif row.event.pfn is None:
                assert row.event.page_order is not None
                machine.fail(row.event.cpu, row.event.page_order, row.gfp)
                machine.trace.events.append(row.event)
            elif row.event.kind == "alloc":
                self.alloc(row)
            elif row.event.kind == "free_batched":
                self.free_batched(row.event.cpu, row.event.pfn)
            else:
                self.free(row.event, begins_batch=number in batched)

    def begin_first_passes(self) -> None:
        """A pass that the snapshot shows lasts until the nap before the first sleep, if that is
        the first of its node's turns."""
        active = {zone.node for zone in self.machine.zones if zone.reclaim_active}
        for ts, node, _, kind in reversed(self.turns):
            if node in active and kind == "kswapd_sleep":
                self.passes[node] = max(ts - NAP, 1)
                self.awake[node] = "DMA"
            else:
                self.passes.pop(node, None)
                self.awake.pop(node, None)

    def reclaim_event(self, row: Row) -> None:
        where = row.event.cpu
        if row.event.kind == "vmstat_update":
            self.machine.tick(where)
            return
        if row.event.kind == "kswapd_wake":
            self.end_own_pass(where)
        self.end_passes(self.passes.get(where, 0) + 1, node=where)
        if row.event.kind == "kswapd_wake":
            self.awake[where] = row.zone or "MOVABLE"
            self.machine.kswapd_begin(where, self.awake[where])
            self.passes[where] = row.ts + PASS
        else:
            if where in self.waiting and not self.machine.node_balanced(where, self.awake[where]):
                self.machine.boosted_nodes.add(where)
            self.machine.forgive(where)
            self.awake.pop(where, None)
        self.waiting.discard(where)

    def end_passes(self, ts: int, *, node: int | None = None) -> None:
        """The end of a pass has no event of its own."""
        for running, until in list(self.passes.items()):
            if node in (None, running) and ts > until:
                self.machine.kswapd_end(running)
                del self.passes[running]

    def own_boosts(self, ts: int, number: int) -> None:
        """A boost that only the machine has ends with a pass of its own, as long as a recorded
        one, unless a recorded pass of the node begins soon."""
        for node in sorted({*self.machine.boosted_nodes, *self.own_passes}):
            if node in self.machine.boosted_nodes and node not in self.own_passes:
                begin = max(ts, self.passes.get(node, 0))
                turns = [turn for turn in self.turns if turn[1] == node and turn[2] > number]
                soon = any(
                    kind == "kswapd_wake" and wake <= begin + BOOST_WAIT
                    for wake, _, _, kind in turns
                )
                if not soon and self.hears(node, ts, turns):
                    self.own_passes[node] = (begin, begin + self.length, False)
                elif not soon:
                    self.waiting.add(node)
            begin, end, begun = self.own_passes.get(node, (ts + 1, 0, False))
            if ts < begin:
                continue
            if not begun:
                self.machine.kswapd_begin(node, self.machine.boosted_top(node))
                self.own_passes[node] = (begin, end, True)
            if ts >= end:
                self.end_own_pass(node)
        self.machine.boosted_nodes.clear()

    def hears(self, node: int, ts: int, turns: Sequence[tuple[int, int, int, str]]) -> bool:
        """Whether a call wakes the node's kswapd: if it sleeps, or naps before its next sleep."""
        if node not in self.awake or not turns:
            return True
        at, _, _, kind = turns[0]
        return kind == "kswapd_sleep" and at <= ts + NAP

    def end_own_pass(self, node: int) -> None:
        _, _, begun = self.own_passes.pop(node, (0, 0, False))
        if begun:
            self.machine.kswapd_end(node)

    def free(self, event: Event, *, begins_batch: bool) -> None:
        pfn, order = event.pfn, event.page_order
        assert pfn is not None
        assert order is not None
        place = self.pages.get(pfn, pfn)
        if place is None:
            return
        self.machine.trace_free(event.cpu, place, order)
        if begins_batch:
            self.orders[pfn] = order
            return
        for page in range(pfn, pfn + (1 << order)):
            self.pages.pop(page, None)
        self.machine.release(event.cpu, place, order)

    def free_batched(self, cpu: int, pfn: int) -> None:
        place = self.pages.get(pfn, pfn)
        if place is None:
            return
        order = self.orders.pop(pfn)
        for page in range(pfn, pfn + (1 << order)):
            self.pages.pop(page, None)
        self.machine.trace_free_batched(cpu, place)
        self.machine.release(cpu, place, order)

    def alloc(self, row: Row) -> None:
        event = row.event
        assert event.pfn is not None
        assert event.page_order is not None
        assert event.migratetype is not None
        node = self.machine.zone_of(event.pfn).node if "THISNODE" in row.gfp else None
        place = self.machine.alloc(
            event.cpu, event.page_order, event.migratetype, row.gfp, node=node
        )
        for i in range(1 << event.page_order):
            self.pages[event.pfn + i] = None if place is None else place + i


def _batched(rows: Sequence[Row]) -> set[int]:
    """Numbers of the frees that a free_batched follows."""
    waiting: dict[int, int] = {}
    found: set[int] = set()
    for number, row in enumerate(rows):
        if row.event.pfn is None:
            continue
        if row.event.kind == "free":
            waiting[row.event.pfn] = number
        elif row.event.kind == "free_batched":
            found.add(waiting.pop(row.event.pfn))
    return found
