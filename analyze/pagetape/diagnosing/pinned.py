# SPDX-License-Identifier: Apache-2.0
"""Memory in nearly empty pageblocks that a few pages hold."""

from functools import partial

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import PINNED

_finding = partial(Finding, "pinned", "Nearly empty pageblocks")


def examine(case: Case) -> Finding:
    order = case.tape.facts.get("pageblock_order")
    row = case.row("pinned") if order is not None else {"blocks": 0}
    if not row["blocks"]:
        return _finding(
            "unknown",
            "no snapshot at the end shows where the free pages are",
            next=case.record("--snapshot exact"),
        )
    if why := case.missing("event", "alloc"):
        return _finding("unknown", why, next=case.record("--events page"))
    block = 1 << int(order or 0)
    managed = sum(z["managed"] for z in case.last_zones)
    share = of(row["pinned"] * block, managed)
    packed = -(-row["pinning_pages"] // block)
    evidence = row | {"share_percent": share, "packed_blocks": packed, "baseline": packed}
    if not row["nearly_empty"]:
        return _finding("none", "no pageblock is nearly empty", evidence=evidence)
    if not row["pinned"]:
        return _finding(
            "none",
            f"of {amount(row['nearly_empty'], 'nearly empty pageblock')} none is known to hold"
            " a page that cannot move",
            evidence=evidence,
        )
    counted = (
        f"pages that cannot move hold {amount(row['pinned'], 'pageblock')} of which at least 7/8 is"
        f" free: {case.pages(row['pinning_pages'])} hold {case.mib(row['pinned'] * block)},"
        f" {percent(share)} of the memory (packed, they would fit into"
        f" {amount(packed, 'pageblock')})"
    )
    severity = PINNED.severity(share)
    if severity == "none":
        return _finding(severity, counted, evidence=evidence)
    text = (
        f"{counted[:1].upper()}{counted[1:]}. No compaction can turn these blocks into huge pages"
    )
    text += (
        f"; task {row['task']} allocated {percent(of(row['task_pages'], row['pinning_pages']))} of"
        " the pages"
    )
    # Its order is the cause if most of its pages are held for a block.
    ordered = 2 * row["task_high"] > row["task_pages"]
    text += f", {row['task_high']:,} of them in blocks above order 0." if ordered else "."
    certainty = (
        "a lower bound: only pages whose allocation is on the tape count"
        + (f" ({amount(row['unclear'], 'more block')} unclear)" if row["unclear"] else "")
        + ("" if row["exact"] else "; the free pages were read while the machine ran")
    )
    return _finding(
        severity,
        text,
        case.sure(certainty),
        case.command("replay", "T", "--reclaim R1", "--policy nofragment:mode=always")
        if case.run is None
        else case.command("report", "frag.mixed_blocks", "T"),
        evidence,
        PINNED.rank(share),
        case.smaller(str(row["task"])) if ordered else "",
    )
