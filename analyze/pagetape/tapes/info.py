# SPDX-License-Identifier: Apache-2.0
"""The contents of a tape: its events, loss, machine and snapshots."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from pagetape import answer
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import absent, kernel_rows, origin
from pagetape.tapes.disturbance import ENDINGS
from pagetape.tapes.loss import Loss, counted_kinds
from pagetape.tapes.spool import Found

_MANY_SNAPSHOTS = 3  # more are of /proc over time
_MANY_EVENTS = 10_000  # fewer events are the smaller part of a tape's bytes


def _tracepoints(tape: Tape) -> list[dict[str, Any]]:
    """Rows of `tracepoint`; counted in the other tables if the recorder was killed."""
    points: list[dict[str, Any]] = tape.rows("tracepoint")
    if points:
        return points
    counted: Counter[tuple[str, str]] = Counter()
    for name in ("event", "reclaim", "compaction", "lock_event"):
        for batch in tape.batches(name):
            for label, nr in counted_kinds(batch).items():
                counted[name, label] += nr
    return [
        {"name": kind.tracepoints[0].partition(":")[2], "events": nr, "stored": name}
        for (name, label), nr in counted.items()
        for kind in TABLES[name].kinds
        if kind.name == label
    ]


def _by_name(points: list[dict[str, Any]]) -> dict[str, int]:
    """Events of each tracepoint; events of one name may have several formats."""
    events: Counter[str] = Counter()
    for point in points:
        events[point["name"]] += point["events"]
    return dict(events)


def _snapshot(snapshots: list[dict[str, Any]], tape: Tape) -> str:
    """The source of the state at the start; exact only if all of the state is."""
    if not snapshots:
        return "proc" if tape.num_rows("zone") else "none"
    start = next((s["how"] for s in snapshots if s["snapshot"] == 0), "none")
    return "proc" if start == "mixed" else start


def _stacks(tape: Tape) -> dict[str, Any] | None:
    """Counts of kernel stacks; None for a tape without stacks."""
    if "stack" not in tape.tables:
        return None
    rows, frames = tape.table("stack"), tape.table("frame")
    return {
        "recorded": len(rows),
        "without_event": rows["event_ts"].null_count,
        "different": pc.count_distinct(rows["stack"]).as_py(),
        "frames": len(frames),
        "frames_without_name": frames["function"].null_count,
        "of": tape.facts.get("stacks"),
    }


def _stamps(tape: Tape) -> int | None:
    """The rows of `stamp`; None if the recorder read none."""
    if "stamp" in tape.tables or tape.facts.get("stamps"):
        return tape.num_rows("stamp")
    return None


def _ending(tape: Tape) -> dict[str, Any]:
    """Whether and how the recording ended, and the bytes that wait in the spool."""
    found = Found.of(tape.path)
    spools = tape.rows("spool")
    kinds = [row["kind"] for row in tape.rows("disturbance") if row["kind"] in ENDINGS]
    regular = kinds[-1] if kinds else "stopped"
    waiting, ended = 0, tape.facts.get("ended", regular if tape.complete else "killed")
    if found is not None:
        waiting, ended = found.look()
        ended = "recording" if found.in_use else ended
    return {
        "finished": tape.complete,
        "ended": ended,
        "spool": {
            "waiting_bytes": waiting,
            "peak_bytes": sum(spool["peak"] for spool in spools),
            "full_s": max((spool["full"] for spool in spools), default=0) / 1e9,
        },
    }


def spooled(info: dict[str, Any]) -> str:
    """Problems with the spool in words; empty if there are none."""
    spool = info["spool"]
    words = []
    if spool["full_s"]:
        words.append(f"the spool was full for {spool['full_s']:.1f} s")
    if spool["waiting_bytes"]:
        words.append(f"{answer.size(spool['waiting_bytes'])} wait in the spool")
    return ", ".join(words)


def duration_s(tape: Tape) -> float:
    """From the first to the last event, in seconds."""
    began, ended = tape.clock or (0, 0)
    return (ended - began) / 1e9


def summary(tape: Tape) -> dict[str, Any]:
    """The JSON object of `pagetape info`, without the slow row counts of the tables."""
    points = _tracepoints(tape)
    stored = sum(p["events"] for p in points if p["stored"])
    loss = Loss.of(tape)
    snapshots = tape.rows("snapshot")
    return {
        "tape": str(tape.path),
        "kernel": tape.facts.get("kernel"),
        "kernel_row": (row := kernel_rows.row_of(tape)),
        "kernel_releases": row and kernel_rows.releases(row),
        "kernel_warnings": kernel_rows.warnings_of(tape),
        "recording_id": origin.recording_id(tape),
        "host": tape.facts.get("host"),
        "cpus": tape.facts.get("cpus"),
        "nodes": len(tape.facts["nodes"]) if tape.facts.get("nodes") else None,
        "duration_s": duration_s(tape),
        "events": _by_name(points),
        "stored": stored,
        "lost": loss.total,
        "lost_by_cpu": loss.by_cpu,
        "complete": tape.complete,
        "cut_off": tape.cut_off,
        **_ending(tape),
        "snapshot": _snapshot(snapshots, tape),
        "snapshots": snapshots,
        "snapshot_zones": tape.rows("snapshot_zone"),
        "snapshot_checks": tape.rows("snapshot_check"),
        "stamps": _stamps(tape),
        "stacks": _stacks(tape),
        "absent": absent.lines(tape),
        "disturbances": tape.rows("disturbance"),
        **_samples(tape),
        "private": tape.facts.get("private"),
        "bytes": tape.bytes,
        "bytes_per_event": tape.bytes / stored if stored else None,
        "facts": tape.facts,
    }


def size(info: dict[str, Any]) -> str:
    """The size of a tape in words, also by event where events are most of it."""
    each = info["bytes_per_event"] if info["stored"] >= _MANY_EVENTS else None
    return answer.size(info["bytes"]) + (f", {each:.2f} bytes/event" if each else "")


def _samples(tape: Tape) -> dict[str, Any]:
    """How many samples have rows, by the file of the machine's counters, which always change; the
    first and the last, in seconds after the first event. They go on while the rings are read."""
    table = tape.table("sample")
    times = table.filter(pc.is_null(table["node"]))["ts"]
    reach = None
    if len(times) and tape.clock:
        ends = pc.min_max(times).as_py()
        reach = [(ends[name] - tape.clock[0]) / 1e9 for name in ("min", "max")]
    return {"samples": int(pc.count_distinct(times).as_py()), "samples_s": reach}


def describe(tape: Tape) -> dict[str, Any]:
    """The JSON object of `pagetape info`."""
    rows = {name: tape.num_rows(name) for name in TABLES if name in tape.tables}
    return summary(tape) | {"tables": rows}


def flight(info: dict[str, Any]) -> str:
    """The trigger and length of a flight recorder's tape, in words; empty for other tapes."""
    facts = info["facts"].get("flight")
    if not facts:
        return ""
    value = "" if facts["value"] is None else f": {facts['value']:.4g}{facts['unit']}"
    return (
        f"{facts['trigger']}{value}, {facts['holds_s']:.1f} s of the {facts['wanted_s']:g} s wanted"
    )


def _places(info: dict[str, Any]) -> Callable[[int], str]:
    """A function that maps a snapshot's number to its place: start, between or end."""
    last = max((s["snapshot"] for s in info["snapshots"]), default=0)
    names = {0: "start", last: "end"} if last else {0: "start"}
    return lambda number: names.get(number, "between")


def moments(info: dict[str, Any]) -> str:
    """'60 moments of /proc in 59.0 s', of a tape without events."""
    nr = answer.amount(len(info["snapshots"]), "moment")
    return f"{nr} of /proc in {info['duration_s']:.1f} s"


def snapshots(info: dict[str, Any]) -> str:
    """The source of each snapshot, and the reason if it is not exact."""
    if len(info["snapshots"]) > _MANY_SNAPSHOTS:
        return f"{len(info['snapshots']):,} from /proc"
    words = {
        "none": "none",
        "proc": "from /proc",
        "mixed": "partly exact",
        "exact": "exact",
        "inferred": "from /proc and later events",
    }
    place = _places(info)
    found = [
        f"{place(s['snapshot'])} {words[s['how']]}" + (f" ({s['why']})" if s["why"] else "")
        for s in info["snapshots"]
    ]
    return ", ".join(found) or words[info["snapshot"]]


def snapshot_lines(info: dict[str, Any]) -> list[tuple[str, str]]:
    """The cost and the checks of each exact snapshot: its place and a sentence."""
    place = _places(info)
    return [
        (f"  {place(s['snapshot'])}", f"{_cost(s)}; {_checks(info, s['snapshot'])}")
        for s in info["snapshots"]
        if s["how"] in ("exact", "mixed")
    ]


def _cost(snapshot: dict[str, Any]) -> str:
    lock, held = ((snapshot[name] or 0) / 1e6 for name in ("lock_ns", "held_ns"))
    return f"zone lock held for {lock:.2f} ms, CPUs for {held:.2f} ms"


def _checks(info: dict[str, Any], number: int) -> str:
    """'33 list sums, 3 free counters, ... compared, 0 differ'."""
    rows = [row for row in info["snapshot_checks"] if row["snapshot"] == number]
    hard = [row for row in rows if row["name"] != "pcp_types"]
    kinds = ", ".join(f"{row['compared']:,} {row['name'].replace('_', ' ')}" for row in hard)
    differ = sum(row["differing"] for row in hard)
    soft = "".join(
        f"; {row['differing']:,} of {row['compared']:,} PCP pages in a list of another type"
        for row in rows
        if row["name"] == "pcp_types"
    )
    return f"{kinds} compared, {differ:,} differ{soft}"
