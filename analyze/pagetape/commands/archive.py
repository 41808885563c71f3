# SPDX-License-Identifier: Apache-2.0
"""pagetape archive: write tapes as Parquet."""

from dataclasses import asdict
from pathlib import Path

import click

from pagetape import answer, console
from pagetape.commands import options


@click.command("archive")
@options.tapes
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="DIR",
    required=True,
    help="Directory of the Parquet files.",
)
@click.option(
    "--force", is_flag=True, help="Replace another copy of the same recording in the archive."
)
@options.json
@click.pass_context
def command(
    ctx: click.Context, tapes: tuple[Path, ...], out: Path, force: bool, as_json: bool
) -> None:
    """Write tapes as Parquet, for fleets.

    Every table with rows becomes a file in DIR/TABLE/host=HOST/date=DATE/. DuckDB, Spark and
    others read these files as one table, with host and date as columns. The metadata of each
    file holds the machine's facts. The command skips a tape that is already in DIR, so many
    machines can archive into one DIR, repeatedly. A tape appears in DIR whole.

    The command knows a recording by its boot, its begin and its number in a series. It refuses
    another copy of a recording in DIR, for example one that another version imported. It
    also refuses unfinished tapes, and tapes that it cannot read. It archives the others; the exit
    status is then 1.

    \b
    Example:
      pagetape archive base.tape night.tape -o fleet
      duckdb -c "SELECT host, count(*) FROM 'fleet/event/**/*.parquet' GROUP BY host"
    """
    from pagetape.export.archive import archive
    from pagetape.schemas.tape import Tape, TapeError

    found, refused = [], []
    for path in tapes:
        try:
            found.append(archive(Tape(path), out, replace=force))
        except TapeError as e:
            refused.append({"tape": str(path), "reason": e.strerror or str(e)})
            console.report(refused[-1]["reason"])
    if as_json:
        made = [asdict(one) for one in found]
        answer.emit({"archive": str(out), "tapes": made, "refused": refused})
    elif found:
        rows = [(one.tape, one.files, one.made, one.rows, one.bytes) for one in found]
        answer.say(answer.table(("tape", "files", "made", "rows", "bytes"), rows))
    ctx.exit(1 if refused else 0)
