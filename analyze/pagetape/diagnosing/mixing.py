# SPDX-License-Identifier: Apache-2.0
"""Who puts pages that cannot move into MOVABLE pageblocks."""

import re
from functools import partial
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import MIXING

_finding = partial(Finding, "mixing", "Kernel pages in MOVABLE pageblocks")

# The allocator's own functions: the code that asked stands outside of them.
_ALLOCATOR = re.compile(
    r"(__)?(alloc_pages|alloc_frozen|rmqueue|get_page_from|folio_alloc|alloc_folio|get_free_pages"
    r"|alloc_slab|allocate_slab|new_slab|kmem_cache_alloc|slab_alloc|kmalloc|kvmalloc|vma_alloc)"
    r"|_+slab_alloc|\w*alloc_pages\w*|\w*kmalloc\w*|\w*kmem_cache_alloc\w*"
)


def callers(folded: str) -> str:
    """The innermost three functions of a folded stack outside of the allocator, innermost first."""
    frames = [frame.split(" [")[0] for frame in reversed(folded.split(";"))]
    outside = [f for f in frames if not _ALLOCATOR.match(f)]
    return " < ".join((outside or frames)[:3])


def _sources(row: dict[str, Any]) -> str:
    """A sentence about the largest sources."""
    if not row["harmful"]:
        return ""
    words = f"{percent(of(row['task_nr'], row['harmful']))} of them came from task {row['task']}"
    if 2 * row["task_interrupt"] > row["task_nr"]:
        words += " (mostly from interrupts that it did not cause)"
    if row["cgroup"]:
        words += f", {percent(of(row['cgroup_nr'], row['harmful']))} from cgroup {row['cgroup']}"
    if row["stack"]:
        words += (
            f", {percent(of(row['stack_nr'], row['harmful']))} from the kernel code "
            f"{callers(row['stack'])}"
        )
    return words + "."


def examine(case: Case) -> Finding:
    if why := case.missing("event", "alloc_extfrag"):
        return _finding("unknown", why, next=case.record("--stacks extfrag"))
    row = case.mixing
    live = case.has("event", "alloc") and case.has("event", "free")
    lasting = row["lasting_blocks"] if live else row["blocks"]
    whole = row["movable_blocks"]
    share = of(lasting, whole) if whole else None
    evidence = row | {"share_percent": share, "baseline": 0, "lasting_known": live}
    if not row["harmful"]:
        return _finding(
            "none",
            f"no fallback put a page that cannot move into a MOVABLE pageblock"
            f" ({amount(row['fallbacks'], 'fallback')} in all)",
            evidence=evidence,
        )
    severity = MIXING.severity(share) if share is not None else "low"
    counted = f"{amount(row['blocks'], 'MOVABLE pageblock')}"
    known = f" of {whole:,}" if whole else ""
    effect = (
        f"{lasting:,}{known} MOVABLE pageblocks still hold such a page at the end"
        f"{f' ({percent(share)}; normal is 0)' if share is not None else ''},"
        " and no compaction makes a huge page of these"
        if live
        else "the tape does not record whether the pages were freed"
    )
    nr = amount(row["harmful"], "fallback")
    if severity == "none":
        text = f"{nr} hit {counted}; {effect}"
    else:
        text = f"{nr} put kernel pages into {counted}; {effect}. {_sources(row)}"
    certainty = "counted in the events; the task is the one that ran"
    if whole is None:
        certainty += "; the number of MOVABLE pageblocks is not recorded"
    if not row["stack"]:
        certainty += "; no stacks, so the kernel code is unknown"
    return _finding(
        severity,
        text,
        case.sure(certainty),
        case.command("report", "extfrag.by_stack" if row["stack"] else "extfrag.by_task", "T"),
        evidence,
        MIXING.rank(share) if share is not None else 1.0,
        case.smaller(row["task"]) if 2 * row["task_high"] > row["task_nr"] else "",
    )
