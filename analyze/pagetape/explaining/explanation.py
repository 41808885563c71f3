# SPDX-License-Identifier: Apache-2.0
"""Explanations of the reports in kernel logs, as JSON values.

found = explanation.of_logs([("dmesg.txt", file)])
found["reports"][0]["class"]        # a name of verdict.CLASSES
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from pagetape.explaining import advice, gfp, log_lines, release, reports, tape_state, verdict
from pagetape.explaining import request as requests
from pagetape.explaining.release import Kernel
from pagetape.explaining.reports import Log, Report
from pagetape.explaining.request import Request
from pagetape.explaining.verdict import Verdict
from pagetape.explaining.zone_check import Sum

MOST = 1000  # reports that are explained; the others of a log are only counted


def _assume(request: Request, others: Iterable[Request]) -> None:
    """Fill in the parts of a request that its report does not show."""
    if request.order is not None and request.flags is not None:
        return
    for other in others:
        if request.flags is None and request.order is None and other.flags is not None:
            request.flags, request.order_assumed = other.flags, other.order or 0
            request.assumed.append("the request of the next report in the log")
            return
    if request.flags is None:
        names = "GFP_KERNEL"
        request.flags = gfp.of_names(names, request.kernel.first)
        request.assumed.append(f"{names}, as the mask is not readable")
    if request.order is None:
        request.order_assumed = 0
        request.assumed.append("order 0, as the order is not readable")


def explained(found: list[Report], kernel: str | None = None) -> list[dict[str, Any]]:
    """The explanation of each report of one log."""
    asked = [requests.of_report(one, kernel) for one in found]
    whole = [one if one.flags is not None and one.order is not None else None for one in asked]
    out = []
    for number, (report, request) in enumerate(zip(found, asked, strict=True)):
        if report.header is None:
            near = [*whole[number + 1 : number + 2], *reversed(whole[max(number - 1, 0) : number])]
        else:
            near = []
        _assume(request, filter(None, near))
        out.append(as_json(report, verdict.of_report(report, request)))
    return out


def of_logs(files: Iterable[tuple[str, BinaryIO]], kernel: str | None = None) -> dict[str, Any]:
    """The explanations of all reports in some logs."""
    log = Log()
    found: list[dict[str, Any]] = []
    more = 0
    for name, file in files:
        stream = reports.reports(log_lines.lines(file), log)
        taken = sorted(islice(stream, MOST - len(found)), key=lambda one: one.line)
        found += [{"file": name} | one for one in explained(taken, kernel)]
        more += sum(1 for _ in stream)
    return {
        "reports": found,
        "more_reports": more,
        "suppressed": log.suppressed,
        "dropped_messages": log.dropped,
        "lines": log.lines,
    }


def of_proc(directory: Path, order: int, mask: str, kernel: str | None = None) -> dict[str, Any]:
    """Whether a machine's newest state would let a request pass: the class `passes`, or the term
    that would fail it. Raises OSError, and ValueError for a mask that is none."""
    from pagetape.explaining import proc_state  # reads files with pyarrow

    state, of_machine = proc_state.read(directory)
    about = release.named(kernel or of_machine or "") or release.inferred_from([])
    found = verdict.of_state(state, requests.asked(order, mask, about))
    if found.passes:
        found.name = "passes"
        found.sure = not found.missing and not found.doubts
    one = {"file": str(directory)} | as_json(Report(0, state=state), found)
    return {"reports": [one]}


def of_failures(
    rows: Iterable[tape_state.Row], source: str, facts: dict[str, Any], kernel: str | None = None
) -> dict[str, Any]:
    """The explanations of the failed requests of a tape: the rows of the internal query
    explain.failures, and the facts of the tape."""
    about = release.named(kernel or facts.get("kernel") or "") or release.inferred_from([])
    page_kb = int(facts.get("page_size") or 4096) >> 10
    found, total = [], 0
    for _, group in groupby(rows, key=itemgetter("number")):
        own = list(group)
        total = own[0]["total"]
        found.append({"file": source} | _of_failure(own, about, page_kb))
    return {"reports": found, "more_reports": total - len(found)}


def _of_failure(rows: list[tape_state.Row], about: Kernel, page_kb: int) -> dict[str, Any]:
    """The explanation of one failed request from its rows, one for each zone."""
    row = rows[0]
    request = requests.recorded(row, about)
    if row["nodes"] > 1 and "THISNODE" in (request.flags or ()) and row["home"] is not None:
        request.nodes = {row["home"]}
        request.assumed.append("the node of its CPU, as THISNODE does not name it")
    distance = tape_state.distance_s(row)
    known = rows if distance is not None else []
    state = tape_state.state(known, page_kb)
    found = verdict.of_state(state, request)
    counted = bool(known) and tape_state.is_counted(known)
    if known:
        bounds = [
            verdict.of_state(tape_state.state(known, page_kb, bound), request) for bound in (-1, 1)
        ]
        _judge(found, row, bounds, counted=counted)
    one = as_json(Report(0, state=state), found)
    del one["line"], one["suppressed"], one["killed"]
    return one | {
        "at_s": row["at_s"],
        "by_recorder": row["by_recorder"],
        "state": None
        if distance is None
        else {
            "at_s": row["state_s"],
            "distance_s": distance,
            "how": "sample" if row["snapshot"] is None else "snapshot",
            "free": "counted" if counted else "read",
        },
    }


def _judge(found: Verdict, row: tape_state.Row, bounds: list[Verdict], *, counted: bool) -> None:
    """Take back what the state does not prove about the moment of the failure."""
    if found.passes and row["nodes"] > 1:
        found.doubts.append("memory policies and cpusets are not on the tape")
    if row["marks_change"]:
        found.doubts.append("the watermarks change during the recording")
    if not counted and not tape_state.is_near(row):
        found.name, found.deciding = "cannot_tell", None
        found.missing.append(
            f"the state at the failure: the nearest reading is {_distance(row)}, and the tape has"
            " no page events to count free pages with"
        )
    elif not counted:
        found.doubts.append(f"the state is of a reading {_distance(row)}")
    elif {one.name for one in bounds} != {found.name}:
        found.doubts.append("the count of free pages and the boost are not exact enough")
    if found.name == "cannot_tell" and row["page_order"] and row["lacks"] == "block":
        found.name, found.passes = "no_block_of_order", False
        found.doubts.append("the types of the blocks at that moment are not on the tape")
    found.sure = found.name != "cannot_tell" and not found.doubts and not found.missing


def _distance(row: tape_state.Row) -> str:
    distance = row["state_s"] - row["at_s"]
    return f"{abs(distance) * 1e3:,.1f} ms {'after' if distance > 0 else 'before'} it"


def as_json(report: Report, found: Verdict) -> dict[str, Any]:
    request = found.request
    return {
        "line": report.line,
        "class": found.name,
        "sure": found.sure,
        "kind": request.kind,
        "kernel": request.kernel.words,
        "rules": found.rows,
        "task": request.comm,
        "killed": report.killed,
        "order": request.order,
        "mask": request.printed,
        "gfp": [] if request.printed is None else request.names,
        "gfp_flags": [] if request.printed is None else sorted(request.flags or ()),
        "context": request.context,
        "rights": found.rights.words if found.rights else [],
        "assumed": request.assumed,
        "zones": [zone_json(one) for one in found.sums],
        "not_eligible": found.not_eligible,
        "deciding": advice.deciding(found),
        "moves": advice.moves(found),
        "does_not_move": advice.does_not_move(found),
        "state_passes": found.passes,
        "suppressed": report.suppressed,
        "missing": found.missing,
        "doubts": found.doubts,
        "why": found.why or None,
    }


def zone_json(one: Sum) -> dict[str, Any]:
    """The sum of a zone in pages."""
    last = one.last_try
    return {
        "node": one.zone.node or 0,
        "zone": one.zone.name,
        "free": one.free,
        "subtracted": one.subtracted,
        "bounds": one.bounds,
        "mark": one.mark,
        "boost": one.boost,
        "lowmem_reserve": one.reserve,
        "passes": one.passes,
        "short": advice.short(one),
        "stopped_at_order": one.stopped_at,
        "blocks": {str(order): b.types for order, b in one.blocks.items() if b.nr},
        "free_blocks": {str(order): b.nr for order, b in one.blocks.items() if b.nr},
        "cause": one.cause,
        "last_try": None
        if last is None
        else {
            "subtracted": last.subtracted,
            "mark": last.mark,
            "lowmem_reserve": last.reserve,
            "passes": last.passes,
        },
    }
