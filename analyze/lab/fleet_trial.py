#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet from end to end, twice: undisturbed, and with every process killed in mid-run.

    fleet_trial.py [--kills N] [--seed N] [--live SECONDS] [--guest RELEASE=NODES]...
                   [--policy SPEC] [T.tape...]

The tapes (the demo's, without T.tape and --guest), recordings of guests (guest.py), and with --live
one of this machine stand in a recorder's directory. `ship` brings them into an archive, `compact`
makes its index, `report extfrag.by_migratetype --by kernel` and `report fleet.regressions` compare
cohorts, and `sweep` asks what the policy would do to the fleet. For the second archive, ship,
compact and sweep are killed with SIGKILL at random moments, N times each, before they may end; of
sweep, in turns its worker alone. With --live, a recorder is killed as well, and what it left is
shipped into both archives. Exit status 1 if an answer differs.

A kill counts if it ended a process before that had ended by itself; otherwise what the command made
is removed, and it is tried again. `made before` has the files that a killed command found or made.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
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
_KILLED_AFTER_S = 2.0  # a recorder, from its start

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
    subprocess.run(argv, check=True, stdout=2)  # a run of sweep that failed has a row
    return Command(str(words[0]), argv, time.monotonic() - began)


def _files(place: Path) -> int:
    """Files that are complete."""
    return sum(path.is_file() and ".part" not in path.name for path in place.rglob("*"))


def _worker(parent: int) -> int | None:
    """A process that the command started."""
    tasks = Path(f"/proc/{parent}/task")
    with contextlib.suppress(OSError):
        found = [(task / "children").read_text().split() for task in tasks.iterdir()]
        return next((int(child) for some in found for child in some), None)
    return None


def _killed(like: Command, words: Sequence[object], chance: random.Random, *, worker: bool) -> bool:
    """Kill a command, or its worker; whether that ended the process on its way."""
    with subprocess.Popen(
        _argv(words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(like.seconds * chance.uniform(0.05, 0.9))
            return False
        if not worker:
            os.killpg(child.pid, signal.SIGKILL)
            return child.wait() == -signal.SIGKILL
        if (its := _worker(child.pid)) is None:
            os.killpg(child.pid, signal.SIGKILL)
            return False
        os.kill(its, signal.SIGKILL)
        return child.wait() != 0  # the command says which runs failed


def disturbed(
    like: Command, words: Sequence[object], made: Path, kills: int, chance: random.Random
) -> list[int]:
    """Run a command that is killed some times first, and makes files below `made`; how many there
    were at each kill."""
    found: list[int] = []
    while len(found) < kills:
        alone, began = words[0] == "sweep" and len(found) % 2 == 1, time.monotonic()
        if _killed(like, words, chance, worker=alone):
            found.append(_files(made))
        else:  # it may be faster than the first, whose work is in the cache
            like = like._replace(seconds=min(like.seconds, time.monotonic() - began))
            shutil.rmtree(made, ignore_errors=True)
    undisturbed(*words)
    return found


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
    for name, made, words in (
        ("ship", "{archive}", ("ship", tapes, "{archive}")),
        ("compact", "{archive}/index", ("compact", "{archive}")),
        (
            "sweep",
            "{archive}.results",
            ("sweep", "{archive}", "--policy", policy, "-o", "{archive}.results"),
        ),
    ):
        one, other = (
            [str(word).format(archive=archive) for word in (made, *words)]
            for archive in (quiet, hit)
        )
        like = undisturbed(*one[1:])
        files = disturbed(like, other[1:], Path(other[0]), kills, chance)
        whole = _files(Path(one[0]))
        before = " ".join(map(str, files))
        steps.append({"step": name, "kills": len(files), "made before": before, "of": whole})
        program.say(f"fleet_trial: {name}: {len(files)} kills at {files} of {whole} files")
    objects = [sorted(str(p.relative_to(a)) for p in a.rglob("*.tape")) for a in (quiet, hit)]
    found = [answers(archive, Path(f"{archive}.results"), policy) for archive in (quiet, hit)]
    for step in found[0]:
        same = found[0][step] == found[1][step]
        steps.append({"step": f"answer: {step}", "same": same})
    coverage = found[0]["fleet.coverage"]
    return {
        "steps": steps,
        "cohorts": found[0][" ".join(REPORTS[0])],
        "whatif": [
            {name: value for name, value in row.items() if not isinstance(value, list | dict)}
            for row in found[0]["sweep"][1]
        ],
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
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, process_group=0) as child:
        if not killed:
            child.communicate()
            if child.returncode:
                raise subprocess.CalledProcessError(child.returncode, argv)
            return
        next(line for line in child.stderr or () if "start snapshot: " in line)
        time.sleep(_KILLED_AFTER_S)
        os.killpg(child.pid, signal.SIGKILL)
        if child.wait() != -signal.SIGKILL:
            raise subprocess.CalledProcessError(child.returncode, argv)
    program.run_pagetape("import", path, "-o", tapes / "after-kill.tape")
    shutil.rmtree(path)


def recorded_guest(path: Path, release: str, nodes: str = "1") -> None:
    """Record a guest of that kernel with so many nodes."""
    argv = [sys.executable, Path(__file__).with_name("guest.py"), "-o", path, "--kernel", release]
    memory = 96 * (1 + int(nodes))
    subprocess.run([*argv, "--nodes", nodes, "--mb", str(memory)], check=True, stdout=sys.stderr)


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
    parser.add_argument("--guest", action="append", default=[], metavar="RELEASE=NODES")
    parser.add_argument("--policy", default=POLICY)
    parser.add_argument("paths", nargs="*", type=Path, metavar="T.tape")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="fleet-trial-") as temporary:
        tapes = Path(temporary) / "tapes"
        tapes.mkdir()
        for place, guest in enumerate(given.guest):
            recorded_guest(tapes / f"guest{place}.tape", *guest.split("="))
        stand_in(tapes, given.paths or ([] if given.guest else sorted(DEMO.glob("*.tape"))))
        if given.live:
            recorded(tapes, given.live, killed=False)
            recorded(tapes, given.live, killed=True)
        facts = [(path.stem, Tape(path).facts) for path in sorted(tapes.glob("*.tape"))]
        machines = [
            {
                "tape": name,
                "kernel": f.get("kernel"),
                "nodes": len(f.get("nodes") or [0]),
                "ended": f.get("ended", "stopped"),
            }
            for name, f in facts
        ]
        result = trial(Path(temporary), tapes, given.policy, given.kills, random.Random(given.seed))
    program.give({"machines": machines, **result})
    same = all(step.get("same", True) for step in result["steps"])
    return 0 if same and result["fleet"]["objects are the same"] else 1


if __name__ == "__main__":
    program.run(main)
