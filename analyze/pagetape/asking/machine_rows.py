# SPDX-License-Identifier: Apache-2.0
"""Rows of the views machine and node_distance: the facts of a tape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pagetape.schemas.tape import Tape
from pagetape.tapes import fallback_unit, kernel_rows
from pagetape.tapes.machine import assumed_distances


def _kernel_fields() -> list[pa.Field[Any]]:
    """The columns about the kernel: the features of its row, by the names of their values, and what
    it shows."""
    fields = []
    for feature in kernel_rows.features():
        of = pa.utf8() if feature.values else pa.int32() if feature.type == "number" else pa.bool_()
        fields.append(pa.field(feature.column or feature.name, of, metadata={"doc": feature.doc}))
    for one in kernel_rows.interfaces():
        fields.append(pa.field(one.name, pa.bool_(), metadata={"doc": one.doc}))
    return fields


MACHINE = pa.schema(
    [
        pa.field("tape", pa.utf8()),
        pa.field("host", pa.utf8()),
        pa.field("kernel", pa.utf8()),
        pa.field("kernel_row", pa.utf8()),  # of a replay: that of its rules; null if unknown
        pa.field("arch", pa.utf8()),
        pa.field("page_size", pa.int32()),
        pa.field("pageblock_order", pa.int32()),
        pa.field("nr_orders", pa.int32()),
        pa.field("cpus", pa.int32()),
        pa.field("nodes", pa.int32()),
        pa.field("compaction_proactiveness", pa.int32()),
        pa.field("zone_reclaim_mode", pa.int32()),
        pa.field("extfrag_threshold", pa.int32()),
        pa.field("min_free_kbytes", pa.int32()),
        pa.field("fallback_unit", pa.utf8()),  # what one fallback event counts: block or page
        pa.field("recorder_pid", pa.int32()),  # process that recorded the tape
        pa.field("recorded", pa.list_(pa.utf8())),  # its "system:event"; null if unknown
        pa.field("start_ts", pa.uint64()),  # first and last event of the tape
        pa.field("end_ts", pa.uint64()),
        pa.field("replayed", pa.bool_()),
        pa.field("own", pa.bool_()),  # of a replay: under the recording's own rules
        pa.field("model_kernel", pa.utf8()),  # of a replay: the kernel row of its rules, ...
        pa.field("model_releases", pa.utf8()),  # ... the releases of that row in words, ...
        pa.field("policy", pa.utf8()),  # ... its policies, ...
        pa.field("reclaim", pa.utf8()),  # ... its reclaim mode, ...
        pa.field("tier", pa.utf8()),  # ... and the tier of its predictions
        pa.field("place", pa.int32()),  # among the tapes, from 0 on
        *_kernel_fields(),
    ]
)


DISTANCE = pa.schema(
    [
        pa.field("tape", pa.utf8()),
        pa.field("cpu", pa.int32()),
        pa.field("to_node", pa.int32()),
        pa.field("distance", pa.int32()),  # from the firmware: 10 is the CPU's own node
        pa.field("assumed", pa.bool_()),  # the tape does not have the distance
    ]
)


def distances(tape: Tape, label: str) -> list[dict[str, Any]]:
    """The rows of `node_distance` for one tape."""
    nodes = sorted(tape.facts.get("nodes") or [], key=lambda node: int(node["id"]))
    rows = []
    for node in nodes:
        recorded = node.get("distance", [])
        assumed = len(recorded) != len(nodes)
        row = assumed_distances(nodes, node) if assumed else recorded
        rows += [
            {"tape": label, "cpu": cpu, "to_node": other["id"], "distance": d, "assumed": assumed}
            for cpu in node.get("cpus", [])
            for other, d in zip(nodes, row, strict=True)
        ]
    return rows


def _number(text: object) -> int | None:
    """A sysctl's value, if it is a number below 10^9."""
    words = str(text)
    return int(words) if words.isdecimal() and len(words) < 10 else None


def _kernel(tape: Tape) -> dict[str, Any]:
    """The columns of `machine` about the kernel; without a row, the features of the newest."""
    row = kernel_rows.row_of(tape)
    release = kernel_rows.release(tape)
    shown = {i.name: kernel_rows.shows(release, i.name) for i in kernel_rows.interfaces()}
    rules = kernel_rows.rules(row or kernel_rows.known()[-1].name)
    return {
        "kernel_row": row,
        **{f.column or f.name: rules[f.name] for f in kernel_rows.features()},
        **shown,
    }


def _recorded(facts: Mapping[str, Any]) -> list[str] | None:
    """The tracepoints that the recording enabled; None if nobody knows, as of an import."""
    if "replay" in facts or facts.get("events") is None:
        return None
    return [name for name in facts["events"] if name not in facts.get("skipped_events", [])]


def machine(tape: Tape, label: str, place: int) -> dict[str, Any]:
    """The row of `machine` for one tape."""
    facts = tape.facts
    run = facts.get("replay")
    sysctls = facts.get("sysctls") or {}
    start, end = tape.clock or (None, None)
    return (
        {name: facts.get(name) for name in MACHINE.names}
        | _kernel(tape)
        | {
            "tape": label,
            "nodes": len(facts["nodes"]) if facts.get("nodes") else None,
            "compaction_proactiveness": _number(sysctls.get("vm.compaction_proactiveness")),
            "zone_reclaim_mode": _number(sysctls.get("vm.zone_reclaim_mode")),
            "extfrag_threshold": _number(sysctls.get("vm.extfrag_threshold")),
            "min_free_kbytes": _number(sysctls.get("vm.min_free_kbytes")),
            "fallback_unit": fallback_unit.of_tape(tape),
            "recorded": _recorded(facts),
            "start_ts": start,
            "end_ts": end,
            "replayed": run is not None,
            "own": run and run["own"],
            "model_kernel": run and run["kernel"],
            "model_releases": run and kernel_rows.releases(run["kernel"]),
            "policy": run and " + ".join(run["policies"]),
            "reclaim": run and run["reclaim"],
            "tier": run and run["tier"],
            "place": place,
        }
    )
