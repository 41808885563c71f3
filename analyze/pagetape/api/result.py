# SPDX-License-Identifier: Apache-2.0
"""The results of a replay and of a comparison."""

from typing import Any

from pagetape.answer import markup
from pagetape.api.error import Error
from pagetape.api.figure import Figure
from pagetape.api.relation import html_table
from pagetape.asking import comparison_table, headline, no_verdict, policy_effect
from pagetape.asking.comparison import Comparison
from pagetape.pages import svg
from pagetape.pages.side_by_side import bars_of
from pagetape.tapes import fallback_unit


class Compared:
    """Tapes side by side, as `pagetape compare` shows them."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def json(self) -> dict[str, Any]:
        """The object of `pagetape compare --json`."""
        return self.comparison.json()

    def __getitem__(self, metric: str) -> dict[str, Any]:
        """One metric of json(): values, intervals, differences."""
        found: dict[str, dict[str, Any]] = {m["metric"]: m for m in self.json()["metrics"]}
        if metric not in found:
            raise Error(f"no metric '{metric}' (for example: {', '.join(list(found)[:5])})")
        return found[metric]

    def plot(self, metric: str = "fallbacks") -> Figure:
        """One metric of each tape as bars, predictions with their 80 % interval."""
        unit = self[metric]["unit"]
        (found,) = (one for one in self.comparison.metrics if one.name == metric)
        bars = bars_of(found, self.comparison)
        if not bars:
            raise Error(f"{metric}: no tape has a value")
        title = f"{metric} ({unit})"
        return Figure(title, (svg.bars(title, bars),))

    def __repr__(self) -> str:
        return comparison_table.text(self.comparison)

    def _repr_html_(self) -> str:
        found = self.comparison
        title = " beside ".join(side.label for side in found.sides)
        heads, lines = comparison_table.columns(found), comparison_table.lines(found)
        return html_table(title, heads, lines, comparison_table.notes(found))


class Played:
    """What a replay said, as `pagetape replay` prints it."""

    def __init__(self, result: dict[str, Any], what: str | None) -> None:
        self._result = result
        self._what = what  # None: the recording's own rules

    def json(self) -> dict[str, Any]:
        """The object of `pagetape replay --json`."""
        return self._result | {"headline": headline.headlines(self._result["metrics"])}

    @property
    def sentences(self) -> list[str]:
        """What the policies decided, and a sentence for each headline metric."""
        found = headline.headlines(self._result["metrics"])
        return [
            *self._result["kernel_warnings"],
            *policy_effect.lines(self._result["policies_effect"]),
            *headline.sentences(found, self._what),
            *filter(None, (fallback_unit.why_not(self._result), no_verdict.of_run(self._result))),
        ]

    def __getitem__(self, metric: str) -> dict[str, Any]:
        """One metric of json(): recorded, own rules, this run, and the difference."""
        found: dict[str, dict[str, Any]] = {m["metric"]: m for m in self._result["metrics"]}
        if metric not in found:
            raise Error(f"no metric '{metric}' (for example: {', '.join(list(found)[:5])})")
        return found[metric]

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return "".join(f"<div>{markup(line)}</div>" for line in self.sentences)
