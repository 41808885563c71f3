# SPDX-License-Identifier: Apache-2.0
"""Watermarks that leave kswapd too little room."""

from functools import partial
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import RECLAIM_TARGET, WATERMARKS
from pagetape.tapes import zone_events

_finding = partial(Finding, "watermarks", "Watermarks too tight")


def room_of(case: Case) -> dict[str, Any] | None:
    """The advice of reclaim.min_free for the largest zone that it advises on: its row, with the
    `managed` pages of the zone. Every finding that advises on the watermarks uses it: one setting
    has one advice. None if no zone needs another setting, or the tape does not show it."""
    managed = {(z["node"], z["zone"]): z["managed"] for z in case.zones if not z["at_end"]}
    rows = [
        row | {"managed": managed[row["node"], row["zone"]]}
        for row in (case.report("reclaim.min_free") if managed else [])
        if row["suggested_scale"] and (row["node"], row["zone"]) in managed
    ]
    return max(rows, key=lambda row: int(row["managed"]), default=None)


def _near(row: dict[str, Any]) -> str:
    near = row["episodes"] - row["stalled"]
    return f"{amount(near, 'near miss', 'near misses')} (below low, kswapd in time)"


def _at_readings(case: Case) -> Finding:
    """The answer of a tape of /proc over time: how often free memory was below a watermark."""
    rows = case.rows("readings")
    if not rows:
        why = "no reading of zoneinfo: the watermarks are unknown"
        return _finding("unknown", why, next=case.record("--events all"))
    worst = rows[0]
    evidence = {"zones": rows, "baseline": 0}
    moments = amount(worst["moments"], "moment")
    where = f"zone {worst['zone']} of node {worst['node']}"
    if not worst["below_min"]:
        low = f"{worst['below_low']:,} of {moments}"
        below = f"{where} was below low at {low}, and no zone below min"
        if not worst["below_low"]:
            below = f"no zone was below its low watermark at any of {moments}"
        return _finding("none", below, evidence=evidence)
    return _finding(
        "low",
        f"At {worst['below_min']:,} of {moments} {where} had fewer free pages than its min"
        f" watermark (least {worst['least']:,}, min {worst['wmark_min']:,} pages; normal is 0):"
        " requests then reclaim by themselves.",
        "read at these moments; between them nothing is known",
        case.record("--events all"),
        evidence,
        of(worst["below_min"], worst["moments"]),
    )


def examine(case: Case) -> Finding:
    if zone_events.is_of_proc(case.tape):
        return _at_readings(case)
    if why := case.missing("reclaim", "wakeup_kswapd"):
        return _finding("unknown", why, next=case.record("--events all"))
    row = case.row("watermarks")
    room = room_of(case)
    share = of(row["stalled"], row["episodes"])
    each = row["freed_each"] or 0.0
    hits = {
        name: case.counters[name]
        for name in ("kswapd_low_wmark_hit_quickly", "kswapd_high_wmark_hit_quickly")
        if name in case.counters
    }
    evidence = row | hits | {"share_percent": share, "room": room, "baseline": 0}
    if not row["episodes"] and row["below_min"]:
        why = f"{amount(row['below_min'], 'direct reclaim')} for order 0, but no event of kswapd"
        why += " (it may have given up)"
        return _finding("unknown", why, evidence=evidence)
    if not row["episodes"]:
        return _finding("none", "free memory never fell below low", evidence=evidence)
    direct = f"{amount(row['below_min'], 'direct reclaim')} for order 0"
    counted = (
        f"{row['stalled']:,} of {amount(row['episodes'], 'shortage')} ended below the min watermark"
        f" ({percent(share)}; normal is 0), in {direct}"
    )
    severity = WATERMARKS.severity(share)
    if severity == "none":
        return _finding("none", f"{counted}; {_near(row)}", evidence=evidence)
    if each < RECLAIM_TARGET:
        return _finding(
            "none",
            f"{counted}, but a direct reclaim freed"
            f" {case.pages(each, f'its goal is {RECLAIM_TARGET} pages')}: there is too little to"
            " reclaim, and higher watermarks would not help",
            evidence=evidence,
        )
    text = f"{counted}; {_near(row)}."
    factor = 0
    if room:
        factor = room["suggested_scale"]
        gap = room["wmark_low"] - room["wmark_min"]
        share_of_zone = f"{percent(of(gap, room['managed']))} of the zone"
        text += (
            f" kswapd has {case.pages(gap, share_of_zone)} between low and min in zone"
            f" {room['zone']} of node {room['node']}; vm.watermark_scale_factor={factor} gives it"
            f" {case.pages(room['room'])}."
        )
    now = case.sysctl("vm.watermark_scale_factor")
    replay = case.run is None and factor and case.has("event", "alloc") and (now or 0) < factor
    return _finding(
        severity,
        text,
        case.sure("shortages and direct reclaims are recorded; the effect of a factor is not"),
        case.command(
            "replay", "T", "--reclaim R1", f"--policy watermarks:watermark_scale_factor={factor}"
        )
        if replay
        else case.command("report", "reclaim.min_free", "T"),
        evidence,
        WATERMARKS.rank(share),
    )
