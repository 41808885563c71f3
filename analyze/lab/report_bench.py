#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each command on a tape costs: CPU seconds, events per CPU second, peak memory, rows.

    report_bench.py [T.tape...] [--events N] [--only NAME]... [--before PAGETAPE] [--repeat N]
    report_bench.py --storm SECONDS [...]

Without a tape, it takes the bundled one; with --storm, a storm of page faults that it records on
this machine. With --events, the tapes are repeated in time until they
have about N events (repeat.py), in a temporary directory.

Every report is a command of its own, with --json; `diagnose`, `html`, `info`, `validate`, `replay`
and `replay.single` (one run, no members) are measured beside them. `libraries` is the start of the
libraries that every report needs, which is the limit of a small one. Each command begins with an
empty cache. The column `scans` is the CPU time beside that of one scan of all events, with all
columns, by the same build just before it: it depends little on the machine and its load. With
--before, another installed `pagetape` answers the same questions in turn, and the column `same`
says whether its answer is equal. With --repeat, CPU seconds and memory are the medians of N. A
command that takes more than the aims (10 CPU seconds, 1 GiB; html 20 s) is listed under `over`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import program
from repeat import repeat

from pagetape.asking import query
from pagetape.schemas.tape import Tape

_BUNDLED = program.ROOT / "analyze/demo/pressure.tape"

_CPU_S, _MIB = 10.0, 1024  # the most that a command may take, ...
_CPU_S_OF = {"html": 20.0}  # ... and of a command that may take another time


class Findings(NamedTuple):
    """The rows of the table, and the commands that took too much or gave another answer."""

    rows: list[list[Any]]
    over: list[str]
    differs: list[str]


class Cost(NamedTuple):
    """What a command took, and what it answered."""

    cpu_s: float
    mib: float
    answer: str
    status: int


# A scan of all events, by the Python of a build.
_SCAN = """
import sys
from pathlib import Path
from pagetape.schemas.tape import Tape
for _ in Tape(Path(sys.argv[1])).batches("event"):
    pass
"""

# The start of what every report needs.
_LIBRARIES = "import click, duckdb, pyarrow.dataset; duckdb.connect().execute('SELECT 1')"


def cost(build: Path, words: Sequence[object]) -> Cost:
    """Run a command to its end, with a cache of its own."""
    with TemporaryDirectory() as cache, TemporaryDirectory() as place:
        out = Path(place) / "answer"
        with out.open("wb") as stdout, (Path(place) / "errors").open("wb") as stderr:
            child = subprocess.Popen(
                [build, *map(str, words)],
                stdout=stdout,
                stderr=stderr,
                env=os.environ | {"XDG_CACHE_HOME": cache},
            )
            cpu_s, mib = program.taken(child)
        answer = out.read_text("utf-8")
        if child.returncode:
            answer = (Path(place) / "errors").read_text("utf-8")
        return Cost(cpu_s, mib, answer, child.returncode)


def costs(builds: Sequence[Path], words: Sequence[object], repeat: int) -> list[Cost]:
    """The medians of some turns of several builds."""
    turns = [[cost(build, words) for build in builds] for _ in range(repeat)]
    return [
        one[-1]._replace(cpu_s=median(c.cpu_s for c in one), mib=median(c.mib for c in one))
        for one in zip(*turns, strict=True)
    ]


def _timeless(found: Cost) -> str:
    """The answer without the speed of the run."""
    lines = found.answer.splitlines()
    return "\n".join(line for line in lines if '"events_per_s"' not in line)


def _rows(found: Cost) -> Any:
    if found.status:
        return found.answer.strip().splitlines()[-1:] or ["failed"]
    try:
        answer = json.loads(found.answer)
    except ValueError:
        return None
    return len(answer.get("rows", answer.get("findings", [])))


def commands(tape: Path, only: Sequence[str], page: Path) -> Iterator[tuple[str, list[object]]]:
    """The command lines, by name."""
    known: dict[str, list[object]] = {n: ["report", n, tape, "--json"] for n in query.about_tapes()}
    known["diagnose"] = ["diagnose", tape, "--json"]
    known["html"] = ["html", tape, "-o", page]
    known["info"] = ["info", tape, "--json"]
    known["validate"] = ["validate", tape, "--json"]
    known["replay"] = ["replay", tape, "--json"]
    known["replay.single"] = ["replay", "--ensemble", 0, tape, "--json"]
    known["libraries"] = ["-c", _LIBRARIES]
    unknown = set(only) - known.keys()
    if unknown:
        raise ValueError(f"no report '{min(unknown)}'")
    yield from ((name, words) for name, words in known.items() if not only or name in only)


_FIGURES = ("CPU s", "scans", "M events/CPU s", "MiB")


def _figures(found: Cost, scan: Cost, events: int) -> list[float]:
    speed = round(events / found.cpu_s / 1e6, 2)
    return [round(found.cpu_s, 2), round(found.cpu_s / scan.cpu_s, 2), speed, round(found.mib)]


def measured(
    tape: Path, given: argparse.Namespace, builds: Sequence[Path], found: Findings
) -> None:
    """Add the figures of the commands on one tape."""
    events = Tape(tape).num_rows("event")
    pythons = [build.parent / "python" for build in builds]
    with TemporaryDirectory() as place:
        for name, words in commands(tape, given.only, Path(place) / "page.html"):
            scans = costs(pythons, ["-c", _SCAN, tape], given.repeat)
            programs = pythons if name == "libraries" else builds
            new, *others = costs(programs, words, given.repeat)
            row = [tape.name, name, *_figures(new, scans[0], events), _rows(new)]
            for old, scan in zip(others, scans[1:], strict=True):
                same = _timeless(old) == _timeless(new)
                row += [*_figures(old, scan, events), same]
                if not same:
                    found.differs.append(f"{tape.name} {name}")
            program.say("\t".join(map(str, row)))
            found.rows.append(row)
            if new.cpu_s > _CPU_S_OF.get(name, _CPU_S) or new.mib > _MIB:
                found.over.append(f"{tape.name} {name}")


def storm(place: Path, seconds: float) -> Path:
    """A recording of a storm of page faults on this machine."""
    tape = place / "storm.tape"
    load = program.load("storm", seconds, place, program.ROOT / "build/release")
    program.run_pagetape("record", "-o", tape, "--events", "page", "--", *load)
    return tape


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("tapes", type=Path, nargs="*", default=[_BUNDLED])
    parser.add_argument("--storm", type=float, metavar="SECONDS")
    parser.add_argument("--events", type=int, metavar="N")
    parser.add_argument("--place", type=Path, metavar="DIR", help="where long tapes are made")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--before", type=Path, metavar="PAGETAPE")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    given = parser.parse_args()
    builds = [program.BIN / "pagetape", *([given.before] if given.before else [])]
    found = Findings([], [], [])
    with TemporaryDirectory(dir=given.place) as place:
        for tape in [storm(Path(place), given.storm)] if given.storm else given.tapes:
            long = Path(place) / tape.name
            if given.events:
                repeat(Tape(tape), long, given.events)
            measured(long if given.events else tape, given, builds, found)
    columns = ["tape", "command", *_FIGURES, "rows"]
    columns += [*(f"before, {name}" for name in _FIGURES), "same"] if given.before else []
    table = program.table(columns, found.rows)
    program.give({"commands": table, "over": found.over, "differs": found.differs})
    return int(bool(found.differs))


if __name__ == "__main__":
    program.run(main)
