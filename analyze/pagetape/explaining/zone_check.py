# SPDX-License-Identifier: Apache-2.0
"""The watermark check of one zone for one request, term by term.

A request passes a zone if free - subtracted > mark + lowmem_reserve, in pages, and if the zone has
a free block of its order that it may take.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pagetape.explaining.memory_state import Blocks, FreeList, Zone
from pagetape.explaining.rules import Rights, Rules

_USUAL = frozenset("UME")  # types that any request may take


@dataclass(frozen=True)
class Asked:
    """A request as the check sees it; `cz` is the highest zone that it may take."""

    order: int
    rights: Rights


@dataclass
class Sum:
    """The sum of one zone. Pages; `passes` is None where a figure is missing."""

    zone: Zone
    free: int | None = None
    subtracted: dict[str, int] = field(default_factory=dict)
    bounds: list[str] = field(default_factory=list)  # terms that are no exact figures
    mark: int | None = None
    reserve: int | None = None
    boost: int = 0  # pages of the mark
    passes_mark: bool | None = None
    stopped_at: int | None = None  # the order at which a check per order ends
    has_block: bool | None = None  # that the request may take
    blocks: dict[int, Blocks] = field(default_factory=dict)  # of the order and above
    missing: list[str] = field(default_factory=list)
    last_try: Sum | None = None  # at the high mark, before an OOM kill
    order: int = 0  # of the request

    @property
    def passes(self) -> bool | None:
        if self.passes_mark is False:
            return False
        if self.passes_mark is None or self.has_block is None:
            return None
        return self.has_block

    @property
    def usable(self) -> int:
        return (self.free or 0) - sum(self.subtracted.values())

    @property
    def needed(self) -> int:
        return (self.mark or 0) + (self.reserve or 0)

    @property
    def cause(self) -> str | None:
        """The class of the term that decides; None if the zone passes or nothing is known."""
        if self.passes_mark is False:
            return "no_block_of_order" if self.stopped_at is not None else self._term()
        if self.passes_mark and self.has_block is False:
            return self._block_cause()
        return "cma_only" if self.is_cma_alone else None

    @property
    def is_cma_alone(self) -> bool:
        """Without a free list: nearly all free pages are CMA, the others hardly make a block."""
        cma = self.subtracted.get("free_cma", 0)
        left = (self.free or 0) - cma
        unknown = bool(self.passes_mark) and self.has_block is None and self.order > 0
        return unknown and cma > 3 * left and left < 2 << self.order

    def _term(self) -> str:
        """The term of a sum at or below its mark without which the zone would pass."""
        cma = self.subtracted.get("free_cma", 0)
        reserve = self.highatomic
        short = self.needed - self.usable  # pages too few are short + 1
        alone = {"cma_only": cma, "highatomic_reserve": reserve}
        enough = {name: pages for name, pages in alone.items() if pages > short}
        if not enough and cma + reserve > short:
            enough = alone
        if enough:
            return max(enough, key=lambda name: enough[name])
        if (self.reserve or 0) > short:
            return "lowmem_reserve"
        return "below_min"

    @property
    def highatomic(self) -> int:
        return self.subtracted.get("free_highatomic", 0) + self.subtracted.get(
            "reserved_highatomic", 0
        )

    def _block_cause(self) -> str:
        there = {order: one for order, one in self.blocks.items() if one.nr}
        if not there:
            return "no_block_of_order"
        types = {letter for one in there.values() for letter in one.types}
        if self.order == 0 and types == {"H"}:
            return "highatomic_reserve"
        if types == {"C"}:
            return "cma_only"
        return "no_block_of_usable_type"


def _highatomic(
    found: Sum, zone: Zone, rules: Rules, page_kb: int, seen: bool
) -> tuple[str, int] | None:
    """The HIGHATOMIC term of a request that is not spared it; `seen`: the report shows (H).

    Kernels before 5.4 do not print the reserve: blocks on its lists prove one pageblock of it, and
    the same is assumed of the other zones then. Kernels that subtract only its free pages print
    these from 6.16 on.
    """
    kb = zone.kb
    if "free_highatomic" in kb and (rules.subtracts_free or "reserved_highatomic" not in kb):
        return "free_highatomic", kb["free_highatomic"] // page_kb
    if "reserved_highatomic" in kb:
        pages = kb["reserved_highatomic"] // page_kb
        if pages and rules.subtracts_free:
            found.bounds.append("reserved_highatomic")
        return "reserved_highatomic", pages
    if seen:
        found.bounds.append("reserved_highatomic")
        found.missing.append(f"reserved_highatomic of {zone.words}")
        return "reserved_highatomic", (2 << 10) // page_kb
    found.missing.append(f"reserved_highatomic of {zone.words}")
    return None


def _cma(found: Sum, zone: Zone, page_kb: int, of_machine: int | None) -> int | None:
    """The CMA pages of a zone; None without any."""
    if "free_cma" in zone.kb:
        return zone.kb["free_cma"] // page_kb
    if of_machine == 0:
        return 0
    if of_machine or (zone.free_list and "C" in zone.free_list.types()):
        found.missing.append(f"free_cma of {zone.words}")
    return None


def _per_order(found: Sum, free_list: FreeList | None, order: int, page_kb: int) -> None:
    """The check of each order below the request's, as up to 4.3."""
    free, mark = found.usable, found.mark or 0
    if order and (free_list is None or not free_list.whole):
        found.missing.append(f"the free list of {found.zone.words}")
        found.passes_mark = None
        return
    for below in range(order):
        one = free_list.blocks.get(page_kb << below) if free_list else None
        free -= (one.nr if one else 0) << below
        mark >>= 1
        if free <= mark:
            found.stopped_at, found.passes_mark = below, False
            return


def _find_block(found: Sum, asked: Asked, page_kb: int) -> None:
    """The blocks that the request may take, and whether there is one."""
    free_list = found.zone.free_list
    if free_list is None:
        found.missing.append(f"the free list of {found.zone.words}")
        return
    found.blocks = {
        (kb // page_kb).bit_length() - 1: one
        for kb, one in free_list.blocks.items()
        if kb >= page_kb << asked.order
    }
    usable = _USUAL | ({"C"} if asked.rights.cma else set())
    usable |= {"H"} if asked.rights.highatomic else set()
    there = [one for one in found.blocks.values() if one.nr]
    # R is the reserve of kernels before 4.4, the last resort of any request.
    if any(not one.types or (usable | {"R"}) & set(one.types) for one in there):
        found.has_block = True
    elif free_list.whole:
        found.has_block = False
    else:
        found.missing.append(f"the free list of {found.zone.words}")


def check(
    zone: Zone,
    asked: Asked,
    rules: Rules,
    reserve: int | None,
    page_kb: int,
    shown: tuple[int | None, bool] = (None, False),
) -> Sum:
    """The sum of a zone. `reserve` is the lowmem_reserve in pages, None if it is unknown; `shown`
    has the free CMA pages of the machine and whether any list shows (H)."""
    found = Sum(zone, reserve=reserve, order=asked.order)
    if not zone.whole or zone.clashes:
        found.missing.append(f"the line of {zone.words}")
        return found
    kb, rights = zone.kb, asked.rights
    found.free = kb["free"] // page_kb
    if asked.order:
        found.subtracted["order"] = (1 << asked.order) - 1
    counts = rules.has_highatomic and not rights.spared
    if counts and (term := _highatomic(found, zone, rules, page_kb, shown[1])):
        found.subtracted[term[0]] = term[1]
    cma = _cma(found, zone, page_kb, shown[0])
    if cma and not rights.cma:
        found.subtracted["free_cma"] = cma
    boost = kb.get("boost", 0) // page_kb
    full = kb["min"] // page_kb
    found.mark = rights.mark(full - boost if rights.unboosted else full)
    found.boost = 0 if rights.unboosted else boost
    if reserve is None:  # at least 0: a zone that fails so, fails
        found.missing.append(f"the lowmem_reserve of {zone.words}")
        found.bounds.append("lowmem_reserve")
        found.reserve = 0
    if rights.no_mark:
        found.reserve = 0
        found.subtracted.clear()
    found.passes_mark = found.usable > found.needed
    if rules.per_order and found.passes_mark and not rights.no_mark:
        _per_order(found, zone.free_list, asked.order, page_kb)
    if reserve is None and found.passes_mark:
        found.passes_mark = None
    _find_block(found, asked, page_kb)
    return found


def last_try(found: Sum, asked: Asked, rules: Rules, page_kb: int) -> Sum:
    """The sum of the last try before an OOM kill: at the high mark, without any right."""
    zone = found.zone
    rights = Rights(cma=asked.rights.cma and rules.last_try_cma)
    if not zone.whole or found.free is None:
        return found
    high = Zone(zone.node, zone.name, zone.kb | {"min": zone.kb["high"]})
    high.free_list, high.whole, high.complete = zone.free_list, True, zone.complete
    seen = "reserved_highatomic" in found.bounds and "reserved_highatomic" not in zone.kb
    reserve = None if "lowmem_reserve" in found.bounds else found.reserve
    return check(high, Asked(asked.order, rights), rules, reserve, page_kb, (None, seen))
