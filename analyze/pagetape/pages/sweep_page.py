# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: every run against the tape's own rules, coloured by its change."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from pagetape import answer
from pagetape.answer import markup
from pagetape.asking import no_verdict, policy_effect
from pagetape.asking.comparison import Difference
from pagetape.asking.phrase import change, own_rules, recorded, signed, this_run
from pagetape.pages.document import document, table
from pagetape.replaying.sweep import FAILED, failed_line, kernel_warnings, not_compared, words
from pagetape.tapes.kernel_rows import named

_FULL = 60  # per cent of colour in a cell that changed by a factor of two, or to nothing


def _cell(metric: dict[str, Any] | None) -> str:
    if metric is None:
        return "<td class=n>-</td>"
    value = this_run(metric)
    difference = metric["difference"] and Difference(**metric["difference"])
    if difference is not None and difference.no_verdict is not None:
        why, title = no_verdict.short(difference.no_verdict), markup(difference.no_verdict)
        return f'<td class="n within" title="{title}">{value} ({markup(why)})</td>'
    if difference is None or not difference.value:
        return f"<td class=n>{value}</td>"
    words, percent = change(difference), difference.percent
    short = signed(difference.value) if percent is None else f"{percent:+.1f} %"
    if difference.shown is False:
        return f'<td class="n within" title="{words}">{value} ({short})</td>'
    share = _FULL * min(abs(100 if percent is None else percent), 100) / 100
    kind = "less" if difference.value < 0 else "more"
    title = f"{words} against the tape's own kernel and policy"
    return (
        f'<td class="n {kind}" style="--share:{share:.0f}%" title="{title}">{value} ({short})</td>'
    )


def _row(run: dict[str, Any], metrics: Sequence[str]) -> str:
    found = {metric["metric"]: metric for metric in run["metrics"]}
    idle = "; ".join(policy_effect.without_choice(run["policies_effect"]))
    policy = f'<td class=within title="{markup(idle)}">' if idle else "<td>"
    policy += markup(words(run) + (" (no choice)" if idle else ""))
    about = (named(run["kernel"]), run["reclaim"], run["tier"])
    head = policy + "</td>" + "".join(f"<td>{markup(word)}</td>" for word in about)
    return f"<tr>{head}{''.join(_cell(found.get(name)) for name in metrics)}</tr>"


def _shared_row(
    runs: Sequence[dict[str, Any]],
    metrics: Sequence[str],
    label: str,
    cell: Callable[[dict[str, Any]], str],
) -> str:
    """A row of figures that all runs on a tape share."""
    found = {metric["metric"]: metric for run in runs for metric in run["metrics"]}
    cells = [cell(found[name]) if name in found else "-" for name in metrics]
    return f'<tr><td colspan="4">{label}</td>{"".join(f"<td class=n>{c}</td>" for c in cells)}</tr>'


def _matrix(runs: Sequence[dict[str, Any]], metrics: Sequence[str]) -> str:
    names = ("policy", "kernel", "reclaim", "tier")
    head = "".join(f"<th>{name}</th>" for name in names)
    tiers = {m["metric"]: m["tier"] for run in runs for m in run["metrics"] if m["tier"] != "A"}
    head += "".join(
        f"<th class=n>{markup(name)} <span class=tier>tier {tiers.get(name, 'A')}</span></th>"
        for name in metrics
    )
    rows = "".join(_row(run, metrics) for run in runs)
    about = _shared_row(runs, metrics, "recorded", recorded)
    about += _shared_row(runs, metrics, "own rules", own_rules)
    return f"<div class=scroll><table class=matrix><tr>{head}</tr>{about}{rows}</table></div>"


_OF_HOSTS = ("hosts", "less", "more", "better", "worse", "no_difference", "no_choice", "no_verdict")


def _fleet(rows: Sequence[dict[str, Any]]) -> str:
    """The table of the effects over hosts."""

    def number(value: float | None) -> object:
        return value if value is None or math.isfinite(value) else "from 0"

    columns = ("policy", "kernel", "metric", "unit", "effect", "low", "high", *_OF_HOSTS, "worst")
    lines = [
        (
            words(row),
            row["kernel"],
            row["metric"],
            row["unit"],
            *(number(row[name] and round(row[name], 1)) for name in ("effect", "low", "high")),
            *(row[name] for name in _OF_HOSTS),
            ", ".join(f"{host['host'] or host['machine'][:6]}" for host in row["worst"]),
        )
        for row in rows
    ]
    about = (
        "Median effect over hosts against their own rules, with an 80 % interval from the hosts."
    )
    return f"<h2>Fleet</h2><p>{about}</p>{table(columns, lines)}"


def sweep_page(
    runs: Sequence[dict[str, Any]],
    metrics: Sequence[str],
    failed: Sequence[dict[str, Any]] = (),
    fleet: Sequence[dict[str, Any]] = (),
) -> str:
    """The HTML for the results of a sweep; `metrics` are the columns of the first table, `fleet`
    has the rows of fleet.effect.rows()."""
    parts = [
        "<h1>Sweep</h1>",
        "<p>Every run against the model under the tape's own kernel and policy, with 80 % "
        "intervals. Colours mark decreases and increases; a difference that is not shown has no "
        "colour. Where the recorded value lies outside the own rules' interval, the model does not "
        "follow the tape, and there is no verdict. Hover over a cell for the reason.</p>",
    ]
    if fleet:
        parts.append(_fleet(fleet))
    for tape, same in groupby(runs, key=lambda run: run["tape"]):
        of_tape = list(same)
        every = list(dict.fromkeys(m["metric"] for run in of_tape for m in run["metrics"]))
        lost = "unknown" if of_tape[0]["lost"] is None else f"{of_tape[0]['lost']:,}"
        parts += [
            f"<h2>{markup(tape)}</h2><p>{answer.amount(len(of_tape), 'run')};"
            f" events lost: {lost}.</p>",
            *(f"<p class=bad>{markup(line)}.</p>" for line in kernel_warnings(of_tape)),
            *(f"<p>{markup(line)}.</p>" for line in not_compared(of_tape)),
            _matrix(of_tape, metrics),
            f"<details><summary>Every metric</summary>{_matrix(of_tape, every)}</details>",
        ]
    if failed:
        parts.append(f"<h2>Failed</h2>{table(FAILED, [*map(failed_line, failed)])}")
    return document("Sweep", parts)
