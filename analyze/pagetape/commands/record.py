# SPDX-License-Identifier: Apache-2.0
"""pagetape record: record this machine's page allocator into a tape.

The options and their rules; recording/recorder.py records. It is imported after the first words:
Arrow and the collector take longer than everything here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pagetape import console
from pagetape.commands import options
from pagetape.recording.eventsets import AUTO, LOCK, PROC, RARE, SETS
from pagetape.recording.status import Status

if TYPE_CHECKING:
    from pagetape.recording.stack_events import StackEvent
    from pagetape.recording.watch import Trigger


_POOL = "ARROW_DEFAULT_MEMORY_POOL"


def _of_recording(module: str) -> Any:
    """A module of the room `recording`; Arrow, which it needs, takes the C library's allocator.

    Its own one keeps 20 MB more in the process of a recorder.
    """
    chosen = _POOL in os.environ  # by the user
    os.environ.setdefault(_POOL, "system")
    try:
        return import_module(f"pagetape.recording.{module}")
    finally:
        if not chosen:  # the recorded command has the environment of its caller
            del os.environ[_POOL]


class _TriggerType(click.ParamType["Trigger | None"]):
    name = "trigger"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Trigger | None:
        try:
            trigger: Trigger | None = _of_recording("triggers").parse(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)
        return trigger


class _StacksType(click.ParamType["StackEvent"]):
    name = "stacks"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> StackEvent:
        try:
            event: StackEvent = _of_recording("stack_events").StackEvent.parse(value)
        except ValueError as e:
            self.fail(f"'{value}': {e} (example: 'alloc:order >= 3')", param, ctx)
        return event


class _Events(click.Choice[str]):
    """An event set, with or without `,lock`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        others = [name for name in value.split(",") if name != LOCK] or [LOCK]
        if len(others) > 1 or (others == [PROC] and value != PROC):
            self.fail(f"{value!r}: give one event set, or one that has events and lock", param, ctx)
        if ctx is not None:
            ctx.params["locks"] = LOCK in value.split(",")
        return super().convert(others[0], param, ctx)


@click.command("record", context_settings={"ignore_unknown_options": True})
@options.output(
    "T.tape|DIR", "Output tape; with --rotate or --ring, the directory of the tapes.", required=True
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
    type=_Events([*SETS, AUTO]),
    default="all",
    show_default=True,
    help="; ".join(f"{name}: {doc}" for name, doc in SETS.items())
    + f"; {AUTO}: zone where BPF can be used, otherwise cheap.",
)
@click.option(
    "--snapshot",
    type=click.Choice(["auto", "exact", "proc"]),
    default="auto",
    show_default=True,
    help="exact: read free lists with BPF, or fail; proc: read /proc; auto: exact if possible, but"
    " proc with --events cheap or lock.",
)
@click.option(
    "--snapshot-max-ms",
    type=click.FloatRange(0.05, 100),
    metavar="MS",
    help="Maximum time, in ms, that an exact snapshot holds a zone's lock or a CPU."
    "  [default: 0.2, or 10 where that fails]",
)
@click.option(
    "--stamps",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="State of the per-CPU list and its zone at each refill and drain, for a replay, with the"
    " events page, zone or all. on: with BPF, or fail; auto: where BPF can be used.",
)
@click.option(
    "--stacks",
    type=_StacksType(),
    metavar="EVENT[:CONDITION]",
    multiple=True,
    help="Also record the kernel stack of each fallback (extfrag), each allocation (alloc), or of"
    " those that meet a condition in the language of replay --rewrite: 'alloc:order >= 3'."
    " Repeatable.  [default: no stacks]",
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
    "--interval",
    "sample",
    type=options.duration(),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="Sample counters and parameters from /proc every TIME; 0 disables sampling. With --events"
    " proc, read its files every TIME: 1s, 1min.",
)
@click.option(
    "--numa-maps",
    is_flag=True,
    help="Also record the memory policy of each process at its first sample, for replays of a "
    "machine with several nodes. The kernel walks the page tables of each process once.",
)
@options.private
@options.fleet_key
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
    ctx: click.Context, /, out: Path, quiet: bool, argv: tuple[str, ...], **given: Any
) -> None:
    """Record this machine's page allocator into a tape.

    The recording ends when CMD exits, after TIME, or on Ctrl-C, SIGTERM or SIGHUP; CMD is
    terminated if it still runs. The exit status is that of CMD. The recording does not disturb
    other users of ftrace. A replay needs the events `page` or `all`, and is far more accurate with
    an exact snapshot. Recording needs root, or access to tracefs.

    On stderr the recorder says that it prepares, then the time of its start, and at the end a line
    for each tape. On a terminal, without CMD, it also shows events/s, lost events and the bytes in
    the spool.

    --events proc needs neither root nor tracing. It reads /proc every --interval, and each reading
    becomes a snapshot and a sample; the tape has no events. Only root may read
    /proc/pagetypeinfo on newer kernels; the recorder says so once.

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
      pagetape record -o base.tape --stacks 'alloc:order >= 3' -- make -j8
      pagetape record -o tapes --events cheap --rotate 5min --keep 2GB
      pagetape record -o tapes --events proc --interval 1min --rotate 24h --keep 200MB
      pagetape record -o tapes --events all --ring 60s --trigger 'extfrag>1000/s'
      pagetape record -o raw.tape --defer --duration 10 && pagetape import raw.tape -o base.tape
    """
    check(ctx)
    if given["events"] == AUTO:
        printed = _of_recording("printed")
        given["events"], why = printed.best_set(exact=given["snapshot"] != "proc")
        console.report(
            why and f"BPF cannot be used ({why}): recording the events {given['events']}"
        )
    status = Status(str(out), quiet=quiet, live=not argv)
    if _is_plain(ctx) and given["events"] != PROC:
        status.preparing(given["events"])
    recorder = _of_recording("recorder")
    ctx.exit(recorder.record(recorder.Request(out=out, argv=argv, **given), status))


def _is_plain(ctx: click.Context) -> bool:
    """Whether nothing that shows at once may refuse the recording: a refusal is one line."""
    given = ctx.params
    out = given["out"]
    free = given["rotate"] or given["ring"] or not (os.path.lexists(out) or out == Path("-"))
    return os.geteuid() == 0 and given["memory"] is None and bool(free)


# Each option, and the options of which it needs one.
_NEEDS = {
    "keep": ("rotate", "ring"),
    "triggers": ("ring",),
    "ring_memory": ("ring",),
    "cooldown": ("ring",),
}


# The options of a recording with events; the others mean the same for /proc over time.
_OF_EVENTS = (
    *("snapshot", "snapshot_max_ms", "stacks", "ring", "triggers", "ring_memory"),
    *("cooldown", "numa_maps", "buffer", "spool_max", "defer", "memory"),
)


def _check_proc(given: set[str], names: Mapping[str, str], params: dict[str, Any]) -> None:
    """Raise UsageError for an option that /proc over time does not know."""
    for name in _OF_EVENTS:
        if name in given:
            raise click.UsageError(f"{names[name]} needs events: --events proc has none")
    if not params["sample"]:
        raise click.UsageError("--events proc needs --interval above 0")


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
    if ctx.params["events"] == PROC:
        _check_proc(given, names, ctx.params)
    for is_wrong, why in (*_wrong_together(given), *_wrong_values(given, ctx.params)):
        if is_wrong:
            raise click.UsageError(why)


def _wrong_together(given: set[str]) -> Iterator[tuple[bool, str]]:
    """Options that exclude each other, and why."""
    makes_tapes = bool(given & {"rotate", "ring"})
    yield {"rotate", "ring"} <= given, "--rotate and --ring exclude each other"
    yield (
        {"defer", "private"} <= given,
        "--defer stores names in the spool; run import, then import --private",
    )
    yield (
        "defer" in given and makes_tapes,
        "--defer records one tape: it excludes --rotate and --ring",
    )
    yield (
        "force" in given and makes_tapes,
        "--force replaces one tape; --rotate and --ring always create new tapes",
    )


def _wrong_values(given: set[str], params: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Values of options that do not fit those of others, and why."""
    events, snapshot = params["events"], params["snapshot"]
    yield (
        events in RARE and snapshot == "exact",
        f"--snapshot exact needs --events page or all: tapes of the {events} event set take no"
        " exact snapshot, because they cannot be replayed",
    )
    yield (
        params["stamps"] == "on" and (events in RARE or snapshot == "proc"),
        "--stamps on needs --events page, zone or all, and --snapshot auto or exact: its programs"
        " are those of exact snapshots",
    )
    yield (
        any(one.needs_allocs for one in params["stacks"]) and events not in ("page", "all"),
        "--stacks alloc needs --events page or all, which have allocations",
    )
    yield "numa_maps" in given and not params["sample"], "--numa-maps needs --sample"
    for trigger in filter(None, params["triggers"]):
        yield trigger.needs_samples and not params["sample"], f"{trigger.spec} needs --sample"
        yield (
            trigger.needs_reclaim and events in ("page", LOCK),
            f"{trigger.spec} needs --events cheap or all",
        )
