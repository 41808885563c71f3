# SPDX-License-Identifier: Apache-2.0
"""pagetape archive: put tapes into the archive of a fleet."""

from dataclasses import asdict
from pathlib import Path

import click

from pagetape import answer, console
from pagetape.commands import completion, options


@click.command("archive")
@click.argument(
    "given", metavar="T.tape... URL", nargs=-1, required=True, shell_complete=completion.tapes
)
@click.option(
    "-o",
    "--output",
    "out",
    type=str,
    metavar="URL",
    help="The archive, if the last argument is a tape as well.",
)
@options.policy
@options.json
@click.pass_context
def command(
    ctx: click.Context,
    given: tuple[str, ...],
    out: str | None,
    policy: Path | None,
    as_json: bool,
) -> None:
    """Put tapes into an archive: a directory, or a bucket of S3, GCS or Azure.

    Each tape becomes one object, v1/date=DATE/shard=HH/ID.tape, which has the bytes of its file. It
    appears whole, and it never changes. ID is a hash of the recording, so a recording is archived
    once, whatever its copies are called: the command says `made` for a new object and `same` for
    one that was there before. Many machines may archive at the same time, repeatedly.

    The command refuses a recording that the archive has with other contents, unfinished tapes,
    unreadable tapes, and tapes with more than policy.toml lets go. It archives the others; the exit
    status is then 1.

    AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are those of S3's other tools.

    \b
    Example:
      pagetape archive base.tape night.tape /srv/fleet
      pagetape archive tapes/*.tape s3://bucket/fleet
    """
    from pagetape.archive import put
    from pagetape.archive.policy import Policy
    from pagetape.archive.store import open_store

    tapes, url = (given[:-1], given[-1]) if out is None else (given, out)
    if not tapes:
        raise click.UsageError(f"{url}: name the tapes first and the archive last")
    rules, store = Policy.read(policy), open_store(url, create=True)
    found, refused = [], []
    for path in map(Path, tapes):
        try:
            found.append(put.put(path, store, rules))
        except OSError as e:
            if not put.is_of_tape(e):
                raise
            refused.append({"tape": str(path), "reason": e.strerror or str(e)})
            console.report(refused[-1]["reason"])
    if as_json:
        made = [asdict(one) for one in found]
        answer.emit({"archive": url, "tapes": made, "refused": refused})
    elif found:
        rows = [(one.tape, one.put, one.bytes, one.object) for one in found]
        answer.say(answer.table(("tape", "put", "bytes", "object"), rows))
    ctx.exit(1 if refused else 0)
