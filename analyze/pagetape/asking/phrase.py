# SPDX-License-Identifier: Apache-2.0
"""Predicted numbers in words: with their interval, and against the own rules."""

from typing import Any

from pagetape.asking.comparison import Difference
from pagetape.asking.interval import Interval
from pagetape.asking.no_verdict import in_line
from pagetape.asking.success import Success


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


def predicted(value: float | None, found: Interval | None, success: Success | None) -> str:
    """What a run or a recording has of a metric: a median with its interval, or a value; for a
    fragmentation index in how many members a request would succeed, and the index of the others."""
    text = number(value) if found is None else between(found.median, found.low, found.high)
    if success is None or not success.nr:
        return text
    return str(success) if success.nr == success.of else f"{success}, else {text}"


def this_run(metric: dict[str, Any]) -> str:
    """The value of the run, of a metric of comparison.beside_model()."""
    return predicted(metric["value"], _limits(metric), _success(metric, "this"))


def recorded(metric: dict[str, Any]) -> str:
    """The recorded value."""
    return predicted(metric["recorded"], None, _success(metric, "recorded"))


def own_rules(metric: dict[str, Any]) -> str:
    """The own rules' value."""
    own, success = _limits(metric["own"]), _success(metric, "own")
    if own is None and success is None and metric["model"] is None:
        return "unknown"
    return predicted(metric["model"], own, success)


def _limits(found: dict[str, Any]) -> Interval | None:
    limits = (found["median"], found["low"], found["high"])
    return None if None in limits else Interval(*limits)


def _success(metric: dict[str, Any], whose: str) -> Success | None:
    found = metric.get("success", {}).get(whose)
    return Success(**found) if found else None


NOT_SHOWN = "no difference shown"


def change(difference: Difference | None) -> str:
    """A difference with its interval, or why there is no verdict on it."""
    if difference is None:
        return "-"
    if difference.no_verdict is not None:
        return in_line(difference.no_verdict)
    value, low, high = difference.value, difference.low, difference.high
    assert value is not None
    percent = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    if low is None or high is None:
        return f"{signed(value)}{percent}" if value else "same"
    if value == low == high == 0:
        return "same"
    text = f"{signed(value)}{percent}" if difference.shown else NOT_SHOWN
    return f"{text} [{signed(low)} to {signed(high)}]{unchecked(difference)}"


def unchecked(difference: Difference) -> str:
    """What to append to a difference that no recorded value supports."""
    return "" if difference.followed else ", not checked"


# The note below differences with unchecked().
UNCHECKED = "not checked: the recording has no such value, so nothing shows how well the model does"

# Parts and a total are medians of their own.
SUMS = "Medians of parts do not add up to the median of their total; the values of one run do"
