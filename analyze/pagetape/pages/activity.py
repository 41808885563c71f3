# SPDX-License-Identifier: Apache-2.0
"""Sections on activity: allocator traffic, the kernel's counters, and tables of reports."""

from collections.abc import Callable, Iterable
from typing import Any

from pagetape.asking import query
from pagetape.pages import timeline
from pagetape.pages.document import no_data, table
from pagetape.pages.section import Layout, intervals, section, series_of
from pagetape.pages.subject import Rows, Subject
from pagetape.pages.timeline import Segment

TRAFFIC = {
    "allocated": "pages allocated",
    "freed": "pages freed",
    "locked": "pages taken or returned under the zone lock",
}
ALLOCATED = {
    "allocated": "pages allocated",
    "freed": "pages freed",
    "faults": "page faults",
}
RECLAIMED = {
    "scanned": "pages scanned by reclaim",
    "reclaimed": "pages reclaimed",
    "migrated": "pages migrated",
}


def traffic(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    nr = intervals(seconds, interval_s)
    columns = {"allocated": "alloc_pages", "freed": "free_pages", "locked": "locked"}
    series: dict[str, dict[str, list[Segment]]] = {}
    for s in subjects:
        rows = [
            r | {"locked": r["zone_locked"] + r["drained"]} for r in s.answers["events.over_time"]
        ]
        series[s.label] = {
            name: [
                segment._replace(value=segment.value / (segment.end - segment.begin))
                for segment in timeline.equal(values, interval_s, s.seconds)
            ]
            for name, values in series_of(rows, columns, nr, interval_s).items()
        }
    # The last interval may be so short that its rate means nothing.
    for one in series.values():
        for name, segments in one.items():
            if len(segments) > 1 and segments[-1].end - segments[-1].begin < interval_s / 2:
                one[name] = segments[:-1]
    frame = timeline.Frame(seconds, _largest(series.values()), "pages per second")

    def draw(s: Subject) -> str:
        if s.info["tables"].get("event_count"):
            return no_data("This run of a sweep stored only its fallbacks, no other page events.")
        return timeline.chart(series[s.label], frame)

    words = f"Pages per second, averages over {1000 * interval_s:g} ms."
    return section("Allocator traffic", words, subjects, draw, Layout(TRAFFIC))


def _largest(series: Iterable[dict[str, list[Segment]]]) -> float:
    return max((s.value for one in series for line in one.values() for s in line), default=0.0)


def _sampled(rows: Rows, name: str) -> list[Segment]:
    """Rates with the time that each covers: from the previous sample to its own.

    On a tape without events, rows have no time: they are left out.
    """
    return [
        Segment(r["at_s"] - r["over_s"], r["at_s"], r[name]) for r in rows if r["at_s"] is not None
    ]


def samples(subjects: list[Subject], seconds: float) -> str:
    """Charts of the samples of /proc/vmstat; empty if no tape has samples."""
    rows = {s.label: s.answers["samples.rates"] for s in subjects}
    for of_tape in rows.values():
        for row in of_tape:
            row["scanned"] = row["scanned_kswapd"] + row["scanned_direct"]
            row["reclaimed"] = row["reclaimed_kswapd"] + row["reclaimed_direct"]
    parts = []
    for title, names in (("allocation", ALLOCATED), ("reclaim", RECLAIMED)):
        series = {
            label: {name: _sampled(found, name) for name in names} for label, found in rows.items()
        }
        frame = timeline.Frame(seconds, _largest(series.values()), "per second", dots=True)
        if not frame.top:
            continue

        def draw(s: Subject, series: Any = series, frame: timeline.Frame = frame) -> str:
            if not rows[s.label]:
                return no_data("No samples." if s.side.run is None else "Not modelled.")
            return timeline.chart(series[s.label], frame)

        words = (
            "Samples of /proc/vmstat, for the whole machine. A dot is a sample; the line before it "
            "is the average since the previous sample."
        )
        parts.append(
            section(f"The kernel's own counters: {title}", words, subjects, draw, Layout(names))
        )
    return "".join(parts)


LISTS = {
    "all_pages": "pages on all per-CPU lists",
    "fullest": "of these, pages of the fullest CPU",
    "limit_pages": "what the lists may hold (high)",
}


def list_lengths(subjects: list[Subject], seconds: float) -> str:
    """How full the per-CPU lists are; empty if no tape is a replay."""
    rows = {s.label: s.answers["list_lengths"] for s in subjects}
    if not any(rows.values()):
        return ""
    series = {
        label: {name: [Segment(r["at_s"], r["until_s"], r[name]) for r in found] for name in LISTS}
        for label, found in rows.items()
    }
    frame = timeline.Frame(seconds, _largest(series.values()), "pages")

    def draw(s: Subject) -> str:
        if not rows[s.label]:
            return no_data("No event shows the lengths of the lists: a replay has them.")
        return timeline.chart(series[s.label], frame, LISTS)

    words = (
        "Pages that are free, but only for one CPU: means of each interval. Where the lists stay "
        "below their high, a larger high changes nothing."
    )
    return section("Pages on per-CPU lists", words, subjects, draw, Layout(LISTS))


ROWS = 200  # of a table

TABLES = (
    (
        "Fallbacks by task",
        "Tasks whose requests took pages of another migratetype.",
        "extfrag.by_task",
        {
            "comm": "task",
            "cgroup": "control group",
            "alloc_migratetype": "requested",
            "in_interrupt": "in interrupt",
            "processes": "processes",
            "below_pageblock": "fallbacks that mix",
            "nr": "all fallbacks",
        },
    ),
    (
        "Reclaim and compaction",
        "A stall is the time from begin to end of one thread.",
        "reclaim.summary",
        {
            "what": "activity",
            "nr": "runs",
            "pages": "pages",
            "total_ms": "total, ms",
            "p50_ms": "median, ms",
            "p99_ms": "99th percentile, ms",
            "max_ms": "longest, ms",
        },
    ),
    (
        "Per-CPU lists",
        "How well the lists avoid the zone lock, CPU by CPU.",
        "pcp.by_cpu",
        {
            "cpu": "CPU",
            "allocs": "allocations",
            "refilled": "pages refilled",
            "buddy": "pages under the zone lock",
            "drained": "pages drained",
            "recycled_percent": "served by the lists, %",
        },
    ),
    (
        "Zone locks",
        "Load of each zone lock, from the model of <code>--policy zone_lock</code>; without it, "
        "only how often the lock was taken.",
        "zone_lock",
        {
            "node": "node",
            "zone": "zone",
            "holds_per_s": "taken, per s",
            "mean_hold_us": "mean hold, us",
            "utilisation": "share of time held",
            "mean_wait_us": "mean wait, us",
            "p99_wait_us": "99th percentile of waits, us",
            "verdict": "verdict",
        },
    ),
    (
        "Allocations by task",
        "Tasks by pages allocated.",
        "alloc.by_task",
        {
            "comm": "task",
            "threads": "threads",
            "allocs": "allocations",
            "pages": "pages",
            "high_order": "of order 1 or more",
            "interrupt": "in interrupt",
            "frees": "frees",
        },
    ),
    (
        "Lost events",
        "Gaps in the recording, CPU by CPU.",
        "loss",
        {
            "cpu": "CPU",
            "gaps": "gaps",
            "lost": "events lost",
            "gap_ms": "in gaps, ms",
            "read": "events read",
            "overrun": "overwritten",
            "commit_overrun": "lost to nested writers",
            "dropped": "dropped",
        },
    ),
)


def tables(subjects: list[Subject]) -> str:
    def rows_of(name: str, heads: dict[str, str]) -> Callable[[Subject], str]:
        def draw(s: Subject) -> str:
            rows = s.answers[name]
            if not rows:
                modelled = s.side.run is not None or name == "zone_lock"
                return no_data("Not modelled." if modelled else "Nothing recorded.")
            cells = [[row[column] for column in heads] for row in rows[:ROWS]]
            more = f"The first {ROWS} of {len(rows):,} rows." if len(rows) > ROWS else ""
            return table(list(heads.values()), cells) + (no_data(more) if more else "")

        return draw

    reports = query.reports()
    modelled = any(s.answers["zone_lock"] for s in subjects)
    return "".join(
        section(
            title,
            words,
            subjects,
            rows_of(name, heads),
            Layout(wide=True, tier=reports[name].tier),
        )
        for title, words, name, heads in TABLES
        if modelled or name != "zone_lock"
    )
