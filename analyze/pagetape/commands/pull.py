# SPDX-License-Identifier: Apache-2.0
"""pagetape pull: copy finished tapes from another machine, over ssh."""

import shlex
from dataclasses import asdict
from pathlib import Path

import click

from pagetape import answer, console
from pagetape.commands import options


@click.command("pull")
@click.argument("place", metavar="HOST:DIR")
@click.argument("directory", metavar="DIR", type=options.PATH)
@click.option(
    "--ssh",
    default="ssh",
    show_default=True,
    metavar="CMD",
    help="The command that runs another one on HOST, with its options: 'ssh -p 2222'.",
)
@options.json
@click.pass_context
def command(ctx: click.Context, place: str, directory: Path, ssh: str, as_json: bool) -> None:
    """Copy finished tapes from a directory of another machine, over ssh.

    HOST needs ssh, find and tar, but neither pagetape nor a way to the archive. The tapes keep
    their names, and each appears whole. Tapes that are in DIR already are not copied again. Tapes
    that are directories are left: they are being recorded, or unfinished.

    \b
    Example:
      pagetape pull root@web1:/var/lib/pagetape web1
      pagetape archive web1/*.tape s3://bucket/fleet
    """
    from pagetape.archive import pull

    words = shlex.split(ssh)
    if not words:
        raise click.UsageError("--ssh is empty")
    done = pull.pull(
        pull.Place.of(place),
        directory,
        words,
        (lambda _name: None) if as_json else answer.say_line,
    )
    for one in done.refused:
        console.report(one["reason"])
    if as_json:
        answer.emit({"from": place, "directory": str(directory), **asdict(done)})
    else:
        made = answer.amount(len(done.made), "tape")
        answer.say_line(f"{directory}: {made}, {answer.size(done.bytes)}; {done.same} there before")
    ctx.exit(1 if done.refused else 0)
