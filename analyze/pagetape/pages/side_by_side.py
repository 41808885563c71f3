# SPDX-License-Identifier: Apache-2.0
"""The comparison of the tapes: bars of the main metrics, and a table of all metrics."""

from pagetape.answer import markup
from pagetape.asking.comparison import Comparison, Metric
from pagetape.asking.comparison_table import columns, lines
from pagetape.asking.no_verdict import OTHER_UNIT, of_run
from pagetape.asking.phrase import NOT_SHOWN, SUMS
from pagetape.pages import svg
from pagetape.pages.document import legend, table

ROLES = {
    "recorded": "recorded",
    "model": "the recording's own rules in the model",
    "what-if": "what-if; whiskers show 80 % intervals",
}
HEADLINES = (
    "fallbacks below pageblock order",
    "fallbacks steal",
    "pages taken under the zone lock",
    "pages drained to the zone",
    "free pages at the end",
    "PCP refills",
)


def bars_of(metric: Metric, found: Comparison) -> list[svg.Bar]:
    """A bar for each tape with a value, with its interval if it is of an ensemble; also one of the
    own rules, if no tape has them."""
    bars = []
    for side in found.sides:
        of, value = metric.intervals[side.label], metric.values[side.label]
        limits = None if of is None else (of.low, of.high)
        if of is not None or value is not None:
            bars.append(svg.Bar(side.label, of.median if of else value or 0, side.role, limits))
    if metric.own and bars and not any(side.role == "model" for side in found.sides):
        own, place = metric.own, sum(bar.kind == "recorded" for bar in bars)
        bars.insert(place, svg.Bar("own rules", own.median, "model", (own.low, own.high)))
    return bars


def side_by_side(found: Comparison) -> str:
    charts = []
    for metric in found.metrics:
        bars = bars_of(metric, found) if metric.name in HEADLINES else []
        if len(bars) > 1:
            tier = f"<span class=tier>tier {metric.tier}</span>"
            charts.append(f"<figure><h3>{tier}</h3>{svg.bars(metric.name, bars)}</figure>")
    base = found.sides[0]
    against = (
        f"Each tape is compared with {markup(base.label)}, member by member"
        if base.role == "what-if"
        else "A what-if is compared with the own rules: the recording's own kernel and policy, "
        "with the same inputs"
    )
    words = (
        f"{against}. Numbers in brackets are 80 % intervals of an ensemble; a difference whose "
        "interval contains 0 is not shown by it. Where the recorded value lies outside the own "
        f"rules' interval, the model does not follow the tape, and there is no verdict. {SUMS}."
    )
    unjudged = {side.label: why for side in found.sides if (why := of_run(side.run))}
    said = [
        f"<p class=bad>{markup(f'{label}: {line}')}.</p>"
        for by_label in (unjudged, found.beside, found.unpaired)
        for label, line in by_label.items()
    ]
    shown = {side.role for side in found.sides}
    if any(metric.own for metric in found.metrics):
        shown.add("model")
    roles = {name: words for name, words in ROLES.items() if name in shown}
    return (
        f"<h2>Side by side</h2><p>{words}</p>{''.join(said)}{legend(roles)}"
        f"<div class=side>{''.join(charts)}</div><details><summary>Every metric</summary>"
        f"{_table(found)}</details>"
    )


def _table(found: Comparison) -> str:
    values = {*(side.label for side in found.sides), "own rules"}
    faint = (NOT_SHOWN, OTHER_UNIT, "no verdict", "not followed")
    return table(columns(found), lines(found), values, faint)
