# SPDX-License-Identifier: Apache-2.0
"""An explanation in about ten lines for a person."""

from __future__ import annotations

from typing import Any

from pagetape.answer import amount

_CLASS = {
    "passes": "the request would get its pages now",
    "below_min": "the zone is below the min watermark that applies",
    "lowmem_reserve": "the zone's free pages are reserved against this request (lowmem_reserve)",
    "highatomic_reserve": "the free pages are of the HIGHATOMIC reserve",
    "cma_only": "the free pages are CMA, which this request may not take",
    "no_block_of_order": "enough pages are free, but no block of the order",
    "no_block_of_usable_type": "blocks of the order are free, none of a type that it may take",
    "memcg_limit": "a memory cgroup is at its limit: no failure of the page allocator",
    "vmalloc_space_or_other": "no failure of the page allocator: vmalloc found no addresses",
    "not_an_allocator_failure": "no failure of the page allocator",
    "cannot_tell": "cannot tell",
}
_TERMS = {
    "order": "rest of the block",
    "reserved_highatomic": "HIGHATOMIC reserve",
    "free_highatomic": "free HIGHATOMIC",
    "free_cma": "CMA",
    "lowmem_reserve": "lowmem_reserve",
    "mark": "the mark",
    "boost": "the boost",
}
_KINDS = {
    "failure": "page allocation failure",
    "stall": "page allocation stall",
    "oom": "OOM kill",
    "unknown": "memory state without a header",
    "vmemmap": "vmemmap allocation failure",
    "cma": "cma_alloc failure",
    "slub": "slab allocation failure",
    "charge": "OOM kill of a memory cgroup",
    "killed": "OOM kill",
    "tape": "failed request",
}
_ZONES = 6  # zones that are printed
_MOST = 4  # reasons of doubt


def first_of_each(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports of logs; of failed requests of a tape, the first of each kind, with `alike`."""
    kinds: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in reports:
        kind = (one["class"], one["order"], one["mask"], one["task"]) if "at_s" in one else id(one)
        kinds.setdefault((kind,), one | {"alike": 0})["alike"] += 1
    return list(kinds.values())


def lines(found: dict[str, Any]) -> list[str]:
    """The explanation of one report of explanation.of_logs()."""
    out = [_title(found), f"  class     {_class(found)}"]
    if found["why"]:
        out.append(f"  because   {found['why']}")
    out.append(f"  request   {_request(found)}")
    rows = f": rules of {', '.join(found['rules'])}" if found["zones"] else ""
    out.append(f"  kernel    {found['kernel']}{rows}")
    zones = found["zones"]
    out += [f"  zone      {_sum(zone)}" for zone in zones[:_ZONES]]
    if len(zones) > _ZONES:
        out.append(f"  zone      and {len(zones) - _ZONES} more (--json)")
    if found["not_eligible"]:
        out.append(f"  not asked {', '.join(found['not_eligible'])}")
    if one := found["deciding"]:
        out.append(f"  deciding  {_deciding(one)}")
    if found["state_passes"] and found["class"] == "cannot_tell":
        out.append("  state     the printed state passes, so it is not the state that failed")
    if one := found.get("killed"):
        out.append(f"  killed    {_killed(one)}")
    if one := found.get("state"):
        out.append(f"  state     {_state(one)}")
    for name, texts in (("moves it", found["moves"]), ("does not", found["does_not_move"])):
        if texts:
            out.append(f"  {name:<9} {'; '.join(texts)}")
    if found["missing"]:
        out.append(f"  missing   {'; '.join(found['missing'][:_MOST])}")
    if found["doubts"]:
        out.append(f"  doubts    {'; '.join(found['doubts'][:_MOST])}")
    return out


def _title(found: dict[str, Any]) -> str:
    if found["kind"] == "proc":
        return f"{found['file']}: a request in this state"
    where = f"{found['file']}:{found['line']}" if "line" in found else _moment(found)
    kind = _KINDS.get(found["kind"], found["kind"])
    by = " invoked by" if kind.startswith("OOM kill") else " of"
    task = f"{by} {found['task']}" if found["task"] else ""
    task += ", the recorder" if found.get("by_recorder") else ""
    left, alike = found.get("suppressed"), found.get("alike", 1)
    more = f", after {amount(left, 'message')} that the kernel suppressed" if left else ""
    more += f", the first of {alike:,} alike" if alike > 1 else ""
    return f"{where}: {kind}{task}{more}"


def _moment(found: dict[str, Any]) -> str:
    return f"{found['file']} at {found['at_s']:.6f} s"


def _state(one: dict[str, Any]) -> str:
    """`a sample 12.3 ms before the failure; free pages are counted up to it`."""
    side = "after" if one["distance_s"] > 0 else "before"
    free = "; free pages are counted to the failure" if one["free"] == "counted" else ""
    return f"a {one['how']} {abs(one['distance_s']) * 1e3:,.1f} ms {side} the failure{free}"


def _killed(one: dict[str, Any]) -> str:
    """`java (17982), which held 2,540,308 kB anon, 0 kB file, 0 kB shmem`."""
    held = [f"{kb:,} kB {key.removesuffix('_kb')}" for key, kb in one.items() if "_kb" in key]
    return f"{one['task']} ({one['pid']})" + (f", which held {', '.join(held)}" if held else "")


def _class(found: dict[str, Any]) -> str:
    unsure = "" if found["sure"] or found["class"] == "cannot_tell" else " (not sure)"
    return f"{found['class']}{unsure}: {_CLASS[found['class']]}"


def _request(found: dict[str, Any]) -> str:
    order = "unknown" if found["order"] is None else found["order"]
    mask = "|".join(found["gfp"]) or ("none" if found["mask"] else "unknown")
    rights = ", ".join(found["rights"]) or "none below min"
    sums = f"; rights: {rights}" if found["zones"] else ""
    if found["zones"] and found["assumed"]:
        sums += f"; assumed: {', '.join(found['assumed'])}"
    return f"order {order}, {mask} ({found['context']}){sums}"


def _sum(zone: dict[str, Any]) -> str:
    """`Node 0 Normal: 572 - 0 <= 7,370 (mark) + 0 (lowmem_reserve): 6,799 pages short`."""
    name = f"Node {zone['node']} {zone['zone']}"
    if zone["free"] is None:
        return f"{name}: its line is damaged"
    at_least = {term: "at least " if term in zone["bounds"] else "" for term in zone["subtracted"]}
    terms = "".join(
        f" - {pages:,} ({at_least[term]}{_TERMS[term]})"
        for term, pages in zone["subtracted"].items()
        if pages
    )
    if zone["lowmem_reserve"] is None or zone["mark"] is None:
        return f"{name}: {zone['free']:,} free{terms}; a figure is missing"
    left = zone["free"] - sum(zone["subtracted"].values())
    sign = ">" if left > zone["mark"] + zone["lowmem_reserve"] else "<="
    boost = f", boost {zone['boost']:,} in it" if zone["boost"] else ""
    reserve = f" + {zone['lowmem_reserve']:,} (lowmem_reserve)" if zone["lowmem_reserve"] else ""
    return (
        f"{name}: {zone['free']:,}{terms} {sign} {zone['mark']:,} (mark{boost}){reserve}:"
        f" {_end(zone)}"
    )


def _end(zone: dict[str, Any]) -> str:
    if zone["short"] is not None:
        return f"{amount(zone['short'], 'page')} short"
    if zone["stopped_at_order"] is not None:
        return f"stops at order {zone['stopped_at_order']}"
    if zone["passes"] is None:
        is_bound = "lowmem_reserve" in zone["bounds"]
        return f"its {'lowmem_reserve is' if is_bound else 'blocks are'} not printed"
    blocks = " ".join(
        f"{nr:,} of order {order}" + (f" ({types})" if types else "")
        for (order, nr), types in zip(
            zone["free_blocks"].items(), zone["blocks"].values(), strict=True
        )
    )
    if zone["passes"]:
        return "passes"
    return f"the mark passes; blocks: {blocks or 'none'}"


def _deciding(one: dict[str, Any]) -> str:
    without = [_TERMS[term] for term in one["without"]]
    mark = ""
    if one["mark"] == "high":
        lacks = f"{amount(one['short'], 'page')} short of " if one["short"] is not None else ""
        mark = f"{lacks}the high mark of the last try before the kill; "
    if not without:
        return f"{one['zone']}: {mark}{_TERMS.get(one['term'], 'its blocks')}"
    return f"{one['zone']}: {mark}passes without {' or without '.join(without)}"
