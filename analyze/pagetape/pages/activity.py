# SPDX-License-Identifier: Apache-2.0
"""Sections on activity: allocator traffic, the kernel's counters, and tables of reports."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from pagetape.asking import query
from pagetape.pages import svg
from pagetape.pages.document import no_data, table
from pagetape.pages.section import Layout, section, series_of
from pagetape.pages.subject import Rows, Subject

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
    nr = max(round(seconds / interval_s), 1)
    series = {}
    for s in subjects:
        rows = [
            r | {"locked": r["zone_locked"] + r["drained"]} for r in s.answers["events.over_time"]
        ]
        columns = {"allocated": "alloc_pages", "freed": "free_pages", "locked": "locked"}
        series[s.label] = {
            name: [value / interval_s for value in values]
            for name, values in series_of(rows, columns, nr, interval_s).items()
        }
    top = max(max(v) for one in series.values() for v in one.values())

    def draw(s: Subject) -> str:
        if s.info["tables"].get("event_count"):
            return no_data("This run of a sweep stored only its fallbacks, no other page events.")
        return svg.over_time(
            series[s.label], seconds=seconds, top=top, unit="pages/s", stacked=False
        )

    return section("Allocator traffic", "Pages per second.", subjects, draw, Layout(TRAFFIC))


def _held(rows: Rows, names: Iterable[str], nr: int, interval_s: float) -> dict[str, list[float]]:
    """Rates as one value per interval. A row's rate covers the time since the previous row.

    On a tape without events, rows have no time: they are left out.
    """
    rows = [row for row in rows if row["at_s"] is not None]
    at = [row["at_s"] for row in rows]
    row_of = [bisect_left(at, interval_s * (i + 0.5)) for i in range(nr)]
    return {name: [rows[r][name] if r < len(rows) else 0.0 for r in row_of] for name in names}


def samples(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    """Charts of the samples of /proc/vmstat; empty if no tape has samples."""
    rows = {s.label: s.answers["samples.rates"] for s in subjects}
    for of_tape in rows.values():
        for row in of_tape:
            row["scanned"] = row["scanned_kswapd"] + row["scanned_direct"]
            row["reclaimed"] = row["reclaimed_kswapd"] + row["reclaimed_direct"]
    nr = max(round(seconds / interval_s), 1)
    parts = []
    for title, names in (("allocation", ALLOCATED), ("reclaim", RECLAIMED)):
        series = {label: _held(found, names, nr, interval_s) for label, found in rows.items()}
        top = max(max(values) for one in series.values() for values in one.values())
        if not top:
            continue

        def draw(s: Subject, series: Any = series, top: float = top) -> str:
            if not rows[s.label]:
                return no_data("No samples." if s.side.run is None else "Not modelled.")
            return svg.over_time(
                series[s.label], seconds=seconds, top=top, unit="per second", stacked=False
            )

        words = "Samples of /proc/vmstat, for the whole machine."
        parts.append(
            section(f"The kernel's own counters: {title}", words, subjects, draw, Layout(names))
        )
    return "".join(parts)


def tables(subjects: list[Subject]) -> str:
    def rows_of(name: str, limit: int = 12) -> Callable[[Subject], str]:
        def draw(s: Subject) -> str:
            rows = s.answers[name]
            if not rows:
                return no_data("Nothing recorded." if s.side.run is None else "Not modelled.")
            return table(list(rows[0]), [list(r.values()) for r in rows[:limit]])

        return draw

    parts = (
        (
            "Fallbacks by task",
            "Tasks whose requests took pages of another migratetype.",
            "extfrag.by_task",
        ),
        (
            "Reclaim and compaction",
            "A stall is the time from begin to end of one thread.",
            "reclaim.summary",
        ),
        (
            "Per-CPU lists",
            "How well the lists avoid the zone lock, CPU by CPU.",
            "pcp.by_cpu",
        ),
        ("Allocations by task", "Tasks by pages allocated.", "alloc.by_task"),
        ("Lost events", "Gaps in the recording, CPU by CPU.", "loss"),
    )
    reports = query.reports()
    return "".join(
        section(title, words, subjects, rows_of(name), Layout(wide=True, tier=reports[name].tier))
        for title, words, name in parts
    )
