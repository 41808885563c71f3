# SPDX-License-Identifier: Apache-2.0
"""pagetape record: this machine's page allocator to a tape."""

from __future__ import annotations

import errno
import signal
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pagetape import answer
from pagetape.commands import options
from pagetape.recording.eventsets import SETS, tracepoints
from pagetape.recording.flight import Callbacks, Flight
from pagetape.recording.rotation import OneTape, Rotation
from pagetape.recording.session import Contents, Session, Spooling, Wanted
from pagetape.recording.tape_dir import TapeDir
from pagetape.recording.triggers import (
    SIGNAL,
    DirectReclaim,
    Firing,
    ThpFail,
    Trigger,
    Watch,
    parse,
)
from pagetape.recording.workload import Workload
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output
from pagetape.tapes.info import flight, snapshots, spooled, summary
from pagetape.tapes.loss import Loss


def _say(path: Path) -> None:
    """One line about a tape that was made."""
    tape = Tape(path)
    info = summary(tape)
    if tape.facts.get("deferred"):
        click.echo(
            f"{path}: {spooled(info)}; pagetape import {path} -o NEW.tape decodes it", err=True
        )
        return
    why = f"{flight(info)}; " if flight(info) else ""
    each = f" ({info['bytes_per_event']:.2f} bytes/event)" if info["bytes_per_event"] else ""
    click.echo(
        f"{path}: {why}{answer.amount(info['stored'], 'event')} in {info['duration_s']:.1f} s,"
        f" {answer.size(info['bytes'])}{each}, snapshots: {snapshots(info)}, {Loss.of(tape)}"
        + (f", {spooled(info)}" if info["spool"]["full_s"] else ""),
        err=True,
    )


class _TriggerType(click.ParamType[Trigger | None]):
    name = "trigger"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Trigger | None:
        try:
            return parse(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)


@click.command("record", context_settings={"ignore_unknown_options": True})
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="T.tape|DIR",
    required=True,
    help="The tape to make; with --rotate or --ring the directory of the tapes.",
)
@click.option(
    "--duration", type=options.duration(), metavar="TIME", help="Stop after so long: 10, 90s, 5min."
)
@click.option(
    "--events",
    type=click.Choice(list(SETS)),
    default="all",
    show_default=True,
    help="; ".join(f"{name}: {doc}" for name, doc in SETS.items()) + ".",
)
@click.option(
    "--snapshot",
    type=click.Choice(["auto", "exact", "proc"]),
    default="auto",
    show_default=True,
    help="exact: with BPF, or not at all; proc: from /proc; auto: exact where it can be.",
)
@click.option(
    "--snapshot-max-ms",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    metavar="MS",
    help="An exact snapshot holds a zone's lock no longer.",
)
@click.option(
    "--stacks",
    type=click.Choice(["extfrag"]),
    help="Record what led to each of these, too: the kernel stack of every fallback.",
)
@click.option(
    "--rotate",
    type=options.duration(least=1),
    metavar="TIME",
    help="A new tape in DIR each time: 90s, 5min, 1h.",
)
@click.option(
    "--keep",
    type=options.size(),
    metavar="SIZE",
    help="Remove the oldest tapes in DIR beyond so much: 500MB, 2GB.",
)
@click.option(
    "--ring",
    type=options.duration(least=1),
    metavar="TIME",
    help="Keep so much in memory, and make a tape of it when triggered.",
)
@click.option(
    "--trigger",
    "triggers",
    type=_TriggerType(),
    metavar="SPEC",
    multiple=True,
    help="extfrag>N/s, thp_fail>N%, direct_reclaim_p99>Nms; SIGUSR1 always triggers.",
)
@click.option(
    "--ring-memory",
    type=options.size(least=1e6),
    default="128MB",
    show_default=True,
    metavar="SIZE",
    help="What --ring may take; where that is too little it holds less.",
)
@click.option(
    "--cooldown",
    type=options.duration(),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="After a trigger, none but SIGUSR1 for so long.",
)
@click.option(
    "--sample",
    type=options.duration(),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="Counters and parameters from /proc each time; 0 for none.",
)
@click.option(
    "--numa-maps",
    is_flag=True,
    help="The memory policy of each process as well, when a sample first sees it, for replays "
    "of a machine with several nodes: makes the kernel walk its page tables once.",
)
@options.private
@click.option(
    "--buffer",
    type=options.size(least=1e6),
    metavar="SIZE",
    help="Kernel memory of each CPU's ring, from which events are lost when it is full."
    "  [default: 1 to 32 MB, a 64th of the memory for all CPUs together]",
)
@click.option(
    "--spool-max",
    type=options.size(least=1),
    metavar="SIZE",
    help="Disk for what waits to be decoded. Where that is not enough, events are lost, and"
    " counted.  [default: 4 GiB, or half of what is free]",
)
@click.option(
    "--defer",
    is_flag=True,
    help="Decode nothing here: pagetape import makes the tape, on any machine.",
)
@options.force
@click.argument("argv", metavar="[-- CMD ...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    out: Path,
    duration: float | None,
    events: str,
    snapshot: str,
    snapshot_max_ms: int,
    stacks: str | None,
    rotate: float | None,
    keep: float | None,
    ring: float | None,
    triggers: tuple[Trigger | None, ...],
    ring_memory: float,
    cooldown: float,
    sample: float,
    numa_maps: bool,
    private: str | None,
    buffer: float | None,
    spool_max: float | None,
    defer: bool,
    force: bool,
    argv: tuple[str, ...],
) -> None:
    """Record this machine's page allocator into a tape.

    Stops when CMD ends, after TIME, or on Ctrl-C or SIGTERM, whichever is
    first; a CMD that still runs then is ended. The exit status is that of CMD. Other
    users of ftrace are not disturbed. A replay needs the events `page` or `all`, and
    is much truer from an exact snapshot. Needs root, or access to tracefs.

    With --rotate, the recording goes on from tape to tape without losing an event.
    Each is complete, from its own first snapshot to its last. They are named
    DIR/HOST-2026-11-21T061500Z.tape; with --keep, the oldest finished ones are
    removed, but nothing that such a recording did not make.

    With --ring, nothing is written until a trigger fires, or SIGUSR1 comes: then the
    last TIME, or up to twice as much, becomes a tape in DIR, and the recording goes
    on. The tape says why it was made and how many seconds it holds. What is in memory
    is lost when the recorder is killed with SIGKILL.

    Otherwise nothing is lost then that was taken from the kernel: it waits in T.tape/spool,
    and `pagetape import` makes a whole tape of it. The spool takes up to SIZE of disk. When
    it is full the kernel overwrites its oldest events until there is room; the tape tells
    how many, and where. With --defer nothing makes room: the recording ends in order, with
    exit status 1.

    \b
    Example:
      pagetape record -o base.tape --duration 10
      pagetape record -o base.tape -- make -j8
      pagetape record -o base.tape --events cheap --stacks extfrag --duration 1h
      pagetape record -o tapes --events cheap --rotate 5min --keep 2GB
      pagetape record -o tapes --events all --ring 60s --trigger 'extfrag>1000/s'
      pagetape record -o raw.tape --defer --duration 10 && pagetape import raw.tape -o base.tape
    """
    check(ctx)
    workload = Workload(argv, duration)
    wanted = Wanted(snapshot, snapshot_max_ms, blocks=events != "cheap")
    watch = Watch([trigger for trigger in triggers if trigger is not None], cooldown)
    spooling = Spooling(
        int(spool_max) if spool_max else None, defer=defer, ring_kb=int((buffer or 0) // 1024)
    )
    session = Session(
        workload,
        Contents(tracepoints(events), sample, stacks is not None, numa_maps),
        wanted,
        watch=watch,
        spooling=spooling,
    )
    host = "private" if private else None  # in the names of the tapes
    if rotate is not None:
        rotation = Rotation(TapeDir(out, keep, host), done=_say, private=private)
        status = session.run(rotation, out, rotate)
    elif ring is not None:
        status = _fly(session, TapeDir(out, keep, host), ring, ring_memory, private)
    else:
        output.check_free(out, replace=force)
        tape = OneTape(out, replace=force, defer=defer, private=private)
        status = session.run(tape, out.absolute().parent)
        _say(out)
    if session.ended != "stopped":
        raise TapeError(errno.ENOSPC, f"{out}: the recording ended early: {session.ended}")
    ctx.exit(status)


# Options that need another one.
_NEEDS = {
    "keep": ("rotate", "ring"),
    "triggers": ("ring",),
    "ring_memory": ("ring",),
    "cooldown": ("ring",),
}


def check(ctx: click.Context) -> None:
    """UsageError where options do not go together."""
    given = {
        name for name in ctx.params if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    names = {option.name: option.opts[-1] for option in ctx.command.params}
    for name, others in _NEEDS.items():
        if name in given and not given & set(others):
            needed = " or ".join(names[other] for other in others)
            raise click.UsageError(f"{names[name]} is for {needed}")
    if {"rotate", "ring"} <= given:
        raise click.UsageError("--rotate and --ring exclude each other")
    if {"defer", "private"} <= given:
        raise click.UsageError("--defer keeps what --private hides; import, then import --private")
    if "defer" in given and given & {"rotate", "ring"}:
        raise click.UsageError("--defer is for one tape, not for --rotate or --ring")
    if "force" in given and given & {"rotate", "ring"}:
        raise click.UsageError("--force replaces one tape; --rotate and --ring make new ones")
    if "numa_maps" in given and not ctx.params["sample"]:
        raise click.UsageError("--numa-maps needs --sample")
    for trigger in ctx.params["triggers"]:
        if isinstance(trigger, ThpFail) and not ctx.params["sample"]:
            raise click.UsageError(f"{trigger.spec} needs --sample")
        if isinstance(trigger, DirectReclaim) and ctx.params["events"] == "page":
            raise click.UsageError(f"{trigger.spec} needs --events cheap or all")


def _fly(
    session: Session, tape_dir: TapeDir, seconds: float, memory: float, private: str | None
) -> int:
    """Record into memory; the exit status says also when a tape could not be made."""
    failures: list[OSError] = []

    def failed(error: OSError) -> None:
        failures.append(error)
        click.echo(f"pagetape: no tape was made: {error.strerror or error}", err=True)

    def fire(*_: object) -> None:
        session.requests.fire(Firing(SIGNAL, None, "", time.monotonic_ns()))

    flight_recorder = Flight(
        tape_dir,
        seconds,
        memory,
        Callbacks(full=session.requests.cut, done=_say, failed=failed),
        private=private,
    )
    signal.signal(signal.SIGUSR1, fire)
    status = session.run(flight_recorder, tape_dir.directory, seconds, prompt=True)
    return status or int(bool(failures))
