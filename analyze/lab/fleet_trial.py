#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet from end to end, twice: undisturbed, and with every process killed in mid-run.

    fleet_trial.py [--kills N] [--seed N] [--live SECONDS] [--policy SPEC] [T.tape...]

The tapes (the demo's, without T.tape), and with --live a recording of this machine, stand in a
recorder's directory. `ship` brings them into an archive, `compact` makes its index, `report
extfrag.by_migratetype --by kernel` and `report fleet.regressions` compare cohorts, and `sweep` asks
what the policy would do to the fleet. For the second archive, ship, compact and sweep are killed
with SIGKILL at random moments, N times each, before they may end. With --live, a recorder is killed
as well, and what it left is shipped into both archives. Exit status 1 if an answer differs.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import program

from pagetape.schemas import bundle
from pagetape.schemas.tape import Tape

DEMO = program.ROOT / "analyze/demo"
POLICY = "nofragment:mode=always"
_KILLED_AFTER_S = 3.0  # a recorder, from its first event

REPORTS = (
    ("extfrag.by_migratetype", "--by", "kernel"),
    ("fleet.regressions",),
    ("fleet.coverage",),
)


class Command(NamedTuple):
    """A command of pagetape, and how long it took when nobody disturbed it."""

    name: str
    argv: list[str]
    seconds: float


def _argv(words: Sequence[object]) -> list[str]:
    return [str(program.BIN / "pagetape"), *map(str, words)]


def undisturbed(*words: object) -> Command:
    """Run a command to its end."""
    argv, began = _argv(words), time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return Command(str(words[0]), argv, time.monotonic() - began)


def disturbed(like: Command, words: Sequence[object], kills: int, chance: random.Random) -> int:
    """Run a command that is killed some times first; how often it was killed before its end."""
    hit = 0
    for _ in range(kills):
        with subprocess.Popen(
            _argv(words),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as child:
            try:
                child.wait(like.seconds * chance.uniform(0.05, 0.7))
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                hit += 1
    undisturbed(*words)
    return hit


def _asked(*words: object) -> dict[str, Any]:
    done = subprocess.run([*_argv(words), "--json"], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def answers(archive: Path, out: Path, policy: str) -> dict[str, Any]:
    """What the fleet is asked, and its answers."""
    found = {
        " ".join(words): _asked("report", words[0], archive, *words[1:])["rows"]
        for words in REPORTS
    }
    swept = _asked("sweep", archive, "--policy", policy, "-o", out)
    return found | {"sweep": [swept["runs"], swept["fleet"], swept["failed"]]}


def trial(
    place: Path, tapes: Path, policy: str, kills: int, chance: random.Random
) -> dict[str, Any]:
    """Both archives of the tapes of a directory, and whether their answers are the same."""
    quiet, hit = place / "quiet", place / "killed"
    steps = []
    for name, words in {
        "ship": ("ship", tapes, "{archive}"),
        "compact": ("compact", "{archive}"),
        "sweep": ("sweep", "{archive}", "--policy", policy, "-o", "{archive}.results"),
    }.items():
        one, other = (
            [str(word).format(archive=archive) for word in words] for archive in (quiet, hit)
        )
        like = undisturbed(*one)
        times = disturbed(like, other, kills, chance)
        steps.append({"step": name, "kills": kills, "before its end": times})
        program.say(f"fleet_trial: {name}: killed {times} times")
    objects = [sorted(str(p.relative_to(a)) for p in a.rglob("*.tape")) for a in (quiet, hit)]
    found = [answers(archive, Path(f"{archive}.results"), policy) for archive in (quiet, hit)]
    for step in found[0]:
        same = found[0][step] == found[1][step]
        steps.append({"step": f"answer: {step}", "same": same})
    coverage = found[0]["fleet.coverage"]
    return {
        "steps": steps,
        "fleet": {
            "objects": len(objects[0]),
            "objects are the same": objects[0] == objects[1],
            "tapes in the index": sum(row["tapes"] for row in coverage),
            "runs": len(found[0]["sweep"][0]),
            "failed": len(found[0]["sweep"][2]),
        },
    }


def recorded(tapes: Path, seconds: float, *, killed: bool) -> None:
    """Record this machine into the directory; a killed recorder's tape is imported."""
    path = tapes / ("killed.tape" if killed else "live.tape")
    argv = _argv(("record", "-o", path, "--events", "page", "--duration", seconds))
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        if not killed:
            if child.wait():
                raise subprocess.CalledProcessError(child.returncode, argv)
            return
        began = time.monotonic()
        while not path.exists() and time.monotonic() - began < 60:
            time.sleep(0.1)
        time.sleep(_KILLED_AFTER_S)
        os.killpg(child.pid, signal.SIGKILL)
    program.run_pagetape("import", path, "-o", tapes / "after-kill.tape")
    shutil.rmtree(path)


def stand_in(tapes: Path, paths: Sequence[Path]) -> None:
    """Put finished tapes, in one file each, into a recorder's directory."""
    for path in paths:
        target = tapes / path.name
        if path.is_dir():
            target.touch()
            bundle.write(path, target)
        else:
            shutil.copyfile(path, target)


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", type=float, default=0.0, help="seconds; 0: no recording")
    parser.add_argument("--policy", default=POLICY)
    parser.add_argument("paths", nargs="*", type=Path, metavar="T.tape")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="fleet-trial-") as temporary:
        tapes = Path(temporary) / "tapes"
        tapes.mkdir()
        stand_in(tapes, given.paths or sorted(DEMO.glob("*.tape")))
        if given.live:
            recorded(tapes, given.live, killed=False)
            recorded(tapes, given.live, killed=True)
        facts = [(path.stem, Tape(path).facts) for path in sorted(tapes.glob("*.tape"))]
        machines = [
            {"tape": name, "kernel": f.get("kernel"), "nodes": len(f.get("nodes") or [0])}
            for name, f in facts
        ]
        result = trial(Path(temporary), tapes, given.policy, given.kills, random.Random(given.seed))
    program.give({"machines": machines, **result})
    same = all(step.get("same", True) for step in result["steps"])
    return 0 if same and result["fleet"]["objects are the same"] else 1


if __name__ == "__main__":
    program.run(main)
