# SPDX-License-Identifier: Apache-2.0
"""pagetape ab: a setting of this machine at two values in turns, beside its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pagetape import answer, console, terminal
from pagetape.ab import WARM_UPS
from pagetape.commands import model_options, options

if TYPE_CHECKING:
    from pagetape.ab.plan import Plan, RunOf
    from pagetape.ab.result import Result

_COLOURS = {"agrees|no difference shown": "green", "within noise": "yellow", "wrong": "red"}


def _plan(setting: str, pairs: int, warm_ups: str, out: Path | None, argv: tuple[str, ...]) -> Plan:
    from pagetape.ab.plan import Plan, current, parse_set
    from pagetape.ab.switch import Host
    from pagetape.tapes import output

    if out is None:
        raise click.UsageError("--set needs -o DIR for the tapes")
    output.check_not_stdout(out)
    if not argv:
        raise click.UsageError("no command: give it after --, as in -- make -j8")
    host = Host()
    try:
        switch, values = parse_set(setting, host)
    except ValueError as e:
        raise click.BadParameter(str(e), param_hint="--set") from e
    return Plan(switch, values, current(switch, host), pairs, warm_ups, argv, out)


def _record(plan: Plan) -> Result:
    """Record all runs; ab.json has those that are complete, whatever happens."""
    from pagetape.ab.live import record_runs
    from pagetape.ab.result import Result
    from pagetape.ab.switch import Host

    found = Result.begin(plan)

    def say(line: str) -> None:
        if not line.startswith("run "):
            found.restored.append(line)
        console.report(line)

    def done(run: RunOf, seconds: float) -> None:
        found.add(run, seconds)
        found.write()

    record_runs(plan, Host(), say, done)
    return found


def _compared(found: Result, members: int, as_json: bool) -> None:
    from pagetape.ab import result

    source = click.get_current_context().get_parameter_source("members")
    bounded = source is ParameterSource.DEFAULT
    made = found.write(found.compare(members, console.progress, bounded=bounded))
    if made["ensemble"] < members:
        console.report(
            f"{made['ensemble']} members of each tape, not {members}, for an answer within"
            f" 5 minutes; `pagetape ab --again {found.directory} --ensemble {members}` takes longer"
        )
    if as_json:
        answer.emit(made)
    else:
        terminal.say(result.text(made), words=_COLOURS)


def _restore(as_json: bool) -> None:
    from pagetape.ab.journal import restore_left
    from pagetape.ab.switch import Host

    lines = restore_left(Host())
    if as_json:
        answer.emit({"restored": lines})
    else:
        answer.say("\n".join(lines) or "nothing to restore: no pagetape ab was killed")


@click.command("ab", context_settings={"ignore_unknown_options": True})
@click.option(
    "--set",
    "setting",
    metavar="NAME=A,B",
    help="Setting and its two values: vm.percpu_pagelist_high_fraction, vm.defrag_mode, "
    "vm.watermark_boost_factor, vm.watermark_scale_factor, vm.min_free_kbytes, "
    "vm.compaction_proactiveness (also without `vm.`), thp.enabled or thp.defrag.",
)
@click.option(
    "--pairs",
    type=click.IntRange(2, 100),
    default=3,
    show_default=True,
    metavar="N",
    help="Recordings of each value, at least 2: one does not show how far equal runs differ.",
)
@click.option(
    "--warm-up",
    "warm_ups",
    type=click.Choice(WARM_UPS),
    default=WARM_UPS[0],
    show_default=True,
    help="Runs of CMD without a recording, under the value that the machine has now. all: before "
    "each recording, so that each starts from per-CPU lists that the same load left.",
)
@options.output("DIR", "New directory for ab.json and one tape per recording.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option(
    "--restore",
    is_flag=True,
    help="Restore a setting that a killed pagetape ab left behind, and do nothing else.",
)
@click.option(
    "--again",
    type=options.PATH,
    metavar="DIR",
    help="Predict and compare the tapes of an earlier run again. Records nothing.",
)
@model_options.members(
    "members",
    "Members of the ensemble of each tape. 0: record, and predict nothing. Long tapes get fewer, "
    "for an answer within 5 minutes, unless N is given.",
)
@options.json
@click.argument("argv", metavar="[-- CMD ...]", nargs=-1, type=click.UNPROCESSED)
def command(
    setting: str | None,
    pairs: int,
    warm_ups: str,
    out: Path | None,
    dry_run: bool,
    restore: bool,
    again: Path | None,
    members: int,
    as_json: bool,
    argv: tuple[str, ...],
) -> None:
    """Record CMD under two values of a setting in turns, and compare with the prediction.

    Changes a setting of this machine, so it needs root. It first prints what it will do. CMD runs
    A B A B ..., and each recording ends with it. A CMD that does a fixed amount of work in a
    fixed time compares best. From the tapes of A alone the model then predicts B, and from the
    tapes of B it predicts A.

    \b
    live       ratio of the medians of the runs; its spread is from the smallest to the largest
               ratio of any two runs
    predicted  ratio of the new value and the tape's own rules, with an 80 % interval
    signs      - fewer, 0 the same, + more: live, and predicted
    verdict    agrees: the live runs show a difference (their spread excludes 1), and so does
               the prediction: its interval excludes 1 and has the live ratio
               wrong: the live runs show a difference of the other sign, or the interval does
               not meet their spread
               no difference shown: neither by the live runs nor by the prediction
               within noise: none of these, equal runs differ by as much as the prediction is
               off, or only one of the two shows a difference

    A pair with a partial tape (lost events, no exact start) does not count.

    Ratios are of counts plus 5. The setting gets its former value at the end, after an error and
    after Ctrl-C, SIGTERM or SIGHUP. After a kill, the next pagetape ab or --restore does it. A
    value that another process wrote meanwhile stays, and the command reports it. The run stops if
    less than 1 % of memory and swap is available, or if the OOM killer ends a process.

    \b
    Example:
      pagetape ab --set defrag_mode=0,1 -o ab --dry-run -- make -j8
      pagetape ab --set defrag_mode=0,1 -o ab -- make -j8
      pagetape ab --again ab --json
      pagetape ab --restore
    """
    from pagetape.ab.journal import restore_left
    from pagetape.ab.plan import check_machine
    from pagetape.ab.result import Result
    from pagetape.ab.switch import Host

    modes = [name for name, given in (("--set", setting), ("--again", again)) if given]
    modes += ["--restore"] if restore else []
    if len(modes) != 1:
        given = " and ".join(modes) or "nothing"
        raise click.UsageError(f"give one of --set, --again and --restore, not {given}")
    if restore:
        _restore(as_json)
        return
    if again:
        _compared(Result.read(again), members, as_json)
        return
    plan = _plan(str(setting), pairs, warm_ups, out, argv)
    if dry_run:
        if as_json:
            answer.emit(plan.json())
        else:
            answer.say("\n".join(plan.lines()))
        return
    if left := restore_left(Host()):
        for line in left:
            console.report(f"left by a killed pagetape ab: {line}")
        plan = _plan(str(setting), pairs, warm_ups, out, argv)  # with the restored value
    check_machine(plan, Host())
    for line in plan.lines():
        console.report(line)
    _compared(_record(plan), members, as_json)
