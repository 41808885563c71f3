# SPDX-License-Identifier: Apache-2.0
"""What a start from /proc costs a free run: `start_error.py TAPE...`, lossless and exact ones.

Each tape is played from its exact snapshot, and from the start that hindsight builds without it
(proc_start.py). The lines show, for both: the pages before the first wrong one, and fallbacks, of
an assisted run and of one with requests only; the median fallbacks of 16 members; and the share of
pairs of members with near fallbacks (is_near), of two members from the exact start, and of one from
each start. No start can make single runs agree better than the first.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

import proc_start
from table import extfrag_margin

from pagetape.replaying import ensemble
from pagetape.replaying.freerun import score
from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape

_MEMBERS = 16


def is_near(one: float, other: float) -> bool:
    """Whether two numbers of fallbacks are within the corpus's margin, or 1, of each other."""
    return abs(one - other) <= max(1, extfrag_margin(other))


def _measure(tape: Tape, work: Path) -> dict[str, Any]:
    source = Source(tape, inferred(tape), preferences(tape))
    found: dict[str, Any] = {}
    for assisted in (True, False):
        out = work / "out.tape"
        play(source, Run("auto", (), assisted=assisted), NewTape(out, replace=True))
        result = score(tape, Tape(out))
        first = result["first_divergence"]
        found["assisted" if assisted else "requests"] = {
            "exact": first["exact_before"] if first else result["allocs"],
            "fallbacks": result["extfrag"]["model"],
        }
        found["recorded"] = result["extfrag"]["recorded"]
    rows = ensemble.play(source, {"own": Run("auto", ())}, _MEMBERS, work / "members").to_pylist()
    found["members"] = [row["value"] or 0 for row in rows if row["metric"] == "fallbacks"]
    return found


def _line(name: str, exact: dict[str, Any], later: dict[str, Any]) -> str:
    own, other = exact["members"], later["members"]
    pairs = [is_near(a, b) for i, a in enumerate(own) for j, b in enumerate(own) if i != j]
    across = [is_near(a, b) for a in other for b in own]
    cells = [name, str(exact["recorded"])]
    for mode in ("assisted", "requests"):
        cells += [f"{exact[mode][key]:,} / {later[mode][key]:,}" for key in ("exact", "fallbacks")]
    cells.append(f"{median(own):,} / {median(other):,}")
    cells.append(f"{100 * mean(pairs):.0f} % / {100 * mean(across):.0f} %")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print a line of a table for each tape."""
    for path in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            proc_start.without_exact_start(Tape(path), work / "proc.tape")
            exact, later = (_measure(Tape(p), work) for p in (path, work / "proc.tape"))
            print(_line(path.stem, exact, later), flush=True)


if __name__ == "__main__":
    main()
