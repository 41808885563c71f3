# SPDX-License-Identifier: Apache-2.0
"""pagetape compact: bring the index of an archive up to its tapes."""

from dataclasses import asdict

import click

from pagetape import answer, console
from pagetape.commands import options


@click.command("compact")
@click.argument("url", metavar="URL")
@click.option(
    "--date",
    "days",
    multiple=True,
    metavar="DATE",
    help="Only this day, as 2026-11-29; may be repeated.  [default: every day that may have"
    " changed]",
)
@click.option("--all", "every", is_flag=True, help="List the tapes of every day.")
@click.option(
    "--shard",
    metavar="HH",
    help="Only tapes whose identity begins with these two hexadecimal digits: several machines can"
    " share a day.",
)
@click.option("--rebuild", is_flag=True, help="Read every tape again, also those in the index.")
@options.json
def command(
    url: str, days: tuple[str, ...], every: bool, shard: str | None, rebuild: bool, as_json: bool
) -> None:
    """Bring the index and the aggregates of an archive up to its tapes.

    URL is a directory, or a bucket: s3://, gs://, az://. The command reads each tape once, and
    writes what questions over a fleet need: one row for each tape (also one without events), and
    counts of its events. `pagetape schema fleet_tape` and the other views fleet_* list the columns.

    Everything is written below index/ of the archive and derived from the tapes: index/ may be
    removed, --rebuild makes it anew. A killed command loses the tapes that it has read since the
    last 500. Several commands may run at the same time, also on one day. Tapes that were removed
    from the archive drop out. Files of older generations are removed after an hour.

    The command lists the tapes of the last days, and of older days to which tapes came late or
    whose tapes were pruned. Any other day is listed again when it is twice as old as at its last
    list. --all lists every day.

    A tape that cannot be read is in the index with the reason, in the column `problem` of
    fleet_tape; `pagetape report fleet.coverage` counts such tapes.

    \b
    Example:
      pagetape compact s3://bucket/fleet --date 2026-11-29
    """
    from pagetape.archive.store import open_store
    from pagetape.indexing import compact

    if shard is not None and not compact.is_shard(shard):
        raise click.UsageError(f"--shard '{shard}' is not two hexadecimal digits, as 5f")
    if shard is not None and rebuild:
        raise click.UsageError("--rebuild makes all shards of a day: leave out --shard")
    for day in days:
        if not compact.is_date(day):
            raise click.UsageError(f"--date '{day}' is not a day, as 2026-11-29")
    store = open_store(url)
    wanted, unchanged = list(dict.fromkeys(days)), 0
    if not wanted and (every or rebuild):
        wanted = compact.dates(store)
    elif not wanted:
        wanted, unchanged = compact.due(store, shard)
    found = []
    for nr, day in enumerate(wanted):
        with console.progress(f"{day} ({nr + 1} of {len(wanted)} days)") as show:
            compactor = compact.Compactor(store, shard, rebuild, show, closes=True)
            found.append(compactor.run(day))
        for problem in found[-1].unreadable:
            console.report(f"{problem}: in the index without its rows")
    if as_json:
        days_done = [asdict(one) for one in found]
        answer.emit({"archive": url, "days": days_done, "unchanged": unchanged})
        return
    heads = ("date", "generation", "tapes", "added", "removed", "unreadable")
    rows = [
        (day.date, day.generation, day.tapes, day.added, day.removed, len(day.unreadable))
        for day in found
    ]
    if rows:
        answer.say(answer.table(heads, rows))
    elif not unchanged:
        answer.say_line(f"{url}: no tapes in this archive")
    if unchanged:
        answer.say_line(
            f"{answer.amount(unchanged, 'day')} unchanged since listed (--all lists each)"
        )
