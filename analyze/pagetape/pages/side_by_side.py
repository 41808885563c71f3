# SPDX-License-Identifier: Apache-2.0
"""The comparison of the tapes: bars of the main metrics, and a table of all metrics."""

from pagetape.answer import markup
from pagetape.asking.comparison import Comparison, Metric, Side
from pagetape.asking.no_verdict import of_run
from pagetape.asking.phrase import SUMS, change, predicted
from pagetape.pages import svg
from pagetape.pages.document import legend

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


def _bar(metric: Metric, side: Side) -> svg.Bar:
    """A bar, with its interval if it is of an ensemble."""
    found = metric.intervals[side.label]
    if found is not None:
        return svg.Bar(side.label, found.median, side.role, (found.low, found.high))
    return svg.Bar(side.label, metric.values[side.label] or 0, side.role, None)


def side_by_side(found: Comparison) -> str:
    charts = []
    for metric in found.metrics:
        bars = [_bar(metric, side) for side in found.sides if metric.values[side.label] is not None]
        if metric.own and not any(side.role == "model" for side in found.sides):
            own = metric.own
            bars.insert(1, svg.Bar("own rules", own.median, "model", (own.low, own.high)))
        if metric.name in HEADLINES and len(bars) > 1:
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
        for lines in (unjudged, found.beside, found.unpaired)
        for label, line in lines.items()
    ]
    shown = {side.role for side in found.sides}
    if any(metric.own for metric in found.metrics):
        shown.add("model")
    roles = {name: words for name, words in ROLES.items() if name in shown}
    return (
        f"<h2>Side by side</h2><p>{words}</p>{''.join(said)}{legend(roles)}"
        f"<div class=side>{''.join(charts)}</div>{_comparison(found)}"
    )


def _value(metric: Metric, label: str) -> str:
    return predicted(metric.values[label], metric.intervals[label], metric.success[label])


def _comparison(found: Comparison) -> str:
    head = ["<th>metric</th><th>unit</th><th>tier</th>"]
    for i, side in enumerate(found.sides):
        head.append(f"<th class=n>{markup(side.label)}</th>")
        if i:
            head.append(f"<th>against {markup(found.references[side.label])}</th>")
    owned = any(metric.own for metric in found.metrics)
    if owned:
        head.append("<th class=n>own rules</th>")
    lines = []
    for metric in found.metrics:
        if not metric.occurs:
            continue
        about = (metric.name, metric.unit, metric.tier)
        cells = [f"<td>{markup(text)}</td>" for text in about]
        for j, side in enumerate(found.sides):
            cells.append(f"<td class=n>{_value(metric, side.label)}</td>")
            if j:
                difference = metric.differences[side.label]
                hidden = difference is not None and not difference.shown
                words = markup(change(difference))
                cells.append(f"<td{' class=within' if hidden else ''}>{words}</td>")
        if owned:
            own = predicted(None, metric.own, metric.own_success)
            cells.append(f"<td class=n>{own}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        "<details><summary>Every metric</summary><div class=scroll><table>"
        f"<thead><tr>{''.join(head)}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></details>"
    )
