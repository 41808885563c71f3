# SPDX-License-Identifier: Apache-2.0
"""Plots for notebooks: the pictures of `pagetape html`, each with its legend and style."""

import html
import os
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from pagetape.answer import markup
from pagetape.api.error import Error, explained
from pagetape.asking.database import Database
from pagetape.asking.query import reports
from pagetape.pages import activity, fallbacks, timeline
from pagetape.pages.document import MARK, document, legend
from pagetape.pages.section import series_of
from pagetape.tapes import output

_INTERVALS = 120  # of a plot over time

# Plot: its report, the column of each class, the legend, the unit, and whether it is stacked.
_PLOTS = {
    "fallbacks": ("extfrag.over_time", {name: name for name in fallbacks.KINDS}, fallbacks.KINDS),
    "traffic": (
        "events.over_time",
        {"allocated": "alloc_pages", "freed": "free_pages"},
        {name: activity.TRAFFIC[name] for name in ("allocated", "freed")},
    ),
}


@dataclass(frozen=True)
class Figure:
    """One or more pictures with a title and a legend; a notebook shows it by itself."""

    title: str
    parts: tuple[str, ...] = field(repr=False)  # HTML

    @property
    def page(self) -> str:
        """The figure as a page of HTML that needs nothing else."""
        return document(self.title, [f"<h1>{markup(self.title)}</h1>", *self.parts])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; replaces only a page of pagetape."""
        with (
            explained(),
            output.whole_file(Path(path), replace=True, mark=MARK, inputs=()) as file,
        ):
            file.write(self.page.encode())
        return Path(path)

    def _repr_html_(self) -> str:
        # A frame keeps the style of the page apart from that of the notebook.
        css = files("pagetape.pages").joinpath("page.css").read_text("utf-8")
        text = f"<style>{css}</style><h3>{markup(self.title)}</h3>{''.join(self.parts)}"
        return (
            f'<iframe srcdoc="{html.escape(text)}" title="{markup(self.title)}" '
            f'style="border:0;width:100%;height:{90 + 240 * (len(self.parts) - 1)}px"></iframe>'
        )


def over_time(name: str, databases: dict[str, tuple[Database, float]]) -> Figure:
    """A plot over time; `databases` has one per tape, by label, with its length in seconds."""
    if name not in _PLOTS:
        raise Error(f"no plot '{name}' (there are: {', '.join(_PLOTS)})")
    report, columns, words = _PLOTS[name]
    stacked = name == "fallbacks"
    length = max((seconds for _, seconds in databases.values()), default=0.0)
    interval_ms = max(round(1000 * length / _INTERVALS), 1)
    nr = max(round(1000 * length / interval_ms), 1)
    series = {}
    for label, (database, _) in databases.items():
        with explained():
            rows = database.run(reports()[report], {"interval_ms": interval_ms}).objects()
        series[label] = series_of(rows, columns, nr, interval_ms / 1000)
    tops = [
        sum(values) if stacked else max(values)
        for one in series.values()
        for values in zip(*one.values(), strict=True)
    ]
    seconds = max(length, interval_ms / 1000)
    unit = f"{'fallbacks' if stacked else 'pages'} per {interval_ms} ms"
    frame = timeline.Frame(seconds, max(tops), unit)
    pictures = []
    for label, one in series.items():
        end = databases[label][1]
        drawn = {k: timeline.equal(v, interval_ms / 1000, end) for k, v in one.items()}
        chart = timeline.chart(drawn, frame, words, stacked=stacked)
        pictures.append(f"<figure><h3>{markup(label)}</h3>{chart}</figure>")
    return Figure(f"{name}: {unit}", (legend(words), *pictures))
