# SPDX-License-Identifier: Apache-2.0
"""pagetape archive: write tapes as Parquet."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pagetape import answer
from pagetape.commands import options
from pagetape.export.archive import archive
from pagetape.schemas.tape import Tape


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
@options.json
def command(tapes: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Write tapes as Parquet, for fleets.

    Every table with rows becomes a file in DIR/TABLE/host=HOST/date=DATE/. DuckDB, Spark and
    others read these files as one table, with host and date as columns. The metadata of each
    file holds the machine's facts. The command skips a tape that is already in DIR, so many
    machines can archive into one DIR, repeatedly.

    \b
    Example:
      pagetape archive base.tape night.tape -o fleet
      duckdb -c "SELECT host, count(*) FROM 'fleet/event/**/*.parquet' GROUP BY host"
    """
    found = [archive(Tape(path), out) for path in tapes]
    if as_json:
        answer.emit({"archive": str(out), "tapes": [asdict(one) for one in found]})
        return
    rows = [(one.tape, one.files, one.made, one.rows, one.bytes) for one in found]
    answer.say(answer.table(("tape", "files", "made", "rows", "bytes"), rows))
