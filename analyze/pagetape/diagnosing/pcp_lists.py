# SPDX-License-Identifier: Apache-2.0
"""Per-CPU lists that are too small for the load, or too large for the machine."""

from functools import partial
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import PCP_BACK, PCP_LARGE, PCP_LOCK, PCP_SAVED

_small = partial(Finding, "pcp_small", "Per-CPU lists too small")
_large = partial(Finding, "pcp_large", "Per-CPU lists too large")

_FRACTION = 8  # of a zone on its lists, at most: percpu_pagelist_high_fraction

# Hold times of Cascade Lake in ns, a hold and each block (replay/policies/zone_lock.c).
_TAKE, _TAKE_BLOCK, _GIVE, _GIVE_BLOCK = 2330, 34.2, 840, 41.9


def _batch(case: Case) -> int:
    """The smallest batch of the zones with a tenth of the memory or more; 1 if unknown."""
    zones = [z for z in case.zones if not z["at_end"]]
    managed = sum(z["managed"] for z in zones)
    batches = [z["pcp_batch"] for z in zones if z["pcp_batch"] and 10 * z["managed"] >= managed]
    return max(min(batches, default=1), 1)


def _locked(case: Case, row: dict[str, Any]) -> float:
    """Share of the tape with the zone lock held for refills and drains, in percent, at most."""
    batch = _batch(case)
    held = row["refill_blocks"] * (_TAKE / batch + _TAKE_BLOCK)
    held += row["drain_blocks"] * (_GIVE / batch + _GIVE_BLOCK)
    return of(held / 1e9, case.seconds)


def _moved(curve: list[dict[str, Any]], size: int) -> int:
    """Pages that lists of `size` pages per CPU would move to and from the buddy, at least.

    A list moves only what goes below 0 or above its size; batches and decay move more.
    """
    moved = 0
    for cpu in curve:
        held = 0
        for pages in cpu["pages"]:
            held -= pages
            moved += max(-held, held - size, 0)
            held = min(max(held, 0), size)
    return moved


def _larger(case: Case, row: dict[str, Any]) -> dict[str, Any]:
    """The largest lists that the sysctl allows, and the share of the traffic they would save."""
    managed = sum(z["managed"] for z in case.zones if not z["at_end"])
    size = managed // _FRACTION // int(case.tape.facts.get("cpus") or 1)
    moved = row["refilled"] + row["drained"]
    least = _moved(case.rows("pcp_curve"), size) if size else moved
    return {"list_pages": size, "saved_percent": max(of(moved - least, moved), 0.0)}


def too_small(case: Case) -> Finding:
    for kind in ("alloc", "free", "alloc_zone_locked", "pcpu_drain"):
        if why := case.missing("event", kind):
            return _small("unknown", why, next=case.record("--events page"))
    row = case.row("pcp")
    share, locked = of(row["back"], row["alloc_pages"]), _locked(case, row)
    evidence = row | {"share_percent": share, "lock_percent": locked, "baseline": PCP_BACK}
    counted = (
        f"{percent(share)} of the {case.pages(row['alloc_pages'])} allocated went from the buddy to"
        " a CPU's list and back"
    )
    if not row["alloc_pages"] or share < PCP_BACK:
        why = f"{counted} (below {PCP_BACK} %)"
        return _small("none", why, evidence=evidence)
    larger = _larger(case, row)
    evidence |= larger
    lists = (
        f"lists of {case.mib(larger['list_pages'])} per CPU would move at most"
        f" {percent(larger['saved_percent'])} fewer pages"
    )
    if larger["saved_percent"] < PCP_SAVED:
        why = f"{counted}, but {lists}: the load swings further than any list"
        return _small("none", why, evidence=evidence)
    severity = PCP_LOCK.severity(locked)
    worth = (
        "so they would save little time" if severity == "low" else "and CPUs that wait lose more"
    )
    return _small(
        severity,
        f"{counted} (lists that fit the load serve most pages: below {PCP_BACK} %); {lists}. The"
        f" zone lock was held for that at most {percent(max(locked, 0.01))} of the time, {worth}.",
        case.sure("pages are counted; both bounds are estimates: the next command models them"),
        case.command("replay", "T", f"--policy pcp:percpu_pagelist_high_fraction={_FRACTION}")
        if case.run is None
        else case.command("report", "pcp.traffic", "T"),
        evidence,
        max(locked, 0.01) / 2,
    )


def too_large(case: Case) -> Finding:
    known = [z for z in case.zones if z["pcp_pages"] is not None]
    if not known:
        return _large(
            "unknown", "no snapshot has the per-CPU lists", next=case.record("--snapshot exact")
        )
    worst: tuple[float, dict[str, Any], dict[str, int]] | None = None
    for at_end in (False, True):
        for node in {z["node"] for z in known}:
            zones = [z for z in known if z["node"] == node and z["at_end"] == at_end]
            total = {
                name: sum(z[name] for z in zones)
                for name in ("pcp_pages", "free", "usable", "wmark_min", "wmark_high", "managed")
            }
            gap = total["wmark_high"] - total["wmark_min"]
            if gap > 0 and (worst is None or total["pcp_pages"] / gap > worst[0]):
                at_most = any(z["at_most"] for z in zones)
                where = {"node": node, "at_end": at_end, "at_most": at_most}
                worst = (total["pcp_pages"] / gap, where, total)
    if worst is None:
        return _large("unknown", "the tape has no watermarks")
    ratio, where, total = worst
    evidence = where | total | {"ratio": ratio, "baseline": 1}
    when = "end" if where["at_end"] else "start"
    counted = (
        f"At the {when} the lists of node {where['node']} hold {case.mib(total['pcp_pages'])},"
        f" {ratio:.1f} times the distance from its min to its high watermarks, and"
        f" {case.mib(total['free'])} are free"
    )
    if where["at_most"] or total["usable"] < total["free"]:
        counted += f", {case.usable(total['usable'], where['at_most'])} for kernel requests"
    short = total["usable"] < 2 * total["wmark_high"]
    if ratio < PCP_LARGE.low or not short:
        why = "" if short or where["at_most"] else ": memory is not short"
        return _large("none", counted + why, evidence=evidence)
    cpus = int(case.tape.facts.get("cpus") or 1)
    room = max(total["wmark_high"] - total["wmark_min"], 1)
    fraction = max(total["managed"] // room, _FRACTION)
    return _large(
        PCP_LARGE.severity(ratio),
        f"{counted}. The watermarks do not count the lists: reclaim starts although these pages"
        f" are free, spread over {amount(cpus, 'CPU')}.",
        case.sure("the lists are read at the start and the end only"),
        case.command("replay", "T", f"--policy pcp:percpu_pagelist_high_fraction={fraction}")
        if case.run is None
        else case.command("report", "pcp.idle", "T"),
        evidence,
        PCP_LARGE.rank(ratio),
    )
