#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a start from counts costs a what-if: `counts_start.py [--members N] [--jobs N] RECORDING...`

Each recording is played from its own start, and from one that has zoneinfo, buddyinfo and
pagetypeinfo only (proc_start.py --counts). A recording that was imported without kpageflags has
only the second start. The first table shows the fallbacks recorded, the 80 % interval of the
members from both starts, and the share of the free pages of the start whose place events prove. The
second one counts the recordings whose fallbacks lie within.
"""

import tempfile
from pathlib import Path
from typing import Any

import calibration
import proc_start
import program
import recordings

from pagetape.replaying import MEMBERS, hindsight
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import has_counts_only

_NO_START = ["-", "-"]


def _measure(path: Path, members: int, jobs: int | None) -> tuple[list[Any], calibration.Pair]:
    pairs = calibration.measure(path, members, jobs, "R0")
    pair = next(pair for pair in pairs if pair.metric == calibration.HEADLINE)
    low, high = pair.width
    return [f"{low:,.0f} to {high:,.0f}", "yes" if pair.within() else "no"], pair


def _proven(path: Path) -> int:
    """Percent of the free pages of a start whose place events prove."""
    begin = hindsight.start(Tape(path))
    assert begin is not None
    found = begin.coverage
    return round(100 * found["free_pages_proven"] / max(found["free_pages"], 1))


def main() -> None:
    """Measure each recording from both starts."""
    parser = program.parser(__doc__)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    rows = []
    for path in recordings.tapes(given.recordings):
        program.say(f"== {path.stem}")
        tape = Tape(path)
        with tempfile.TemporaryDirectory() as directory:
            if has_counts_only(tape):
                copy, own = path, _NO_START
            else:
                copy = Path(directory) / path.name
                proc_start.without_exact_start(tape, copy, kpageflags=False)
                own, _ = _measure(path, given.members, given.jobs)
            counts, pair = _measure(copy, given.members, given.jobs)
            kernel = tape.facts.get("kernel", "?")
            rows.append([path.stem, kernel, pair.recorded, *own, *counts, _proven(copy)])
            program.say(f"{rows[-1]}")
    columns = ["recording", "kernel", "fallbacks", "own start", "within it", "counts", "within"]
    both = [row for row in rows if row[4] != "-"]
    summary = [
        ["from counts", sum(row[6] == "yes" for row in rows), len(rows)],
        ["from their own start", sum(row[4] == "yes" for row in both), len(both)],
    ]
    tables = {
        "tapes": program.table([*columns, "free pages proven, %"], rows),
        "coverage": program.table(["recordings", "within", "of"], summary),
    }
    program.give(tables)


if __name__ == "__main__":
    program.run(main)
