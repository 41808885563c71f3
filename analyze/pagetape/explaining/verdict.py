# SPDX-License-Identifier: Apache-2.0
"""The class of a report: the term of the allocator's sum that failed the request, or another cause.

Where the message may be of several releases, or its zones of several kinds of kernels, each of them
is reckoned; a class that not all of them have is not sure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from pagetape.explaining import request as requests
from pagetape.explaining import rules as rule_book
from pagetape.explaining.memory_state import ORDER, State, Zone
from pagetape.explaining.reports import Report
from pagetape.explaining.request import Request
from pagetape.explaining.rules import Rights, Rules
from pagetape.explaining.zone_check import Asked, Sum, check, last_try

CLASSES = (
    "below_min",
    "lowmem_reserve",
    "highatomic_reserve",
    "cma_only",
    "no_block_of_order",
    "no_block_of_usable_type",
    "memcg_limit",
    "vmalloc_space_or_other",
    "not_an_allocator_failure",
    "cannot_tell",
)

# Why vmalloc failed, where it had its pages.
_NO_PAGES = ("failed to map pages", "vm_struct allocation failed")

_SUSPECT = 0.25  # share by which the zones may differ from the machine's counter of free pages
_GRACE = 256  # pages by which they may differ at any size


@dataclass
class Verdict:
    """The class of one report with its sums."""

    name: str
    sure: bool
    request: Request
    sums: list[Sum] = field(default_factory=list)
    deciding: Sum | None = None
    at_high: bool = False  # the last try at the high mark decides
    passes: bool = False  # the printed state would let the request pass
    not_eligible: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)  # kernel rows whose rules were applied
    rights: Rights | None = None
    why: str = ""  # for classes without a sum


@dataclass
class _Outcome:
    name: str
    sums: list[Sum]
    rights: Rights
    deciding: Sum | None = None
    at_high: bool = False
    passes: bool = False
    unsure: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def of_report(report: Report, request: Request) -> Verdict:
    """The verdict about one report."""
    report.state.word_bits = report.word_bits
    other = _other_cause(report, request)
    if other:
        return other
    verdict = of_state(report.state, request)
    if request.kind == "vmalloc" and verdict.passes:
        found = report.header.found if report.header else {}
        named = found.get("why") or found.get("partly")
        name = "cannot_tell" if named else "vmalloc_space_or_other"  # pages or addresses
        return replace(verdict, name=name, sure=False)
    if request.kind == "stall":
        verdict.sure = False
        verdict.doubts.append("a stall is a request that still waits, not a failure")
    return verdict


def _other_cause(report: Report, request: Request) -> Verdict | None:
    """A verdict that no sum of zones can give: the failure is not the page allocator's."""
    header = report.header.found if report.header else {}
    zones = bool(report.state.zones)

    def verdict(name: str, why: str, sure: bool = True) -> Verdict:
        return Verdict(name, sure and not request.doubts, request, why=why, doubts=request.doubts)

    if report.is_memcg and request.kind in ("oom", "charge", "unknown", "killed"):
        if report.is_global:
            return verdict("cannot_tell", "lines of a cgroup and of the whole machine", False)
        # Kernels before 3.9 print the zones below the kill of a cgroup, too.
        state = of_state(report.state, request) if zones else None
        sure = state is None or state.passes
        return verdict("memcg_limit", "the kill is of a memory cgroup", sure)
    if request.kind == "oom":
        if request.order == -1:
            return verdict("not_an_allocator_failure", "somebody asked for the kill: sysrq-f")
        mask, names = header.get("mask"), header.get("names")
        if mask and int(mask, 16) == 0 and not header.get("masked") and not names:
            why = "an empty mask: a page fault that failed elsewhere, often at a cgroup's limit"
            found = verdict("not_an_allocator_failure", why)
            state = of_state(report.state, request)
            return replace(found, sums=state.sums, passes=state.passes, rows=state.rows)
    if request.kind == "slub" and report.cache and "(" in report.cache and not zones:
        return verdict(
            "memcg_limit", f"{report.cache} is a cache of a memory cgroup: its charge failed"
        )
    if report.prelude and request.kind in ("failure", "vmalloc"):
        state = of_state(report.state, request)
        why = "vmalloc: no room in its area of addresses, or a size above the machine's memory"
        found = verdict("vmalloc_space_or_other", why, state.passes or not zones)
        return replace(found, sums=state.sums, passes=state.passes, rows=state.rows)
    if request.kind == "vmap":
        return verdict("vmalloc_space_or_other", "no room in the vmalloc area of addresses")
    failed = header.get("why")
    if request.kind == "vmalloc" and failed in _NO_PAGES:
        if zones:
            state = of_state(report.state, request)
            if not state.passes:
                return replace(state, sure=False)
            state.why = f"vmalloc: {failed}"
            return replace(state, name="vmalloc_space_or_other", sure=True)
        return verdict("vmalloc_space_or_other", f"vmalloc: {failed}", False)
    return _without_state(report, request)


def _without_state(report: Report, request: Request) -> Verdict | None:
    """The verdict about messages that never have a memory state of their own."""
    found = report.header.found if report.header else {}
    if report.state.zones or report.state.lists or request.kind not in ("cma", "slub", "killed"):
        return None
    missing = ["the memory state"]
    why = {
        "cma": f"cma_alloc found no range of {found.get('size')} pages (ret {found.get('ret')}):"
        " -16 is pages that cannot move, -12 no free range",
        "slub": "the page allocator gave a slab cache no pages, and its report is not here",
        "killed": "the kill is here, its report is not",
    }[request.kind]
    return Verdict("cannot_tell", False, request, why=why, missing=missing)


def of_state(state: State, request: Request) -> Verdict:
    """The verdict of a memory state about a request."""
    rows = request.kernel.rows
    known: dict[Rules, str] = {}
    for row in rows:
        known.setdefault(rule_book.of_row(row), row)
    built = requests.layouts(state) or [_seen(state)]
    state.join()
    outcomes = [_outcome(state, request, rules, layout) for rules in known for layout in built]
    first = outcomes[0]
    unsure = list(request.doubts) + [f"assumed: {text}" for text in request.assumed] + first.unsure
    if {one.name for one in outcomes} != {first.name}:
        unsure.append("the releases that it may be of, or their zones, differ in the result")
        if not all(one.deciding or one.passes for one in outcomes):
            first = next((one for one in outcomes if one.name == "cannot_tell"), first)
    first.missing = list(dict.fromkeys(first.missing + _lost(state, request, built[0])))
    unsure += state.damage
    eligible = {id(one.zone) for one in first.sums}
    return Verdict(
        first.name,
        first.name != "cannot_tell" and not unsure and not first.missing,
        request,
        sums=first.sums,
        deciding=first.deciding,
        at_high=first.at_high,
        passes=first.passes,
        not_eligible=[zone.words for zone in state.zones.values() if id(zone) not in eligible],
        missing=first.missing,
        doubts=list(dict.fromkeys(unsure)),
        rows=list(known.values()),
        rights=first.rights,
    )


def _seen(state: State) -> tuple[str, ...]:
    """The zones of a state, and Normal."""
    names = {zone for _, zone in (*state.zones, *state.lists)} | {"Normal"}
    return tuple(zone for zone in ORDER if zone in names)


def _outcome(state: State, request: Request, rules: Rules, layout: tuple[str, ...]) -> _Outcome:
    flags = request.flags or frozenset()
    order = request.order if request.order is not None else request.order_assumed
    rights = rule_book.rights(rules, flags, order, request.reclaims)
    asked = Asked(order, rights)
    highest = request.highest(layout)
    seen_h = any("H" in one.types() for one in state.lists.values())
    shown = (state.counters.get("free_cma"), seen_h)
    sums: list[Sum] = []
    empty: list[Sum] = []  # no zonelist has an empty zone
    for (node, name), zone in state.zones.items():
        if ORDER.index(name) > ORDER.index(highest):
            continue
        if request.nodes is not None and node not in request.nodes:
            continue
        reserve = _reserve(zone, layout, highest)
        one = check(zone, asked, rules, reserve, state.page_kb, shown)
        if request.kind in ("oom", "unknown") and one.free is not None:
            one.last_try = last_try(one, asked, rules, state.page_kb)
        is_empty = zone.kb and 0 in (zone.kb.get("managed", 1), zone.kb.get("present", 1))
        (empty if is_empty else sums).append(one)
    found = _Outcome("cannot_tell", sums or empty, rights)
    if empty and not sums:
        found.unsure.append("no zone that the request may take has memory (managed: 0)")
        sums = empty
    if sums:
        _decide(found, state, request, layout, highest)
    elif state.lists:
        _by_lists(found, state, rights, highest)
    else:
        found.missing.append("the memory state" if not state.zones else "the eligible zones")
    return found


def _reserve(zone: Zone, layout: tuple[str, ...], highest: str) -> int | None:
    """lowmem_reserve of a zone against requests for `highest`; None where it is not printed."""
    if zone.name == highest:
        return 0
    if zone.reserve is None or not zone.reserve_whole:
        return None
    if highest not in layout or len(zone.reserve) != len(layout):
        return None
    return zone.reserve[layout.index(highest)]


def _tops(sums: list[Sum]) -> list[Sum]:
    """The zones that decide: the highest one of each node, of those the ones without a reserve."""
    by_node: dict[int, Sum] = {}
    for one in sums:
        node = one.zone.node or 0
        old = by_node.get(node)
        if old is None or ORDER.index(one.zone.name) > ORDER.index(old.zone.name):
            by_node[node] = one
    tops = list(by_node.values())
    return [one for one in tops if one.reserve == 0] or tops


def _unprinted(state: State, request: Request, layout: tuple[str, ...], highest: str) -> list[str]:
    """Eligible zones that the report shows to exist, without a line of their own."""
    allowed = request.nodes
    found = [
        f"the line of Node {node} {zone}"
        for node, zone in state.lists
        if (node, zone) not in state.zones and ORDER.index(zone) <= ORDER.index(highest)
    ]
    for (node, _), zone in state.zones.items():
        pages = zone.reserve or ()
        if not zone.reserve_whole or len(pages) != len(layout) or highest not in layout:
            continue
        for j in range(1, layout.index(highest) + 1):
            if pages[j] > pages[j - 1] and (node, layout[j]) not in state.zones:
                found.append(f"the line of Node {node} {layout[j]}")
    with_zones = {node for node, _ in state.zones}
    found += [
        f"the zones of node {node}"
        for node in sorted(state.nodes - with_zones)
        if allowed is None or node in allowed
    ]
    if allowed is not None:
        found += [f"the zones of node {node}" for node in sorted(allowed - with_zones)]
    return list(dict.fromkeys(found))


def _decide(
    found: _Outcome, state: State, request: Request, layout: tuple[str, ...], highest: str
) -> None:
    """The class, of the sums of the eligible zones."""
    sums = found.sums
    unprinted = _unprinted(state, request, layout, highest)
    found.missing += unprinted
    for one in sums:
        needed = one.passes is None or "reserved_highatomic" in one.bounds
        found.missing += one.missing if needed else []
    if request.flags and "THISNODE" in request.flags and len({s.zone.node for s in sums}) > 1:
        found.unsure.append("__GFP_THISNODE: the report does not show which node was asked")
        if any(one.passes is False for one in sums):
            sums = [one for one in sums if one.passes is not True]
    if any(one.passes for one in sums):
        tries = [one.last_try for one in sums if one.last_try]
        if request.kind == "oom" and tries and not any(one.passes is not False for one in tries):
            found.at_high = True
            found.unsure.append("the state passes min; only the last try, at the high mark, fails")
            sums = tries
        else:
            found.passes = True
            found.missing += [text for one in sums if one.passes for text in one.missing]
            return
    tops = _tops(sums)
    top_missing = any(
        ORDER.index(text.split()[-1]) > max(ORDER.index(one.zone.name) for one in tops)
        for text in unprinted
        if text.split()[-1] in ORDER
    )
    causes = Counter(one.cause for one in tops if one.cause)
    if not causes or top_missing or len(tops) > 2 * causes.total():
        return
    most = max(causes.values())
    deciding = min(
        (one for one in tops if one.cause and causes[one.cause] == most),
        key=lambda one: one.needed - one.usable,
    )
    found.name, found.deciding = deciding.cause or "cannot_tell", deciding
    if len(causes) > 1:
        found.unsure.append("the nodes fail by different terms")
    if any(one.passes is None for one in sums):
        found.unsure.append("a zone with missing figures may pass")
    waits = request.context in ("waits", "optional")
    if found.name == "highatomic_reserve" and deciding.passes_mark and waits:
        found.unsure.append("a request that waits gets the HIGHATOMIC reserve before it fails")
    if set(deciding.bounds) and found.name == "highatomic_reserve":
        found.unsure.append("the size of the HIGHATOMIC reserve is a bound, not a figure")


def _by_lists(found: _Outcome, state: State, rights: Rights, highest: str) -> None:
    """The class where only free lists are there: most free pages are of one type alone."""
    kinds: Counter[str] = Counter()
    for (_, name), one in state.lists.items():
        if ORDER.index(name) > ORDER.index(highest):
            continue
        for kb, blocks in one.blocks.items():
            kinds[blocks.types if len(blocks.types) == 1 else "several"] += kb * blocks.nr
    found.missing.append("the zone lines: free, min, lowmem_reserve")
    if not all(one.whole for one in state.lists.values()) or not kinds.total():
        return
    for letter, name in (("C", "cma_only"), ("H", "highatomic_reserve")):
        may_take = rights.cma if letter == "C" else rights.highatomic
        if not may_take and kinds[letter] > 0.75 * kinds.total():
            found.name = name


def _lost(state: State, request: Request, layout: tuple[str, ...]) -> list[str]:
    """Zones that the machine's counter of free pages shows to be missing, or too many."""
    free = state.counters.get("free")
    there = sum(zone.kb.get("free", 0) for zone in state.zones.values()) // state.page_kb
    if free is None or not state.zones or not all(zone.whole for zone in state.zones.values()):
        return []
    higher = state.counters.get("highmem") or request.nodes is not None
    slack = _SUSPECT * max(free, there) + _GRACE
    if there < free - slack and not higher and request.highest(layout) not in ("DMA", "DMA32"):
        return [f"zones with {free - there:,} free pages, by the counter of the machine"]
    if there > free + slack:
        return ["zones that fit the machine's counter of free pages"]
    return []
