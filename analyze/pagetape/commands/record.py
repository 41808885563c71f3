# SPDX-License-Identifier: Apache-2.0
"""pagetape record: this machine's page allocator to a tape."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from pagetape import answer, capture, options, output, procfs
from pagetape._collector import Recorder
from pagetape.contents import describe, snapshots
from pagetape.exact import Exact, ExactSnapshots
from pagetape.loss import Loss
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError, Writer

# Rare events that still tell of fragmentation, reclaim and stalls.
CHEAP = {
    "event": {"alloc_extfrag"},
    "reclaim": {
        "wakeup_kswapd",
        "kswapd_wake",
        "kswapd_sleep",
        "direct_reclaim_begin",
        "direct_reclaim_end",
        "node_reclaim_begin",
        "node_reclaim_end",
        "throttled",
        "setup_wmarks",
        "setup_lowmem_reserve",
        "totalreserve",
        "mark_victim",
    },
    "compaction": {
        "begin",
        "end",
        "try_to_compact_pages",
        "wakeup_kcompactd",
        "kcompactd_wake",
        "kcompactd_sleep",
    },
}

NICE = 10  # of what writes the tape
GRACE_S = 5  # that a command which outlives the recording has to end


def tracepoints(which: str) -> list[str]:
    """The "system:event" names of an event set."""
    tables = ("event",) if which == "page" else ("event", "reclaim", "compaction")
    return [
        tracepoint
        for name in tables
        for kind in TABLES[name].kinds
        if which != "cheap" or kind.name in CHEAP[name]
        for tracepoint in kind.tracepoints
    ]


class Load:
    """What runs while the tape records: a command, a span of time, or until a signal."""

    def __init__(self, argv: Sequence[str], duration: float | None) -> None:
        if argv and not shutil.which(argv[0]):
            raise TapeError(errno.ENOENT, f"{argv[0]}: command not found")
        self._argv = argv
        self._duration = duration
        self._over = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Within, SIGINT and SIGTERM end the load instead of the program."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(n, lambda *_: self.stop()) for n in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def stop(self) -> None:
        """End it now."""
        self._over.set()

    def run(self) -> None:
        """Start the command, and wait for the first end there is."""
        if self._argv:
            self._child = subprocess.Popen(self._argv)
            threading.Thread(target=self._wait, args=(self._child,), daemon=True).start()
        self._over.wait(self._duration)

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        self._over.set()

    def finish(self) -> int:
        """The command's exit status; 0 if it was still running and had to be ended."""
        if self._child is None:
            return 0
        status = self._child.poll()
        if status is not None:
            return status if status >= 0 else 128 - status
        self._child.terminate()
        try:
            self._child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        return 0


class Pump(threading.Thread):
    """Moves events from the recorder to the tape while the load runs; yields to it."""

    def __init__(self, recorder: Recorder, tape: Writer, load: Load) -> None:
        super().__init__(name="pump")
        self._recorder, self._tape, self._load = recorder, tape, load
        self._error: BaseException | None = None

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            capture.write_events(self._recorder, self._tape)
        except BaseException as e:  # raised again where the tape is made
            self._error = e
            self._load.stop()

    def finish(self) -> None:
        self.join()
        if self._error:
            raise self._error


@dataclass(frozen=True)
class Wanted:
    """What kind of snapshots a recording is to begin and end with."""

    kind: str  # exact, proc, or auto: exact where it can be
    max_ms: int = 20  # that one may hold a lock or the CPUs

    def take(self, snapshots: ExactSnapshots | None, number: int) -> Exact | None:
        """An exact snapshot, if one is wanted; TapeError if it is a must, at the start."""
        if snapshots is None:
            return None
        found = snapshots.take(number)
        if found.why and self.kind == "exact" and number == 0:
            raise TapeError(errno.ENOTSUP, f"no exact snapshot: {found.why}")
        return found


def record(out: Path, load: Load, events: Sequence[str], wanted: Wanted, *, replace: bool) -> int:
    """Record while the load runs; its exit status."""
    output.check_free(out, replace=replace)
    proc = procfs.live()
    (stage,) = proc.stages
    with contextlib.ExitStack() as stack:
        exact = None
        if wanted.kind != "proc":
            exact = stack.enter_context(contextlib.closing(ExactSnapshots(wanted.max_ms)))
        # The spool's files have no names: their directory is needed only to make them.
        with tempfile.TemporaryDirectory(
            prefix=f".{out.name}.", dir=out.absolute().parent
        ) as spool:
            recorder = Recorder(events, spool, proc.facts.get("migratetypes", ()))
            stack.callback(recorder.close)
            stack.enter_context(load.signals())
            before = capture.Snapshot.take(proc, stage, 0, time.monotonic_ns())
            recorder.start()
        before = before.made_exact(wanted.take(exact, 0))
        now = {
            "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "events": list(events),
            "snapshot": before.facts,
        }
        facts = capture.known(recorder.facts, proc.facts, now)
        tape = stack.enter_context(Writer(out, facts, replace=replace))
        before.write(tape)
        pump = Pump(recorder, tape, load)
        pump.start()
        end = None
        try:
            load.run()
            end = wanted.take(exact, 1)
        finally:
            recorder.stop()
            blocks = end is None or end.why is not None
            after = capture.Snapshot.take(proc, stage, 1, time.monotonic_ns(), blocks=blocks)
            status = load.finish()
            pump.finish()
        after.made_exact(end).write(tape)
    return status


@click.command("record", context_settings={"ignore_unknown_options": True})
@options.output
@click.option("--duration", type=click.FloatRange(min=0), metavar="S", help="Stop after S seconds.")
@click.option(
    "--events",
    type=click.Choice(["page", "cheap", "all"]),
    default="all",
    show_default=True,
    help="page: every page event; all: reclaim and compaction too; cheap: only what is rare.",
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
    force: bool,
    argv: tuple[str, ...],
) -> None:
    """Record this machine's page allocator into a tape.

    Stops when CMD ends, after S seconds, or on Ctrl-C or SIGTERM, whichever is
    first; a CMD that still runs then is ended. The exit status is that of CMD. Other
    users of ftrace are not disturbed. A replay needs the events `page` or `all`, and
    is much truer from an exact snapshot. Needs root, or access to tracefs.

    \b
    Example:
      pagetape record -o base.tape --duration 10
      pagetape record -o base.tape -- make -j8
    """
    wanted = Wanted(snapshot, snapshot_max_ms)
    status = record(out, Load(argv, duration), tracepoints(events), wanted, replace=force)
    tape = Tape(out)
    info = describe(tape)
    each = f" ({info['bytes_per_event']:.2f} bytes/event)" if info["bytes_per_event"] else ""
    click.echo(
        f"{out}: {answer.amount(info['stored'], 'event')} in {info['duration_s']:.1f} s,"
        f" {answer.size(info['bytes'])}{each}, snapshots: {snapshots(info)}, {Loss.of(tape)}",
        err=True,
    )
    ctx.exit(status)
