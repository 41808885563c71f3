# SPDX-License-Identifier: Apache-2.0
"""Why huge pages fail."""

from functools import partial
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import FRAGMENTED, HUGE_PAGE_REQUESTS, HUGE_PAGES

_finding = partial(Finding, "huge_pages", "Huge pages")


def _wanted(case: Case) -> dict[str, Any]:
    """Requests and failures: page faults by the counters, otherwise all requests by the events."""
    events = case.row("huge_pages")
    events["cgroup"] = case.counters.get("thp_fault_fallback_charge", 0)
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


def _causes(found: dict[str, Any]) -> str:
    """The failures by cause, each with its number; the numbers add up to the failures."""
    judged = found["failed"] + found["cgroup"]
    unseen = max(found["failures"] - judged, 0) if found["source"] == "page faults" else 0
    parts = [
        f"{number:,} {words}"
        for number, words in (
            (found["cgroup"], "for the limit of a memory cgroup"),
            (found["memory"], "for want of usable memory"),
            (found["block"], "for want of a block, which compaction did not make (fragmentation)"),
            (found["policy"], "for want of a block that the request may not make or take elsewhere"
                " (policy: transparent_hugepage/defrag, memory policy)"),
            (found["unknown"] + unseen, "for an unknown cause"),
        )
        if number
    ]  # fmt: skip
    if not parts:
        return ""
    head = "By cause: "
    if found["source"] == "page faults" and judged > found["failures"]:
        head = f"By cause, with {judged - found['failures']:,} more that are not page faults: "
    return f" {head}{'; '.join(parts)}."


def _losers(found: dict[str, Any]) -> str:
    """Who lost them, by the events."""
    words = ""
    if found["task"]:
        words = f" Task {found['task']} lost {found['task_nr']:,} of the {found['failed']:,} on the"
        words += " tape's events."
    if found["recorder"]:
        words += f" The recorder's own {amount(found['recorder'], 'failure')} are left out."
    return words


def _compaction(case: Case) -> str:
    failed = case.counters.get("compact_fail", 0)
    tried = failed + case.counters.get("compact_success", 0)
    if not tried:
        return ""
    return f" Direct compaction failed {failed:,} of {tried:,} times."


def _next(case: Case, found: dict[str, Any]) -> str:
    """The command that shows the failures, or records what shows them."""
    if not case.has("event", "alloc"):
        return case.record("--events all")
    seen = found["failed"] + found["cgroup"]
    return case.command("report", "thp.failures" if seen else "thp.over_time", "T")


def _unwanted(case: Case, now: dict[str, Any], evidence: dict[str, Any]) -> Finding:
    """The finding if no huge page was requested: whether a request would fail."""
    why = "no huge page was requested"
    if now["free"] is None:
        return _finding("none", why, evidence=evidence)
    block = 1 << int(case.tape.facts["pageblock_order"])
    score = 100 - of(now["blocks"] * block, now["free"])
    evidence = evidence | {"score_percent": score}
    blocks = amount(now["blocks"], "free block") if now["blocks"] else "no free block"
    if now["free"] < now["high"] + block or score < FRAGMENTED:
        why += f"; {blocks} of {case.mib(block)} at the last snapshot"
        return _finding("none", why, evidence=evidence)
    return _finding(
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
        return _finding(
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
        return _finding("none", f"{counted}: too few requests for a rate", evidence=evidence)
    severity = HUGE_PAGES.severity(share)
    if severity == "none":
        return _finding(severity, counted, evidence=evidence)
    certainty = "failures are counted by the kernel"
    if found["source"] == "page faults":
        certainty += " from the first reading of /proc to the last"
    if found["memory"] + found["block"] + found["policy"]:
        certainty += "; a cause is that of the request's own moment, by the count of free memory"
    return _finding(
        severity,
        f"{counted}.{_causes(found)}{_losers(found)}{_compaction(case)}",
        case.sure(certainty),
        _next(case, found),
        evidence,
        HUGE_PAGES.rank(share),
    )
