# SPDX-License-Identifier: Apache-2.0
"""Failed allocations and OOM kills, and what would have saved them."""

from __future__ import annotations

from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import FAILURES, OPTIONAL_FAILURES

ID, TITLE, OOM_TITLE = "failures", "Failed allocations", "Memory ran out"
_NEAR_S = 2.0  # a farther sample says nothing about the moment of a failure


def _rescue(case: Case, row: dict[str, Any]) -> tuple[str, str]:
    """What would have saved the failed requests of one kind, and the command that tries it."""
    order = row["page_order"]
    known = row["free"] is not None and row["near_s"] <= _NEAR_S
    report = case.command("report", "alloc.by_order", "T")
    if known and order and row["free"] >= 1 << order and not row["usable"]:
        free = (
            f"{case.mib(row['free'])} were free {row['near_s']:.1f} s away, but no block of order"
        )
        return (
            f"{free} {order}: fragmentation was the cause, and earlier compaction the remedy",
            case.command("report", "frag.indices", "T"),
        )
    if row["atomic"]:
        now = case.sysctl("vm.min_free_kbytes")
        words = "a larger reserve below min, on which atomic requests live"
        if not now or case.run is not None:
            return f"{words} (vm.min_free_kbytes)", report
        policy = f"--policy watermarks:min_free_kbytes={2 * now}"
        command = case.command("replay", "T", "--reclaim R1", policy)
        return f"{words} (vm.min_free_kbytes, now {now:,})", command
    if order > 3:
        words = f"kvmalloc, or memory reserved early: the kernel gives up early at order {order}"
        return words, report
    return "more memory, or a higher limit of the cgroup: reclaim found nothing", report


def _killed(case: Case, kills: int, rows: list[dict[str, Any]], victim: str | None) -> Finding:
    """The finding if the OOM killer ran."""
    failed = sum(row["nr"] for row in rows if not row["optional"])
    stalls = case.stalls
    vain, where = "", "of the machine or of a cgroup "
    if 2 * stalls["vain"] > stalls["direct_nr"]:
        where = ""
        vain = (
            f", after {stalls['vain']:,} of {amount(stalls['direct_nr'], 'direct reclaim')} had"
            " freed nothing"
        )
    first = f" (first {victim})" if victim else ""
    return Finding(
        ID,
        OOM_TITLE,
        "high",
        f"The OOM killer killed {amount(kills, 'task')}{first} (normal is 0){vain}."
        f" Memory {where}ran out: the load needs more memory, swap, or a limit of its own.",
        case.sure("counted by the kernel"),
        case.command("report", "reclaim.summary", "T"),
        {"oom_kills": kills, "failed": failed, "kinds": rows, "baseline": 0},
        float(kills),
    )


def examine(case: Case) -> Finding:
    oom = case.row("oom")
    kills = max(case.counters.get("oom_kill", 0), oom["kills"])
    recorded = case.has("event", "alloc")
    rows = case.rows("failures") if recorded else []
    if kills:
        return _killed(case, kills, rows, oom["victim"])
    if not recorded:
        why = case.missing("event", "alloc")
        return Finding(ID, TITLE, "unknown", why, next=case.record("--events page"))
    allocs = rows[0]["allocs"] if rows else 0
    hard = [row for row in rows if not row["optional"]]
    failed, optional = sum(r["nr"] for r in hard), sum(r["nr"] for r in rows if r["optional"])
    evidence = {
        "failed": failed,
        "optional": optional,
        "allocs": allocs,
        "kinds": rows,
        "oom_kills": kills,
        "baseline": 0,
    }
    easy = (
        f"{amount(optional, 'allocation')} with another way failed"
        f" ({percent(of(optional, allocs))} of all; NOWARN or NORETRY, the kernel logs nothing)"
    )
    if not failed:
        if not optional:
            return Finding(ID, TITLE, "none", "no allocation failed", evidence=evidence)
        severity = "low" if of(optional, allocs) >= OPTIONAL_FAILURES else "none"
        text = f"{easy}; none failed without (normal is 0)"
        return Finding(
            ID,
            TITLE,
            severity,
            text + ("." if severity == "low" else ""),
            case.sure("every failure is recorded"),
            case.command("report", "alloc.by_order", "T"),
            evidence,
        )
    worst = hard[0]
    share = of(failed, allocs)
    remedy, command = _rescue(case, worst)
    kind = "atomic " if worst["atomic"] else ""
    text = (
        f"{amount(failed, 'allocation')} failed that had no other way ({percent(share)} of"
        f" {allocs:,}; normal is 0), most of them {kind}requests of order {worst['page_order']} by"
        f" task {worst['task']}. What would have helped: {remedy}."
    )
    return Finding(
        ID,
        TITLE,
        FAILURES.severity(share) if share >= FAILURES.low else "medium",
        text,
        case.sure("every failure is recorded; the remedy is read from the request and free memory"),
        command,
        evidence,
        FAILURES.rank(max(share, FAILURES.low)),
    )
