# SPDX-License-Identifier: Apache-2.0
"""Compaction of one zone: whether it can help, and which pages move where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from .machine import Zone
from .names import CMA, ISOLATE, MOVABLE, RECLAIMABLE, UNMOVABLE
from .slow_path import ASYNC, COSTLY, FULL
from .watermark import Rights

Suits = Literal["serves", "cannot", "suits"]

THRESHOLD = 500  # vm.extfrag_threshold
MOST_PAGES = 2048  # of a run, where the record has none
DEFER_MOST = 6


@dataclass(frozen=True)
class Goal:
    """What a run is to make: a free chunk of an order."""

    order: int
    migratetype: str = UNMOVABLE
    priority: int | None = None  # of an allocation; None: kcompactd
    rights: Rights = field(default_factory=Rights)
    cma: bool = False  # the request may use CMA pages
    whole_blocks: bool = False  # vm.defrag_mode

    @property
    def background(self) -> bool:
        return self.priority is None

    @property
    def asynchronous(self) -> bool:
        return self.priority == ASYNC

    @property
    def thorough(self) -> bool:
        return self.priority == FULL


def pages_in_pieces(zone: Zone) -> int:
    """Free pages in chunks below a pageblock: a mark raised by them counts the others only."""
    chunks = zone.buddy.chunks.values()
    return sum(1 << order for order, _ in chunks if order < zone.buddy.pageblock_order)


def gap(zone: Zone, order: int) -> int:
    """Free pages that compaction needs above the mark: copies of the pages that move."""
    pages = 2 << order
    most = zone.kernel.gap_most
    return pages if most is None else min(pages, most)


def _index(zone: Zone, order: int) -> int:
    """fragmentation_index: towards 0 memory lacks, towards 1000 it is in pieces."""
    orders = [o for o, _ in zone.buddy.chunks.values()]
    if not orders:
        return 0
    if max(orders) >= order:
        return -1000
    pages = sum(1 << o for o in orders)
    return 1000 - (1000 + pages * 1000 // (1 << order)) // len(orders)


def has_gap(zone: Zone, order: int, mark: int, top: str) -> bool:
    """Whether there are enough single pages to move others to, of CMA blocks too."""
    if order > COSTLY:
        mark += zone.marks.low - zone.marks.min
    return zone.watermark.full(zone, 0, mark + gap(zone, order), top, Rights(), cma=True)


def _is_fragmented(zone: Zone, order: int) -> bool:
    return order <= COSTLY or not 0 <= _index(zone, order) <= THRESHOLD


def suits(zone: Zone, goal: Goal, top: str) -> Suits:
    """Whether the zone has the chunk already, or compaction can make it."""
    whole = goal.background and goal.whole_blocks
    mark = zone.mark("high" if whole else "min")
    raised = mark + pages_in_pieces(zone) if whole else mark
    order = goal.order
    if zone.watermark.full(zone, order, raised, top, goal.rights, cma=goal.cma):
        return "serves"
    own = zone.kernel.async_needs_own_pages and goal.asynchronous and not goal.cma
    if own and order > COSTLY:
        mine = zone.watermark.full(zone, 0, mark + gap(zone, order), top, Rights(), cma=False)
        if not mine:
            return "cannot"
    can = has_gap(zone, order, mark, top) and _is_fragmented(zone, order)
    return "suits" if can else "cannot"


def reclaim_leaves(zone: Zone, order: int, top: str) -> bool:
    """compaction_ready: direct reclaim leaves a zone that compaction can have as it is."""
    if order <= COSTLY:
        return False
    if zone.watermark.full(zone, order, zone.mark("min"), top, Rights(), cma=False):
        return True
    if zone.kernel.ready_at_costly_gap:
        return has_gap(zone, order, zone.mark("high"), top) and _is_fragmented(zone, order)
    if not (has_gap(zone, order, zone.mark("min"), top) and _is_fragmented(zone, order)):
        return False
    mark = zone.mark("high") + gap(zone, order)
    return zone.watermark.full(zone, 0, mark, top, Rights(), cma=False)


class Deferral:
    """After a failure 2^shift attempts are skipped."""

    def __init__(self) -> None:
        self.shift = self.considered = self.failed_order = 0

    def defers(self, order: int) -> bool:
        if order < self.failed_order:
            return False
        self.considered = min(self.considered + 1, 1 << self.shift)
        return self.considered < 1 << self.shift

    def restarts(self, order: int) -> bool:
        last = self.considered >= 1 << self.shift
        return order >= self.failed_order and self.shift == DEFER_MOST and last

    def fail(self, order: int) -> None:
        self.considered = 0
        self.shift = min(self.shift + 1, DEFER_MOST)
        self.failed_order = min(self.failed_order, order)

    def succeed(self, order: int, *, allocated: bool) -> None:
        if allocated:
            self.shift = self.considered = 0
        self.failed_order = max(self.failed_order, order + 1)


@dataclass
class Scanners:
    """Where the search for pages goes up, and the search for free ones down."""

    source: int = 0
    target: int = 0  # 0: a run starts at the ends
    folio_target: int = 0  # for blocks above order 0


Moved = Callable[[int, int, int], None]  # from, to, order


class Compactor:
    """The compaction of one zone."""

    def __init__(self, zone: Zone, used: dict[int, int], moved: Moved) -> None:
        self.zone = zone
        self.buddy = zone.buddy
        self.used = used  # blocks in use above order 0: first pfn -> order
        self.moved = moved
        self.deferral = Deferral()
        self.at = Scanners()
        self.no_source: set[int] = set()  # pageblocks without pages to move
        self.no_target: set[int] = set()  # ... without free ones

    # Which pages

    def _is_source(self, block: int, goal: Goal) -> bool:
        kind = self.buddy.block_type(block)
        size = self.buddy.pageblock_pages
        if kind == ISOLATE or not self.buddy.in_zone(block + size - 1):
            return False
        foreign = kind == CMA and not goal.cma and not goal.background
        if foreign and self.zone.kernel.cma_sources_need_right:
            return False
        if not goal.asynchronous:
            return True
        whole = self.zone.kernel.first_compaction_is_a_turn and 1 << goal.order >= size
        if goal.migratetype == MOVABLE or whole:
            return kind in (MOVABLE, CMA)
        return kind == goal.migratetype

    def _units(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """What stands in a range: first pfn, order, whether it is in use. The first one may
        begin before the range."""
        pfn = self._head(start)
        while pfn < end:
            free = self.buddy.chunks.get(pfn)
            order = free[0] if free else self.used.get(pfn, 0)
            yield pfn, order, free is None
            pfn += 1 << order

    def _head(self, pfn: int) -> int:
        for order in range(1, self.buddy.max_order + 1):
            head = pfn & -(1 << order)
            chunk = self.buddy.chunks.get(head, (0, ""))[0]
            if max(chunk, self.used.get(head, 0)) >= order:
                return head
        return pfn

    def _moves(self, pfn: int, order: int, goal: Goal) -> bool:
        if pfn not in self.zone.movable:
            return False
        return order == 0 or (self.zone.kernel.folios_move and order < goal.order)

    def _pages_to_move(self, start: int, end: int, goal: Goal) -> int:
        pages = 0
        for pfn, order, in_use in self._units(start, end):
            if in_use and self._moves(pfn, order, goal):
                pages += 1 << order
            elif in_use and goal.asynchronous:
                return 0  # all of it or nothing
        return pages

    def _parts(self, block: int, goal: Goal) -> Iterator[tuple[int, int]]:
        size = min(1 << goal.order, self.buddy.pageblock_pages)
        for start in range(block, block + self.buddy.pageblock_pages, size):
            yield start, start + size

    # Where to

    def _is_target(self, block: int, goal: Goal) -> bool:
        limit = self.buddy.pageblock_order
        if self.zone.kernel.targets_below_order:
            limit = goal.order
        if any(
            chunk <= block < chunk + (1 << order) and order >= limit
            for chunk, (order, _) in self.buddy.chunks.items()
        ):
            return False
        suits = goal.thorough or self.buddy.block_type(block) in (MOVABLE, CMA)
        return suits and block not in self.no_target

    def _free_part(self, block: int, below: int, order: int) -> int | None:
        """The highest free part of a pageblock that ends at or below a page."""
        best = None
        for pfn, (size, _) in self.buddy.chunks.items():
            end = min(pfn + (1 << size), below) & -(1 << order)
            if block <= pfn < below and end - (1 << order) >= pfn:
                best = max(best or 0, end - (1 << order))
        return best

    def _find_target(self, below: int, source: int, order: int, goal: Goal) -> int | None:
        size = self.buddy.pageblock_pages
        block = (below - 1) // size * size
        while block > source:
            if self._is_target(block, goal):
                pfn = self._free_part(block, below, order)
                if pfn is not None:
                    return pfn
                if order == 0:
                    self.no_target.add(block)
            below = block
            block -= size
        return None

    def _move(self, pfn: int, order: int, to: int) -> None:
        """The page takes its new place; the old one is free."""
        chunk = next(c for c, (o, _) in self.buddy.chunks.items() if c <= to < c + (1 << o))
        size, kind = self.buddy.remove(chunk)
        while size > order:
            size -= 1
            half = chunk + (1 << size)
            self.buddy.insert(half if to < half else chunk, size, kind)
            chunk = chunk if to < half else half
        self.used.pop(pfn, None)
        if order:
            self.used[to] = order
        pages = range(1 << order)
        self.zone.movable.difference_update(pfn + i for i in pages)
        self.zone.movable.update(to + i for i in pages)
        self.moved(pfn, to, order)
        self.buddy.free(pfn, order)
        self.zone.count("compacted_pages", 1 << order)

    # A run

    def forget(self) -> None:
        self.no_source.clear()
        self.no_target.clear()
        self.at = Scanners()

    def _have_met(self) -> bool:
        size = self.buddy.pageblock_pages
        return not self.at.target or self.at.source >= self.at.target // size * size

    def run(self, goal: Goal, top: str) -> bool:
        """Whether the run made what it was to make."""
        if self.deferral.restarts(goal.order):
            self.forget()
        before, begun = self.at, not self._have_met()
        if goal.thorough or not begun:
            first = self.buddy.block_range(self.buddy.start)[0]
            self.at = Scanners(first, self.buddy.end, self.buddy.end)
        made = self._scan(goal, top)
        if goal.thorough and begun and not self._have_met():
            self.at.source = max(self.at.source, before.source)
            self.at.target = min(self.at.target, before.target)
            self.at.folio_target = min(self.at.folio_target, before.folio_target)
        return made

    def _scan(self, goal: Goal, top: str) -> bool:
        budget = MOST_PAGES
        size = self.buddy.pageblock_pages
        while not self._have_met() and budget > 0:
            block = self.at.source
            if self._has_work(block, goal):
                budget = self._empty(block, goal, budget)
                if self._is_done(goal, top):
                    return True
                if budget <= 0:
                    return False
            self.at.source += size
        return False

    def _has_work(self, block: int, goal: Goal) -> bool:
        skipped = block in self.no_source and not goal.thorough
        if not self.buddy.in_zone(block) or skipped:
            return False
        parts = self._parts(block, goal)
        if self._is_source(block, goal) and any(self._pages_to_move(*part, goal) for part in parts):
            return True
        self.no_source.add(block)
        return False

    def _empty(self, block: int, goal: Goal, budget: int) -> int:
        """Move what can; the rest of the budget."""
        for start, end in self._parts(block, goal):
            if not self._pages_to_move(start, end, goal):
                continue
            for pfn, order, in_use in list(self._units(start, end)):
                if budget <= 0:
                    return budget
                if not in_use or not self._moves(pfn, order, goal):
                    continue
                below = self.at.folio_target if order else self.at.target
                to = self._find_target(below, block, order, goal)
                if order:
                    self.at.folio_target = block if to is None else to
                else:
                    self.at.target = block if to is None else to
                if to is not None:
                    self._move(pfn, order, to)
                    budget -= 1 << order
                elif order == 0:
                    return budget
        return budget

    def _is_done(self, goal: Goal, top: str) -> bool:
        """__compact_finished: the zone has a chunk of the type, or one that it may claim."""
        if goal.background and goal.whole_blocks:
            return suits(self.zone, goal, top) == "serves"
        own = {goal.migratetype} | ({CMA} if goal.migratetype == MOVABLE else set())
        least = self.buddy.pageblock_order // 2 if goal.migratetype == MOVABLE else 0
        return any(
            order >= goal.order
            and (kind in own or (order >= least and kind in (UNMOVABLE, MOVABLE, RECLAIMABLE)))
            for order, kind in self.buddy.chunks.values()
        )
