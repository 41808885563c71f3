# SPDX-License-Identifier: Apache-2.0
"""pagetape compare: metrics of several tapes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from pagetape import answer, console
from pagetape.asking import policy_effect
from pagetape.asking.comparison import Comparison, Metric, compare
from pagetape.asking.interval import Interval
from pagetape.asking.phrase import between, change
from pagetape.commands import options
from pagetape.replaying import ensemble, model_error
from pagetape.replaying.playback import Source, of_replay
from pagetape.replaying.prediction import somewhere
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape
from pagetape.tapes import fallback_unit


def _between(found: Interval | None) -> str:
    return between(found.median, found.low, found.high) if found else "-"


def _shows_own(found: Comparison) -> bool:
    """Whether the own rules have a column of their own: they are known, and no tape has them."""
    shown = any(side.role == "model" for side in found.sides)
    return not shown and any(metric.own for metric in found.metrics)


def _line(metric: Metric, found: Comparison) -> list[object]:
    line: list[object] = [metric.name, metric.tier]
    for i, side in enumerate(found.sides):
        interval = metric.intervals[side.label]
        line.append(_between(interval) if interval else metric.values[side.label])
        if i:
            line.append(_change(metric, side.label, found))
    if _shows_own(found):
        line.insert(3, _between(metric.own))
    return line


def _change(metric: Metric, label: str, found: Comparison) -> str:
    if label in found.incomparable and fallback_unit.counts(metric.name):
        return "other unit"
    return change(metric.differences[label])


def _notes(found: Comparison) -> list[str]:
    """What the columns mean."""
    if any(any(m.intervals.values()) for m in found.metrics):
        return [
            "median [low to high]: 80 % interval, calibrated on other recordings.",
            "A difference is of members with the same seed; none is shown if its interval has 0.",
        ]
    if any(side.role == "what-if" for side in found.sides):
        if found.error_of is None:
            return ["one run, no interval: pass the recorded tape, or use --ensemble"]
        return ["one run: the interval of a difference is the model's error on the recording"]
    return []


def _text(found: Comparison) -> str:
    columns = ["metric", "tier"]
    for i, side in enumerate(found.sides):
        columns.append(side.label)
        if i:
            columns.append(f"against {found.references[side.label]}")
    if _shows_own(found):
        columns.insert(3, "own rules")
    lines = [_line(m, found) for m in found.metrics if any(m.values.values())]
    notes = _notes(found)
    notes += [f"{answer.visible(side.label)} ({side.role}): {side.loss}" for side in found.sides]
    notes += [
        f"{answer.visible(side.label)}: {answer.visible(line)}"
        for side in found.sides
        for line in [*side.kernel_warnings, *filter(None, [found.incomparable.get(side.label)])]
    ]
    notes += [
        f"{answer.visible(side.label)}: {answer.visible(line)}"
        for side in found.sides
        if side.role == "what-if"
        for line in policy_effect.lines(side.effects)
    ]
    return "\n".join([answer.table(columns, lines), "", *notes])


def _members(tapes: Sequence[Tape], nr: int) -> dict[Path, pa.Table]:
    """Members for the replays that have none, if the first tape is their recording."""
    base = tapes[0]
    if not nr or "replay" in base.facts:
        return {}
    found = {}
    for tape in tapes[1:]:
        run = of_replay(tape, base)
        if run is not None and not tape.num_rows("member"):
            source = Source(base, inferred(base), preferences(base))
            with console.progress(tape.path.name) as bar:
                found[tape.path] = ensemble.with_own(source, run, nr, somewhere(), progress=bar)
    return found


def _recorded(tapes: Sequence[Tape]) -> dict[str, dict[str, Any]] | None:
    """The metrics of the first tape, if it is the recording of one of the others."""
    base = tapes[0]
    played = any(of_replay(tape, base) is not None for tape in tapes[1:])
    return model_error.recorded_metrics(base) if played else None


@click.command("compare")
@click.argument("base", metavar="BASE.tape", type=options.PATH)
@click.argument("others", metavar="OTHER.tape...", type=options.PATH, nargs=-1, required=True)
@options.ensemble
@options.json
def command(base: Path, others: tuple[Path, ...], ensemble_size: int, as_json: bool) -> None:
    """Compare the metrics of tapes side by side, with intervals.

    A what-if is compared with the own rules: a replay of the recording under its own kernel and
    policy, with the same inputs. Both are ensembles, so each number has a median and an 80 %
    interval, and the difference is taken member by member. "no difference shown": its interval
    contains 0. The tape of `pagetape replay -o` has its members; for a tape without members the
    command plays them, if BASE.tape is its recording.

    \b
    Example:
      pagetape replay base.tape --policy nofragment -o whatif.tape
      pagetape compare base.tape whatif.tape
    """
    tapes = [Tape(path) for path in (base, *others)]
    found = compare(tapes, _members(tapes, ensemble_size), _recorded(tapes))
    if as_json:
        answer.emit(found.json())
    else:
        answer.say(_text(found))
