# SPDX-License-Identifier: Apache-2.0
"""The free lists of one zone and its pageblocks' types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .kernels import Kernel
from .names import ISOLATE, MERGEABLE


class Buddy:
    """Free chunks in lists by (order, migratetype), head first."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        start: int,
        end: int,
        pageblock_order: int,
        max_order: int,
        zone_locked: Callable[[int | None, int, str], None],
    ) -> None:
        self.kernel = kernel
        self.start = start
        self.end = end
        self.pageblock_order = pageblock_order
        self.max_order = max_order
        self.zone_locked = zone_locked  # traces mm_page_alloc_zone_locked
        self.lists: dict[tuple[int, str], list[int]] = {}
        self.chunks: dict[int, tuple[int, str]] = {}  # first pfn -> its order and list
        self.block_types: dict[int, str] = {}  # pfn >> pageblock_order -> migratetype
        self.taken_from = ""  # the type of the list that smallest() used last

    # Pageblocks

    @property
    def pageblock_pages(self) -> int:
        return 1 << self.pageblock_order

    def block_type(self, pfn: int) -> str:
        return self.block_types[pfn >> self.pageblock_order]

    def set_block_type(self, pfn: int, migratetype: str) -> None:
        self.block_types[pfn >> self.pageblock_order] = migratetype

    def set_range_type(self, pfn: int, order: int, migratetype: str) -> None:
        """Retype every pageblock of a chunk of at least pageblock order."""
        for block in range(pfn, pfn + (1 << order), self.pageblock_pages):
            self.set_block_type(block, migratetype)

    def has_isolated(self) -> bool:
        return ISOLATE in self.block_types.values()

    # Lists

    def list(self, order: int, migratetype: str) -> list[int]:
        return self.lists.setdefault((order, migratetype), [])

    def head(self, order: int, migratetype: str) -> int | None:
        chunks = self.list(order, migratetype)
        return chunks[0] if chunks else None

    def insert(self, pfn: int, order: int, migratetype: str, *, tail: bool = False) -> None:
        chunks = self.list(order, migratetype)
        chunks.insert(len(chunks) if tail else 0, pfn)
        self.chunks[pfn] = (order, migratetype)

    def remove(self, pfn: int) -> tuple[int, str]:
        order, migratetype = self.chunks.pop(pfn)
        self.list(order, migratetype).remove(pfn)
        return order, migratetype

    def is_chunk(self, pfn: int, order: int) -> bool:
        """Whether a free chunk of exactly this order starts here, in this zone."""
        return pfn in self.chunks and self.chunks[pfn][0] == order

    def pages(self, migratetype: str) -> int:
        return sum(1 << order for order, mt in self.chunks.values() if mt == migratetype)

    def free_pages(self) -> int:
        """The zone's counter of free pages, which leaves out isolated ones."""
        return sum(1 << order for order, mt in self.chunks.values() if mt != ISOLATE)

    # Taking

    def split(self, pfn: int, order: int, wanted: int, migratetype: str) -> None:
        """Keep the lowest part of a chunk off the lists; upper halves go to list heads."""
        while order > wanted:
            order -= 1
            self.insert(pfn + (1 << order), order, migratetype)

    def smallest(self, order: int, migratetype: str) -> int | None:
        """The head of the first list of this type that has something large enough."""
        for current in range(order, self.max_order + 1):
            pfn = self.head(current, migratetype)
            if pfn is not None:
                self.remove(pfn)
                self.split(pfn, current, order, migratetype)
                self.taken_from = migratetype
                if self.kernel.zone_locked_by == "smallest":
                    self.zone_locked(pfn, order, migratetype)
                return pfn
        return None

    # Giving back

    def free(self, pfn: int, order: int) -> None:
        """Free to the type of the pageblock, or of each pageblock where chunks are larger."""
        step = min(order, self.pageblock_order) if self.kernel.free_by_block else order
        for part in range(pfn, pfn + (1 << order), 1 << step):
            self.free_one(part, step, self.block_type(part))

    def free_one(self, pfn: int, order: int, migratetype: str) -> None:
        """Merge with free buddies as far as they go, then insert."""
        buddy = pfn
        while order < self.max_order:
            buddy = pfn ^ (1 << order)
            if not self.is_chunk(buddy, order) or not self.may_merge(buddy, order, migratetype):
                break
            self.remove(buddy)
            self._retype_buddy(buddy, order, migratetype)
            pfn &= buddy
            order += 1
        tail = self.kernel.likely_merge_to_tail and self._merge_likely(pfn, buddy, order)
        self.insert(pfn, order, migratetype, tail=tail)

    def may_merge(self, buddy: int, order: int, migratetype: str) -> bool:
        """Whether a chunk about to be listed as `migratetype` may merge with its free buddy."""
        guard = self.kernel.merge_guard
        other = self.block_type(buddy)
        if order < self.pageblock_order or guard == "none" or other == migratetype:
            return True
        if guard == "isolate":
            return ISOLATE not in (other, migratetype)
        return other in MERGEABLE and migratetype in MERGEABLE

    def _retype_buddy(self, buddy: int, order: int, migratetype: str) -> None:
        """Newer kernels keep the pageblocks of one chunk of one type."""
        if order < self.pageblock_order or self.block_type(buddy) == migratetype:
            return
        if self.kernel.merge_guard == "retype first":
            self.set_block_type(buddy, migratetype)
        if self.kernel.merge_guard == "retype all":
            self.set_range_type(buddy, order, migratetype)

    def _merge_likely(self, pfn: int, buddy: int, order: int) -> bool:
        """Whether, once the buddy is free too, the two could merge again at once."""
        if order >= self.max_order - 1:
            return False
        parent = pfn & buddy
        return self.is_chunk(parent ^ (2 << order), order + 1)

    # Whole pageblocks

    def block_range(self, pfn: int) -> tuple[int, int]:
        start = pfn & ~(self.pageblock_pages - 1)
        return start, start + self.pageblock_pages

    def chunks_between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Free chunks that start in the range, ascending, with their orders."""
        for pfn in range(start, end):
            if pfn in self.chunks:
                yield pfn, self.chunks[pfn][0]

    def in_zone(self, pfn: int) -> bool:
        return self.start <= pfn < self.end

    def move_range(self, start: int, end: int, migratetype: str) -> int:
        """Move the free chunks of a range to another type's lists; how many pages moved."""
        moved = 0
        for pfn, order in list(self.chunks_between(start, end)):
            self.remove(pfn)
            self.insert(pfn, order, migratetype, tail=self.kernel.moved_block_to == "tail")
            moved += 1 << order
        return moved
