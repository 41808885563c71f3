# SPDX-License-Identifier: Apache-2.0
"""A comparison of tapes as a table of words, and the notes below it."""

from pagetape import answer, terminal
from pagetape.asking import policy_effect
from pagetape.asking.comparison import Comparison, Metric, Side
from pagetape.asking.no_verdict import NOT_FOLLOWED, of_run
from pagetape.asking.phrase import SUMS, UNCHECKED, change, predicted
from pagetape.tapes.kernel_rows import named


def _shows_own(found: Comparison) -> bool:
    """Whether the own rules have a column of their own: they are known, and no tape has them."""
    bases = {found.references.get(side.label) for side in found.sides if side.role == "what-if"}
    shown = any(side.role == "model" and side.label in bases for side in found.sides)
    return not shown and any(metric.own for metric in found.metrics)


def _line(metric: Metric, found: Comparison) -> list[object]:
    line: list[object] = [metric.name, metric.unit, metric.tier]
    for i, side in enumerate(found.sides):
        line.append(_value(metric, side.label))
        if i:
            line.append(change(metric.differences[side.label]))
    if _shows_own(found):
        line.insert(4, predicted(None, metric.own, metric.own_success))
    return line


def _value(metric: Metric, label: str) -> object:
    interval, success = metric.intervals[label], metric.success[label]
    if interval is None and success is None:
        return metric.values[label]
    return predicted(metric.values[label], interval, success)


def _notes(found: Comparison) -> list[str]:
    """What the columns mean."""
    if any(any(m.intervals.values()) for m in found.metrics):
        unmeasured = (
            f"{side.label}: {side.loss.unmeasured}" for side in found.sides if side.loss.unmeasured
        )
        return [
            "median [low to high]: 80 % interval, calibrated on other recordings.",
            "A difference is of members with the same seed; none is shown if its interval has 0.",
            SUMS,
            *_about_verdicts(found),
            *unmeasured,
        ]
    if found.sides[0].role != "what-if" and any(s.role == "what-if" for s in found.sides):
        return ["one run, no interval, so no verdict: use --ensemble with the recorded tape"]
    return []


def _about_verdicts(found: Comparison) -> list[str]:
    """Notes about differences that are withheld, or that nothing supports."""
    differences = [d for m in found.metrics for d in m.differences.values() if d is not None]
    lines = []
    if any(d.followed is False for d in differences):
        lines.append(NOT_FOLLOWED)
    if any(d.low is not None and d.followed is None for d in differences):
        lines.append(UNCHECKED)
    return lines


def _about(side: Side) -> str:
    """The role of a tape, and of a replay the rules."""
    if side.run is None:
        return side.role
    return f"{side.role}: kernel {named(side.run['kernel'])}, {' + '.join(side.run['policies'])}"


def _of_pair(found: Comparison, side: Side) -> list[str]:
    """What to know about a tape and the one that it is compared with."""
    label = side.label
    unpaired = found.unpaired.get(label)
    lines = [of_run(side.run), found.incomparable.get(label), found.beside.get(label)]
    lines.append(unpaired and f"no interval of the difference: {unpaired}")
    return [line for line in lines if line]


def columns(found: Comparison) -> list[str]:
    """The heads of the columns."""
    names = ["metric", "unit", "tier"]
    for i, side in enumerate(found.sides):
        names.append(side.label)
        if i:
            names.append(f"against {found.references[side.label]}")
    if _shows_own(found):
        names.insert(4, "own rules")
    return names


def lines(found: Comparison) -> list[list[object]]:
    """A line for each metric that is not 0 everywhere."""
    return [_line(m, found) for m in found.metrics if m.occurs]


def notes(found: Comparison) -> list[str]:
    """The meaning of the columns, and what to know about each tape."""
    said = _notes(found)
    said += [f"{answer.visible(side.label)} ({_about(side)}): {side.loss}" for side in found.sides]
    said += [
        f"{answer.visible(side.label)}: {answer.visible(line)}"
        for side in found.sides
        for line in [*side.kernel_warnings, *side.absent, *_of_pair(found, side)]
    ]
    said += [
        f"{answer.visible(side.label)}: {answer.visible(line)}"
        for side in found.sides
        if side.role == "what-if"
        for line in policy_effect.lines(side.effects)
    ]
    return said


def text(found: Comparison, *, wide: bool = False) -> str:
    """The table and its notes."""
    table = terminal.table(columns(found), lines(found), wide=wide)
    return "\n".join([table, "", *notes(found)])
