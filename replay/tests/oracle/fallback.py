# SPDX-License-Identifier: Apache-2.0
"""Taking one chunk from a zone, also from foreign lists: one class per family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .names import CMA, HIGHATOMIC, MOVABLE, RECLAIMABLE, RESERVE, UNMOVABLE

if TYPE_CHECKING:
    from .machine import Zone

FALLBACKS: dict[str, tuple[str, ...]] = {
    UNMOVABLE: (RECLAIMABLE, MOVABLE),
    MOVABLE: (RECLAIMABLE, UNMOVABLE),
    RECLAIMABLE: (UNMOVABLE, MOVABLE),
}


@dataclass(frozen=True)
class Want:
    """A request to one zone."""

    order: int
    migratetype: str
    nofragment: bool = False  # take no foreign chunk smaller than a pageblock
    cma: bool = False  # may use CMA pages
    cold: bool = False  # from the other end of the per-CPU list


class Fallback:
    """The common part of the families. rmqueue() removes one chunk of want.order from the lists."""

    def __init__(self, zone: Zone) -> None:
        self.zone = zone
        self.buddy = zone.buddy
        self.kernel = zone.kernel
        self.pageblock_order = zone.buddy.pageblock_order

    def bulk(self) -> Callable[[Want], int | None]:
        """The rmqueue to use under one hold of the zone lock: a family may remember."""
        return self.rmqueue

    def rmqueue(self, want: Want) -> int | None:
        raise NotImplementedError

    def find(self, order: int, start: str) -> str | None:
        """The first fallback type of `start` that has a free chunk of this order."""
        for migratetype in FALLBACKS.get(start, ()):
            if self.buddy.list(order, migratetype):
                return migratetype
        return None

    def may_claim(self, order: int, start: str) -> bool:
        """Whether to ask for the whole pageblock around a chunk of this order."""
        return order >= self.pageblock_order // 2 or start in (RECLAIMABLE, UNMOVABLE)

    def lowest_order(self, want: Want) -> int:
        bound = self.kernel.nofragment_any_order or want.order < self.pageblock_order
        return self.pageblock_order if want.nofragment and bound else want.order

    def largest(self, want: Want) -> tuple[int, str] | None:
        """Order and type of the chunk to fall back to.

        The largest, but for movable requests that may not claim it: they get the smallest.
        """
        start = want.migratetype
        for order in range(self.buddy.max_order, self.lowest_order(want) - 1, -1):
            found = self.find(order, start)
            if found is None:
                continue
            if start == MOVABLE and order > want.order and not self.may_claim(order, start):
                return self.smallest_foreign(want)
            return order, found
        return None

    def smallest_foreign(self, want: Want) -> tuple[int, str] | None:
        for order in range(want.order, self.buddy.max_order + 1):
            found = self.find(order, want.migratetype)
            if found is not None:
                return order, found
        return None

    def half_is_ours(self, start: str, block_type: str, free: int, movable: int) -> bool:
        """Whether at least half of a pageblock is free or suits the claimer."""
        pages = self.buddy.pageblock_pages
        if start == MOVABLE:
            alike = movable
        elif block_type == MOVABLE:
            alike = pages - (free + movable)
        else:
            alike = 0
        return free + alike >= pages // 2

    def count_block(self, pfn: int) -> tuple[int, int] | None:
        """Free and movable pages of a pageblock; None if the zone does not hold all of it."""
        start, end = self.buddy.block_range(pfn)
        if not (self.buddy.in_zone(start) and self.buddy.in_zone(end - 1)):
            return None
        free = sum(1 << order for _, order in self.buddy.chunks_between(start, end))
        return free, self.zone.movable_between(start, end)

    def whole_blocks(self, pfn: int, order: int, want: Want) -> None:
        """Take a chunk of at least a pageblock and all that it covers."""
        self.buddy.remove(pfn)
        self.buddy.set_range_type(pfn, order, want.migratetype)
        self.buddy.split(pfn, order, want.order, want.migratetype)

    def cma_first(self, want: Want) -> int | None:
        """CMA pages for movable requests while they are over half of what is free."""
        if not (self.kernel.cma_balance and want.cma):
            return None
        if self.buddy.pages(CMA) > self.buddy.free_pages() // 2:
            return self.buddy.smallest(want.order, CMA)
        return None

    def cma_step(self, want: Want) -> int | None:
        right = want.cma if self.kernel.cma_needs_right else want.migratetype == MOVABLE
        return self.buddy.smallest(want.order, CMA) if right else None


class Largest(Fallback):
    """2.6.31 to 2.6.33: always the largest chunk; the reserve when nothing else is left."""

    def may_claim(self, order: int, start: str) -> bool:
        return order >= self.pageblock_order // 2 or start == RECLAIMABLE

    def rmqueue(self, want: Want) -> int | None:
        listed = want.migratetype
        pfn = self.buddy.smallest(want.order, listed)
        if pfn is None and listed != RESERVE:
            pfn = self.fallback(want)
            if pfn is None:
                listed = RESERVE
                # Its pageblocks are foreign to every type: a request that may not mix takes none.
                pfn = None if want.nofragment else self.buddy.smallest(want.order, listed)
        self.zone.trace_zone_locked(pfn, want.order, listed)
        return pfn

    def fallback(self, want: Want) -> int | None:
        start = want.migratetype
        for order in range(self.buddy.max_order, self.lowest_order(want) - 1, -1):
            found = self.find(order, start)
            if found is None:
                continue
            pfn = self.buddy.list(order, found)[0]
            if self.may_claim(order, start):
                if self.move_block(pfn, start) >= self.buddy.pageblock_pages // 2:
                    self.buddy.set_block_type(pfn, start)
                found = start
            self.buddy.remove(pfn)
            if order == self.pageblock_order or (
                order > self.pageblock_order and self.kernel.retype_larger_chunks
            ):
                self.buddy.set_range_type(pfn, order, start)
            self.buddy.split(pfn, order, want.order, found)
            self.zone.trace_extfrag(pfn, want.order, order, start, found, owned=found == start)
            return pfn
        return None

    def move_block(self, pfn: int, migratetype: str) -> int:
        start, end = self.buddy.block_range(pfn)
        if not self.buddy.in_zone(end - 1):
            return 0
        first = start if self.buddy.in_zone(start) else pfn
        return self.buddy.move_range(first, end, migratetype)


class MoveThenDecide(Fallback):
    """4.20 to 6.8: move the pageblock's free chunks over, then decide whether to own it."""

    def rmqueue(self, want: Want) -> int | None:
        pfn = self.cma_first(want)
        if pfn is None:
            pfn = self._own_or_foreign(want)
        if self.kernel.zone_locked_by == "core" and (
            pfn is not None or self.kernel.zone_locked_without_page
        ):
            self.zone.trace_zone_locked(pfn, want.order, want.migratetype)
        return pfn

    def _own_or_foreign(self, want: Want) -> int | None:
        while True:
            pfn = self.buddy.smallest(want.order, want.migratetype)
            if pfn is None:
                pfn = self.cma_step(want)
            if pfn is not None or not self.fallback(want):
                return pfn

    def fallback(self, want: Want) -> bool:
        """Bring foreign chunks to the wanted lists; the caller then looks there again."""
        chosen = self.largest(want)
        if chosen is None:
            return False
        order, found = chosen
        pfn = self.buddy.list(order, found)[0]
        if not self.move_whole(pfn, order, want):
            self.buddy.remove(pfn)
            tail = self.kernel.moved_block_to == "tail"
            self.buddy.insert(pfn, order, want.migratetype, tail=tail)
        self.zone.trace_extfrag(pfn, want.order, order, want.migratetype, found)
        return True

    def move_whole(self, pfn: int, order: int, want: Want) -> bool:
        """Move all free chunks around pfn; False if only the chunk itself is to move."""
        start = want.migratetype
        block_type = self.buddy.block_type(pfn)
        if block_type == HIGHATOMIC:
            return False
        if order >= self.pageblock_order:
            self.buddy.set_range_type(pfn, order, start)
            return False
        self.zone.boost_watermark()
        if not self.may_claim(order, start):
            return False
        first, end = self.buddy.block_range(pfn)
        if not self.buddy.in_zone(first):
            first = pfn
        if not self.buddy.in_zone(end - 1):
            return False
        movable = self.zone.movable_between(first, end)
        free = self.buddy.move_range(first, end, start)
        if self.half_is_ours(start, block_type, free, movable):
            self.buddy.set_block_type(pfn, start)
        return True


class ClaimOrSingle(Fallback):
    """6.10 to 6.14: claim the pageblock first, or else leave all but the page where it is."""

    def rmqueue(self, want: Want) -> int | None:
        for step in (self.cma_first, self._own, self.cma_step, self.fallback):
            pfn = step(want)
            if pfn is not None:
                return pfn
        return None

    def _own(self, want: Want) -> int | None:
        return self.buddy.smallest(want.order, want.migratetype)

    def fallback(self, want: Want) -> int | None:
        chosen = self.largest(want)
        if chosen is None:
            return None
        order, found = chosen
        pfn = self.take(self.buddy.list(order, found)[0], order, want)
        self.zone.trace_extfrag(pfn, want.order, order, want.migratetype, found)
        return pfn

    def take(self, pfn: int, order: int, want: Want) -> int:
        block_type = self.buddy.block_type(pfn)
        if block_type != HIGHATOMIC:
            if order >= self.pageblock_order:
                self.whole_blocks(pfn, order, want)
                return pfn
            self.zone.boost_watermark()
            if self.may_claim(order, want.migratetype):
                claimed = self.claim(pfn, block_type, want)
                if claimed is not None:
                    return claimed
        self.buddy.remove(pfn)
        self.buddy.split(pfn, order, want.order, block_type)
        return pfn

    def claim(self, pfn: int, block_type: str, want: Want) -> int | None:
        """Own the pageblock if half of it suits; a page of it, or None if it does not."""
        counted = self.count_block(pfn)
        if counted is None or not self.half_is_ours(want.migratetype, block_type, *counted):
            return None
        self.buddy.move_range(*self.buddy.block_range(pfn), want.migratetype)
        self.buddy.set_block_type(pfn, want.migratetype)
        return self.buddy.smallest(want.order, want.migratetype)


class ClaimThenSteal(ClaimOrSingle):
    """6.12.117, 6.15 and later: try to claim, large to small; then steal, small to large.

    One hold of the zone lock remembers what worked, and does not look above it again.
    """

    NORMAL, CMA_PAGES, CLAIM, STEAL = range(4)

    def bulk(self) -> Callable[[Want], int | None]:
        mode = self.NORMAL

        def rmqueue(want: Want) -> int | None:
            nonlocal mode
            pfn = self.cma_first(want)
            if pfn is not None:
                return pfn
            for step, take, mode_after in (
                (self.NORMAL, self._own, self.NORMAL),
                (self.CMA_PAGES, self.cma_step, self.CMA_PAGES),
                (self.CLAIM, self.claim_largest, self.NORMAL),
                (self.STEAL, self.steal, self.STEAL),
            ):
                if mode <= step:
                    pfn = take(want)
                    if pfn is not None:
                        mode = mode_after
                        return pfn
            return None

        return rmqueue

    def rmqueue(self, want: Want) -> int | None:
        return self.bulk()(want)

    def claim_largest(self, want: Want) -> int | None:
        start = want.migratetype
        for order in range(self.buddy.max_order, self.lowest_order(want) - 1, -1):
            if not self.may_claim(order, start):
                return None
            found = self.find(order, start)
            if found is None:
                continue
            pfn = self.try_claim(self.buddy.list(order, found)[0], order, found, want)
            if pfn is not None:
                self.zone.trace_extfrag(pfn, want.order, order, start, found)
                return pfn
        return None

    def try_claim(self, pfn: int, order: int, found: str, want: Want) -> int | None:
        block_type = self.buddy.block_type(pfn)
        if not self.kernel.claim_tests_list_type and block_type == HIGHATOMIC:
            return None
        if order >= self.pageblock_order:
            self.whole_blocks(pfn, order, want)
            return pfn
        self.zone.boost_watermark()
        if self.kernel.claim_tests_list_type:
            block_type = found
        return self.claim(pfn, block_type, want)

    def steal(self, want: Want) -> int | None:
        if want.nofragment:
            return None
        chosen = self.smallest_foreign(want)
        if chosen is None:
            return None
        order, found = chosen
        pfn = self.buddy.list(order, found)[0]
        self.buddy.remove(pfn)
        self.buddy.split(pfn, order, want.order, found)
        self.zone.trace_extfrag(pfn, want.order, order, want.migratetype, found)
        return pfn


FAMILIES: dict[str, type[Fallback]] = {
    "largest": Largest,
    "move then decide": MoveThenDecide,
    "claim or single": ClaimOrSingle,
    "claim then steal": ClaimThenSteal,
}
