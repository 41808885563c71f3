# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page about one or more tapes.

Everything on it comes from reports; nothing is fetched, no script runs. Each
section shows the tapes beside each other on a common scale.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from pagetape import answer
from pagetape.asking import query
from pagetape.asking.comparison import Comparison, Side, compare
from pagetape.asking.database import Database, labels
from pagetape.pages import svg
from pagetape.replaying.playback import NOT_MODELLED
from pagetape.schemas import MIGRATETYPES
from pagetape.schemas.tape import Tape
from pagetape.tapes.info import describe, summary

INTERVALS = 140  # of a chart over time
STACKS = 500  # different ones, in a flame graph
BLOCKS = 128  # pageblocks in a line of the map
BLOCK_LINES = 512  # of the map of one tape: 128 GB

KINDS = {
    "steal": "steal: the block keeps its owner and is mixed now",
    "claim": "claim: the block changes owner, old pages stay in it",
    "whole": "whole: a full pageblock changes owner, nothing mixes",
}
TRAFFIC = {
    "allocated": "pages allocated",
    "freed": "pages freed",
    "locked": "pages taken or returned under the zone lock",
}
# Of samples.rates: what of the pages allocated, and of reclaim.
ALLOCATED = {
    "allocated": "pages allocated",
    "freed": "pages freed",
    "faults": "page faults",
}
RECLAIMED = {
    "scanned": "pages that reclaim looked at",
    "reclaimed": "pages that it freed",
    "migrated": "pages that compaction moved",
}
# Of frag.map.
PAGEBLOCKS = {
    "free": "free",
    "movable": "movable pages only",
    "fixed": "the kernel's own pages only",
    "foreign": "both, in a block of the kernel's",
    "polluted": "both, in a MOVABLE block: no huge page can come of it",
}
LETTERS = dict(zip(".mkxX", PAGEBLOCKS, strict=True))
ZONES = 4  # of a chart by zone

ROLES = {
    "recorded": "recorded",
    "model": "the model's account of it",
    "what-if": "what-if, with the model's error as whiskers",
}
HEADLINES = (
    "fallbacks below pageblock order",
    "fallbacks steal",
    "pages taken under the zone lock",
    "pages drained to the zone",
    "free pages at the end",
    "PCP refills",
)

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """One tape with the answers the page shows."""

    label: str
    info: dict[str, Any]
    side: Side
    answers: dict[str, Rows]

    @property
    def seconds(self) -> float:
        return float(self.info["duration_s"])

    def tier(self, least: str = "A") -> str:
        """Of numbers that are of tier `least` whatever the run."""
        return "recorded" if self.side.run is None else f"tier {max(least, self.side.run['tier'])}"


def _subject(tape: Tape, label: str, side: Side, interval_ms: int) -> Subject:
    plain = (
        "extfrag.by_migratetype",
        "extfrag.by_order",
        "extfrag.by_task",
        "extfrag.by_zone",
        "frag.indices",
        "frag.by_migratetype",
        "frag.over_time",
        "reclaim.summary",
        "pcp.by_cpu",
        "alloc.by_task",
        "samples.rates",
        "loss",
    )
    with Database([tape]) as db:
        reports = query.reports()
        answers = {name: db.run(reports[name]).objects() for name in plain}
        top = {"top": STACKS}
        answers["extfrag.by_stack"] = db.run(reports["extfrag.by_stack"], top).objects()
        wide = {"width": BLOCKS}
        answers["frag.map"] = db.run(reports["frag.map"], wide).objects()
        for name in ("extfrag.over_time", "events.over_time"):
            answers[name] = db.run(reports[name], {"interval_ms": interval_ms}).objects()
    return Subject(label, describe(tape), side, answers)


# ---- pieces of HTML


def _legend(names: dict[str, str]) -> str:
    items = "".join(
        f'<span><i style="background:var(--{name})"></i>{escape(words)}</span>'
        for name, words in names.items()
    )
    return f'<div class="legend">{items}</div>'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    numeric = [any(_is_number(row[i]) for row in rows) for i in range(len(columns))]

    def line(tag: str, values: Sequence[Any]) -> str:
        cells = []
        for value, number in zip(values, numeric, strict=True):
            words = f"{value:,}" if isinstance(value, int) and number else answer.cell(value)
            cells.append(f"<{tag}{' class=n' if number else ''}>{escape(words)}</{tag}>")
        return f"<tr>{''.join(cells)}</tr>"

    lines = "".join(line("td", row) for row in rows)
    return f'<div class="scroll"><table>{line("th", columns)}{lines}</table></div>'


def _section(
    title: str,
    words: str,
    subjects: list[Subject],
    draw: Callable[[Subject], str],
    legend: dict[str, str] | None = None,
    wide: bool = False,
    tier: str = "A",
) -> str:
    figures = "".join(
        f"<figure><h3>{escape(s.label)} <span class=tier>{s.tier(tier)}</span></h3>"
        f"{draw(s)}</figure>"
        for s in subjects
    )
    key = _legend(legend) if legend else ""
    return (
        f"<section><h2>{escape(title)}</h2><p>{words}</p>{key}"
        f"<div class='side{' wide' if wide else ''}'>{figures}</div></section>"
    )


def _nothing(words: str) -> str:
    return f"<p>{escape(words)}</p>"


# ---- sections


def _events(tables: dict[str, int]) -> str:
    """Rows of `event`, and whether these are only fallbacks."""
    return f"{tables.get('event', 0):,}{' fallbacks' if tables.get('event_count') else ''}"


def _machine(subjects: list[Subject]) -> str:
    cards = []
    for s in subjects:
        info, facts = s.info, s.info["facts"]
        lost = "unknown" if s.side.loss.total is None else f"{s.side.loss.total:,}"
        by_cpu = ", ".join(f"CPU {c}: {answer.cell(n)}" for c, n in s.side.loss.by_cpu.items())
        run = s.side.run
        lines = [
            ("tape", s.label, False),
            (
                "is",
                "a recording"
                if run is None
                else f"a replay: kernel {run['kernel']}, {' + '.join(run['policies'])},"
                f" reclaim {run['reclaim']}",
                False,
            ),
            ("kernel", info["kernel"] or "unknown", False),
            ("host", " ".join(filter(None, map(facts.get, ("host", "arch")))) or "unknown", False),
            ("CPUs, nodes", f"{answer.cell(info['cpus'])}, {answer.cell(info['nodes'])}", False),
            ("pageblock order", answer.cell(facts.get("pageblock_order")), False),
            ("duration", f"{s.seconds:.3f} s", False),
            ("page events", _events(info["tables"]), False),
            ("events lost", lost + (f" ({by_cpu})" if by_cpu else ""), s.side.loss.total != 0),
        ]
        if run is not None:
            lines.append(("anomalies", f"{s.side.loss.anomalies:,}", False))
        cards.append(
            "<dl>"
            + "".join(
                f"<dt>{escape(name)}</dt><dd{' class=bad' if bad else ''}>{escape(words)}</dd>"
                for name, words, bad in lines
            )
            + "</dl>"
        )
    return f"<div class=side>{''.join(cards)}</div>"


def _change(found: Comparison, label: str, metric: int) -> tuple[str, bool]:
    difference = found.metrics[metric].differences[label]
    if difference is None:
        return "-", False
    if difference.value == 0:
        return "same", True
    percent = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    within = bool(difference.within_model_error)
    return f"{difference.value:+,}{percent}{' within model error' if within else ''}", within


def _comparison(found: Comparison) -> str:
    head = ["<th>metric</th><th>tier</th>"]
    for i, side in enumerate(found.sides):
        head.append(f"<th class=n>{escape(side.label)}</th>")
        if i:
            head.append(f"<th>against {escape(found.references[side.label])}</th>")
    if found.error_of:
        head.append("<th class=n>model error</th>")
    lines = []
    for i, metric in enumerate(found.metrics):
        if not any(metric.values.values()):
            continue
        cells = [f"<td>{escape(metric.name)}</td><td>{metric.tier}</td>"]
        for j, side in enumerate(found.sides):
            value = metric.values[side.label]
            cells.append(f"<td class=n>{'-' if value is None else f'{value:,}'}</td>")
            if j:
                words, within = _change(found, side.label, i)
                cells.append(f"<td{' class=within' if within else ''}>{escape(words)}</td>")
        if found.error_of:
            error = "-" if metric.error is None else f"{metric.error:,}"
            cells.append(f"<td class=n>{error}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        "<details><summary>Every metric</summary><div class=scroll><table>"
        f"<tr>{''.join(head)}</tr>{''.join(lines)}</table></div></details>"
    )


def _side_by_side(found: Comparison) -> str:
    charts = []
    for metric in found.metrics:
        bars = [
            svg.Bar(side.label, value, side.role, metric.error if side.role == "what-if" else None)
            for side in found.sides
            if (value := metric.values[side.label]) is not None
        ]
        if metric.name in HEADLINES and len(bars) > 1:
            tier = f"<span class=tier>tier {metric.tier}</span>"
            charts.append(f"<figure><h3>{tier}</h3>{svg.bars(metric.name, bars)}</figure>")
    words = (
        "The distance between a recording and its replay under its own kernel's rules is the "
        "model's error. A what-if that differs from the model by no more than that proves "
        "nothing."
    )
    roles = {name: ROLES[name] for name in dict.fromkeys(side.role for side in found.sides)}
    return (
        f"<h2>Side by side</h2><p>{words}</p>{_legend(roles)}"
        f"<div class=side>{''.join(charts)}</div>{_comparison(found)}"
    )


def _by_migratetype(subjects: list[Subject]) -> str:
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
            names,
            names,
            by_label[s.label],
            top=top,
            row_title="asked for",
            column_title="taken from",
            missing=[(name, name) for name in names],
        )

    return _section(
        "Which migratetypes mix",
        "Fallbacks below pageblock order: two migratetypes came to share a pageblock. "
        "UNMOVABLE and RECLAIMABLE taken from MOVABLE hurt most: compaction cannot undo them.",
        subjects,
        draw,
    )


def _summed(rows: Iterable[dict[str, Any]], row: str, column: str) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for r in rows:
        key = (str(r[row]), str(r[column]))
        counts[key] = counts.get(key, 0) + r["nr"]
    return counts


def _by_order(subjects: list[Subject]) -> str:
    counts = [
        _summed(s.answers["extfrag.by_order"], "alloc_order", "fallback_order") for s in subjects
    ]
    top = max((n for c in counts for n in c.values()), default=0)
    asked = max((int(a) for c in counts for a, _ in c), default=0)
    orders = max(int(s.info["facts"].get("nr_orders") or 11) for s in subjects)
    by_label = dict(zip((s.label for s in subjects), counts, strict=True))

    def draw(s: Subject) -> str:
        return svg.heat_map(
            [str(o) for o in range(asked + 1)],
            [str(o) for o in range(orders)],
            by_label[s.label],
            top=top,
            row_title="asked",
            column_title="order taken",
            cell=(42, 28),
            boundary=s.info["facts"].get("pageblock_order"),
            missing=[(str(a), str(f)) for a in range(asked + 1) for f in range(a)],
        )

    return _section(
        "Orders asked for and taken",
        "Right of the line a whole pageblock changed owner. Far left, only scraps were left "
        "to raid and the next fallback is near.",
        subjects,
        draw,
    )


def _series(
    rows: Rows, names: dict[str, str], nr: int, interval_s: float
) -> dict[str, list[float]]:
    """Column names[k] of rows as one value per interval, for each class k."""
    series = {name: [0.0] * nr for name in names}
    for row in rows:
        i = min(round(row["at_s"] / interval_s), nr - 1)
        for name, column in names.items():
            series[name][i] += row[column]
    return series


def _extfrag_over_time(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    nr = max(round(seconds / interval_s), 1)
    columns = {name: name for name in KINDS}
    series = {
        s.label: _series(s.answers["extfrag.over_time"], columns, nr, interval_s) for s in subjects
    }
    top = max(sum(v[i] for v in one.values()) for one in series.values() for i in range(nr))

    def draw(s: Subject) -> str:
        return svg.over_time(
            series[s.label], seconds=seconds, top=top, unit="fallbacks", stacked=True
        )

    words = f"Fallbacks per {1000 * interval_s:g} ms."
    return _section("Fallbacks over time", words, subjects, draw, KINDS)


def _traffic(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    nr = max(round(seconds / interval_s), 1)
    series = {}
    for s in subjects:
        rows = [
            r | {"locked": r["zone_locked"] + r["drained"]} for r in s.answers["events.over_time"]
        ]
        columns = {"allocated": "alloc_pages", "freed": "free_pages", "locked": "locked"}
        series[s.label] = {
            name: [value / interval_s for value in values]
            for name, values in _series(rows, columns, nr, interval_s).items()
        }
    top = max(max(v) for one in series.values() for v in one.values())

    def draw(s: Subject) -> str:
        if s.info["tables"].get("event_count"):
            return _nothing("This run of a sweep kept no events but its fallbacks.")
        return svg.over_time(
            series[s.label], seconds=seconds, top=top, unit="pages/s", stacked=False
        )

    return _section("Allocator traffic", "Pages per second.", subjects, draw, TRAFFIC)


def _held(rows: Rows, names: Iterable[str], nr: int, interval_s: float) -> dict[str, list[float]]:
    """Rates, each of which holds from the row before to its own, as one value per interval."""
    at = [row["at_s"] for row in rows]
    row_of = [bisect_left(at, interval_s * (i + 0.5)) for i in range(nr)]
    return {name: [rows[r][name] if r < len(rows) else 0.0 for r in row_of] for name in names}


def _samples(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    """Nothing where no tape has samples."""
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
                return _nothing("No samples." if s.side.run is None else "Not modelled.")
            return svg.over_time(
                series[s.label], seconds=seconds, top=top, unit="a second", stacked=False
            )

        words = "From the samples of /proc/vmstat that a recording takes; of the whole machine."
        parts.append(_section(f"The kernel's own counters: {title}", words, subjects, draw, names))
    return "".join(parts)


def _free_memory(subjects: list[Subject]) -> str:
    def draw(s: Subject) -> str:
        rows = s.answers["frag.indices"]
        if not rows:
            return _nothing("No snapshot on this tape.")
        last = max(r["snapshot"] for r in rows)
        values = {}
        for r in rows:
            when = "end" if r["snapshot"] == last and last else "start"
            zone = f"{r['node']} {r['zone']} {when}"
            values[zone, str(r["page_order"])] = r["unusable_free"]
        return svg.heat_map(
            list(dict.fromkeys(zone for zone, _ in values)),
            list(dict.fromkeys(order for _, order in values)),
            values,
            top=1000,
            row_title="node, zone",
            column_title="order",
            cell=(42, 28),
            linear=True,
        )

    return _section(
        "Free memory too scattered to use",
        "Share of free memory, in thousandths, in blocks too small for an order "
        "(<code>unusable_free_index</code> of the kernel).",
        subjects,
        draw,
    )


def _state(rows: Rows, nr: int, interval_s: float) -> list[float]:
    """unusable_free of one zone, in percent, as one value per interval: the last one known."""
    at = [row["at_s"] for row in rows]
    row_of = [max(bisect_right(at, interval_s * (i + 1)) - 1, 0) for i in range(nr)]
    return [rows[r]["unusable_free"] / 10 for r in row_of]


def _indices(subjects: list[Subject], seconds: float, interval_s: float) -> str:
    """Nothing where no tape tells of more than its snapshots."""
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
    nr = max(round(seconds / interval_s), 1)

    def draw(s: Subject) -> str:
        series = {}
        for key, name in legend.items():
            rows = s.answers["frag.over_time"]
            of_zone = [r for r in rows if f"node {r['node']} {r['zone']}" == name]
            if of_zone:
                series[key] = _state(of_zone, nr, interval_s)
        if not series:
            return _nothing("Not sampled.")
        return svg.over_time(series, seconds=seconds, top=100, unit="%", stacked=False)

    words = (
        "Share of free memory in blocks smaller than a pageblock, in percent: above 90 % of a node "
        "proactive compaction starts. Pages on per-CPU lists are not free."
    )
    return _section("Fragmentation over time", words, subjects, draw, legend)


def _pageblocks(subjects: list[Subject]) -> str:
    """Nothing where no tape tells what its pageblocks hold."""
    if not any(s.answers["frag.map"] for s in subjects):
        return ""

    def draw(s: Subject) -> str:
        zones: dict[str, list[str]] = {}
        for row in s.answers["frag.map"]:
            zones.setdefault(f"node {row['node']} {row['zone']}", []).append(row["line"])
        if not zones:
            return _nothing("No snapshot on this tape tells it.")
        if len(s.answers["frag.map"]) > BLOCK_LINES:
            return _nothing("Too many for a picture: see the reports frag.map, frag.pageblocks.")
        return "".join(
            f"<p>{escape(zone)}</p>{svg.block_map(lines, LETTERS, BLOCKS)}"
            for zone, lines in zones.items()
        )

    words = (
        "Every pageblock, lowest address first, at the last snapshot that tells what it holds: "
        "for a replay its end. A page on an LRU list counts as movable."
    )
    return _section("What the pageblocks hold", words, subjects, draw, PAGEBLOCKS, wide=True)


def _stacks(subjects: list[Subject]) -> str:
    """Nothing where no tape has stacks."""
    known = {
        s.label: [(row["folded"], row["nr"]) for row in s.answers["extfrag.by_stack"]]
        for s in subjects
        if s.info["stacks"]
    }
    if not any(known.values()):
        return ""

    def draw(s: Subject) -> str:
        stacks = known.get(s.label)
        return svg.icicle(stacks, "fallbacks") if stacks else _nothing("No stacks on this tape.")

    return _section(
        "What code falls back",
        "Kernel stacks of all fallbacks: below each function the ones it called, as wide as the "
        "fallbacks that came of it.",
        subjects,
        draw,
        wide=True,
    )


def _tables(subjects: list[Subject]) -> str:
    def rows_of(name: str, limit: int = 12) -> Callable[[Subject], str]:
        def draw(s: Subject) -> str:
            rows = s.answers[name]
            if not rows:
                return _nothing("Nothing recorded." if s.side.run is None else "Not modelled.")
            return _table(list(rows[0]), [list(r.values()) for r in rows[:limit]])

        return draw

    parts = (
        ("Who falls back", "Tasks whose requests raided another migratetype.", "extfrag.by_task"),
        ("Reclaim and compaction", "Stalls are paired begin to end per thread.", "reclaim.summary"),
        (
            "Per-CPU lists",
            "Pages that stay off the zone lock, CPU by CPU.",
            "pcp.by_cpu",
        ),
        ("Who allocates", "Tasks by pages allocated.", "alloc.by_task"),
        ("What was lost", "Gaps in the recording, CPU by CPU.", "loss"),
    )
    reports = query.reports()
    return "".join(
        _section(title, words, subjects, rows_of(name), wide=True, tier=reports[name].tier)
        for title, words, name in parts
    )


def page(tapes: Sequence[Tape]) -> str:
    """The page's HTML; the first tape is the base of the comparison."""
    found = compare(tapes)
    seconds = max((summary(tape)["duration_s"] for tape in tapes), default=0.0)
    interval_ms = max(round(1000 * seconds / INTERVALS), 1)
    subjects = [
        _subject(tape, label, side, interval_ms)
        for tape, label, side in zip(tapes, labels(tapes), found.sides, strict=True)
    ]
    seconds = max(seconds, interval_ms / 1000)
    title = ", ".join(s.label for s in subjects)
    return document(
        title,
        [
            f"<h1>{escape(title)}</h1>",
            "<p>What the Linux page allocator did, and what it would have done.</p>",
            _machine(subjects),
            _side_by_side(found) if len(subjects) > 1 else "",
            "<main class=one>" if len(subjects) == 1 else "<main>",
            _by_migratetype(subjects),
            _by_order(subjects),
            _extfrag_over_time(subjects, seconds, interval_ms / 1000),
            _traffic(subjects, seconds, interval_ms / 1000),
            _samples(subjects, seconds, interval_ms / 1000),
            _free_memory(subjects),
            _indices(subjects, seconds, interval_ms / 1000),
            _pageblocks(subjects),
            _stacks(subjects),
            _tables(subjects),
            "</main>",
        ],
    )


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page: what stands around the parts."""
    footer = (
        f"<footer>pagetape {version('pagetape')}. Tier A: placement, the model's choices "
        "under the recorded requests. Tier B: depends on feedback of reclaim and compaction, "
        "which R1 and R2 model and R0 only counts. Not modelled: "
        f"{', '.join(NOT_MODELLED)}.</footer>"
    )
    css = files("pagetape.pages").joinpath("page.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} - pagetape</title><style>{css}</style></head>"
        f"<body>{''.join(parts)}{footer}</body></html>\n"
    )
