# SPDX-License-Identifier: Apache-2.0
"""Sections on free memory: fragmentation indices and the contents of pageblocks."""

from pagetape.answer import markup
from pagetape.pages import svg, timeline
from pagetape.pages.document import no_data
from pagetape.pages.section import Layout, section
from pagetape.pages.subject import BLOCKS, Rows, Subject
from pagetape.pages.timeline import Segment

Line = tuple[str, str]  # address and letters
BLOCK_LINES = 512  # of the map of one tape: 128 GB
PAGEBLOCKS = {
    "free": "free",
    "movable": "movable pages only",
    "fixed": "kernel pages only",
    "foreign": "both, in a block that is not MOVABLE",
    "polluted": "both, in a MOVABLE block: it cannot become a huge page",
    "unknown": "unknown: pages changed while the block was read",
}
LETTERS = dict(zip(".mkxX?", PAGEBLOCKS, strict=True))
ZONES = 4  # of a chart by zone


def _by_order(s: Subject, column: str) -> dict[tuple[str, str], int]:
    """A column of the indices by (node, zone and moment; order)."""
    rows = s.answers["frag.indices"]
    last = max((r["snapshot"] for r in rows), default=0)
    return {
        (
            f"{r['node']} {r['zone']} {'end' if r['snapshot'] == last and last else 'start'}",
            str(r["page_order"]),
        ): r[column]
        for r in rows
    }


def _orders(s: Subject, column: str, heat: svg.Heat) -> str:
    values = _by_order(s, column)
    if not values:
        return no_data("No snapshot on this tape.")
    return svg.heat_map(
        svg.Axis("node, zone", list(dict.fromkeys(zone for zone, _ in values))),
        svg.Axis("order", list(dict.fromkeys(order for _, order in values))),
        values,
        heat,
    )


def free_memory(subjects: list[Subject]) -> str:
    """Free blocks and unusable free memory, by order."""
    top = max((nr for s in subjects for nr in _by_order(s, "nr_free").values()), default=0)
    blocks = section(
        "Free blocks by order",
        "Free blocks of each order, at the first and the last snapshot; pages on per-CPU lists do "
        "not count.",
        subjects,
        lambda s: _orders(s, "nr_free", svg.Heat(top, cell=(42, 28))),
    )
    unusable = section(
        "Unusable free memory",
        "Share of free memory, in thousandths, in blocks too small for an order "
        "(the kernel's <code>unusable_free_index</code>).",
        subjects,
        lambda s: _orders(s, "unusable_free", svg.Heat(1000, cell=(42, 28), linear=True)),
    )
    return blocks + unusable


def _state(rows: Rows, end: float) -> list[Segment]:
    """unusable_free of one zone, in percent; each row holds until the next one."""
    at = [row["at_s"] for row in rows]
    return [
        Segment(begin, until, row["unusable_free"] / 10)
        for row, begin, until in zip(rows, at, [*at[1:], max(end, at[-1])], strict=True)
    ]


def indices(subjects: list[Subject], seconds: float) -> str:
    """The indices over time; empty if no tape has moments between its snapshots."""
    zones: dict[str, int] = {}
    for s in subjects:
        for row in s.answers["frag.over_time"]:
            name = f"node {row['node']} {row['zone']}"
            zones[name] = max(row["free_pages"], zones.get(name, 0))
    if not zones:
        return ""
    large = [name for name in zones if 100 * zones[name] >= max(zones.values())]
    largest = sorted(sorted(large, key=lambda name: -zones[name])[:ZONES])
    legend = {f"zone{i}": name for i, name in enumerate(largest)}

    def draw(s: Subject) -> str:
        series = {}
        for key, name in legend.items():
            # On a tape without events, rows have no time.
            rows = [r for r in s.answers["frag.over_time"] if r["at_s"] is not None]
            of_zone = [r for r in rows if f"node {r['node']} {r['zone']}" == name]
            if of_zone:
                series[key] = _state(of_zone, s.seconds)
        if not series:
            return no_data("Not sampled.")
        frame = timeline.Frame(seconds, 100, "% of free memory", points=s.side.run is None)
        return timeline.chart(series, frame, legend)

    words = (
        "Share of free memory in blocks smaller than a pageblock, in percent. Proactive compaction "
        "starts if a node is above 90 %. Pages on per-CPU lists do not count as free. A dot is a "
        "sample of a recording: between two dots the value is not known."
    )
    return section("Fragmentation over time", words, subjects, draw, Layout(legend))


def _moment(s: Subject, rows: Rows, snapshot: int) -> str:
    """The maps of all zones at one snapshot."""
    zones: dict[str, list[Line]] = {}
    page_size = int(s.info["facts"].get("page_size") or 4096)
    for row in rows:
        if row["snapshot"] == snapshot:
            address = f"{row['pfn'] * page_size / 2**30:.2f}"
            zones.setdefault(f"node {row['node']} {row['zone']}", []).append((address, row["line"]))
    last = max(row["snapshot"] for row in rows)
    name = "start" if not snapshot else "end" if snapshot == last else f"snapshot {snapshot}"
    maps = "".join(
        f"<p>{markup(zone)}, {name}</p>{svg.block_map(lines, LETTERS, BLOCKS)}"
        for zone, lines in zones.items()
    )
    return f'<div class=moment data-name="{name}">{maps}</div>'


def pageblocks(subjects: list[Subject]) -> str:
    """Maps of the pageblocks; empty if no tape records their contents."""
    if not any(s.answers["frag.map"] for s in subjects):
        return ""

    def draw(s: Subject) -> str:
        rows = s.answers["frag.map"]
        if not rows:
            return no_data("No snapshot on this tape records it.")
        snapshots = list(dict.fromkeys(r["snapshot"] for r in rows))
        if len(rows) > BLOCK_LINES * len(snapshots):
            return no_data(
                "Too many pageblocks for a picture: see the reports frag.map and frag.pageblocks."
            )
        moments = "".join(_moment(s, rows, nr) for nr in snapshots)
        return f"<div class=moments>{moments}</div>"

    words = (
        "Every pageblock, lowest address first, at each snapshot that records page use; for a "
        "replay, at its start and end. The address in GiB is at the left of each "
        "line. A page on an LRU list counts as movable."
    )
    return section(
        "Contents of the pageblocks", words, subjects, draw, Layout(PAGEBLOCKS, wide=True)
    )
