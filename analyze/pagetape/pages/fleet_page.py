# SPDX-License-Identifier: Apache-2.0
"""The page of a fleet: what its archive covers, cohorts side by side, regressions, worst hosts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pagetape.answer import Answer, markup
from pagetape.pages import svg
from pagetape.pages.document import document, legend, no_data, table
from pagetape.pages.timeline import WIDTH, Frame, grid

_PERCENTILES = {"p50": "median over hosts", "p90": "90th percentile", "p99": "99th percentile"}
_COLOURS = dict(zip(_PERCENTILES, ("zone0", "zone1", "zone2"), strict=True))  # CSS variables


@dataclass(frozen=True)
class Overview:
    """The answers that a page shows."""

    title: str
    lines: Sequence[str]  # what the answers are made from
    coverage: Answer  # fleet.coverage
    percentiles: Answer  # of each metric and cohort: fleet.regressions.percentiles()
    regressions: Answer  # fleet.regressions
    cohorts: Sequence[str]  # lines about its cohorts
    outliers: Answer  # fleet.outliers
    trend: Answer  # fleet.trend


def _answer(found: Answer, empty: str) -> str:
    return table(found.columns, found.rows) if found.rows else no_data(empty)


def _bars(found: Answer) -> Iterator[str]:
    """A picture for each metric: a bar for each cohort, from its median over hosts to its p90."""
    for metric, same in groupby(found.objects(), key=lambda row: row["metric"]):
        values = [
            svg.Bar(
                f"{row['cohort']} ({row['hosts']})",
                row["p50"],
                "what-if",
                (row["p50"], row["p90"]),
            )
            for row in same
        ]
        yield f"<figure>{svg.bars(f'{metric} per hour', values)}</figure>"


def _trend(found: Answer) -> Iterator[str]:
    for metric, same in groupby(found.objects(), key=lambda row: row["metric"]):
        rows = [row for row in same if row["date"] != "unknown"]
        if len(rows) > 1:
            yield f"<figure>{_days(metric, rows)}</figure>"


def _days(metric: str, rows: Sequence[dict[str, Any]]) -> str:
    """A metric's percentiles over hosts, day by day; a day without a tape has no point."""
    top = max(row[name] for row in rows for name in _PERCENTILES)
    frame = Frame(len(rows) - 1, top, f"{metric} per host-hour")
    parts = grid(frame)
    for name, colour in _COLOURS.items():
        at = "L".join(f"{frame.x(i):.1f} {frame.y(row[name]):.1f}" for i, row in enumerate(rows))
        parts.append(f'<path d="M{at}" class="line {colour}"/>')
        parts += [
            f'<circle cx="{frame.x(i):.1f}" cy="{frame.y(row[name]):.1f}" r="3"'
            f' class="dot {colour}">'
            f"<title>{markup(row['date'])}: {name} {row[name]:,} of {row['hosts']:,} hosts</title>"
            "</circle>"
            for i, row in enumerate(rows)
        ]
    for day, anchor in ((0, "start"), (len(rows) - 1, "end")):
        y = frame.height - 21
        parts.append(svg.text(frame.x(day), y, rows[day]["date"], anchor=anchor))
    return svg.drawing(WIDTH, frame.height, f"{metric} by day", parts)


def _regressions(found: Answer) -> str:
    """The table, with the verdicts in colour."""
    rows = found.objects()
    sure = [row for row in rows if row["verdict"] in ("worse", "better")]
    words = [
        f"<p{' class=bad' if row['verdict'] == 'worse' else ''}>{markup(row['cohort'])} is"
        f" {row['verdict']} than {markup(row['base'])} in {markup(row['metric'])}: rate times"
        f" {row['ratio']:g}{_interval(row)}, {row['hosts_base']:,} and {row['hosts_cohort']:,}"
        f" hosts, p = {row['p']:.2g}.</p>"
        for row in sure
    ]
    if rows and not sure:
        few = sum(row["verdict"] == "too few hosts" for row in rows)
        about = f"; {few} of {len(rows)} comparisons have too few hosts" if few else ""
        words.append(f"<p>No difference between cohorts is shown{about}.</p>")
    every = _answer(found, "One cohort: there is nothing to compare.")
    return "".join(words) + f"<details><summary>Every comparison</summary>{every}</details>"


def _interval(row: dict[str, Any]) -> str:
    return "" if row["low"] is None else f" [{row['low']:g} to {row['high']:g}]"


def fleet_page(found: Overview) -> str:
    """The HTML of the page."""
    trend = "".join(_trend(found.trend))
    bars = "".join(_bars(found.percentiles))
    side = '<div class="side tapes" style="--tapes:2">'
    about = "".join(f"<p>{markup(line)}.</p>" for line in found.lines)
    parts = [
        f"<h1>{markup(found.title)}</h1>{about}",
        "<section class=wide><h2>Coverage</h2><p>Each number below is about these hosts and hours"
        f" only.</p>{_answer(found.coverage, 'The index has no tapes.')}</section>",
        "<section class=wide><h2>Cohorts</h2><p>Rates of rare events per hour. A bar is the median"
        " over the hosts of a cohort (their number in brackets), its whisker the 90th percentile."
        f" A host without events counts.</p>{side}{bars}</div>"
        "<details><summary>Every percentile</summary>"
        f"{_answer(found.percentiles, 'No tape has rare events.')}</details></section>",
        "<section class=wide><h2>Regressions</h2>"
        f"<p>{markup('; '.join(found.cohorts))}. Hosts are compared, not events.</p>"
        f"{_regressions(found.regressions)}</section>",
        "<section class=wide><h2>Worst hosts</h2><p>Hosts whose rate is far above that of the"
        " others: beyond three interquartile ranges, on a logarithmic scale.</p>"
        f"{_answer(found.outliers, 'No host stands out.')}</section>",
    ]
    if trend:
        key = legend({_COLOURS[name]: words for name, words in _PERCENTILES.items()})
        parts.append(f"<section class=wide><h2>Day by day</h2>{key}{side}{trend}</div></section>")
    return document(found.title, parts)
