# SPDX-License-Identifier: Apache-2.0
"""The live view: a recording whose events are counted, not stored.

The recorder's stream is cut at every interval, like the stream of a rotating recording: every
event is in exactly one interval.

    main thread     waits, reads /proc, cuts the stream
    reader thread   counts batches; at each cut it hands over its counts
"""

import contextlib
import platform
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay, procfs
from pagetape.recording.eventsets import tracepoints
from pagetape.recording.workload import Workload
from pagetape.schemas import TABLES
from pagetape.tapes import temporary
from pagetape.tapes.loss import by_cpu

if TYPE_CHECKING:
    from pagetape._collector import Recorder, Source

# The kinds of reclaim and compaction events that are counted.
DAEMONS = ("wakeup_kswapd", "kswapd_wake", "kswapd_sleep", "direct_reclaim_begin", "mark_victim")
COMPACTION = ("begin", "wakeup_kcompactd", "kcompactd_wake")

# The orders of tasks: most pages, most fallbacks, most threads, or by name.
SORTS: dict[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    "pages": lambda row: (-row["pages"], -row["fallbacks"], row["comm"]),
    "fallbacks": lambda row: (-row["fallbacks"], -row["pages"], row["comm"]),
    "threads": lambda row: (-row["threads"], -row["pages"], row["comm"]),
    "name": lambda row: (row["comm"],),
}

_TASKS = 10  # of a sample
_ORDERS = 10  # the highest order that every sample has
_SPOOL = 256 << 20  # most bytes of uncounted events

_BITS = {name: 1 << n for n, name in enumerate(TABLES["event"].column("gfp_flags").bits)}
_GFP_KERNEL = sum(_BITS[name] for name in ("IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM"))
_KERNEL = {"gfp_flags": _GFP_KERNEL, "page_order": 0, "migratetype": "UNMOVABLE"}

Key = tuple[
    str, int | None, str | None, str | None
]  # kind, order, migratetype, fallback migratetype


@dataclass
class Counts:
    """Event counts of one interval."""

    events: Counter[Key] = field(default_factory=Counter)
    failed: int = 0  # allocations
    names: dict[int, str] = field(default_factory=dict)  # of threads, by pid
    task_pages: Counter[int] = field(default_factory=Counter)  # allocated, by pid
    task_fallbacks: Counter[int] = field(default_factory=Counter)
    others: Counter[tuple[str, str]] = field(default_factory=Counter)  # by table and kind

    def add(self, name: str, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch of `event`, `reclaim` or `compaction`."""
        kinds = batch["kind"].cast(pa.utf8())
        if name != "event":
            for kind in pc.value_counts(kinds).to_pylist():
                self.others[name, kind["values"]] += kind["counts"]
            return
        failed = pc.and_(pc.equal(kinds, "alloc"), pc.is_null(batch["pfn"]))
        self.failed += pc.sum(failed).as_py() or 0
        rows = pa.table(
            {
                "kind": kinds,
                "order": batch["page_order"],
                "for": batch["migratetype"].cast(pa.utf8()),
                "from": batch["fallback_migratetype"].cast(pa.utf8()),
                "pid": batch["pid"],
            }
        ).filter(pc.invert(failed))
        served = rows.group_by(["kind", "order", "for", "from"])
        for row in served.aggregate([([], "count_all")]).to_pylist():
            key = (row["kind"], row["order"], row["for"], row["from"])
            self.events[key] += row["count_all"]
        asked = rows.filter(pc.is_in(rows["kind"], pa.array(["alloc", "alloc_extfrag"])))
        by_task = asked.group_by(["kind", "order", "pid"]).aggregate([([], "count_all")])
        for row in by_task.to_pylist():
            if row["kind"] == "alloc":
                self.task_pages[row["pid"]] += row["count_all"] << (row["order"] or 0)
            else:
                self.task_fallbacks[row["pid"]] += row["count_all"]

    def first_tasks(self, sort: str) -> list[dict[str, Any]]:
        """Names of threads with their number, pages allocated and fallbacks: the first by `sort`,
        one of SORTS."""
        found: dict[str, dict[str, Any]] = {}
        for pid in self.task_pages | self.task_fallbacks:
            name = self.names.get(pid) or str(pid)
            row = found.setdefault(name, {"comm": name, "threads": 0, "pages": 0, "fallbacks": 0})
            row["threads"] += 1
            row["pages"] += self.task_pages[pid]
            row["fallbacks"] += self.task_fallbacks[pid]
        return sorted(found.values(), key=SORTS[sort])[:_TASKS]

    def pages(self, kind: str) -> int:
        """Pages of the events of a kind."""
        return sum(nr << (key[1] or 0) for key, nr in self.events.items() if key[0] == kind)


@dataclass(frozen=True)
class Interval:
    """One interval: its events, and the zones at its end."""

    at: datetime
    ts: int  # its end on the trace clock
    seconds: float
    lost: int | None
    counts: Counts
    zones: list[dict[str, Any]]
    counts_pages: bool = True  # every page event, not only rare ones

    def as_json(self, sort: str) -> dict[str, Any]:
        """The JSON object of one sample; names in _per_s are rates over the interval.

        A rate that is not counted is null. `sort` is that of the tasks, one of SORTS.
        """
        counts = self.counts
        allocs: Counter[int] = Counter()
        fallbacks: Counter[tuple[str, str]] = Counter()
        for (kind, order, wanted, taken), nr in counts.events.items():
            if kind == "alloc":
                allocs[order or 0] += nr
            elif kind == "alloc_extfrag":
                fallbacks[wanted or "", taken or ""] += nr
        orders = range(max(_ORDERS, *allocs, 0) + 1)
        pages = {
            "allocs_per_s": {str(order): self._rate(allocs[order]) for order in orders},
            "failed_allocs_per_s": self._rate(counts.failed),
            "freed_pages_per_s": self._rate(counts.pages("free")),
            "refill_pages_per_s": self._rate(counts.pages("alloc_zone_locked")),
            "drain_pages_per_s": self._rate(counts.pages("pcpu_drain")),
        }
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "ts": self.ts,
            "seconds": round(self.seconds, 6),
            "lost": self.lost,
            **(pages if self.counts_pages else dict.fromkeys(pages)),
            "fallbacks": [
                {"alloc_migratetype": wanted, "fallback_migratetype": taken}
                | {"per_s": self._rate(nr)}
                for (wanted, taken), nr in fallbacks.most_common()
            ],
            "reclaim_per_s": {k: self._rate(counts.others["reclaim", k]) for k in DAEMONS},
            "compaction_per_s": {k: self._rate(counts.others["compaction", k]) for k in COMPACTION},
            "tasks": [
                {
                    "comm": row["comm"],
                    "threads": row["threads"],
                    "pages_per_s": self._rate(row["pages"]) if self.counts_pages else None,
                    "fallbacks_per_s": self._rate(row["fallbacks"]),
                }
                for row in counts.first_tasks(sort)
            ],
            "zones": self.zones,
        }

    def _rate(self, nr: int) -> float:
        return round(nr / self.seconds, 3)


def zones() -> list[dict[str, Any]]:
    """Free pages and watermarks (without the boost) of every zone, now. `usable`: the free pages
    that a kernel request (GFP_KERNEL) may use, `usable_exact`: the kernel prints every count that
    this needs; otherwise there are at most so many. Null if pagetape does not know the kernel."""
    rows, _ = procfs.parse_zoneinfo(Path("/proc/zoneinfo").read_text())
    return [zone_now(row, platform.release()) for row in rows if row["managed"]]


def zone_now(row: dict[str, Any], release: str) -> dict[str, Any]:
    """One of zones(), from a row of the table `zone`."""
    usable: dict[str, int | bool | None]
    try:
        found = _replay.usable_memory(release, row, _KERNEL)
        usable = {
            "usable": max(found["pages"], 0) if found["allowed"] else 0,
            "usable_exact": found["exact"] or not found["allowed"],
        }
    except _replay.EngineError:
        usable = {"usable": None, "usable_exact": None}
    first, last = ("node", "zone", "free"), ("wmark_min", "wmark_low", "wmark_high", "boost")
    return {
        **{name: row.get(name) for name in first},
        **usable,
        **{name: row.get(name) for name in last},
    }


def _lost(source: "Source") -> int | None:
    """Events of the segment that the kernel overwrote; None if their number is unknown."""
    counts = list(by_cpu(source.lost(), source.rings()).values())
    return None if None in counts else sum(nr for nr in counts if nr is not None)


class _Reader(threading.Thread):
    """Counts the recorder's events, segment by segment."""

    def __init__(self, recorder: "Recorder", workload: Workload) -> None:
        super().__init__(name="reader", daemon=True)
        self._recorder = recorder
        self._workload = workload
        self.done: queue.SimpleQueue[tuple[Counts, int | None]] = queue.SimpleQueue()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            more = True
            while more:
                counts = Counts()
                while (found := self._recorder.read()) is not None:
                    counts.add(found[0], pa.record_batch(found[1]))
                rows = self._recorder.tasks()
                counts.names = {row["pid"]: row["comm"] for row in rows if row["comm"]}
                self.done.put((counts, _lost(self._recorder)))
                self._workload.nudge()
                more = self._recorder.next()
        except BaseException as e:  # raised again by the main thread
            self.error = e
            self._workload.stop()


def _cut(recorder: "Recorder", reader: _Reader, workload: Workload, start: int) -> Interval | None:
    """The interval from `start` to now, when all its events are counted; None after a failure."""
    recorder.hold()
    at, ts = datetime.now(UTC), time.monotonic_ns()
    recorder.cut(ts)
    state = zones()
    while reader.done.empty():
        if workload.wait() and reader.done.empty():
            return None
    counts, lost = reader.done.get()
    return Interval(at, ts, (ts - start) / 1e9, lost, counts, state)


def intervals(every: float, which: str, workload: Workload) -> Generator[Interval]:
    """Intervals of `every` seconds, one after the other, until `workload` is over: at SIGINT,
    SIGTERM, SIGHUP, or when it is stopped.

    `which` is an event set; the events of `cheap` are always counted.
    """
    from pagetape._collector import Recorder, SpoolConfig

    events = list(dict.fromkeys(tracepoints(which) + tracepoints("cheap")))
    with contextlib.ExitStack() as stack:
        spool = str(stack.enter_context(temporary.scratch("top")))
        migratetypes = procfs.live().facts.get("migratetypes", ())
        recorder = Recorder(events, SpoolConfig(spool, _SPOOL), migratetypes, prompt=True)
        stack.callback(recorder.close)
        stack.enter_context(workload.signals())
        reader = _Reader(recorder, workload)
        recorder.start()
        start = time.monotonic_ns()
        due = time.monotonic() + every
        reader.start()
        stack.callback(reader.join)
        stack.callback(recorder.stop)
        while not workload.wait(due - time.monotonic()):
            if time.monotonic() < due:
                continue
            found = _cut(recorder, reader, workload, start)
            if found is None:
                break
            yield replace(found, counts_pages=which != "cheap")
            start = found.ts
            due = max(due + every, time.monotonic())
        if reader.error:
            raise reader.error
