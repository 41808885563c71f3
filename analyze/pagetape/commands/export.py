# SPDX-License-Identifier: Apache-2.0
"""pagetape export: a tape for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from pagetape import answer, console
from pagetape.commands import options
from pagetape.export import llfree, perfetto
from pagetape.schemas.tape import Tape
from pagetape.tapes import output
from pagetape.tapes.loss import Loss

FORMATS = ("perfetto", "llfree")


@click.command("export")
@options.tape
@click.option(
    "--format",
    "which",
    type=click.Choice(FORMATS),
    default="perfetto",
    show_default=True,
    help="perfetto: a timeline in JSON, which ui.perfetto.dev opens. llfree: the requests, for "
    "replay of the allocator LLFree.",
)
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="FILE",
    required=True,
    help="The file to make; compressed if it ends in .gz.",
)
@click.option(
    "--interval",
    type=options.duration(1e-6),
    default="100ms",
    show_default=True,
    metavar="TIME",
    help="Page events are drawn as rates over this time (perfetto).",
)
@options.force
@options.json
def command(tape: Path, which: str, out: Path, interval: float, force: bool, as_json: bool) -> None:
    """A tape for other tools: as a timeline, or as a trace to replay.

    The timeline has free pages and watermarks of each zone, page events as rates, kswapd,
    kcompactd, reclaim and compaction as slices of the threads they ran in, fallbacks, wakeups
    and failed allocations as marks, and where events are lost. A recording and a replay
    can both be drawn.

    The trace for LLFree has every allocation and free with its time, CPU, pid, order, gfp flags
    and pfn. Its replay begins with an empty machine and ignores frees of pages that it has
    not seen allocated; times become single-precision seconds there, so that the order among
    CPUs gets lost beyond some minutes. The format ends at 64 GiB; a larger machine is refused.

    \b
    Example:
      pagetape export base.tape -o base.json.gz
      pagetape export base.tape --format llfree -o base.llfree
    """
    if which == "llfree" and out.suffix == ".gz":
        raise click.BadParameter("LLFree reads no compressed trace", param_hint="--output")
    source = Tape(tape)
    with console.progress("export") as bar, output.whole_file(out, replace=force) as file:
        if which == "llfree":
            made = llfree.write(source, file, bar)
        else:
            made = perfetto.write(source, file, round(interval * 1e9), bar)
    made["bytes"] = out.stat().st_size
    loss = Loss.of(source)
    if as_json:
        answer.emit({"format": which, "output": str(out), **made, "lost": loss.total})
        return
    parts = [f"{nr:,} {name.replace('_', ' ')}" for name, nr in made.items() if name != "bytes"]
    click.echo(f"{out}: {', '.join(parts)}; {answer.size(made['bytes'])}\n{loss}")
