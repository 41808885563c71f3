# SPDX-License-Identifier: Apache-2.0
"""pagetape demo: a tape to try, without a recording."""

from pathlib import Path

import click

from pagetape import answer
from pagetape.commands import options
from pagetape.tapes import demo


@click.command("demo")
@click.argument(
    "name", type=click.Choice(demo.demo_names()), default=demo.DEFAULT, metavar="[NAME]"
)
@options.output("OUT.tape", "Place of the copy.  [default: NAME.tape in this directory]")
@options.force
@options.json
def command(name: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Copy a tape that comes with pagetape into this directory.

    Use these tapes to try the other commands on a machine without a recording. Each has a choice
    that some policies need. NAME is one of:

    \b
      pressure   Linux 6.1, two nodes, short of memory  [default]
      server     Linux 6.12, a small server whose huge pages fail
      lowzone    Linux 6.12, node 0 has DMA32 below NORMAL: nofragment
      thp2       Linux 6.12, two nodes, huge pages by madvise: thp_numa
      held-back  Linux 6.12, a zone held back: kswapd_sleep
      kbuild     Linux 6.12, 2.5 GB, calm, units of a build: pcp, alloc_batch

    \b
    Example:
      pagetape demo
      pagetape info pressure.tape
    """
    out = out or Path(f"{name}.tape")
    tape = demo.copy_demo(name, out, replace=force)
    if as_json:
        answer.emit({"output": str(out), "events": tape.num_rows("event")})
        return
    answer.say_line(f"{out}: {answer.amount(tape.num_rows('event'), 'event')}; to begin:")
    for line in ("diagnose", "report extfrag.by_task", "replay --policy nofragment:mode=always"):
        verb, _, rest = line.partition(" ")
        answer.say_line(f"  pagetape {verb} {rest + ' ' if rest else ''}{out}")
