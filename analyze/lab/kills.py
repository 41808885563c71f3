#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill recorders with SIGKILL at random moments, and look at what is left.

    kills.py [--count N] [--seed N]

The moments take turns: while it starts, once its tape exists; while it records a page-fault storm;
around the cuts of a rotation; while it defers; while a flight recorder writes a tape; while it
ends. Half of the kills hit its whole process group. Each tape must be readable, with events if the
recorder had said that it records, and tracing must be off within a second. Only a flight recorder
may leave no tape; what it leaves half written goes with the next one. Exit status 1 otherwise.
Needs root.
"""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import program

from pagetape.recording.tape_dir import TapeDir
from pagetape.schemas.tape import is_tape

PAGETAPE = (sys.executable, "-c", "from pagetape.cli import main; main()")
BUILD = program.ROOT / "build/release"

# Longest time from the begin of each moment to the kill, seconds.
MOMENTS = {
    "starts": 0.8,
    "records": 3.0,
    "rotates": 3.0,
    "defers": 3.0,
    "flies": 1.5,
    "ends": 0.6,
}
_OPTIONS = {
    "rotates": ("--rotate", "1s"),
    "defers": ("--defer",),
    "flies": ("--ring", "2s"),
}
_SERIES = ("rotates", "flies")

_AIM_S = 1.0  # from the kill to the end of tracing
_GONE_S = 10.0  # ... that is waited for the instance's end
_WAIT_S = 60.0  # ... for a recorder to get that far
_STORM_S = 30.0


@dataclass(frozen=True)
class Kill:
    """One kill, and what it left."""

    moment: str
    group: bool  # the whole process group was killed
    after_s: float  # from the begin of the moment
    tracing_s: float | None  # from the kill until tracing was off; None: it is on
    gone_s: float | None  # ... until the tracing instance and its rings were gone
    tape: bool  # there is one
    readable: bool  # each of them
    events: int  # of all tapes together
    wrong: str  # the first thing that was not as it must be; empty if all was well


def _until(condition: Callable[[], object], began: float, seconds: float) -> float | None:
    """Seconds from `began` until the condition holds; None if it does not."""
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        time.sleep(0.002)
    return time.monotonic() - began


def _instance(pid: int) -> Path | None:
    return next(program.INSTANCES.glob(f"pagetape-{pid}-*"), None)


def _tapes(directory: Path) -> list[Path]:
    found = (*directory.glob("*.tape"), *directory.glob("tapes/*.tape"))
    return sorted(path for path in found if is_tape(path))


def _run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PAGETAPE, *map(str, args)], capture_output=True, text=True)


def _read(tape: Path, made: Path) -> tuple[int, str]:
    """The number of events of a tape, imported if it is unfinished; and the problem with it."""
    shown = _run("info", tape, "--json")
    if shown.returncode:
        return 0, f"info: {shown.stderr.strip()}"
    info = json.loads(shown.stdout)
    if not info["finished"]:
        done = _run("import", tape, "-o", made)
        if done.returncode:
            return 0, f"import: {done.stderr.strip()}"
        info = json.loads(_run("info", made, "--json").stdout)
        if not info["finished"]:
            return 0, "the imported tape is not finished"
    return sum(info["events"].values()), ""


def _started(moment: str, directory: Path) -> subprocess.Popen[str]:
    """A recorder in a process group of its own."""
    out = directory / ("tapes" if moment in _SERIES else "t.tape")
    argv = [*PAGETAPE, "record", "--events", "page", "-o", str(out), *_OPTIONS.get(moment, ())]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)


def _reach(moment: str, running: subprocess.Popen[str], directory: Path) -> bool:
    """Wait for the begin of the moment; whether the recorder records by then."""
    begun = (lambda: _instance(running.pid)) if moment == "flies" else (lambda: _tapes(directory))
    if _until(lambda: begun() or running.poll() is not None, time.monotonic(), _WAIT_S) is None:
        raise TimeoutError("the recorder makes no tape")
    if moment == "starts":
        return False
    assert running.stderr is not None
    lines = [running.stderr.readline() for _ in range(2)]
    if not lines[-1].startswith("pagetape: recording since"):
        raise ChildProcessError("the recorder does not record")
    time.sleep(0.5)
    if moment == "ends":
        running.send_signal(signal.SIGINT)
    if moment == "flies":
        running.send_signal(signal.SIGUSR1)
        return False
    return True


def _left(directory: Path) -> bool:
    """Whether the next recorder of the series leaves something half written."""
    TapeDir(directory / "tapes", None).close()
    return any((directory / "tapes").glob(".*.part"))


def kill(moment: str, dice: random.Random, directory: Path, off_s: float = _AIM_S) -> Kill:
    """Record the storm, kill the recorder, and read what is left: tracing ends within `off_s`."""
    group, after_s = dice.random() < 0.5, dice.uniform(0, MOMENTS[moment])
    storm = program.load("storm", _STORM_S, directory, BUILD)
    with program.running(*storm), _started(moment, directory) as running:
        try:
            recorded = _reach(moment, running, directory)
            time.sleep(after_s)
        finally:
            (os.killpg if group else os.kill)(running.pid, signal.SIGKILL)
        began = time.monotonic()
        tracing_s = _until(lambda: not program.tracing(running.pid), began, _GONE_S)
        gone_s = _until(lambda: _instance(running.pid) is None, began, _GONE_S)
    found = [_read(tape, directory / f"{n}.made") for n, tape in enumerate(_tapes(directory))]
    events = sum(nr for nr, _ in found)
    wrong = next((why for _, why in found if why), "")
    if moment == "flies":
        wrong = wrong or ("a half-written tape stayed" if _left(directory) else "")
    elif not found:
        wrong = "no tape"
    elif recorded and not events:
        wrong = "no event"
    if tracing_s is None or tracing_s > off_s:
        wrong = "tracing did not end"
    elif gone_s is None:
        wrong = "the instance stayed"
    readable = not any(why for _, why in found)
    tape = bool(found)
    return Kill(moment, group, after_s, tracing_s, gone_s, tape, readable, events, wrong)


def moments(kills: Sequence[Kill]) -> list[list[Any]]:
    """What the kills at each moment left; without a time, tracing or the instance stayed."""
    rows = []
    for moment in dict.fromkeys(one.moment for one in kills):
        each = [one for one in kills if one.moment == moment]
        counts = len(each), sum(one.readable for one in each), sum(one.events > 0 for one in each)
        slowest = [
            None if None in times else max(filter(None, times), default=0)
            for times in ([one.tracing_s for one in each], [one.gone_s for one in each])
        ]
        wrong = sorted({one.wrong for one in each if one.wrong})
        rows.append([f"while it {moment}", *counts, *slowest, ", ".join(wrong)])
    return rows


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if os.geteuid():
        raise PermissionError(errno.EPERM, "needs root")
    dice, names, kills = random.Random(arguments.seed), list(MOMENTS), []
    for nr in range(arguments.count):
        with tempfile.TemporaryDirectory(prefix="kills-") as directory:
            kills.append(kill(names[nr % len(names)], dice, Path(directory)))
        program.say(f"kills: {nr + 1} of {arguments.count}: {kills[-1]}")
    columns = ("killed", "recorders", "readable tapes", "with events", "tracing off after, s")
    more = ("instance gone after, s", "wrong")
    program.give({"moments": program.table((*columns, *more), moments(kills))})
    return int(any(one.wrong for one in kills))


if __name__ == "__main__":
    program.run(main)
