# SPDX-License-Identifier: Apache-2.0
"""The comparison of the tapes: bars of the main metrics, and a table of all metrics."""

from __future__ import annotations

from pagetape.answer import markup
from pagetape.asking.comparison import Comparison
from pagetape.pages import svg
from pagetape.pages.document import legend

ROLES = {
    "recorded": "recorded",
    "model": "replay under the recording's own rules",
    "what-if": "what-if; whiskers show the model's error",
}
HEADLINES = (
    "fallbacks below pageblock order",
    "fallbacks steal",
    "pages taken under the zone lock",
    "pages drained to the zone",
    "free pages at the end",
    "PCP refills",
)


def side_by_side(found: Comparison) -> str:
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
        "The model's error is the difference between a recording and its replay under its own "
        "kernel's rules. A what-if that differs from the replay by at most the error proves "
        "nothing."
    )
    roles = {name: ROLES[name] for name in dict.fromkeys(side.role for side in found.sides)}
    return (
        f"<h2>Side by side</h2><p>{words}</p>{legend(roles)}"
        f"<div class=side>{''.join(charts)}</div>{_comparison(found)}"
    )


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
        head.append(f"<th class=n>{markup(side.label)}</th>")
        if i:
            head.append(f"<th>against {markup(found.references[side.label])}</th>")
    if found.error_of:
        head.append("<th class=n>model error</th>")
    lines = []
    for i, metric in enumerate(found.metrics):
        if not any(metric.values.values()):
            continue
        cells = [f"<td>{markup(metric.name)}</td><td>{metric.tier}</td>"]
        for j, side in enumerate(found.sides):
            value = metric.values[side.label]
            cells.append(f"<td class=n>{'-' if value is None else f'{value:,}'}</td>")
            if j:
                words, within = _change(found, side.label, i)
                cells.append(f"<td{' class=within' if within else ''}>{markup(words)}</td>")
        if found.error_of:
            error = "-" if metric.error is None else f"{metric.error:,}"
            cells.append(f"<td class=n>{error}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        "<details><summary>Every metric</summary><div class=scroll><table>"
        f"<tr>{''.join(head)}</tr>{''.join(lines)}</table></div></details>"
    )
