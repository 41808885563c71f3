# SPDX-License-Identifier: Apache-2.0
"""Sections on fallbacks: by migratetype, order, time and kernel code."""

from collections.abc import Iterable
from typing import Any

from pagetape.pages import svg, timeline
from pagetape.pages.document import no_data
from pagetape.pages.section import Layout, intervals, section, series_of
from pagetape.pages.subject import Subject
from pagetape.schemas import MIGRATETYPES

KINDS = {
    "steal": "steal: the block does not change its migratetype and is now mixed",
    "claim": "claim: the block changes its migratetype, old pages stay in it",
    "whole": "whole: a full pageblock changes its migratetype, nothing mixes",
}


def by_migratetype(subjects: list[Subject]) -> str:
    counts = [
        _summed(
            (r for r in s.answers["extfrag.by_migratetype"] if r["below_pageblock"]),
            "alloc_migratetype",
            "fallback_migratetype",
        )
        for s in subjects
    ]
    top = max((n for c in counts for n in c.values()), default=0)
    used = {name for c in counts for pair in c for name in pair}
    names = [m for m in MIGRATETYPES if m in used or m in MIGRATETYPES[:3]]
    by_label = dict(zip((s.label for s in subjects), counts, strict=True))

    def draw(s: Subject) -> str:
        return svg.heat_map(
            svg.Axis("requested", names),
            svg.Axis("taken from", names),
            by_label[s.label],
            svg.Heat(top, missing=[(name, name) for name in names]),
        )

    return section(
        "Which migratetypes mix",
        "Fallbacks below pageblock order: they mix two migratetypes in a pageblock. "
        "UNMOVABLE and RECLAIMABLE taken from MOVABLE do the most harm: compaction cannot undo it.",
        subjects,
        draw,
    )


def by_order(subjects: list[Subject]) -> str:
    counts = [
        _summed(s.answers["extfrag.by_order"], "alloc_order", "fallback_order") for s in subjects
    ]
    top = max((n for c in counts for n in c.values()), default=0)
    asked = max((int(a) for c in counts for a, _ in c), default=0)
    orders = max(int(s.info["facts"].get("nr_orders") or 11) for s in subjects)
    by_label = dict(zip((s.label for s in subjects), counts, strict=True))

    def draw(s: Subject) -> str:
        return svg.heat_map(
            svg.Axis("requested", [str(o) for o in range(asked + 1)]),
            svg.Axis("order taken", [str(o) for o in range(orders)]),
            by_label[s.label],
            svg.Heat(
                top,
                cell=(42, 28),
                boundary=s.info["facts"].get("pageblock_order"),
                missing=[(str(a), str(f)) for a in range(asked + 1) for f in range(a)],
            ),
        )

    return section(
        "Orders requested and taken",
        "Right of the line, a whole pageblock changed its migratetype. Far left, only small "
        "free pages were left, and the next fallback follows soon.",
        subjects,
        draw,
    )


def _summed(rows: Iterable[dict[str, Any]], row: str, column: str) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for r in rows:
        key = (str(r[row]), str(r[column]))
        counts[key] = counts.get(key, 0) + r["nr"]
    return counts


def by_time(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    nr = intervals(seconds, interval_s)
    columns = {name: name for name in KINDS}
    series = {
        s.label: series_of(s.answers["extfrag.over_time"], columns, nr, interval_s)
        for s in subjects
    }
    top = max(sum(v[i] for v in one.values()) for one in series.values() for i in range(nr))
    unit = f"fallbacks per {1000 * interval_s:g} ms"

    def draw(s: Subject) -> str:
        found = {k: timeline.equal(v, interval_s, s.seconds) for k, v in series[s.label].items()}
        return timeline.chart(found, timeline.Frame(seconds, top, unit), stacked=True)

    words = f"Fallbacks per {1000 * interval_s:g} ms."
    return section("Fallbacks over time", words, subjects, draw, Layout(KINDS))


def stacks(subjects: list[Subject]) -> str:
    """Flame graphs of the stacks; empty if no tape has any."""
    known = {
        s.label: [(row["folded"], row["nr"]) for row in s.answers["extfrag.by_stack"]]
        for s in subjects
        if s.info["stacks"]
    }
    if not any(known.values()):
        return ""

    def draw(s: Subject) -> str:
        stacks = known.get(s.label)
        return svg.icicle(stacks, "fallbacks") if stacks else no_data("No stacks on this tape.")

    return section(
        "Kernel code that causes fallbacks",
        "Kernel stacks of all fallbacks. Callees are below their callers; the width is the "
        "number of fallbacks.",
        subjects,
        draw,
        Layout(wide=True),
    )
