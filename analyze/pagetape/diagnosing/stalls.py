# SPDX-License-Identifier: Apache-2.0
"""Tasks that wait in reclaim and compaction, and why."""

from functools import partial
from typing import Any

from pagetape.answer import amount, duration
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import LONG_STALL_MS, RECLAIM_TARGET, STALLS

_finding = partial(Finding, "stalls", "Allocations that wait")


def _cause(case: Case, row: dict[str, Any]) -> tuple[str, list[str]]:
    """The main cause in a sentence, and the words of the next command."""
    causes = {
        "memcg": row["memcg_s"],
        "node": row["node_s"],
        "compact": row["compact_s"],
        "throttled": row["throttled_s"],
        "direct": row["direct_s"],
    }
    main = max(causes, key=lambda name: causes[name])
    report = ["report", "reclaim.stalls", "T"]
    if main == "memcg":
        group = f" (that of the task is {row['task_cgroup']})" if row["task_cgroup"] else ""
        return (
            f"a memory cgroup{group} was at its limit, which is too low for the load, or a task"
            " asked for reclaim through memory.reclaim: the events do not say which",
            report,
        )
    if main == "node":
        return "vm.zone_reclaim_mode reclaims before it takes memory of another node", report
    if main == "throttled":
        return "reclaim waited for writeback, or for other reclaimers", report
    if main == "compact" or 2 * row["high_order_s"] > row["direct_s"]:
        return (
            "requests above order 0 found no free block: fragmentation",
            ["report", "frag.score", "T"],
        )
    if 2 * row["vain"] > row["direct_nr"]:
        return (
            f"free memory was below the min watermark, and {row['vain']:,} of "
            f"{amount(row['direct_nr'], 'direct reclaim')} freed nothing: the load needs more "
            "memory, or swap; no allocator setting helps",
            ["report", "reclaim.causes", "T"],
        )
    each = row["reclaimed"] / row["direct_nr"] if row["direct_nr"] else 0
    return (
        f"free memory was below the min watermark before kswapd had freed enough; a direct reclaim"
        f" freed {case.pages(each, f'its goal is {RECLAIM_TARGET} pages')}",
        report,
    )


def examine(case: Case) -> Finding:
    stalled = case.counters.get("allocstall", 0)
    if not case.has("reclaim", "direct_reclaim_begin"):
        why = case.missing("reclaim", "direct_reclaim_begin")
        if case.run is None and case.counters:
            why += f"; the kernel counted {amount(stalled, 'direct reclaim')}, without durations"
        return _finding(
            "low" if stalled and case.run is None else "unknown",
            why,
            "counted by the kernel" if stalled else "",
            case.record("--events all"),
            {"allocstall": stalled},
        )
    row = case.stalls
    share = of(row["some_s"], case.seconds)
    evidence = row | {"share_percent": share, "baseline": 0, "allocstall": stalled}
    if not row["nr"]:
        return _finding("none", "no task waited in reclaim or compaction", evidence=evidence)
    severity = STALLS.severity(share)
    if row["max_ms"] >= LONG_STALL_MS and severity in ("none", "low"):
        severity = "medium"
    counted = (
        f"In {percent(share)} of the tape at least one task waited in reclaim or compaction"
        f" (normal is 0): {amount(row['nr'], 'stall')}, {duration(row['total_s'])} in all,"
        f" the longest {duration(row['max_ms'] / 1e3)}"
    )
    if severity == "none":
        return _finding(severity, counted, evidence=evidence)
    cause, words = _cause(case, row)
    asleep = of(row["throttled_s"], row["total_s"])
    if asleep > 25:
        cause += f"; {percent(asleep)} of that time was throttled sleep"
    victim = f"Task {row['task']} waited {percent(of(row['task_s'], row['total_s']))} of that time"
    return _finding(
        severity,
        f"{counted}. {victim}; {cause}.",
        case.sure(
            "every stall is recorded from begin to end; the cause is that of most of the time"
        ),
        case.command(*words),
        evidence,
        STALLS.rank(share),
        case.smaller(row["task"]) if words[1] == "frag.score" else "",
    )
