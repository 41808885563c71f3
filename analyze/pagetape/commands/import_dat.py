# SPDX-License-Identifier: Apache-2.0
"""pagetape import: a trace.dat to a tape."""

from __future__ import annotations

import errno
from pathlib import Path

import click

from pagetape import answer, capture, options, output, procfs
from pagetape._collector import DatFile
from pagetape.contents import describe
from pagetape.loss import Loss
from pagetape.private import Veil, Veiled
from pagetape.schemas.tape import Tape, TapeError


def import_dat(
    dat: Path,
    out: Path,
    *,
    proc: procfs.Proc | None = None,
    kernel: str | None = None,
    private: str | None = None,
    replace: bool = False,
) -> None:
    """Make the tape `out` from the file `dat`, with the snapshots in `proc`."""
    output.check_free(out, replace=replace)
    machine = proc.facts if proc else {}
    source = DatFile(str(dat), machine.get("migratetypes", ()))
    try:
        facts = capture.known(machine, source.facts, {"kernel": kernel, "source": dat.name})
        if not kernel and machine.get("kernel", facts.get("kernel")) != facts.get("kernel"):
            raise TapeError(
                errno.EINVAL,
                f"{dat}: is from kernel {facts['kernel']}, the --proc files are from"
                f" {machine['kernel']}",
            )
        veil = Veil(private) if private else None
        with (
            output.whole_tape(out, veil.facts(facts) if veil else facts, replace=replace) as tape,
            output.progress("import") as bar,
        ):
            sink = Veiled(tape, veil) if veil else tape
            if proc:
                for number, stage in enumerate(proc.stages):
                    capture.Snapshot.take(proc, stage, number).write(sink)
            capture.write_events(source, sink, bar, proc.rings() if proc else ())
    finally:
        source.close()


@click.command("import")
@click.argument("dat", metavar="FILE.dat", type=options.PATH)
@options.output
@click.option(
    "--proc",
    "directory",
    metavar="DIR",
    type=options.PATH,
    help="Copies of /proc files of the traced machine.",
)
@click.option("--kernel-release", "kernel", metavar="R", help="The traced kernel, as uname -r.")
@options.private
@options.force
def command(
    dat: Path,
    out: Path,
    directory: Path | None,
    kernel: str | None,
    private: str | None,
    force: bool,
) -> None:
    """Turn a trace.dat of trace-cmd into a tape.

    DIR holds NAME.before and NAME.after for zoneinfo, pagetypeinfo, buddyinfo,
    vmstat, kpageflags, version, nodes and others, maybe compressed as .zst. A
    replay needs at least zoneinfo. A trace.dat that does not name its kernel, as
    `trace-cmd restore` writes them, takes it from there or from --kernel-release;
    otherwise the tape says that it is unknown.

    \b
    Example:
      pagetape import trace.dat --proc snapshots/ -o base.tape
      pagetape import trace.dat --private hash -o give-away.tape
    """
    proc = procfs.saved(directory) if directory else None
    import_dat(dat, out, proc=proc, kernel=kernel, private=private, replace=force)
    tape = Tape(out)
    info = describe(tape)
    click.echo(
        f"{out}: kernel {info['kernel'] or 'unknown'}, {answer.amount(info['stored'], 'event')},"
        f" {answer.size(info['bytes'])}, {Loss.of(tape)}"
    )
