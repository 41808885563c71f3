# SPDX-License-Identifier: Apache-2.0
"""pagetape html: one self-contained page."""

from pathlib import Path

import click

from pagetape import answer
from pagetape.commands import archive_report, options


@click.command("html")
@options.sources
@archive_report.which
@archive_report.by
@options.output("F.html", "Output file; - for stdout.", required=True)
@options.memory
def command(
    tapes: tuple[Path | options.Archive, ...],
    where: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
    out: Path,
) -> None:
    """Write one self-contained HTML page about one or more tapes, or about an archive.

    The first tape is the base of the comparison. The page needs no network and no script, follows
    the browser's light or dark mode, and prints well. Hover over a mark to see its exact value.

    The page of an archive has its coverage, the rates of rare events of each cohort (--by),
    differences between cohorts, and the hosts that stand out. It is made from the index.

    The command replaces a page that pagetape wrote before, but no other file.

    \b
    Example:
      pagetape html base.tape model.tape whatif.tape -o report.html
      pagetape html s3://bucket/fleet --since 7d --by kernel -o fleet.html
    """
    from pagetape.pages.document import MARK
    from pagetape.tapes import output

    archive, choice = options.archive_of(tapes), archive_report.Choice(where, since, until, by)
    paths = [Path(tape) for tape in tapes] if archive is None else []
    output.check_file_free(out, replace=True, mark=MARK, inputs=paths)
    if archive is None:
        choice.refuse()
        text = _page(paths)
    else:
        text = archive_report.page(archive, choice)
    with output.whole_file(out, replace=True, mark=MARK, inputs=paths) as file:
        file.write(text.encode())
    if out != output.STDOUT:
        answer.say_line(f"{out}: {answer.size(len(text.encode()))}")


def _page(paths: list[Path]) -> str:
    from pagetape.pages.page import page
    from pagetape.schemas.tape import Tape

    return page([Tape(path) for path in paths])
