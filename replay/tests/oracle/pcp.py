# SPDX-License-Identifier: Apache-2.0
"""The per-CPU page lists of one zone on one CPU: how many to refill, when to drain, in what order.

The three tunings answer "how many"; the three drains answer "which next".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .names import COSTLY_ORDER, MOVABLE

if TYPE_CHECKING:
    from .fallback import Want
    from .kernels import Kernel
    from .machine import Zone

BATCH_SCALE_MAX = 5  # CONFIG_PCP_BATCH_SCALE_MAX


@dataclass
class Settings:
    """The numbers of one (CPU, zone) in a snapshot: pages, except the two factors."""

    batch: int
    high: int
    high_min: int = 0
    high_max: int = 0
    alloc_factor: int = 0
    free_count: int = 0
    free_factor: int = 0
    prev_free_high_order: bool = False
    free_high_batch: bool = False


# How many


class Fixed:
    """To 5.12: batch in, batch out."""

    def __init__(self, pcp: Pcp) -> None:
        self.pcp = pcp

    def on_alloc(self) -> None:
        pass

    def refill(self, order: int) -> int:
        assert order == 0
        return self.pcp.batch

    def overflow(self, order: int) -> int:
        """Pages to drain after a free has been pushed."""
        assert order == 0
        return self.pcp.batch if self.pcp.count >= self.pcp.high else 0

    def decay(self) -> int:
        """Pages to drain at the vmstat tick."""
        return 0


class FreeFactor(Fixed):
    """5.13 to 6.6: frees without allocations drain twice as many each time."""

    def on_alloc(self) -> None:
        self.pcp.free_factor >>= 1

    def refill(self, order: int) -> int:
        batch = self.pcp.batch
        return max(batch >> order, 2) if batch > 1 else batch

    def overflow(self, order: int) -> int:
        pcp = self.pcp
        free_high = pcp.kernel.free_high and pcp.free_factor > 0 and 1 <= order <= COSTLY_ORDER
        high = 0 if free_high else pcp.high
        if high and pcp.zone.reclaim_active:
            high = min(4 * pcp.batch, high)
        if pcp.count < high:
            return 0
        return pcp.count if free_high else self._nr_free(high)

    def _nr_free(self, high: int) -> int:
        pcp = self.pcp
        if high < pcp.batch:
            return 1
        wanted = pcp.batch << pcp.free_factor
        limit = pcp.kernel.free_factor_max
        if wanted < high - pcp.batch and (limit is None or pcp.free_factor < limit):
            pcp.free_factor += 1
        return clamp(wanted, pcp.batch, high - pcp.batch)


class Auto(Fixed):
    """6.7 and later: high moves between high_min and high_max."""

    def on_alloc(self) -> None:
        self.pcp.free_count >>= 1

    def refill(self, order: int) -> int:
        pcp = self.pcp
        base = pcp.batch
        high = pcp.high = clamp(pcp.high, pcp.high_min, pcp.high_max)
        if high < base:
            return 1
        batch = base << pcp.alloc_factor if order == 0 else base
        if pcp.high_min != pcp.high_max and not pcp.zone.below_high:
            high = pcp.high = min(high + batch, pcp.high_max)
        if order == 0:
            room = max(high - pcp.count - base, base)
            if batch <= room and pcp.alloc_factor < BATCH_SCALE_MAX:
                pcp.alloc_factor += 1
            batch = min(batch, room)
        return max(batch >> order, 2) if batch > 1 else batch

    def overflow(self, order: int) -> int:
        pcp = self.pcp
        pcp.alloc_factor >>= 1
        free_high = self._free_high(order)
        if pcp.free_count < pcp.batch << BATCH_SCALE_MAX:
            pcp.free_count += 1 << order
        high = self._limit(free_high)
        if pcp.count < high:
            return 0
        if free_high:
            return min(pcp.count, pcp.batch << BATCH_SCALE_MAX)
        if high < pcp.batch:
            return 1
        return clamp(pcp.free_count, pcp.batch, high - pcp.batch)

    def _free_high(self, order: int) -> bool:
        """Whether frees of orders 1 to 3 follow one another so that the list is to be emptied."""
        pcp = self.pcp
        small = 1 <= order <= COSTLY_ORDER
        enough = pcp.batch + (pcp.high_min // 2 if pcp.kernel.free_high_bias else 0)
        again = pcp.prev_free_high_order
        pcp.prev_free_high_order = small
        return (
            small
            and again
            and pcp.free_count >= enough
            and (not pcp.free_high_batch or pcp.count >= pcp.batch)
        )

    def _limit(self, free_high: bool) -> int:
        """The count at which to drain now; moves pcp.high for the next time."""
        pcp = self.pcp
        high = pcp.high = clamp(pcp.high, pcp.high_min, pcp.high_max)
        freed = max(pcp.free_count, pcp.batch)
        if high == 0:
            return 0
        if free_high:
            pcp.high = max(high - (pcp.batch << BATCH_SCALE_MAX), pcp.high_min)
            return 0
        if pcp.zone.reclaim_active:
            pcp.high = max(high - freed, pcp.high_min)
            return min(4 * pcp.batch, pcp.high)
        if pcp.high_min == pcp.high_max:
            return high
        if pcp.zone.below_high:
            pcp.high = max(high - freed, pcp.high_min)
            return max(pcp.count, pcp.high_min)
        if pcp.count >= high and high < pcp.free_count + pcp.batch:
            pcp.high = clamp(pcp.free_count + pcp.batch, pcp.high_min, pcp.high_max)
        return high

    def decay(self) -> int:
        pcp = self.pcp
        if pcp.high > pcp.high_min:
            lowest = pcp.count - (pcp.batch << BATCH_SCALE_MAX)
            pcp.high = max(lowest, pcp.high - (pcp.high >> 3), pcp.high_min)
        return max(pcp.count - pcp.high, 0)


def clamp(value: int, low: int, high: int) -> int:
    """Kernels differ where low > high, which needs high < 2 * batch and so never happens."""
    return min(max(value, low), high)


TUNINGS: dict[str, type[Fixed]] = {"fixed": Fixed, "free_factor": FreeFactor, "auto": Auto}


# Which next


def round_robin(pcp: Pcp, pages: int, first: int, *, to_the_end: bool) -> Iterator[int]:
    """Indices of the lists to take a tail from: 2.6.32 to 5.18.

    An empty list raises the quota of the next one. Starts beside list 0, whatever was freed.
    """
    del first
    index = quota = 0
    while pages > 0:
        quota += 1
        index = (index + 1) % len(pcp.lists)
        if not pcp.lists[index]:
            continue
        if to_the_end and quota == len(pcp.lists):
            quota = pages
        while pages > 0 and quota > 0 and pcp.lists[index]:
            pages -= 1 << pcp.order_of(index)
            quota -= 1
            yield index


def whole_lists(pcp: Pcp, pages: int, first: int) -> Iterator[int]:
    """5.19 and later: empty the list just freed to, then the next, wrapping around."""
    index = first
    while pages > 0:
        if pcp.lists[index]:
            pages -= 1 << pcp.order_of(index)
            yield index
        else:
            index = (index + 1) % len(pcp.lists)


class Pcp:
    """The lists themselves, head first, each entry the first pfn of a chunk."""

    def __init__(self, zone: Zone, cpu: int, settings: Settings) -> None:
        self.zone = zone
        self.cpu = cpu
        self.kernel: Kernel = zone.kernel
        self.batch = settings.batch
        self.high = settings.high
        self.high_min = settings.high_min
        self.high_max = settings.high_max
        self.alloc_factor = settings.alloc_factor
        self.free_count = settings.free_count
        self.free_factor = settings.free_factor
        self.prev_free_high_order = settings.prev_free_high_order
        self.free_high_batch = settings.free_high_batch
        self.count = 0
        self.expire = 0  # ticks until a page list of a remote node is drained
        self.low_lists = len(self.kernel.pcp_types) * (self.kernel.pcp_max_order + 1)
        nr_lists = 1 if self.kernel.mixed_list else self.low_lists + self.kernel.thp_lists
        self.lists: list[list[int]] = [[] for _ in range(nr_lists)]
        self.recorded: dict[int, str] = {}  # pfn -> type it was listed or freed with
        self.tuning = TUNINGS[self.kernel.tuning](self)

    # Geometry

    def index_of(self, order: int, migratetype: str) -> int:
        if self.kernel.mixed_list:
            return 0
        which = self.kernel.pcp_types.index(migratetype)
        if order <= self.kernel.pcp_max_order:
            return len(self.kernel.pcp_types) * order + which
        if self.kernel.thp_lists == 1:
            return self.low_lists
        if self.kernel.thp_lists == 2:
            return self.low_lists + (migratetype == MOVABLE)
        return self.low_lists + which

    def order_of(self, index: int) -> int:
        if index < self.low_lists:
            return index // len(self.kernel.pcp_types)
        return self.zone.thp_order

    def list_type(self, index: int) -> str:
        """The type of an order-0 list, by its index."""
        return self.kernel.pcp_types[index % len(self.kernel.pcp_types)]

    # Allocation

    def alloc(self, want: Want, *, refills: bool = True) -> int | None:
        """The first page of the list, which is refilled if it is empty and the request may."""
        self.tuning.on_alloc()
        self.zone.used_by(self.cpu)
        entries = self.lists[self.index_of(want.order, want.migratetype)]
        if self.kernel.mixed_list:
            return self._alloc_mixed(entries, want)
        if entries:
            self.zone.count("pcp_hits")
        elif refills:
            self._refill(entries, want)
        else:
            self.tuning.refill(want.order)
        if not entries:
            return None
        return self._take(entries, entries[-1 if want.cold else 0], want)

    def _alloc_mixed(self, entries: list[int], want: Want) -> int | None:
        """2.6.31: the first page of the type; after a refill, whatever page is first."""
        refilled = not entries
        if refilled:
            self._refill(entries, want)
            if not entries:
                return None
        candidates = reversed(entries) if want.cold else iter(entries)
        pfn = next((p for p in candidates if self.recorded[p] == want.migratetype), None)
        if pfn is None:
            self._refill(entries, want)
            pfn = entries[0]
        elif not refilled:
            self.zone.count("pcp_hits")
        return self._take(entries, pfn, want)

    def _take(self, entries: list[int], pfn: int, want: Want) -> int:
        entries.remove(pfn)
        del self.recorded[pfn]
        self.count -= 1 << want.order
        return pfn

    def _refill(self, entries: list[int], want: Want) -> None:
        pages = self.zone.bulk(self.tuning.refill(want.order), want)
        new = [pfn for pfn, _ in pages]
        entries[:] = [*entries, *reversed(new)] if want.cold else [*new, *entries]
        self.recorded |= dict(pages)
        self.count += len(pages) << want.order
        self.zone.count("refills")
        self.zone.count("refill_pages", len(pages) << want.order)

    # Freeing

    def free(self, pfn: int, order: int) -> None:
        """Push a page; drain if the lists are full then."""
        self.zone.used_by(self.cpu)
        block_type = self.zone.buddy.block_type(pfn)
        listed = block_type if block_type in self.kernel.pcp_types else MOVABLE
        index = self.index_of(order, listed)
        self.lists[index].insert(0, pfn)
        self.recorded[pfn] = block_type
        self.count += 1 << order
        pages = self.tuning.overflow(order)
        if pages:
            self.zone.count("drains")
            step = self.batch if self.kernel.overflow_in_batches else pages
            while pages > 0 and self.count:
                self.zone.count("drain_pages", self.drain(min(pages, step), index))
                pages -= step
            self.zone.recheck_below_high()

    def drain(self, pages: int, first: int) -> int:
        """Give back at least `pages` pages, or all; returns how many."""
        before = self.count
        if pages:
            self.zone.used_by(self.zone.trace.cpu)
        for index in self._order(min(pages, self.count), first):
            pfn = self.lists[index].pop()
            order = self.order_of(index)
            migratetype = self._drained_type(pfn, index)
            self.count -= 1 << order
            self.zone.buddy.free_one(pfn, order, migratetype)
            self.zone.trace_pcpu_drain(pfn, order, migratetype)
        return before - self.count

    def _order(self, pages: int, first: int) -> Iterator[int]:
        if self.kernel.drain == "whole lists":
            return whole_lists(self, pages, first)
        to_the_end = self.kernel.drain == "round robin to the end"
        return round_robin(self, pages, first, to_the_end=to_the_end)

    def _drained_type(self, pfn: int, index: int) -> str:
        recorded = self.recorded.pop(pfn)
        if self.kernel.drained_to == "index":
            return self.list_type(index)
        if self.kernel.drained_to == "recorded" and not self.zone.isolation_is_seen():
            return recorded
        return self.zone.buddy.block_type(pfn)

    # Time

    def tick(self, *, remote: bool) -> None:
        """One run of the vmstat worker.

        The lists of another node's zone are drained after three ticks without use. Draining
        is use too: it changes the zone's counters.
        """
        if self.cpu in self.zone.users:
            self.zone.users.remove(self.cpu)
            self.expire = 3
        self._decay()
        if not self.expire or not self.count:
            return
        if not remote:
            self.expire = 0
            return
        self.expire -= 1
        if self.expire == 0:
            self._drain_idle(min(self.batch, self.count))

    def _decay(self) -> None:
        pages = self.tuning.decay()
        step = self.batch if self.kernel.decay_in_batches else pages
        while pages > 0:
            self._drain_idle(min(pages, step))
            pages -= step

    def _drain_idle(self, pages: int) -> None:
        self.zone.count("decays")
        self.zone.count("decay_pages", self.drain(pages, 0))

    def drain_all(self) -> None:
        """Everything back to the buddy lists."""
        step = self.batch << BATCH_SCALE_MAX if self.kernel.drain_all_in_pieces else self.count
        while self.count:
            self.zone.count("drains")
            self.zone.count("drain_pages", self.drain(step, 0))
