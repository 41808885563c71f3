# SPDX-License-Identifier: Apache-2.0
"""pagetape ship: send the finished tapes of a directory to the archive of a fleet."""

from dataclasses import asdict
from pathlib import Path

import click

from pagetape import answer, console
from pagetape.commands import options


@click.command("ship")
@click.argument("directory", metavar="DIR", type=options.PATH)
@options.archive
@click.option(
    "--follow",
    is_flag=True,
    help="Go on: ship each tape when it is finished, until the process is terminated.",
)
@click.option(
    "--rate",
    type=options.rate,
    metavar="RATE",
    help="Most bytes per second, on average from the begin on: 100kB, 2MB/s. One tape is sent at"
    " once.  [default: no limit]",
)
@click.option(
    "--keep",
    type=options.size(),
    metavar="SIZE",
    help="Remove finished tapes in DIR beyond SIZE: those in the archive first, then the oldest"
    " others, each with a line.  [default: remove none]",
)
@options.policy
@options.json
@click.pass_context
def command(
    ctx: click.Context,
    directory: Path,
    url: str,
    follow: bool,
    rate: float | None,
    keep: float | None,
    policy: Path | None,
    as_json: bool,
) -> None:
    """Send the finished tapes of a directory to an archive, beside the recorder.

    DIR is the directory of `record --rotate` or `--ring`. A tape that is being recorded waits for
    its end. Each tape is put as by `pagetape archive`, the oldest first. The archive knows which
    tapes it has, so the command may be killed and started again at any time.

    Without --follow, the command ends when all finished tapes are in the archive; the exit status
    is 1 if it refused one. With --follow, an archive that does not answer is tried again; tapes
    wait in DIR meanwhile, at most those of --keep. `pagetape install-service --ship` runs this as a
    service of its own.

    \b
    Example:
      pagetape ship /var/lib/pagetape s3://bucket/fleet --rate 1MB/s
      pagetape ship tapes /srv/fleet --follow --keep 500MB
    """
    from pagetape.archive.policy import Policy
    from pagetape.archive.ship import Limits, Shipper
    from pagetape.archive.store import open_store

    if follow and as_json:
        raise click.UsageError("--json needs an end, and --follow has none")
    if not directory.is_dir():
        raise click.ClickException(f"{directory}: no such directory of tapes")
    shipper = Shipper(
        directory,
        open_store(url, create=True),
        Policy.read(policy),
        Limits(rate, keep),
        say=(lambda _line: None) if as_json else answer.say_line,
        warn=console.report,
    )
    if follow:
        shipper.follow()
    done = shipper.once()
    if as_json:
        answer.emit({"archive": url, "directory": str(directory), **asdict(done)})
    else:
        made = sum(one["put"] == "made" for one in done.tapes)
        words = [f"{made} made", f"{len(done.tapes) - made} there before"]
        words += [f"{len(done.waiting)} being recorded"] * bool(done.waiting)
        words += [f"{len(done.refused)} refused"] * bool(done.refused)
        words += [f"{len(done.removed)} removed from {directory}"] * bool(done.removed)
        answer.say_line(f"{url}: {', '.join(words)}")
    ctx.exit(1 if done.refused else 0)
