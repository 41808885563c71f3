# SPDX-License-Identifier: Apache-2.0
"""Whether a zone has enough free pages for a request: one class per family."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .names import CMA, HIGHATOMIC, RESERVE

if TYPE_CHECKING:
    from .kernels import Kernel
    from .machine import Request, Zone

Mark = Literal["min", "low", "high"]


@dataclass(frozen=True)
class Rights:
    """What a request may use beyond the common pages; all false on the fast path."""

    high: bool = False  # __GFP_HIGH: half of the min reserve
    harder: bool = False  # to 6.1.0, atomic: a further quarter
    unboosted: bool = False  # the min mark is meant without its boost
    non_block: bool = False  # cannot reclaim: with `high`, a further quarter
    highatomic: bool = False  # pages of HIGHATOMIC pageblocks
    no_watermarks: bool = False

    @property
    def any(self) -> bool:
        return self.high or self.harder or self.non_block or self.highatomic


class Graded:
    """6.3 and later (6.1.y too): each right goes a step deeper into the min reserve."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @staticmethod
    def atomic(gfp: frozenset[str]) -> bool:
        """__GFP_ATOMIC, or what 6.3 and later have in its place."""
        return "ATOMIC" in gfp or ("HIGH" in gfp and "DIRECT_RECLAIM" not in gfp)

    def first_rights(self, gfp: frozenset[str], order: int) -> Rights:
        """Rights of a request that asks for zones above their low mark."""
        if not self.kernel.highatomic_at_once:
            return Rights()
        return Rights(highatomic=self.slow_rights(gfp, order).highatomic)

    def slow_rights(self, gfp: frozenset[str], order: int) -> Rights:
        """Rights of a request that found every zone below its low mark."""
        non_block = "DIRECT_RECLAIM" not in gfp and "NOMEMALLOC" not in gfp
        high = "HIGH" in gfp
        needs_high = self.kernel.highatomic_needs_high
        return Rights(
            high=high,
            unboosted=self.atomic(gfp) if self.kernel.unboosted_by == "ATOMIC" else high,
            non_block=non_block,
            highatomic=non_block and order > 0 and (high or not needs_high),
        )

    def reduce(self, mark: int, rights: Rights) -> int:
        if rights.high:
            mark -= mark // 2
            if rights.non_block:
                mark -= mark // 4
        return mark

    def sees_reserve(self, rights: Rights) -> bool:
        """Whether the pages of HIGHATOMIC pageblocks count as free."""
        return rights.any

    def sees_reserve_lists(self, rights: Rights) -> bool:
        return rights.highatomic

    def unusable(self, zone: Zone, rights: Rights, *, cma: bool) -> int:
        pages = 0 if cma else zone.buddy.pages(CMA)
        if not self.sees_reserve(rights):
            if self.kernel.unusable == "free highatomic":
                pages += zone.buddy.pages(HIGHATOMIC)
            else:
                pages += zone.reserved_highatomic
        return pages

    def full(
        self, zone: Zone, order: int, mark: int, top: str, rights: Rights, *, cma: bool
    ) -> bool:
        free = zone.free_for_marks() - ((1 << order) - 1)
        free -= self.unusable(zone, rights, cma=cma)
        if free <= self.reduce(mark, rights) + zone.lowmem_reserve[top]:
            return False
        return order == 0 or self._has_chunk(zone, order, self._usable_lists(rights, cma))

    def _usable_lists(self, rights: Rights, cma: bool) -> Iterable[str]:
        yield from self.kernel.pcp_types
        if cma:
            yield CMA
        if self.sees_reserve_lists(rights):
            yield HIGHATOMIC

    @staticmethod
    def _has_chunk(zone: Zone, order: int, types: Iterable[str]) -> bool:
        usable = set(types)
        return any(o >= order and mt in usable for o, mt in zone.buddy.chunks.values())

    def has_chunk(self, zone: Zone, request: Request, rights: Rights) -> bool:
        """Whether the zone has a free chunk for the request, whatever the marks."""
        usable = {*self._usable_lists(rights, request.cma), RESERVE}
        if not request.order:
            usable.discard(HIGHATOMIC)
        return self._has_chunk(zone, request.order, usable)

    def fast(
        self, zone: Zone, order: int, mark: Mark, top: str, rights: Rights, *, cma: bool
    ) -> bool:
        """The test of the zonelist scan: short for single pages; a last test ignores the boost."""
        pages = zone.mark(mark)
        if order == 0:
            free = zone.free_for_marks() - self.fast_unusable(zone, rights, cma=cma)
            if free > pages + zone.lowmem_reserve[top]:
                return True
        if self.full(zone, order, pages, top, rights, cma=cma):
            return True
        if order == 0 and mark == "min" and zone.boost and rights.unboosted:
            return self.full(zone, order, zone.mark_unboosted("min"), top, rights, cma=cma)
        return False

    def fast_unusable(self, zone: Zone, rights: Rights, *, cma: bool) -> int:
        return self.unusable(zone, rights, cma=cma)


class Harder(Graded):
    """4.20 to 6.1.0: one right, HARDER, for atomic requests."""

    def slow_rights(self, gfp: frozenset[str], order: int) -> Rights:
        del order
        atomic = "ATOMIC" in gfp
        return Rights(
            high="HIGH" in gfp,
            harder=atomic and "NOMEMALLOC" not in gfp,
            unboosted=atomic and self.kernel.unusable != "cma",
        )

    def reduce(self, mark: int, rights: Rights) -> int:
        if rights.high:
            mark -= mark // 2
        if rights.harder:
            mark -= mark // 4
        return mark

    def sees_reserve(self, rights: Rights) -> bool:
        return rights.harder

    def sees_reserve_lists(self, rights: Rights) -> bool:
        return rights.harder

    def unusable(self, zone: Zone, rights: Rights, *, cma: bool) -> int:
        pages = 0 if cma else zone.buddy.pages(CMA)
        return pages if self.sees_reserve(rights) else pages + zone.reserved_highatomic

    def fast_unusable(self, zone: Zone, rights: Rights, *, cma: bool) -> int:
        if self.kernel.unusable == "cma":
            return 0 if cma else zone.buddy.pages(CMA)
        return self.unusable(zone, rights, cma=cma)


class Classic(Graded):
    """2.6.32, 2.6.33: every smaller order's pages are left out, and asked less of, in turn."""

    def slow_rights(self, gfp: frozenset[str], order: int) -> Rights:
        del order
        return Rights(high="HIGH" in gfp, harder="DIRECT_RECLAIM" not in gfp)

    def unusable(self, zone: Zone, rights: Rights, *, cma: bool) -> int:
        del zone, rights, cma
        return 0

    def fast(
        self, zone: Zone, order: int, mark: Mark, top: str, rights: Rights, *, cma: bool
    ) -> bool:
        return self.full(zone, order, zone.mark(mark), top, rights, cma=cma)

    def full(
        self, zone: Zone, order: int, mark: int, top: str, rights: Rights, *, cma: bool
    ) -> bool:
        del cma
        free = zone.free_for_marks() - ((1 << order) - 1)
        if rights.high:
            mark -= mark // 2
        if rights.harder:
            mark -= mark // 4
        if free <= mark + zone.lowmem_reserve[top]:
            return False
        for small in range(order):
            free -= sum(1 << small for o, _ in zone.buddy.chunks.values() if o == small)
            mark >>= 1
            if free <= mark:
                return False
        return True


FAMILIES: dict[str, type[Graded]] = {"graded": Graded, "harder": Harder, "2.6": Classic}
