# SPDX-License-Identifier: Apache-2.0
"""What a start from /proc costs a free run: `start_error.py TAPE...`, lossless and exact ones.

Each tape is played from its exact snapshot, and from the start that hindsight builds without it
(proc_start.py). The first table shows, for both: the pages before the first wrong one, and
fallbacks, of an assisted run and of one with requests only; the median fallbacks of 16 members; and
the share of pairs of members with near fallbacks (is_near), of two members from the exact start,
and of one from each start. No start can make single runs agree better than the first. The second
table counts the tapes that meet each aim.
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import proc_start
import program
import recordings
from accuracy import extfrag_margin

from pagetape.replaying import ensemble
from pagetape.replaying.freerun import score
from pagetape.replaying.playback import NewTape, Run, play
from pagetape.schemas.tape import Tape

_MEMBERS = 16
_MODES = {"assisted": "assisted", "requests": "requests only"}
_STARTS = ("the exact snapshot", "/proc")


def is_near(one: float, other: float) -> bool:
    """Whether two numbers of fallbacks are within the corpus's margin, or 1, of each other."""
    return abs(one - other) <= max(1, extfrag_margin(other))


def _measure(tape: Tape, work: Path) -> dict[str, Any]:
    source = recordings.source(tape)
    found: dict[str, Any] = {}
    for mode in _MODES:
        out = work / "out.tape"
        play(source, Run("auto", (), assisted=mode == "assisted"), NewTape(out, replace=True))
        result = score(tape, Tape(out))
        first = result["first_divergence"]
        found[mode] = {
            "exact": first["exact_before"] if first else result["allocs"],
            "fallbacks": result["extfrag"]["model"],
        }
        found["recorded"] = result["extfrag"]["recorded"]
    rows = ensemble.play(source, {"own": Run("auto", ())}, _MEMBERS).to_pylist()
    found["members"] = [row["value"] or 0 for row in rows if row["metric"] == "fallbacks"]
    return found


def _near_pairs(ones: list[int], others: list[int]) -> float:
    """Share of the pairs of two different members that are near."""
    return mean(
        is_near(one, other)
        for i, one in enumerate(ones)
        for j, other in enumerate(others)
        if ones is not others or i != j
    )


def _row(name: str, exact: dict[str, Any], later: dict[str, Any]) -> list[Any]:
    own, other = exact["members"], later["members"]
    cells: list[Any] = [name, exact["recorded"]]
    for mode in _MODES:
        cells += [f"{exact[mode][key]:,} / {later[mode][key]:,}" for key in ("exact", "fallbacks")]
    cells.append(f"{median(own):,} / {median(other):,}")
    return [*cells, *(round(100 * _near_pairs(ones, own)) for ones in (own, other))]


def _aims(found: list[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[list[Any]]:
    """How many tapes meet each aim."""

    def count(name: str, holds: Iterable[bool]) -> list[Any]:
        return [name, f"{sum(holds)} of {len(found)}"]

    for mode, name in _MODES.items():
        half = [2 * later[mode]["exact"] >= exact[mode]["exact"] for exact, later in found]
        same = [
            is_near(later[mode]["fallbacks"], exact[mode]["fallbacks"]) for exact, later in found
        ]
        yield count(f"{name}: exact for at least half as many pages", half)
        yield count(f"{name}: fallbacks near those from the exact snapshot", same)
        yield count(f"{name}: both", map(all, zip(half, same, strict=True)))
        for number, start in enumerate(_STARTS):
            yield count(
                f"{name}: fallbacks from {start} near the recorded ones",
                (is_near(pair[number][mode]["fallbacks"], pair[0]["recorded"]) for pair in found),
            )
    for number, start in enumerate(_STARTS):
        yield count(
            f"median of the members from {start} near the recorded fallbacks",
            (is_near(median(pair[number]["members"]), pair[0]["recorded"]) for pair in found),
        )
    yield count(
        "the two medians near each other",
        (is_near(median(later["members"]), median(exact["members"])) for exact, later in found),
    )
    for number, start in enumerate(_STARTS):
        share = mean(_near_pairs(pair[number]["members"], pair[0]["members"]) for pair in found)
        yield [f"pairs of a member from {start} and one from {_STARTS[0]}: near", f"{share:.0%}"]


def main() -> None:
    """Measure each tape from both starts."""
    parser = program.parser(__doc__)
    parser.add_argument("tapes", nargs="+", type=Path)
    found, rows = [], []
    for path in parser.parse_args().tapes:
        program.say(f"== {path.stem}")
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            proc_start.without_exact_start(Tape(path), work / "proc.tape")
            exact, later = (_measure(Tape(p), work) for p in (path, work / "proc.tape"))
        found.append((exact, later))
        rows.append(_row(path.stem, exact, later))
    columns = ["recording", "fallbacks recorded"]
    for name in _MODES.values():
        columns += [f"{name}: exact pages", f"{name}: fallbacks"]
    columns += ["medians", "near pairs from the exact start, %", "of one from each start, %"]
    aims = program.table(("exact snapshot / from /proc", "tapes"), list(_aims(found)))
    program.give({"tapes": program.table(columns, rows), "aims": aims})


if __name__ == "__main__":
    program.run(main)
