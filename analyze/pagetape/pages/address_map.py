# SPDX-License-Identifier: Apache-2.0
"""Where and when fallbacks happen: address upwards, time across."""

import math
from collections.abc import Sequence

from pagetape.pages import svg, timeline
from pagetape.pages.document import no_data
from pagetape.pages.section import Layout, section
from pagetape.pages.subject import GRID_LINES, Rows, Subject

TALL = 4 * GRID_LINES  # pixels
LEAST = 3  # pixels of a cell, so that it can be seen
SHADES = 5  # of a cell, by the logarithm of its count


def _shade(nr: int, top: int) -> int:
    """1 to SHADES."""
    return max(math.ceil(SHADES * math.log1p(nr) / math.log1p(top)), 1)


def _gib(pfn: int, page_size: int) -> float:
    return pfn * page_size / 2**30


def picture(rows: Rows, frame: timeline.Frame, interval_s: float, page_size: int, top: int) -> str:
    """The cells of one tape; a mark at the pointer has the counts of its interval."""
    paths: dict[int, list[str]] = {shade: [] for shade in range(1, SHADES + 1)}
    for row in (row for row in rows if row["mixing"]):
        left, right = frame.x(row["at_s"]), frame.x(row["at_s"] + interval_s)
        high, low = (frame.y(_gib(row[name], page_size)) for name in ("past_pfn", "first_pfn"))
        wide, tall = max(right - left, LEAST), max(low - high, LEAST)
        box = f"M{left:.1f} {high:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}z"
        paths[_shade(row["mixing"], top)].append(box)
    parts = timeline.axes(frame)
    for shade, path in paths.items():
        if path:
            parts.append(f'<path d="{"".join(path)}" class="shade{shade} heat"/>')
    parts += _marks(rows, frame, interval_s, page_size)
    return svg.drawing(timeline.WIDTH, frame.height, "fallbacks by address and time", parts)


def _marks(rows: Rows, frame: timeline.Frame, interval_s: float, page_size: int) -> Sequence[str]:
    """The words of each interval with fallbacks: how many, and where most of them are."""
    columns: dict[float, Rows] = {}
    for row in rows:
        columns.setdefault(row["at_s"], []).append(row)
    parts = []
    for at, cells in columns.items():
        most = max(cells, key=lambda row: (row["mixing"], row["nr"]))
        low, high = (_gib(most[name], page_size) for name in ("first_pfn", "past_pfn"))
        words = (
            f"{at:.2f} to {at + interval_s:.2f} s: {sum(row['mixing'] for row in cells):,} "
            f"fallbacks that mix, of {sum(row['nr'] for row in cells):,}; most between "
            f"{low:.2f} and {high:.2f} GiB: {most['mixing']:,}"
        )
        parts.append(timeline.hover(frame, at, at + interval_s, words))
    return parts


def fallbacks_by_address(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    """The section; empty if no tape has fallbacks."""
    grids = {s.label: s.answers["fallback_grid"] for s in subjects}
    top = max((row["mixing"] for rows in grids.values() for row in rows), default=0)
    if not top:
        return ""
    sizes = {s.label: int(s.info["facts"].get("page_size") or 4096) for s in subjects}
    ends = [_gib(row["past_pfn"], sizes[label]) for label, rows in grids.items() for row in rows]
    frame = timeline.Frame(seconds, max(ends), "address in GiB", tall=TALL)

    def draw(s: Subject) -> str:
        rows = grids[s.label]
        if not any(row["mixing"] for row in rows):
            return no_data("No fallback mixed two migratetypes.")
        return picture(rows, frame, interval_s, sizes[s.label], top)

    words = (
        f"Fallbacks that mix two migratetypes, by the address of the page and the time: "
        f"{GRID_LINES} lines of addresses, {1000 * interval_s:g} ms across. The darkest cell has "
        f"{top:,}. A row of dark cells is a place that mixes again and again; a column is a burst."
    )
    return section("Where and when fallbacks happen", words, subjects, draw, Layout())
