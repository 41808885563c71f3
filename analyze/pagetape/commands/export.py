# SPDX-License-Identifier: Apache-2.0
"""pagetape export: write a tape for other tools."""

from pathlib import Path

import click

from pagetape import answer, console
from pagetape.commands import options

FORMATS = ("perfetto", "llfree")


@click.command("export")
@options.tape
@click.option(
    "--format",
    "which",
    type=click.Choice(FORMATS),
    default="perfetto",
    show_default=True,
    help="perfetto: a timeline in JSON for ui.perfetto.dev. llfree: a trace of the requests, for "
    "the replay of the LLFree allocator.",
)
@options.output(
    "FILE",
    "Output file; gzip-compressed if the name ends in .gz. -: stdout (perfetto only).",
    required=True,
)
@click.option(
    "--interval",
    type=options.duration(1e-6),
    default="100ms",
    show_default=True,
    metavar="TIME",
    help="Averaging interval of the event rates (perfetto only).",
)
@options.force
@options.json
def command(tape: Path, which: str, out: Path, interval: float, force: bool, as_json: bool) -> None:
    """Write a tape for other tools: as a timeline, or as a trace to replay.

    The Perfetto timeline shows free pages and watermarks of each zone, page events as rates, and
    lost events. kswapd, kcompactd, reclaim and compaction are slices of their threads.
    Fallbacks, wakeups and failed allocations are marks. Recordings and replays have timelines.

    The LLFree trace has every allocation and free with its time, CPU, pid, order, gfp flags
    and pfn. LLFree's replay starts with an empty machine and ignores frees of pages whose
    allocation is not in the trace. Times are single-precision seconds, so the order between
    CPUs becomes inexact after some minutes. The format is limited to 64 GiB of memory; the
    command refuses tapes of larger machines.

    \b
    Example:
      pagetape export base.tape -o base.json.gz
      pagetape export base.tape --format llfree -o base.llfree
    """
    from pagetape.asking import query
    from pagetape.export import llfree, perfetto
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import output
    from pagetape.tapes.loss import Loss

    if which == "llfree" and out.suffix == ".gz":
        raise click.BadParameter(
            "LLFree cannot read compressed traces: use a name without .gz", param_hint="--output"
        )
    to_stdout = out == output.STDOUT
    if to_stdout and which == "llfree":
        raise click.BadParameter(
            "an LLFree trace begins with its size, which is known last: name a file, not -",
            param_hint="--output",
        )
    if to_stdout and as_json:
        raise click.UsageError("--json and -o - exclude each other: both write to stdout")
    source = Tape(tape)
    loss = Loss.of(source)  # an unreadable tape leaves no output
    mark = {"llfree": llfree.MARK, "perfetto": perfetto.MARK}[which]
    with (
        console.progress("export") as bar,
        output.whole_file(out, replace=force, mark=mark, inputs=[tape]) as file,
    ):
        if which == "llfree":
            made = llfree.write(source, file, bar)
        else:
            try:
                made = perfetto.write(source, file, round(interval * 1e9), bar)
            except query.ParameterError as e:
                raise click.BadParameter(str(e), param_hint="--interval") from e
    if to_stdout:
        answer.say_line(str(loss), err=True)
        return
    made["bytes"] = out.stat().st_size
    if as_json:
        answer.emit({"format": which, "output": str(out), **made, "lost": loss.total})
        return
    parts = [f"{nr:,} {name.replace('_', ' ')}" for name, nr in made.items() if name != "bytes"]
    answer.say_line(f"{out}: {', '.join(parts)}; {answer.size(made['bytes'])}")
    answer.say_line(str(loss))
