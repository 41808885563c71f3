# SPDX-License-Identifier: Apache-2.0
"""Explanations of the reports in kernel logs, as JSON values.

found = explanation.of_logs([("dmesg.txt", file)])
found["reports"][0]["class"]        # a name of verdict.CLASSES
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pagetape.explaining import advice, gfp, log_lines, release, reports, verdict
from pagetape.explaining import request as requests
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
