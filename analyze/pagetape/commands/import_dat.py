# SPDX-License-Identifier: Apache-2.0
"""pagetape import: turn a trace file or an unfinished tape into a tape."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, console
from pagetape.commands import options

if TYPE_CHECKING:
    from pagetape import proc_copies
    from pagetape._collector import Source
    from pagetape.recording import capture


def import_dat(
    dat: Path,
    out: Path,
    *,
    proc: proc_copies.Copies | None = None,
    kernel: str | None = None,
    private: str | None = None,
    replace: bool = False,
) -> None:
    """Make the tape `out` from the trace file `dat` and the snapshots in `proc`.

    Raises TapeError if `proc` is of another machine or kernel, and OSError for an unreadable `dat`
    or a copy in `proc` that is none.
    """
    from pagetape import proc_agree
    from pagetape.numa_maps import parse
    from pagetape.recording import capture
    from pagetape.recording.private import Veil
    from pagetape.recording.trace_places import PlacedEvents
    from pagetape.schemas.tape import TapeError
    from pagetape.tapes import output

    output.check_free(out, replace=replace, inputs=[dat])
    if proc:
        proc_agree.check(proc)
    machine = capture.known(proc.facts if proc else {}, {"kernel": kernel})
    source, lacking = _open(dat, machine)
    try:
        facts = capture.known(
            machine, source.facts, lacking, {"kernel": kernel, "source": dat.name}
        )
        if not kernel and machine.get("kernel", facts.get("kernel")) != facts.get("kernel"):
            raise TapeError(
                errno.EINVAL,
                f"{dat}: the kernel is {facts['kernel']}, but the --proc files are from"
                f" {machine['kernel']}",
            )
        veil = Veil(private) if private else None
        with (
            output.whole_tape(
                out, veil.facts(facts) if veil else facts, replace=replace, inputs=[dat]
            ) as tape,
            console.progress("import") as bar,
        ):
            sink: capture.Sink = veil.over(tape) if veil else tape
            if proc:
                for number, stage in enumerate(proc.stages):
                    flags = capture.read_flags(proc, stage, number, after=True)
                    capture.Snapshot.take(proc, stage, number, flags=flags).write(sink)
                if policies := parse(proc.text("numa_maps") or ""):
                    sink.rows("memory_policy", policies)
            if proc is None:
                capture.write_events(source, sink, bar)
            else:
                placed = PlacedEvents(sink, proc_agree.placed(proc))
                capture.write_events(source, placed, bar, proc.rings())
                placed.check(str(dat), str(proc.directory), source.bad_records)
            bad = source.bad_records
    finally:
        source.close()
    if bad:
        console.report(f"{dat}: left out {answer.amount(bad, 'damaged record')}")


def _open(dat: Path, machine: dict[str, Any]) -> tuple[Source, dict[str, Any]]:
    """The source of a trace file, and the facts about what the file lacks."""
    from pagetape.recording.foreign import is_foreign

    migratetypes = machine.get("migratetypes", ())
    if not is_foreign(dat):
        from pagetape.dat_file import DatFile

        return DatFile(str(dat), migratetypes), {}
    from pagetape.foreign_file import ForeignFile
    from pagetape.recording import import_limits

    source = ForeignFile(str(dat), migratetypes, machine.get("kernel"))
    return source, import_limits.facts_of(source.found, machine)


def _release(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    from pagetape.tapes import kernel_rows

    if text is not None and not kernel_rows.is_release(text):
        raise click.BadParameter(
            f"'{text}' is no release of a kernel (example: 6.12.0)", context, parameter
        )
    return text


def copy(
    old: Path, out: Path, *, private: str | None, events: str | None, replace: bool = False
) -> None:
    """Copy the tape `old` to `out`, private or projected to an event set.

    `private` is hash or drop, for names; pfns are moved then. Raises TapeError if `old` is a replay
    or unfinished, or does not have the events.
    """
    from pagetape.recording.private import Veil
    from pagetape.replaying import validation
    from pagetape.schemas.tape import Tape, TapeError
    from pagetape.tapes import output, zone_events

    output.check_free(out, replace=replace, inputs=[old])
    tape, veil = Tape(old), Veil(private) if private else None
    if "replay" in tape.facts:
        raise TapeError(errno.EINVAL, f"{old}: is a replay; import its recording instead")
    if not tape.complete:
        raise TapeError(errno.EINVAL, f"{old}: is unfinished; import it without --private first")
    source = zone_events.Projection(tape, validation.inferred) if events else tape
    with output.whole_tape(
        out, veil.facts(source.facts) if veil else source.facts, replace=replace, inputs=[old]
    ) as made:
        sink: capture.Sink = veil.over(made) if veil else made
        for name in tape.tables:
            for batch in source.batches(name):
                sink.write(name, batch)


def _is_own(dat: Path) -> bool:
    """Whether it is a tape, or the directory of one that has only its spool yet."""
    from pagetape.schemas.tape import SPOOL, is_tape

    return is_tape(dat) or (dat / SPOOL).is_dir()


def _made(
    dat: Path,
    out: Path,
    *,
    proc: proc_copies.Copies | None,
    kernel: str | None,
    private: str | None,
    interval: float | None,
    replace: bool,
) -> None:
    """Make the tape `out` from a trace.dat, from an unfinished tape, or from /proc over time."""
    from pagetape.recording import proc_tape, recovery

    if _is_own(dat):
        recovery.recover(dat, out, private=private, replace=replace)
    elif proc is None and proc_tape.is_series(dat):
        proc_tape.import_series(
            dat, out, interval=interval, kernel=kernel, private=private, replace=replace
        )
    else:
        import_dat(dat, out, proc=proc, kernel=kernel, private=private, replace=replace)


@click.command("import")
@click.argument("dat", metavar="FILE|DIR|T.tape", type=options.TAPE)
@options.output("T.tape", "Output tape.", required=True)
@click.option(
    "--proc",
    "directory",
    metavar="DIR",
    type=options.PATH,
    help="Directory with copies of /proc files of the traced machine.",
)
@click.option(
    "--kernel-release",
    "kernel",
    metavar="R",
    callback=_release,
    help="Release of the traced kernel, as uname -r prints it.  [default: that of FILE or DIR]",
)
@click.option(
    "--interval",
    type=options.duration(least=1e-3),
    metavar="TIME",
    help="Time between two copies of /proc that have no dates: 1s, 1min.  [default: unknown]",
)
@click.option(
    "--events",
    type=click.Choice(["zone"]),
    help="Store only the events of this event set, as record --events zone stores them.  [default:"
    " all]",
)
@options.private
@options.fleet_key
@options.force
def command(
    dat: Path,
    out: Path,
    directory: Path | None,
    kernel: str | None,
    events: str | None,
    private: str | None,
    force: bool,
    interval: float | None,
) -> None:
    """Turn a trace file, copies of /proc over time, or an unfinished tape into a tape.

    FILE is a trace.dat of trace-cmd, a perf.data, a Perfetto trace with ftrace events, or the text
    of a trace: of ftrace's files trace and trace_pipe, of trace-cmd report, or of perf script. Its
    content decides, not its name. What a file lacks, and for which question, is printed, stored in
    the tape, and shown under each report.

    DIR holds NAME.before and NAME.after for zoneinfo, pagetypeinfo, buddyinfo, vmstat,
    kpageflags, version, nodes and others, optionally compressed as .zst. before/NAME and
    proc/NAME are read as well. A replay needs zoneinfo, pagetypeinfo and kpageflags from before
    the trace. Without kpageflags, the replay guesses the place of free blocks that no event shows.
    Files of another form or another machine are refused. If FILE does not contain its kernel
    release (texts and `trace-cmd restore` omit it), the release comes from DIR or
    --kernel-release; otherwise it is unknown. The file
    numa_maps holds the output of grep -H '' /proc/[0-9]*/numa_maps. With it, a replay knows the
    memory policies of the processes and need not guess them.

    Copies of /proc over time need no trace.dat: a directory of dated copies of zoneinfo, buddyinfo,
    pagetypeinfo and vmstat, a sosreport (a directory or tar archive), the log of a cron job
    with `date` and `cat` of these files or a date before each line, the text of Prometheus'
    node_exporter, or a table of PCP (pmrep -o csv, pmdumptext) with mem.buddyinfo and mem.zoneinfo.
    The content of a file tells what it is. Its dates are those in the file, in its name or in that
    of a directory, or else that of its last change. The tape has a snapshot and a sample for each
    moment, and no events. Damaged copies are left out; the tape says which, and so does each
    report.

    T.tape is a tape of `record --defer`, of a killed recorder, or of a recorder that
    ran out of disk space. It may come from another machine. The command decodes the tape and the
    rest of its spool into one tape, without loss, and leaves T.tape unchanged. `pagetape info`
    shows how the recording ended.

    --private makes a tape that you can publish: names of threads, control groups and the host
    are hashed with a key that is not stored, or dropped, and pfns are moved. The tape
    replays like the original. The input is FILE or a finished T.tape.

    --events zone leaves out what the per-CPU lists do by themselves. The result is the tape that
    `record --events zone` would have made: the tape is validated first, which shows the frees that
    found their list locked. The input is the same.

    \b
    Example:
      pagetape import trace.dat --proc snapshots/ -o base.tape
      pagetape import trace.txt --kernel-release 6.1.0 -o base.tape
      pagetape import perf.data -o base.tape
      pagetape import sosreport-web1.tar.xz -o web1.tape
      pagetape import buddyinfo.log -o night.tape --kernel-release 5.15.0
      pagetape import killed.tape -o base.tape
      pagetape import base.tape --private hash -o give-away.tape
      pagetape import base.tape --events zone -o zone.tape
    """
    from pagetape import proc_copies
    from pagetape.schemas.tape import Tape, is_tape
    from pagetape.tapes import output, temporary, zone_events
    from pagetape.tapes.info import moments, summary
    from pagetape.tapes.loss import Loss
    from pagetape.tapes.spool import Found

    if _is_own(dat) and (directory or kernel):
        raise click.UsageError(f"{dat} is a tape; --proc and --kernel-release are for FILE")
    proc = proc_copies.saved(directory) if directory else None
    make = partial(_made, dat, proc=proc, kernel=kernel, interval=interval)
    if is_tape(dat) and Found.of(dat) is None and Tape(dat).complete:
        if private is None and events is None:
            raise click.UsageError(
                f"{dat} is already a finished tape; only --private and --events can copy it"
            )
        copy(dat, out, private=private, events=events, replace=force)
    elif events is None:
        make(out, private=private, replace=force)
    else:
        output.check_free(out, replace=force, inputs=[dat])
        with temporary.temporary(out.parent, f".{out.name}.") as room:
            whole = room / "whole.tape"
            make(whole, private=None, replace=False)
            copy(whole, out, private=private, events=events, replace=force)
    tape = Tape(out)
    info = summary(tape)
    of_proc = zone_events.is_of_proc(tape)
    what = moments(info) if of_proc else answer.amount(info["stored"], "event")
    answer.say_line(
        f"{out}: kernel {info['kernel'] or 'unknown'}, {what}, {answer.size(info['bytes'])},"
        f" {Loss.of(tape)}"
    )
    for line in info["absent"]:
        console.report(f"{out}: {line}")
