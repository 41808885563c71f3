# SPDX-License-Identifier: Apache-2.0
"""pagetape verify: check the tapes of an archive."""

import random

import click

from pagetape import answer, console
from pagetape.commands import options


@click.command("verify")
@options.archive
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Check N tapes, chosen at random.  [default: all]",
)
@options.json
@click.pass_context
def command(ctx: click.Context, url: str, sample: int | None, as_json: bool) -> None:
    """Check the tapes of an archive: fetch each, hash it, and read it.

    A tape is sound if its bytes have the hash that the bucket stored, if the checksums of its
    tables are right, if its recording is finished, and if its name is that of its recording. The
    exit status is 1 if one is not. Objects without the name of a tape are counted on stderr.

    \b
    Example:
      pagetape verify /srv/fleet
      pagetape verify s3://bucket/fleet --sample 1000
    """
    from pagetape.archive import listing, verify
    from pagetape.archive.store import open_store

    store = open_store(url)
    found = [one for _, one in listing.tapes(store)]
    chosen = found if sample is None or sample >= len(found) else random.sample(found, sample)
    bad = []
    with console.progress("verify") as bar:
        for nr, one in enumerate(chosen, 1):
            if reason := verify.problem(store, one):
                bad.append({"object": one.name, "reason": reason})
                console.report(f"{store.where(one.name)}: {reason}")
            bar(nr / len(chosen))
    size = sum(one.size for one in chosen)
    if as_json:
        counts = {"tapes": len(found), "checked": len(chosen), "bytes": size}
        answer.emit({"archive": url, **counts, "bad": bad})
    else:
        of = f" of {len(found):,}" if len(chosen) < len(found) else ""
        words = f"{len(bad)} bad" if bad else "all sound"
        checked = f"{len(chosen):,}{of} tapes, {answer.size(size)}, checked"
        answer.say_line(f"{url}: {checked}: {words}")
    ctx.exit(1 if bad else 0)
