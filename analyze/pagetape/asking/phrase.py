# SPDX-License-Identifier: Apache-2.0
"""Predicted numbers in words: with their interval, and against the own rules."""

from __future__ import annotations

from typing import Any

from pagetape.asking.comparison import Difference


def number(value: float | None) -> str:
    """A count, or the median of an even number of counts."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value)}"


def between(median: float, low: float, high: float) -> str:
    """A median with its interval; only the number if it is certain."""
    if low == high == median:
        return number(median)
    return f"{number(median)} [{number(low)} to {number(high)}]"


def own_rules(metric: dict[str, Any]) -> str:
    """The own rules' value of a metric of comparison.beside_model()."""
    own = metric["own"]
    if own["median"] is None:
        return number(metric["model"]) if metric["model"] is not None else "unknown"
    return between(own["median"], own["low"], own["high"])


def change(difference: Difference | None) -> str:
    """A difference with its interval, or why there is no verdict on it."""
    if difference is None:
        return "-"
    if difference.no_verdict is not None:
        return difference.no_verdict
    value, low, high = difference.value, difference.low, difference.high
    assert value is not None
    percent = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    if low is None or high is None:
        return f"{signed(value)}{percent}" if value else "same"
    if value == low == high == 0:
        return "same"
    text = f"{signed(value)}{percent}" if difference.shown else "no difference shown"
    return f"{text} [{signed(low)} to {signed(high)}]{unchecked(difference)}"


def unchecked(difference: Difference) -> str:
    """What to append to a difference that no recorded value supports."""
    return "" if difference.followed else ", not checked"


# The note below differences with unchecked().
UNCHECKED = "not checked: the recording has no such value, so nothing shows how well the model does"
