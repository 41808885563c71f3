# SPDX-License-Identifier: Apache-2.0
"""pagetape compare: metrics of several tapes side by side."""

from pathlib import Path

import click

from pagetape import answer, console, terminal
from pagetape.commands import completion, model_options, options


@click.command("compare")
@click.argument("base", metavar="BASE.tape", type=options.TAPE, shell_complete=completion.tapes)
@click.argument(
    "others",
    metavar="OTHER.tape...",
    type=options.TAPE,
    nargs=-1,
    required=True,
    shell_complete=completion.tapes,
)
@model_options.ensemble
@options.memory
@options.wide
@options.json
def command(
    base: Path, others: tuple[Path, ...], ensemble_size: int, wide: bool, as_json: bool
) -> None:
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
    from pagetape.asking import comparison_table
    from pagetape.replaying import prediction
    from pagetape.schemas.tape import Tape

    tapes = [Tape(path) for path in (base, *others)]
    found = prediction.compare(tapes, ensemble_size, console.progress)
    if as_json:
        answer.emit(found.json())
    else:
        terminal.say(
            comparison_table.text(found, wide=wide),
            head=True,
            words={"no difference shown|other unit": "yellow"},
        )
