# SPDX-License-Identifier: Apache-2.0
"""Why huge pages fail."""

from __future__ import annotations

from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import FRAGMENTED, HUGE_PAGE_REQUESTS, HUGE_PAGES

ID, TITLE = "huge_pages", "Huge pages"


def _wanted(case: Case) -> dict[str, Any]:
    """Requests and failures: page faults by the counters, otherwise all requests by the events."""
    events = case.row("huge_pages")
    served = case.counters.get("thp_fault_alloc", 0)
    failed = case.counters.get("thp_fault_fallback", 0)
    if served + failed:
        return events | {"source": "page faults", "wanted": served + failed, "failures": failed}
    return events | {
        "source": "requests of pageblock order",
        "wanted": events["requests"],
        "failures": events["failed"],
    }


def memory(case: Case) -> dict[str, Any]:
    """Free memory at the last snapshot that a huge page may use, all of it (`free`) and the number
    of blocks of pageblock order (`blocks`). `at_most`: both are upper bounds."""
    zones = [z for z in case.last_zones if z["huge_blocks"] is not None]
    order = case.tape.facts.get("pageblock_order")
    if not zones or order is None:
        return {"free": None, "blocks": None, "high": None, "at_most": None}
    return {
        "free": sum(z["huge"] for z in zones),
        "blocks": sum(z["huge_blocks"] for z in zones) >> order,
        "high": sum(z["wmark_high"] for z in zones),
        "at_most": any(z["huge_most"] for z in zones),
    }


def _cause(case: Case, now: dict[str, Any]) -> str:
    """Why requests failed: by the kernel's counters, or the free memory at the last snapshot."""
    charged = case.counters.get("thp_fault_fallback_charge", 0)
    if 2 * charged > case.counters.get("thp_fault_fallback", 0):
        return f"The limit of a memory cgroup refused {charged:,} of them."
    if now["free"] is None:
        return "The tape has no snapshot that shows the cause."
    block = 1 << int(case.tape.facts["pageblock_order"])
    free = f"At the last snapshot {case.mib(now['free'])} are free"
    if now["free"] < now["high"] + block:
        return f"{free}, about the high watermarks: memory is short."
    blocks = amount(now["blocks"], "block")
    size = case.mib(block)
    if now["blocks"] * block * 4 < now["free"]:
        return (
            f"{free}, but only {percent(of(now['blocks'] * block, now['free']))} of that in blocks"
            f" of {size} ({blocks}): fragmentation is the cause."
        )
    return f"{free}, {blocks} of {size} among it: memory was short or fragmented only for a time."


def _compaction(case: Case) -> str:
    tried = case.counters.get("compact_fail", 0) + case.counters.get("compact_success", 0)
    if not tried:
        return ""
    failed = case.counters["compact_fail"]
    return f" Direct compaction failed {failed:,} of {tried:,} times."


def _unwanted(case: Case, now: dict[str, Any], evidence: dict[str, Any]) -> Finding:
    """The finding if no huge page was requested: whether a request would fail."""
    why = "no huge page was requested"
    if now["free"] is None:
        return Finding(ID, TITLE, "none", why, evidence=evidence)
    block = 1 << int(case.tape.facts["pageblock_order"])
    score = 100 - of(now["blocks"] * block, now["free"])
    evidence = evidence | {"score_percent": score}
    blocks = amount(now["blocks"], "free block") if now["blocks"] else "no free block"
    if now["free"] < now["high"] + block or score < FRAGMENTED:
        why += f"; {blocks} of {case.mib(block)} at the last snapshot"
        return Finding(ID, TITLE, "none", why, evidence=evidence)
    return Finding(
        ID,
        TITLE,
        "low",
        f"At the last snapshot {percent(score)} of the {case.mib(now['free'])} free memory is in"
        f" blocks smaller than {case.mib(block)} (kcompactd starts at {FRAGMENTED} %), and there"
        f" {'are' if now['blocks'] > 1 else 'is'} {blocks} of that size."
        " No huge page was requested; many requests would fail.",
        case.sure("read at one moment"),
        case.command("report", "frag.score", "T"),
        evidence,
        score / FRAGMENTED,
    )


def examine(case: Case) -> Finding:
    if not case.has("event", "alloc") and "thp_fault_alloc" not in case.counters:
        return Finding(
            ID,
            TITLE,
            "unknown",
            "the tape has neither mm_page_alloc events nor counters of huge page faults",
            next=case.record("--events all"),
        )
    found = _wanted(case)
    now = memory(case)
    share = of(found["failures"], found["wanted"])
    evidence = found | now | {"share_percent": share, "baseline": 0}
    if not found["wanted"]:
        return _unwanted(case, now, evidence)
    counted = (
        f"{found['failures']:,} of {found['wanted']:,} {found['source']} got no huge page "
        f"({percent(share)}; normal is 0)"
    )
    if found["wanted"] < HUGE_PAGE_REQUESTS:
        return Finding(
            ID, TITLE, "none", f"{counted}: too few requests for a rate", evidence=evidence
        )
    severity = HUGE_PAGES.severity(share)
    if severity == "none":
        return Finding(ID, TITLE, severity, counted, evidence=evidence)
    return Finding(
        ID,
        TITLE,
        severity,
        f"{counted}. {_cause(case, now)}{_compaction(case)}",
        case.sure("failures are counted by the kernel; the cause is that of the last snapshot"),
        case.command("report", "frag.score", "T"),
        evidence,
        HUGE_PAGES.rank(share),
    )
