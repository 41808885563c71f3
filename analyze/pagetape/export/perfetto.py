# SPDX-License-Identifier: Apache-2.0
"""A tape as a timeline for ui.perfetto.dev, in Chrome's trace event format (JSON).

Perfetto's own protobuf is smaller for millions of points. A timeline has fewer points: page
events are counted by interval, and only rare events are drawn one by one. JSON needs no library.
Other viewers read it too, and people can read and compare it as text.

    one process per zone        free pages, those in blocks as large as a pageblock, watermarks
    process "page allocator"    allocations, frees, pages to and from the buddy and fallbacks
                                per second, and gaps with lost events
    one process per process     reclaim and compaction as slices of the thread that ran them,
                                fallbacks, wakeups and failed allocations as marks
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas import ZONES
from pagetape.schemas.tape import Tape

# Pid of the process "page allocator"; the zones have the pids after it. A kernel's pids are
# below 1 << 22.
_MACHINE_PID = 1 << 23

# The queries in queries/internal/perfetto/, in the order of the trace, with the kind (`ph`) of the
# events that their rows are: metadata, counters, slices and instants. A row has the pid and tid of
# its track (without a tid, the pid), name, args, a ts unless it is metadata, and a slice its ns.
_PARTS = {
    "threads": "M",
    "tracks": "M",
    "zones": "C",
    "rates": "C",
    "lost": "X",
    "runs": "X",
    "daemons": "X",
    "fallbacks": "i",
    "marks": "i",
}

MARK = b'"made_by": "pagetape"'  # in every trace

Event = dict[str, Any]


def _event(ph: str, row: dict[str, Any]) -> Event:
    """A row of a query as an event of the format: times in microseconds, without null values."""
    pid = row["pid"]
    event: Event = {"ph": ph, "pid": pid, "tid": row.get("tid", pid), "name": row["name"]}
    if ph != "M":
        event["ts"] = row["ts"] / 1e3
    if ph == "X":
        event["dur"] = row["ns"] / 1e3
    if ph == "i":
        event["s"] = "t"  # of the thread
    args = row["args"] or {}
    return event | {"args": {name: value for name, value in args.items() if value is not None}}


def events(
    tape: Tape, bin_ns: int, progress: Callable[[float], None] = lambda _share: None
) -> Iterator[Event]:
    """The events of the format; page events are counted in intervals of `bin_ns` nanoseconds."""
    values = {"machine_pid": _MACHINE_PID, "zones": list(ZONES), "bin_ns": bin_ns}
    with Database([tape]) as db:
        for nr, (part, ph) in enumerate(_PARTS.items(), 1):
            question = query.internal()[f"perfetto.{part}"]
            found = db.run(question, {p.name: values[p.name] for p in question.parameters})
            rows = (dict(zip(found.columns, row, strict=True)) for row in found.rows)
            yield from (_event(ph, row) for row in rows)
            progress(nr / len(_PARTS))


def write(
    tape: Tape,
    file: BinaryIO,
    bin_ns: int,
    progress: Callable[[float], None] = lambda _share: None,
) -> dict[str, int]:
    """Write the timeline; returns the number of its events by kind."""
    about: dict[str, Any] = {"made_by": "pagetape"}
    about |= {name: tape.facts.get(name) for name in ("kernel", "host", "cpus")}
    nr: Counter[str] = Counter()
    file.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":['.encode())
    for event in events(tape, bin_ns, progress):
        file.write(b",\n" if nr else b"\n")
        file.write(json.dumps(event, separators=(",", ":")).encode())
        nr[event["ph"]] += 1
    file.write(b"\n]}\n")
    return {"slices": nr["X"], "marks": nr["i"], "counter_values": nr["C"]}
