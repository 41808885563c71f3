# SPDX-License-Identifier: Apache-2.0
"""pagetape prune: remove the oldest tapes of an archive."""

from dataclasses import asdict

import click

from pagetape import answer
from pagetape.commands import options


@click.command("prune")
@options.archive
@click.option(
    "--older",
    type=options.duration(),
    metavar="TIME",
    help="Remove the tapes of days that ended more than TIME ago: 30d. A tape without a date is"
    " left.",
)
@click.option(
    "--keep-size",
    "keep",
    type=options.size(),
    metavar="SIZE",
    help="Remove the oldest tapes beyond SIZE: 2TB. A tape without a date goes last.",
)
@click.option(
    "--grace",
    type=options.duration(),
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How long objects stay after no listing has them any more.",
)
@click.option("--yes", is_flag=True, help="Remove; without it the command only counts.")
@options.json
def command(
    url: str, older: float | None, keep: float | None, grace: float, yes: bool, as_json: bool
) -> None:
    """Remove the oldest tapes of an archive.

    The command marks the tapes first: from then on, no listing, index or report has them. The
    objects go with the next prune after --grace, when no reader needs them any more. Run it
    regularly, for example every night. Without --older and --keep-size it only removes the objects
    of earlier marks.

    \b
    Example:
      pagetape prune s3://bucket/fleet --older 30d --keep-size 2TB
      pagetape prune s3://bucket/fleet --older 30d --yes
    """
    from pagetape.archive import prune
    from pagetape.archive.store import open_store

    done = prune.prune(open_store(url), older, keep, grace_s=grace, act=yes)
    if as_json:
        answer.emit({"archive": url, "done": yes, **asdict(done)})
        return
    lines = [
        f"{'marked' if yes else 'would mark'} {answer.amount(done.marked, 'tape')},"
        f" {answer.size(done.marked_bytes)}",
        f"{'removed' if yes else 'would remove'} {answer.amount(done.removed, 'object')} that"
        " were marked before",
        f"{answer.amount(done.tapes, 'tape')}, {answer.size(done.bytes)}, stay",
    ]
    answer.say_line(f"{url}: {'; '.join(lines)}")
