# SPDX-License-Identifier: Apache-2.0
"""A kswapd that runs for nothing."""

from functools import partial
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import SEVERITIES, Finding
from pagetape.diagnosing.thresholds import KSWAPD_AWAKE, KSWAPD_WASTE

_finding = partial(Finding, "kswapd", "kswapd runs for nothing")


def _judge(case: Case, row: dict[str, Any]) -> dict[str, Any]:
    """The node's row with its shares and its severity."""
    awake = of(row["awake_s"], case.seconds)
    scanned, reclaimed = row["scanned"], row["reclaimed"]
    if scanned is None and "pgscan_kswapd" in case.counters:  # of all nodes
        scanned = case.counters["pgscan_kswapd"]
        reclaimed = case.counters.get("pgsteal_kswapd", 0)
    waste: float | None = None
    if scanned:
        waste = 100 - of(min(reclaimed, scanned), scanned)
    elif row["passes"] and not row["freed"] and case.has("event", "free"):
        waste = 100.0
    severity = "none"
    if waste is not None and waste >= KSWAPD_WASTE.low and awake >= KSWAPD_AWAKE.low:
        both = {KSWAPD_AWAKE.severity(awake), KSWAPD_WASTE.severity(waste)}
        severity = max(both, key=SEVERITIES.index)  # the milder of the two
    return row | {
        "scanned": scanned,
        "reclaimed": reclaimed,
        "awake_percent": awake,
        "waste_percent": waste,
        "severity": severity,
    }


def _cause(row: dict[str, Any]) -> str:
    """The main reason of the calls, or of the pages that were not freed."""
    if 2 * row["boost_calls"] > row["calls"] > 0:
        return (
            f"{percent(of(row['boost_calls'], row['calls']))} of its {amount(row['calls'], 'call')}"
            " came from watermark boosts, not from a shortage: after a fallback they trade the time"
            " of kswapd for fewer further fallbacks."
        )
    if 2 * row["order_calls"] > row["calls"] > 0:
        return (
            f"{percent(of(row['order_calls'], row['calls']))} of its {amount(row['calls'], 'call')}"
            " were for orders above 0: free memory was fragmented, not short."
        )
    if row["scanned"] and row["dirty"] and 2 * row["dirty"] > row["scanned"]:
        return "Most pages were dirty or under writeback: the disk is the limit."
    if row["scanned"] and row["referenced"] and 2 * row["referenced"] > row["scanned"]:
        return "Most pages were in use again: the working set is larger than the memory."
    return "Its calls came from a shortage, but few pages could be freed."


def _next(case: Case, row: dict[str, Any]) -> str:
    if (
        case.run is None
        and case.has("event", "alloc")
        and 2 * row["boost_calls"] > row["calls"] > 0
    ):
        return case.command("replay", "T", "--reclaim R1", "--policy watermark_boost:factor=0")
    return case.command("report", "kswapd.balance", "T")


def examine(case: Case) -> Finding:
    if why := case.missing("reclaim", "kswapd_wake"):
        return _finding("unknown", why, next=case.record("--events all"))
    nodes = [_judge(case, row) for row in case.rows("kswapd")]
    if not nodes:
        return _finding("none", "kswapd slept all the time", evidence={"awake_percent": 0})
    worst = min(nodes, key=lambda n: (SEVERITIES.index(n["severity"]), -n["awake_percent"]))
    awake, waste = worst["awake_percent"], worst["waste_percent"]
    awake_words = f"kswapd of node {worst['node']} was awake {percent(awake)} of the tape"
    evidence = worst | {"nodes": nodes, "baseline": 0}
    if waste is None:
        return _finding(
            "none" if awake < KSWAPD_AWAKE.low or worst["freed"] else "unknown",
            f"{awake_words} and freed {case.pages(worst['freed'])}; scans are not recorded",
            evidence=evidence,
        )
    if worst["scanned"]:
        work = (
            f"freed {worst['reclaimed']:,} ({case.mib(worst['reclaimed'])}) of"
            f" {case.pages(worst['scanned'])} that it scanned:"
            f" {percent(waste)} of the scans were in vain (the kernel calls 60 % medium and 95 %"
            " critical pressure)"
        )
    else:
        work = f"freed no page in {amount(worst['passes'], 'pass', 'passes')}"
    text = f"{awake_words} and {work}"
    if worst["severity"] == "none":
        return _finding("none", text, evidence=evidence)
    return _finding(
        worst["severity"],
        f"{text}. {_cause(worst)}",
        case.sure("counted by the kernel; awake is not CPU time"),
        _next(case, worst),
        evidence,
        KSWAPD_AWAKE.rank(awake),
    )
