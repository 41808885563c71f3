#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill recorders with SIGKILL at random moments, under load.

    kills.py [--count N] [--seed N] [--json]

A third of the recorders is killed while it starts, a third while it records, a third while it ends
after Ctrl-C. Each must leave nothing, if it had made no tape, or a tape that `info` and `import`
read; its instance in tracefs must be gone within a second. Exit status 1 if one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

INSTANCES = Path("/sys/kernel/tracing/instances")
PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]
STORM = Path(__file__).parents[2] / "collector/bench/storm.py"

# Longest time from the moment's beginning to the kill, seconds.
MOMENTS = {"starts": 0.6, "records": 2.0, "ends": 0.3}

_WAIT_S = 20.0
_AIM_S = 1.0  # from the kill to the end of tracing


@dataclass(frozen=True)
class Kill:
    """One recorder: `moment` is one of MOMENTS, `events` are those of the imported tape."""

    moment: str
    after_s: float
    tape: bool  # the recorder had made one
    readable: bool
    events: int
    tracing_s: float | None  # from the kill until its instance was gone; None: it stays

    @property
    def good(self) -> bool:
        tracing = self.tracing_s is not None and self.tracing_s <= _AIM_S
        return tracing and self.readable and (self.events > 0 or self.moment == "starts")


@contextmanager
def _load() -> Iterator[None]:
    """A page-fault storm on every CPU."""
    words = [sys.executable, str(STORM), "3600"]
    storms = [
        subprocess.Popen([*words, str(cpu)], stdout=subprocess.DEVNULL)
        for cpu in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for storm in storms:
            storm.kill()
            storm.wait()


def _until(condition: Callable[[], object]) -> bool:
    """Wait until the condition holds; whether it does."""
    end = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _read(tape: Path, whole: Path) -> tuple[bool, int]:
    """Whether `info` and `import` read a tape, and its number of events."""
    words = [*PAGETAPE, "info", str(tape), "--json"]
    info = subprocess.run(words, capture_output=True)
    if info.returncode:
        return False, 0
    if json.loads(info.stdout)["finished"]:
        whole = tape
    elif subprocess.run([*PAGETAPE, "import", tape, "-o", whole], capture_output=True).returncode:
        return False, 0
    words[-2] = str(whole)
    found = json.loads(subprocess.run(words, capture_output=True).stdout)
    return True, found["stored"]


def kill_one(work: Path, moment: str, after: float) -> Kill:
    """Record into the empty directory `work` and kill the recorder."""
    tape = work / "t.tape"
    words = [*PAGETAPE, "record", "-o", tape, "--snapshot", "proc", "--events", "page"]
    with _load(), subprocess.Popen(words, stderr=subprocess.DEVNULL) as recorder:
        if moment != "starts":
            _until((tape / "spool/formats").exists)
        if moment == "ends":
            time.sleep(1.0)
            recorder.send_signal(signal.SIGINT)
        time.sleep(after)
        begin = time.monotonic()
        recorder.kill()
        gone = _until(lambda: not [*INSTANCES.glob(f"pagetape-{recorder.pid}-*")])
        tracing = time.monotonic() - begin if gone else None
    readable, events = _read(tape, work / "whole.tape") if tape.exists() else (True, 0)
    readable = readable and (tape.exists() or moment == "starts")
    return Kill(moment, after, tape.exists(), readable, events, tracing)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=21)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    arguments = parser.parse_args()
    if os.geteuid():
        print("kills: needs root", file=sys.stderr)
        return 1
    random, kills = Random(arguments.seed), []
    for nr in range(arguments.count):
        moment = list(MOMENTS)[nr % len(MOMENTS)]
        with tempfile.TemporaryDirectory(prefix="kills-") as work:
            after = random.uniform(0, MOMENTS[moment])
            kills.append(kill_one(Path(work), moment, after))
        print(f"kills: {nr + 1} of {arguments.count}: {kills[-1]}", file=sys.stderr)
    good = sum(kill.good for kill in kills)
    if arguments.json:
        found = {"kills": len(kills), "good": good, "each": [asdict(kill) for kill in kills]}
        print(json.dumps(found, indent=1))
    else:
        print(f"{good} of {len(kills)} kills left a readable tape and no tracing")
    return 0 if good == len(kills) else 1


if __name__ == "__main__":
    sys.exit(main())
