# SPDX-License-Identifier: Apache-2.0
"""pagetape record: record this machine's page allocator into a tape."""

from __future__ import annotations

import errno
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pagetape import answer
from pagetape.commands import options
from pagetape.recording.eventsets import SETS, tracepoints
from pagetape.recording.flight import Callbacks, Flight
from pagetape.recording.memory import Demand, Limit, fit
from pagetape.recording.rotation import OneTape, Rotation
from pagetape.recording.session import Contents, Session, Spooling, Wanted
from pagetape.recording.status import Status
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
from pagetape.tapes.loss import Loss


def _saved(path: Path) -> str:
    """One line about a tape that has all its rows."""
    tape = Tape(path)
    # Not before: it loads the engine, and a recording should begin at once.
    from pagetape.tapes.info import flight, snapshots, spooled, summary

    info = summary(tape)
    if tape.facts.get("deferred"):
        return f"{path}: {spooled(info)}; pagetape import {path} -o NEW.tape decodes it"
    why = f"{flight(info)}; " if flight(info) else ""
    each = f" ({info['bytes_per_event']:.2f} bytes/event)" if info["bytes_per_event"] else ""
    return (
        f"{path}: {why}{answer.amount(info['stored'], 'event')} in {info['duration_s']:.1f} s,"
        f" {answer.size(info['bytes'])}{each}, snapshots: {snapshots(info)},"
        f" {Loss.of(tape, closed=True)}{_full(info)}"
    )


def _full(info: dict[str, Any]) -> str:
    """How long no event could be spooled; what waits in the spool is of the next tape."""
    seconds = info["spool"]["full_s"]
    return f", the spool was full for {seconds:.1f} s" if seconds else ""


class _TriggerType(click.ParamType[Trigger | None]):
    name = "trigger"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Trigger | None:
        try:
            return parse(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)


def _wanted_snapshots(kind: str, max_ms: float | None, events: str) -> Wanted:
    """A tape of the cheap set cannot be replayed, so an exact snapshot would serve nothing."""
    if events != "cheap":
        return Wanted(kind, max_ms)
    why = "tapes of the cheap event set take no exact snapshot, because they cannot be replayed"
    if kind in ("exact", "locked"):
        raise click.UsageError(f"--snapshot {kind} needs --events page or all: {why}")
    return Wanted("proc", blocks=False, why_proc=why if kind == "auto" else None)


@click.command("record", context_settings={"ignore_unknown_options": True})
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="T.tape|DIR",
    required=True,
    help="Output tape; with --rotate or --ring, the directory of the tapes.",
)
@click.option(
    "--duration",
    type=options.duration(least=1e-3),
    metavar="TIME",
    help="Stop after TIME, at least 1ms: 10 (seconds), 90s, 5min."
    "  [default: at the end of CMD, or on Ctrl-C]",
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
    type=click.Choice(["auto", "exact", "locked", "proc"]),
    default="auto",
    show_default=True,
    help="exact: read free lists with BPF, or fail; proc: read /proc; auto: exact if possible, but"
    " proc with --events cheap; locked: as auto, but walk the lists while their lock is held.",
)
@click.option(
    "--snapshot-max-ms",
    type=click.FloatRange(0.05, 100),
    metavar="MS",
    help="Maximum time, in ms, that an exact snapshot holds a zone's lock or a CPU."
    "  [default: 0.2, or 2 where that fails; with --snapshot locked 20]",
)
@click.option(
    "--stacks",
    type=click.Choice(["extfrag"]),
    help="Also record the kernel stack of every fallback.  [default: no stacks]",
)
@click.option(
    "--rotate",
    type=options.duration(least=1),
    metavar="TIME",
    help="Start a new tape in DIR every TIME, at least 1s: 90s, 5min, 1h.",
)
@click.option(
    "--keep",
    type=options.size(),
    metavar="SIZE",
    help="Remove the oldest finished tapes in DIR beyond SIZE: 500MB, 2GB. The tape being recorded "
    "and its spool do not count.  [default: no limit]",
)
@click.option(
    "--ring",
    type=options.duration(least=1),
    metavar="TIME",
    help="Flight recorder: hold the last TIME in memory and write a tape on a trigger.",
)
@click.option(
    "--trigger",
    "triggers",
    type=_TriggerType(),
    metavar="SPEC",
    multiple=True,
    help="Condition for --ring to write a tape: extfrag>N/s, thp_fail>N%, direct_reclaim_p99>Nms. "
    "SIGUSR1 always triggers. Repeatable.",
)
@click.option(
    "--ring-memory",
    type=options.size(least=1e6),
    default="128MB",
    show_default=True,
    metavar="SIZE",
    help="Memory limit of the flight recorder. A smaller limit keeps fewer seconds.",
)
@click.option(
    "--cooldown",
    type=options.duration(),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Ignore triggers (except SIGUSR1) for TIME after one fires.",
)
@click.option(
    "--sample",
    type=options.duration(),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="Sample counters and parameters from /proc every TIME; 0 disables sampling.",
)
@click.option(
    "--numa-maps",
    is_flag=True,
    help="Also record the memory policy of each process at its first sample, for replays of a "
    "machine with several nodes. The kernel walks the page tables of each process once.",
)
@options.private
@click.option(
    "--buffer",
    type=options.size(least=1e6),
    metavar="SIZE",
    help="Kernel memory of each CPU's ring. A full ring loses events."
    "  [default: 1 to 32 MB, 1/64 of the memory for all CPUs together]",
)
@click.option(
    "--spool-max",
    type=options.size(least=1),
    metavar="SIZE",
    help="Maximum disk space of events that wait for decoding, with their memory. Beyond it, events"
    " are lost and counted.  [default: 8 GiB, or half of the free space; of it at most 256 MB of"
    " memory, 64 MB per CPU, 1/16 of the memory of the machine or its control group]",
)
@click.option(
    "--defer",
    is_flag=True,
    help="Do not decode here: run pagetape import later, on any machine.",
)
@click.option(
    "--memory",
    type=options.size(least=1e6),
    metavar="SIZE",
    help="Most memory of the recorder, with its rings and programs in the kernel. With less,"
    " buffers are smaller; with less than decoding takes, the tape is as of --defer."
    "  [default: what the machine and the control group allow]",
)
@click.option("--quiet", is_flag=True, help="Print errors and disturbances only.")
@options.force
@click.argument("argv", metavar="[-- CMD ...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    out: Path,
    duration: float | None,
    events: str,
    snapshot: str,
    snapshot_max_ms: float | None,
    stacks: str | None,
    rotate: float | None,
    keep: float | None,
    ring: float | None,
    triggers: tuple[Trigger | None, ...],
    cooldown: float,
    sample: float,
    numa_maps: bool,
    private: str | None,
    spool_max: float | None,
    quiet: bool,
    force: bool,
    argv: tuple[str, ...],
    **_for_memory: Any,
) -> None:
    """Record this machine's page allocator into a tape.

    The recording ends when CMD exits, after TIME, or on Ctrl-C, SIGTERM or SIGHUP; CMD is
    terminated if it still runs. The exit status is that of CMD. The recording does not disturb
    other users of ftrace. A replay needs the events `page` or `all`, and is far more accurate with
    an exact snapshot. Recording needs root, or access to tracefs.

    On stderr the recorder prints the time of its start, and at the end a line for each tape. On a
    terminal, without CMD, it also shows events/s, lost events and the bytes in the spool.

    --rotate records from tape to tape without losing an event. Each tape is complete, with
    its own first and last snapshot, and is named DIR/HOST-2026-11-21T061500Z.tape. --keep removes
    the oldest finished tapes of such recordings; it never removes other files.

    --ring writes nothing until a trigger fires or SIGUSR1 arrives. Then the last TIME, or up to
    twice as much, becomes a tape in DIR, and the recording continues. SIGKILL loses the memory.

    Without --ring, a killed recorder loses no event: the events stay in T.tape/spool, and `pagetape
    import` turns them into a complete tape. If the spool is full, the kernel overwrites its oldest
    events; the tape counts them. With --defer a full spool ends the recording, with exit status 1.

    If another user switches off, empties or removes the recorder's tracing instance, or if the tape
    is removed, the recording ends soon, with exit status 1: tables `disturbance` and `lost`.

    \b
    Example:
      pagetape record -o base.tape -- make -j8
      pagetape record -o base.tape --events cheap --stacks extfrag --duration 1h
      pagetape record -o tapes --events cheap --rotate 5min --keep 2GB
      pagetape record -o tapes --events all --ring 60s --trigger 'extfrag>1000/s'
      pagetape record -o raw.tape --defer --duration 10 && pagetape import raw.tape -o base.tape
    """
    check(ctx)
    import_module("pagetape._collector")  # while few files are open: it raises the limit of them
    wanted = _wanted_snapshots(snapshot, snapshot_max_ms, events)
    limit = Limit.of(ctx.params["memory"])
    taken = fit(_demand(ctx.params, wanted), limit)
    session = Session(
        Workload(argv, duration),
        Contents(tracepoints(events), sample, stacks is not None, numa_maps),
        wanted,
        watch=Watch([trigger for trigger in triggers if trigger is not None], cooldown),
        spooling=Spooling(int(spool_max or 0) or None, taken.defer, taken.spools, taken.ring_kb),
        status=Status(str(out), memory=taken.words(limit), quiet=quiet, live=not argv),
    )
    if taken.defer and not ctx.params["defer"]:
        session.status.warn(f"too little memory to decode: {out} is deferred, as by --defer")
    if rotate is not None:
        code = _rotate(session, _tape_dir(session, out, keep, private), rotate, private)
    elif ring is not None:
        tape_dir = _tape_dir(session, out, keep, private)
        code = _fly(session, tape_dir, ring, taken.held, private)
    else:
        code = _one_tape(session, out, private, force=force, defer=taken.defer)
    if session.ended != "stopped":
        raise TapeError(errno.ENOSPC, f"{out}: the recording ended early: {session.ended}")
    ctx.exit(code)


def _demand(given: dict[str, Any], wanted: Wanted) -> Demand:
    """What these options decide about memory."""
    flies = given["ring"] is not None
    return Demand(
        os.cpu_count() or 1,
        exact=wanted.kind != "proc",
        defer=given["defer"],
        may_defer=not flies and given["rotate"] is None and given["private"] is None,
        series=flies or given["rotate"] is not None,
        held=int(given["ring_memory"]) if flies else 0,
        ring_kb=int((given["buffer"] or 0) // 1024),
    )


# Each option, and the options of which it needs one.
_NEEDS = {
    "keep": ("rotate", "ring"),
    "triggers": ("ring",),
    "ring_memory": ("ring",),
    "cooldown": ("ring",),
}


def check(ctx: click.Context) -> None:
    """Raise UsageError if an option excludes another one, or needs one that is missing."""
    given = {
        name for name in ctx.params if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    names = {option.name: option.opts[-1] for option in ctx.command.params}
    for name, others in _NEEDS.items():
        if name in given and not given & set(others):
            needed = " or ".join(names[other] for other in others)
            raise click.UsageError(f"{names[name]} needs {needed}")
    if {"rotate", "ring"} <= given:
        raise click.UsageError("--rotate and --ring exclude each other")
    if {"defer", "private"} <= given:
        raise click.UsageError(
            "--defer stores names in the spool; run import, then import --private"
        )
    if "defer" in given and given & {"rotate", "ring"}:
        raise click.UsageError("--defer records one tape: it excludes --rotate and --ring")
    if "force" in given and given & {"rotate", "ring"}:
        raise click.UsageError(
            "--force replaces one tape; --rotate and --ring always create new tapes"
        )
    if "numa_maps" in given and not ctx.params["sample"]:
        raise click.UsageError("--numa-maps needs --sample")
    for trigger in ctx.params["triggers"]:
        if isinstance(trigger, ThpFail) and not ctx.params["sample"]:
            raise click.UsageError(f"{trigger.spec} needs --sample")
        if isinstance(trigger, DirectReclaim) and ctx.params["events"] == "page":
            raise click.UsageError(f"{trigger.spec} needs --events cheap or all")


def _one_tape(session: Session, out: Path, private: str | None, *, force: bool, defer: bool) -> int:
    """Record one tape; returns the exit status."""
    output.check_free(out, replace=force)
    tape = OneTape(out, replace=force, defer=defer, private=private)
    status = session.run(tape, out.absolute().parent)
    session.status.say(_saved(tape.path))
    return status


def _tape_dir(session: Session, out: Path, keep: float | None, private: str | None) -> TapeDir:
    """The directory of a series; the names of private tapes do not have the host."""
    return TapeDir(out, keep, "private" if private else None, session.status.say)


def _rotate(session: Session, tape_dir: TapeDir, seconds: float, private: str | None) -> int:
    """Record a new tape every `seconds`; returns the exit status."""
    rotation = Rotation(
        tape_dir, done=lambda path: session.status.say(_saved(path)), private=private
    )
    return session.run(rotation, tape_dir.directory, seconds)


def _fly(
    session: Session, tape_dir: TapeDir, seconds: float, memory: float, private: str | None
) -> int:
    """Record into memory. The exit status is 1 if writing a tape failed."""
    saved: list[Path] = []
    failures: list[OSError] = []

    def done(path: Path) -> None:
        saved.append(path)
        session.status.say(_saved(path))

    def failed(error: OSError) -> None:
        failures.append(error)
        session.status.warn(f"cannot write the tape: {error.strerror or error}")

    def fire(*_: object) -> None:
        session.requests.fire(Firing(SIGNAL, None, "", time.monotonic_ns()))

    flight_recorder = Flight(
        tape_dir,
        seconds,
        memory,
        Callbacks(full=session.requests.cut, done=done, failed=failed),
        private=private,
    )
    signal.signal(signal.SIGUSR1, fire)
    session.status.armed = [*session.watch.specs, "SIGUSR1"]
    status = session.run(flight_recorder, tape_dir.directory, seconds, prompt=True)
    if not saved and not failures:
        session.status.say("pagetape: no trigger fired: no tape was written")
    return status or int(bool(failures))
