# SPDX-License-Identifier: Apache-2.0
"""pagetape html: one self-contained page."""

from __future__ import annotations

from pathlib import Path

import click

from pagetape import answer
from pagetape.commands import options
from pagetape.pages.page import page
from pagetape.schemas.tape import Tape


@click.command("html")
@options.tapes
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="F.html",
    required=True,
    help="Output file.",
)
def command(tapes: tuple[Path, ...], out: Path) -> None:
    """Write one self-contained HTML page about one or more tapes.

    The first tape is the base of the comparison. The page needs no network and no script, follows
    the browser's light or dark mode, and prints well. Hover over a mark to see its exact value.

    \b
    Example:
      pagetape html base.tape model.tape whatif.tape -o report.html
    """
    text = page([Tape(path) for path in tapes])
    out.write_text(text, "utf-8")
    click.echo(f"{out}: {answer.size(len(text.encode()))}")
