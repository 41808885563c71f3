# SPDX-License-Identifier: Apache-2.0
"""pagetape record: this machine's page allocator to a tape."""

from __future__ import annotations

from pathlib import Path

import click

from pagetape import answer, options, output
from pagetape.contents import describe, snapshots
from pagetape.eventsets import SETS, tracepoints
from pagetape.load import Load
from pagetape.loss import Loss
from pagetape.rotation import OneTape, Rotation
from pagetape.schemas.tape import Tape
from pagetape.session import Session, Wanted
from pagetape.shelf import Shelf


def _say(path: Path) -> None:
    """One line about a finished tape."""
    tape = Tape(path)
    info = describe(tape)
    each = f" ({info['bytes_per_event']:.2f} bytes/event)" if info["bytes_per_event"] else ""
    click.echo(
        f"{path}: {answer.amount(info['stored'], 'event')} in {info['duration_s']:.1f} s,"
        f" {answer.size(info['bytes'])}{each}, snapshots: {snapshots(info)}, {Loss.of(tape)}",
        err=True,
    )


@click.command("record", context_settings={"ignore_unknown_options": True})
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="T.tape|DIR",
    required=True,
    help="The tape to make; with --rotate the directory of the tapes.",
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

    \b
    Example:
      pagetape record -o base.tape --duration 10
      pagetape record -o base.tape -- make -j8
      pagetape record -o base.tape --events cheap --stacks extfrag --duration 1h
      pagetape record -o tapes --events cheap --rotate 5min --keep 2GB
    """
    if keep is not None and rotate is None:
        raise click.UsageError("--keep is for --rotate")
    if force and rotate is not None:
        raise click.UsageError("--force replaces one tape; --rotate makes new ones")
    load = Load(argv, duration)
    wanted = Wanted(snapshot, snapshot_max_ms, blocks=events != "cheap")
    session = Session(load, tracepoints(events), wanted, stacks=stacks is not None)
    if rotate is None:
        output.check_free(out, replace=force)
        status = session.run(OneTape(out, replace=force), out.absolute().parent)
        _say(out)
    else:
        shelf = Shelf(out, keep)
        status = session.run(Rotation(shelf, done=_say), out, rotate)
    ctx.exit(status)
