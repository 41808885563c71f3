#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many recordings of a busy machine begin and end with an exact snapshot.

    snapshots.py [--before DIR] [--count N] [--load NAME]...

Records a second of each load N times. Beside loads of pagetape-load there is `fragment`:
between the two snapshots of such a recording, half of the available memory becomes free pages that
cannot merge. Counts the exact starts and ends, and the reasons of the others.

--before names the tree of another build, with its own .venv: its recordings take turns with those
of this one. Exit status 1 if fewer than 99 of 100 recordings of this build have both. Needs root.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import program

from pagetape.schemas.tape import Tape

FRAGMENT = "fragment"
LOADS = ("storm", "forks", "grow", "thp", "compaction", "slab", FRAGMENT)
_HOLES_S = 2.0  # from the begin of a recording to the holes, which takes the machine seconds
_LONGEST_S = 60  # for which a load is there, for each recording
_AIM = 0.99  # of the recordings


@dataclass
class Found:
    """The recordings of one build under one load."""

    recordings: int = 0
    both: int = 0
    exact: Counter[int] = field(default_factory=Counter)  # by number of the snapshot
    why: Counter[str] = field(default_factory=Counter)

    def add(self, tape: Path) -> None:
        rows = Tape(tape).rows("snapshot")
        exact = [row["snapshot"] for row in rows if row["how"] == "exact"]
        self.recordings += 1
        self.both += len(exact) == len(rows) == 2
        self.exact.update(exact)
        self.why.update(row["why"] for row in rows if row["why"])


def _available() -> int:
    """Memory that is available without swapping, MiB."""
    text = Path("/proc/meminfo").read_text()
    return int(text.partition("MemAvailable:")[2].split()[0]) >> 10


def _record(build: Path, load: str, tape: Path) -> None:
    """One recording, while the load runs."""
    record = [build / ".venv/bin/pagetape", "record", "--events", "zone", "--quiet", "-o", tape]
    if load != FRAGMENT:
        subprocess.run([*record, "--duration", "1s"], check=True)
        return
    with program.running(*record) as recorder:
        time.sleep(_HOLES_S)
        with program.fragmented(_available() // 2):
            recorder.terminate()
            recorder.wait()


def measure(
    builds: dict[str, Path], load: str, count: int, build_of_loads: Path
) -> dict[str, Found]:
    """The recordings of each build under a load."""
    found = {build: Found() for build in builds}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, ExitStack() as stack:
        if load != FRAGMENT:
            seconds = _LONGEST_S * count * len(builds)
            command = program.load(load, seconds, directory, build_of_loads)
            stack.enter_context(program.running(*command))
            time.sleep(program.SETTLED_S)
        for number in range(count):
            for build, tree in builds.items():
                tape = Path(directory) / f"{build}.tape"
                _record(tree, load, tape)
                found[build].add(tape)
                tape.unlink()
                both = f"{found[build].both} of {found[build].recordings}"
                program.say(f"{load}: {number + 1} of {count}, {build}: {both} exact at both ends")
    return found


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--before", type=Path, metavar="DIR", help="the tree of another build")
    parser.add_argument("--count", type=int, default=15, help="recordings of each load")
    parser.add_argument("--load", action="append", choices=LOADS, help="only this load")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    given = parser.parse_args()
    builds = {"before": given.before} if given.before else {}
    builds["this"] = program.ROOT
    found = {load: measure(builds, load, given.count, given.build) for load in given.load or LOADS}
    rows = [
        [build, load, one.recordings, one.exact[0], one.exact[1], "; ".join(one.why)]
        for load, of_builds in found.items()
        for build, one in of_builds.items()
    ]
    recordings, both = (
        sum(getattr(of_builds["this"], name) for of_builds in found.values())
        for name in ("recordings", "both")
    )
    columns = ["build", "load", "recordings", "exact starts", "exact ends", "reasons"]
    program.give(
        {
            "loads": program.table(columns, rows),
            "figures": {
                "recordings": recordings,
                "without exact start and end": recordings - both,
            },
        }
    )
    return int(both < _AIM * recordings)


if __name__ == "__main__":
    program.run(main)
