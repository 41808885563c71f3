# SPDX-License-Identifier: Apache-2.0
"""One section of the page: a figure per tape, beside each other, on a common scale."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pagetape.answer import markup
from pagetape.pages.document import legend
from pagetape.pages.subject import Rows, Subject


@dataclass(frozen=True)
class Layout:
    """How a section shows its figures."""

    legend: dict[str, str] = field(default_factory=dict)  # CSS variable to label
    wide: bool = False
    tier: str = "A"  # lowest tier that a replay's numbers can have


_DEFAULT = Layout()


def columns(tapes: int) -> str:
    """The opening tag of a grid with a column per tape, two rows if there are more than four."""
    nr = tapes if tapes <= 4 else math.ceil(tapes / math.ceil(tapes / 4))
    return f'<div class="side tapes" style="--tapes:{nr}">'


def section(
    title: str,
    words: str,
    subjects: Sequence[Subject],
    draw: Callable[[Subject], str],
    layout: Layout = _DEFAULT,
) -> str:
    """The HTML of a section; `draw` makes the figure of one tape, `words` is HTML."""
    figures = "".join(
        f"<figure><h3>{markup(s.label)} <span class=tier>{s.tier(layout.tier)}</span></h3>"
        f"{draw(s)}</figure>"
        for s in subjects
    )
    key = legend(layout.legend) if layout.legend else ""
    wide = " class=wide" if layout.wide else ""
    return (
        f"<section{wide}><h2>{markup(title)}</h2><p>{words}</p>{key}"
        f"{columns(len(subjects))}{figures}</div></section>"
    )


def intervals(seconds: float, interval_s: float) -> int:
    """Intervals that cover `seconds`; the last one may be shorter."""
    return max(math.ceil(seconds / interval_s - 1e-9), 1)


def series_of(
    rows: Rows, names: dict[str, str], nr: int, interval_s: float
) -> dict[str, list[float]]:
    """Column names[k] of rows as one value per interval, for each class k."""
    series = {name: [0.0] * nr for name in names}
    for row in rows:
        i = min(round(row["at_s"] / interval_s), nr - 1)
        for name, column in names.items():
            series[name][i] += row[column]
    return series
