# SPDX-License-Identifier: Apache-2.0
"""pagetape compare: metrics of several tapes side by side."""

from __future__ import annotations

from pathlib import Path

import click

from pagetape import answer
from pagetape.asking.comparison import Comparison, Difference, Metric, compare
from pagetape.commands import options
from pagetape.schemas.tape import Tape


def _change(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    if difference.value == 0:
        return "same"
    text = f"{difference.value:+,}"
    if difference.percent is not None:
        text += f" ({difference.percent:+.1f} %)"
    return f"{text} within model error" if difference.within_model_error else text


def _line(metric: Metric, found: Comparison) -> list[object]:
    line: list[object] = [metric.name, metric.tier]
    for i, side in enumerate(found.sides):
        line.append(metric.values[side.label])
        if i:
            line.append(_change(metric.differences[side.label]))
    if found.error_of:
        line.append(metric.error)
    return line


def _text(found: Comparison) -> str:
    columns = ["metric", "tier"]
    for i, side in enumerate(found.sides):
        columns.append(side.label)
        if i:
            columns.append(f"vs {found.references[side.label]}")
    if found.error_of:
        columns.append("model error")
    lines = [_line(m, found) for m in found.metrics if any(m.values.values())]
    notes = [f"{answer.visible(side.label)} ({side.role}): {side.loss}" for side in found.sides]
    notes += [
        f"{answer.visible(side.label)}: {answer.visible(line)}"
        for side in found.sides
        for line in side.kernel_warnings
    ]
    if found.error_of is None and any(side.role == "what-if" for side in found.sides):
        notes.append(
            "model error unknown: pass the recorded tape and its replay under mainline as well"
        )
    return "\n".join([answer.table(columns, lines), "", *notes])


@click.command("compare")
@click.argument("base", metavar="BASE.tape", type=options.PATH)
@click.argument("others", metavar="OTHER.tape...", type=options.PATH, nargs=-1, required=True)
@options.json
def command(base: Path, others: tuple[Path, ...], as_json: bool) -> None:
    """Compare the metrics of tapes side by side, with the model's error.

    The model's error is the difference between a recording and its replay under its own
    kernel's rules. The command compares a what-if with that replay. The replay is one of the
    arguments; otherwise the command uses its figures, which the what-if tape contains. The
    command marks a difference within the error.

    \b
    Example:
      pagetape replay base.tape --policy nofragment -o whatif.tape
      pagetape compare base.tape whatif.tape
    """
    found = compare([Tape(path) for path in (base, *others)])
    if as_json:
        answer.emit(found.json())
    else:
        answer.say(_text(found))
