# SPDX-License-Identifier: Apache-2.0
"""Compaction that no allocation asked for: a busy kcompactd, and requests through /proc or /sys."""

from functools import partial
from typing import Any

from pagetape.answer import amount, duration
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import EXPLICIT_COMPACTION, KCOMPACTD_BUSY, SHORT_TAPE_S

_kcompactd = partial(Finding, "kcompactd", "kcompactd compacts much of the time")
_explicit = partial(Finding, "explicit_compaction", "Compaction that a task asked for")


def _moved(case: Case, row: dict[str, Any]) -> str:
    """What became of the pages, as the end of a sentence; empty if it is not recorded."""
    if row["moved"] is None:
        return ""
    share = percent(of(row["failed"], row["moved"] + row["failed"]))
    return f"; {case.pages(row['moved'])} moved, {row['failed']:,} ({share}) did not"


def _share(case: Case, row: dict[str, Any]) -> dict[str, Any]:
    return row | {"busy_percent": of(row["busy_s"], case.seconds), "baseline": 0}


def _rows(case: Case, who: str) -> list[dict[str, Any]]:
    return [_share(case, row) for row in case.compactions if row["who"] == who]


def _cause(case: Case, row: dict[str, Any]) -> str:
    """Why a kcompactd compacted most of that time."""
    if 2 * row["asked_s"] < row["busy_s"]:
        setting = case.sysctl("vm.compaction_proactiveness")
        allowed = f" {setting}" if setting is not None else ""
        return (
            "Most of it was proactive: the free memory was more fragmented than"
            f" vm.compaction_proactiveness{allowed} allows, although no request waited for a block"
            " (0 turns proactive compaction off)."
        )
    order = f" of order {row['page_order']}" if row["page_order"] is not None else ""
    text = f"Most of it was for requests{order} that found no free block"
    if row["ended"]:
        text += f"; {row['successes']:,} of {amount(row['ended'], 'such run')} made one"
    return text + "."


def kcompactd(case: Case) -> Finding:
    """The finding about the busiest kcompactd."""
    if not case.has("compaction", "begin"):
        why = case.missing("compaction", "begin")
        next_command = case.record("--events all")
        return _kcompactd("unknown", why, next=next_command)
    nodes = _rows(case, "kcompactd")
    if not nodes:
        why = "kcompactd compacted nothing"
        evidence = {"busy_percent": 0, "baseline": 0}
        return _kcompactd("none", why, evidence=evidence)
    worst = nodes[0]
    busy = worst["busy_percent"]
    place = "" if worst["node"] is None else f" of node {worst['node']}"
    proactive = worst["runs"] - worst["asked_runs"]
    text = (
        f"kcompactd{place} compacted in {percent(busy)} of the tape (normal is 0):"
        f" {duration(worst['busy_s'])} in {amount(worst['asked_runs'], 'run')} for requests and"
        f" {proactive:,} proactive{_moved(case, worst)}"
    )
    severity = KCOMPACTD_BUSY.severity(busy)
    evidence = worst | {"nodes": nodes}
    if severity == "none":
        return _kcompactd(severity, text, evidence=evidence)
    main = "kcompactd" if 2 * worst["asked_s"] >= worst["busy_s"] else "proactive"
    return _kcompactd(
        severity,
        f"{text}. {_cause(case, worst)}",
        case.sure("summed over the recorded runs; that is not CPU time"),
        case.command("report", "compaction.results", "T", "--who", main),
        evidence,
        KCOMPACTD_BUSY.rank(busy),
    )


def explicit(case: Case) -> Finding:
    """The finding about compaction through /proc/sys/vm/compact_memory or a node's `compact`."""
    if case.run is not None or not case.has("compaction", "begin"):
        why = "a replay does not model compaction that a task asked for"
        if case.run is None:
            why = case.missing("compaction", "begin")
        next_command = "" if case.run else case.record("--events all")
        return _explicit("unknown", why, next=next_command)
    rows, unknown = _rows(case, "explicit"), _rows(case, "unknown")
    if not rows:
        why = "no task asked for compaction"
        if unknown:
            runs = amount(unknown[0]["runs"], "run")
            why = f"the events do not say whether a request or a task asked for {runs}"
        evidence: dict[str, Any] = {"busy_percent": 0, "baseline": 0}
        severity = "unknown" if unknown else "none"
        return _explicit(severity, why, evidence=evidence)
    (row,) = rows
    busy = row["busy_percent"]
    group = f" ({row['cgroup']})" if row["cgroup"] else ""
    others = f" and {amount(row['tasks'] - 1, 'other thread')}" if row["tasks"] > 1 else ""
    text = (
        f"Task {row['task']}{group}{others} compacted whole zones for"
        f" {duration(row['busy_s'])}, {percent(busy)} of the tape (normal is 0), in"
        f" {amount(row['runs'], 'run')}{_moved(case, row)}"
    )
    severity = EXPLICIT_COMPACTION.severity(busy)
    if severity == "none":
        return _explicit(severity, text, evidence=row)
    if case.seconds < SHORT_TAPE_S:
        severity = "low"
    return _explicit(
        severity,
        f"{text}. No allocation asked for it: the task wrote to /proc/sys/vm/compact_memory or"
        " /sys/devices/system/node/node*/compact, as cron jobs, node agents and set-up scripts do."
        " Only that task waits, but pages of every task move.",
        case.sure("the runs are for order -1, or follow no request; the task is the one that ran"),
        case.command("report", "compaction.results", "T", "--who", "explicit"),
        row,
        EXPLICIT_COMPACTION.rank(busy),
    )
