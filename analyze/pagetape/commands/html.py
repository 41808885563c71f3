# SPDX-License-Identifier: Apache-2.0
"""pagetape html: one self-contained page."""

from pathlib import Path

import click

from pagetape import answer
from pagetape.commands import options


@click.command("html")
@options.tapes
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="F.html",
    required=True,
    help="Output file; - for stdout.",
)
@options.memory
def command(tapes: tuple[Path, ...], out: Path) -> None:
    """Write one self-contained HTML page about one or more tapes.

    The first tape is the base of the comparison. The page needs no network and no script, follows
    the browser's light or dark mode, and prints well. Hover over a mark to see its exact value.

    The command replaces a page that pagetape wrote before, but no other file.

    \b
    Example:
      pagetape html base.tape model.tape whatif.tape -o report.html
    """
    from pagetape.pages.document import MARK
    from pagetape.pages.page import page
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import output

    output.check_file_free(out, replace=True, mark=MARK, inputs=tapes)
    text = page([Tape(path) for path in tapes]).encode()
    with output.whole_file(out, replace=True, mark=MARK, inputs=tapes) as file:
        file.write(text)
    if out != output.STDOUT:
        answer.say_line(f"{out}: {answer.size(len(text))}")
