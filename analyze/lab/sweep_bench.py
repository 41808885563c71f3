#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed of a sweep: 24 single runs on one tape, on one thread and on every CPU.

    sweep_bench.py [T.tape] [--repeat N]

Without a tape, it makes one of the storm of replay/bench: 4.9 M events, 6 M page frames.
It prints the wall time of whole commands and their CPU time, the best of N. A first command
prepares the tape (inferred rows and the model's error are cached). On a machine with other load,
compare the CPU times: if those of `one` and `all` are equal, the threads do not disturb each other.

  one       pagetape sweep --jobs 1, 24 runs: 3 policies under 8 kernels
  all       the same on every CPU, and its peak memory
  together  the same with all 24 models at once
  replay    a peer: pagetape replay, times 24
"""

import os
import runpy
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import program

from pagetape.schemas.tape import Tape, Writer

_PAGETAPE = program.BIN / "pagetape"
_POLICIES = "nofragment:mode={off,lowzone,always}"
_KERNELS = "{4.20,5.0,5.14,6.1.0,6.5,6.8,6.12.19,6.18}"
_RUNS = 24


def storm(path: Path) -> Path:
    """The storm of the replay's benchmark as a tape."""
    bench = runpy.run_path(str(program.ROOT / "replay/bench/replay_bench.py"))
    facts = {"cpus": 2, "kernel": "6.18.0", "pageblock_order": 9, "nr_orders": 11}
    facts |= {"nodes": [{"id": 0, "cpus": [0, 1], "distance": [10]}]}
    facts |= {"sysctls": {"vm.percpu_pagelist_high_fraction": "1000"}}
    with Writer(path, facts) as tape:
        for name, rows in bench["all_free"]().items():
            tape.write(name, rows)
        for batch in bench["storms"]():
            tape.write("event", batch)
    return path


class Taken(NamedTuple):
    """What a command took: seconds, CPU seconds, and bytes of memory at most."""

    wall: float
    cpu: float
    memory: int


def run(words: Sequence[object], cache: Path) -> Taken:
    """Run a command to its end."""
    env = os.environ | {"XDG_CACHE_HOME": str(cache)}
    begin = time.monotonic()
    child = subprocess.Popen([_PAGETAPE, *map(str, words)], env=env, stdout=subprocess.DEVNULL)
    cpu, mib = program.taken(child)
    if child.returncode:
        raise SystemExit(f"pagetape {words[0]} ended with {child.returncode}")
    return Taken(time.monotonic() - begin, cpu, round(mib * 2**20))


def measure(tape: Path, repeat: int, directory: Path) -> dict[str, Any]:
    cpus = len(os.sched_getaffinity(0))
    cache = directory / "cache"
    counter = iter(range(1_000_000))

    def sweep(*shape: object) -> Taken:
        out = directory / f"out{next(counter)}"
        words = ("--ensemble", 0, "--policy", _POLICIES, "--kernel", _KERNELS, *shape)
        return run(["sweep", *words, tape, "-o", out], cache)

    run(["sweep", "--ensemble", 0, tape, "-o", directory / "first"], cache)
    ways = {
        "one": lambda: sweep("--jobs", 1),
        "all": lambda: sweep("--jobs", cpus),
        "together": lambda: sweep("--jobs", cpus, "--models", _RUNS),
        "replay": lambda: run(["replay", "--ensemble", 0, tape], cache),
    }
    rounds = [{name: way() for name, way in ways.items()} for _ in range(repeat)]
    best = {name: min(one[name].wall for one in rounds) for name in ways}
    cpu = {name: min(one[name].cpu for one in rounds) for name in ways}
    memory = {name: max(one[name].memory for one in rounds) for name in ways}
    opened = Tape(tape)
    zones = [zone for zone in opened.table("zone").to_pylist() if zone["snapshot"] == 0]
    events = opened.num_rows("event")
    seconds = best | {"replay": _RUNS * best["replay"]}
    cpu |= {"replay": _RUNS * cpu["replay"]}
    rows = [
        {f"{_RUNS} runs": words, "s": seconds[name], "CPU s": cpu[name]}
        | {"M events/s": _RUNS * events / seconds[name] / 1e6, "memory, MB": memory[name] / 1e6}
        for name, words in {
            "one": "pagetape sweep --jobs 1",
            "all": f"a thread for each of {cpus} CPUs",
            "together": f"the same, {_RUNS} models at once",
            "replay": f"{_RUNS} times pagetape replay",
        }.items()
    ]
    return {
        "events": events,
        "repeat": repeat,
        "speed-up": best["one"] / best["all"],
        "bytes of the tape": opened.bytes,
        "bytes of the page frames of a model": 16 * sum(zone["spanned"] for zone in zones),
        "speed": rows,
    }


def main() -> None:
    """Measure on the tape of the command line, or on the storm."""
    parser = program.parser(__doc__)
    parser.add_argument("tape", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with TemporaryDirectory(dir="/var/tmp") as name:
        directory = Path(name)
        tape = given.tape or storm(directory / "storm.tape")
        program.give(measure(tape, given.repeat, directory))


if __name__ == "__main__":
    main()
