# SPDX-License-Identifier: Apache-2.0
"""What a tape holds: its events, loss, machine and snapshots."""

from collections import Counter
from typing import Any

import pyarrow.compute as pc

from pagetape.loss import Loss
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape


def _tracepoints(tape: Tape) -> list[dict[str, Any]]:
    """Rows of `tracepoint`; counted in the tables where the recorder was killed."""
    points: list[dict[str, Any]] = tape.table("tracepoint").to_pylist()
    if points:
        return points
    counted: Counter[tuple[str, str]] = Counter()
    for name in ("event", "reclaim", "compaction"):
        for batch in tape.batches(name):
            for kind in pc.value_counts(batch.column("kind")).to_pylist():
                counted[name, kind["values"]] += kind["counts"]
    return [
        {"name": kind.tracepoints[0].partition(":")[2], "events": nr, "stored": name}
        for (name, label), nr in counted.items()
        for kind in TABLES[name].kinds
        if kind.name == label
    ]


def _snapshot(snapshots: list[dict[str, Any]], rows: dict[str, int]) -> str:
    """How the state at the start was read."""
    if not snapshots:
        return "proc" if rows.get("zone") else "none"
    return next((s["how"] for s in snapshots if s["snapshot"] == 0), "none")


def _stacks(tape: Tape) -> dict[str, int] | None:
    """What is known of kernel stacks; None where the tape has none."""
    if "stack" not in tape.tables:
        return None
    rows, frames = tape.table("stack"), tape.table("frame")
    return {
        "recorded": len(rows),
        "without_event": rows["event_ts"].null_count,
        "different": pc.count_distinct(rows["stack"]).as_py(),
        "frames": len(frames),
        "frames_without_name": frames["function"].null_count,
    }


def describe(tape: Tape) -> dict[str, Any]:
    """The JSON object of `pagetape info`."""
    points = _tracepoints(tape)
    stored = sum(p["events"] for p in points if p["stored"])
    rows = {name: tape.num_rows(name) for name in TABLES if name in tape.tables}
    began, ended = tape.clock or (0, 0)
    loss = Loss.of(tape)
    snapshots = tape.table("snapshot").to_pylist()
    return {
        "tape": str(tape.path),
        "kernel": tape.facts.get("kernel"),
        "host": tape.facts.get("host"),
        "cpus": tape.facts.get("cpus"),
        "nodes": len(tape.facts["nodes"]) if tape.facts.get("nodes") else None,
        "duration_s": (ended - began) / 1e9,
        "events": {p["name"]: p["events"] for p in points},
        "stored": stored,
        "lost": loss.total,
        "lost_by_cpu": loss.by_cpu,
        "complete": tape.complete,
        "snapshot": _snapshot(snapshots, rows),
        "snapshots": snapshots,
        "stacks": _stacks(tape),
        "samples": pc.count_distinct(tape.table("sample")["ts"]).as_py(),
        "bytes": tape.bytes,
        "bytes_per_event": tape.bytes / stored if stored else None,
        "tables": rows,
        "facts": tape.facts,
    }


def flight(info: dict[str, Any]) -> str:
    """Why a flight recorder made the tape, and how much it had; empty of other tapes."""
    facts = info["facts"].get("flight")
    if not facts:
        return ""
    value = "" if facts["value"] is None else f": {facts['value']:.4g}{facts['unit']}"
    return (
        f"{facts['trigger']}{value}, {facts['holds_s']:.1f} s of the {facts['wanted_s']:g} s wanted"
    )


def snapshots(info: dict[str, Any]) -> str:
    """How the states were read, and why not better."""
    words = {"none": "none", "proc": "from /proc", "exact": "exact"}
    last = max((s["snapshot"] for s in info["snapshots"]), default=0)
    place = {0: "start", last: "end"} if last else {0: "start"}
    found = [
        f"{place.get(s['snapshot'], 'between')} {words[s['how']]}"
        + (f" ({s['why']})" if s["why"] else "")
        for s in info["snapshots"]
    ]
    return ", ".join(found) or words[info["snapshot"]]
