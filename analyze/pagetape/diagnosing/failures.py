# SPDX-License-Identifier: Apache-2.0
"""Failed allocations and OOM kills, and what would have saved them."""

from functools import partial
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import FAILURES, OPTIONAL_FAILURES
from pagetape.diagnosing.watermarks import room_of

_finding = partial(Finding, "failures", "Failed allocations")


def _larger_reserve(case: Case, report: str) -> tuple[str, str]:
    """The remedy of atomic requests, and the command that tries it; `report` if none does."""
    words = "a larger reserve below min, on which atomic requests live"
    now, advised = case.sysctl("vm.min_free_kbytes"), room_of(case)
    if not now or case.run is not None or not advised:
        return f"{words} (vm.min_free_kbytes)", report
    kbytes = advised["suggested_kbytes"]
    policy = f"--policy watermarks:min_free_kbytes={kbytes}"
    command = case.command("replay", "T", "--reclaim R1", policy)
    return f"{words} (vm.min_free_kbytes, now {now:,}; {kbytes:,} are advised)", command


def _rescue(case: Case, row: dict[str, Any]) -> tuple[str, str]:
    """What would have saved the failed requests of one kind, and the command that tries it."""
    order = row["page_order"]
    report = case.command("report", "alloc.by_order", "T")
    if order and 2 * row["block"] > row["nr"]:
        return (
            f"{row['block']:,} of {row['nr']:,} found enough memory that they may use, but no block"
            f" of order {order}: fragmentation was the cause, and earlier compaction the remedy",
            case.command("report", "frag.indices", "T"),
        )
    if row["atomic"]:
        return _larger_reserve(case, report)
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
        "failures",
        "Memory ran out",
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
    kinds = case.rows("failures") if recorded else []
    rows = [row for row in kinds if not row["recorder"]]
    own = sum(row["nr"] for row in kinds if row["recorder"])
    if kills:
        return _killed(case, kills, rows, oom["victim"])
    if not recorded:
        why = case.missing("event", "alloc")
        return _finding("unknown", why, next=case.record("--events page"))
    allocs = rows[0]["allocs"] if rows else 0
    hard = [row for row in rows if not row["optional"]]
    failed, optional = sum(r["nr"] for r in hard), sum(r["nr"] for r in rows if r["optional"])
    evidence = {
        "failed": failed,
        "optional": optional,
        "allocs": allocs,
        "kinds": rows,
        "recorder": own,
        "oom_kills": kills,
        "baseline": 0,
    }
    left_out = f"the recorder's own {amount(own, 'failure')} left out" if own else ""
    easy = (
        f"{amount(optional, 'allocation')} with another way failed"
        f" ({percent(of(optional, allocs))} of all; NOWARN or NORETRY, the kernel logs nothing)"
    )
    if not failed:
        if not optional:
            why = "no allocation failed" + (f" ({left_out})" if own else "")
            return _finding("none", why, evidence=evidence)
        severity = "low" if of(optional, allocs) >= OPTIONAL_FAILURES else "none"
        text = f"{easy}; none failed without (normal is 0{'; ' if own else ''}{left_out})"
        return _finding(
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
        f" {allocs:,}; normal is 0{'; ' if own else ''}{left_out}), most of them {kind}requests of"
        f" order {worst['page_order']} by task {worst['task']}. What would have helped: {remedy}."
    )
    return _finding(
        FAILURES.severity(share) if share >= FAILURES.low else "medium",
        text,
        case.sure(
            "every failure is recorded; the remedy is read from the request and from the free"
            " memory that the page events show at its moment"
        ),
        command,
        evidence,
        FAILURES.rank(max(share, FAILURES.low)),
        case.smaller(worst["task"], worst["page_order"])
        if worst["page_order"] and 2 * worst["block"] > worst["nr"]
        else "",
    )
