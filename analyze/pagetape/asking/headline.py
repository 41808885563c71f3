# SPDX-License-Identifier: Apache-2.0
"""The answer of a replay: one sentence for each of a few metrics.

A sentence has the value of the recording, of the model under the recording's own rules, and of the
run, each prediction with its 80 % interval, and the difference of the two. Any of them may be
unknown: no event records which pageblocks are mixed, for example.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pagetape.asking.comparison import Difference
from pagetape.asking.phrase import change, number, own_rules, this_run

# Metrics of the report `metrics` and their words, the most important ones first.
METRICS = {
    "fallbacks": "Fallbacks",
    "fallbacks below pageblock order": "Fallbacks below pageblock order",
    "fallbacks claim": "Fallbacks that claimed the pageblock",
    "fallbacks steal": "Fallbacks that stole from the pageblock",
    "mixed pageblocks at the end": "Mixed pageblocks at the end",
    "free pageblocks at the end": "Free pageblocks at the end",
}


def headlines(metrics: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The headlines among metrics of comparison.beside_model(), in the order of METRICS."""
    found = {metric["metric"]: metric for metric in metrics}
    return [found[name] for name in METRICS if name in found]


def sentences(found: Sequence[dict[str, Any]], run: str | None) -> list[str]:
    """A line for each headline, and one about tier and interval.

    `run` names the run; None if it is the one under the recording's own rules.
    """
    if not found:
        return []
    tier = max(metric["tier"] for metric in found)
    certain = all(metric["own"]["median"] is None for metric in found)
    note = "one run, no interval" if certain else "median [80 % interval]"
    return [*(_sentence(metric, run) for metric in found), f"(tier {tier}; {note})"]


def _sentence(metric: dict[str, Any], run: str | None) -> str:
    parts = []
    if metric["recorded"] is not None:
        parts.append(f"{number(metric['recorded'])} recorded")
    if metric["model"] is not None or metric["own"]["median"] is not None:
        parts.append(f"{own_rules(metric)} by the tape's own rules")
    text = f"{METRICS[metric['metric']]}: "
    if run is None:
        return text + ", ".join(parts) + (f": {why}" if (why := metric.get("no_verdict")) else "")
    parts.append(f"{this_run(metric)} with {run}")
    text += ", ".join(parts)
    if metric["difference"] is None:
        return text
    return f"{text}: {change(Difference(**metric['difference']))}"
