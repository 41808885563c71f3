# SPDX-License-Identifier: Apache-2.0
"""The cost of recording for a load that only allocates and frees pages.

The load is storm.py, a page-fault storm on every CPU; each way of recording runs the same
command. The ways take turns, so a busy machine disturbs all equally. A slowdown is relative
to the untraced run of the same round; the result is the median.

    none       no tracing
    ring       the page events into an unread ring: the cost of tracing alone
    pagetape   pagetape record --events page, to the disk of /var/tmp; prints its sequential rate
    perf       perf record -a of the same events, if perf is installed

Aims: at most 5 percentage points over the unread ring (over_ring_points), 0.6 times the slowdown of
perf (to_perf). zone_bench.py measures the CPU time of this set and others, which other work on the
machine disturbs less than the storm's speed.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import program
from soak_bench import disk_rate

from pagetape.schemas import TABLES

EVENTS = [tracepoint for kind in TABLES["event"].kinds for tracepoint in kind.tracepoints]
INSTANCES = Path("/sys/kernel/tracing/instances")
STORM = [sys.executable, str(Path(__file__).with_name("storm.py"))]
PAGETAPE = str(program.BIN / "pagetape")
RING_KB = 32768
WAYS = {
    "none": "no tracing",
    "ring": "the same events into a ring that nobody reads",
    "pagetape": "pagetape record --events page",
    "perf": "perf record -a -m 4096 of the same events",
}

Result = dict[str, Any]


def run(command: Sequence[str]) -> Result:
    """A command that runs the storm: what the storm printed, and what the command took."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout and child.stderr
    said, words = child.stdout.read(), child.stderr.read()
    _, mib = program.taken(child)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: {words.strip()}")
    result: Result = json.loads(said)
    return result | {"rss_mb": mib, "words": words}


def untraced(seconds: float, *load: str) -> Result:
    """`load`: the further arguments of the storm."""
    return run([*STORM, str(seconds), *load])


def overwritten_ring(seconds: float) -> Result:
    instance = INSTANCES / f"bench-{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(RING_KB))
        for tracepoint in EVENTS:
            enable = instance / "events" / tracepoint.replace(":", "/") / "enable"
            if enable.exists():
                enable.write_text("1")
        return untraced(seconds)
    finally:
        (instance / "events/enable").write_text("0")
        instance.rmdir()


def recorded(events: str, seconds: float, *load: str, stamps: str = "auto") -> Result:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        tape = f"{directory}/bench.tape"
        start = time.monotonic()
        command = [PAGETAPE, "record", "--events", events, "--stamps", stamps, "-o", tape, "--"]
        result = run([*command, *STORM, str(seconds), *load])
        result["around_s"] = time.monotonic() - start - seconds
        with zipfile.ZipFile(tape) as file:
            sizes = {entry.filename: entry.compress_size for entry in file.infolist()}
        return result | {
            "info": json.loads(subprocess.check_output([PAGETAPE, "info", tape, "--json"])),
            "stamp_bytes": sizes.get("stamp.arrow", 0),
        }


def perf(seconds: float) -> Result:
    known = {p.name for p in Path("/sys/kernel/tracing/events/kmem").iterdir()}
    events = ",".join(e for e in EVENTS if e.removeprefix("kmem:") in known)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        data = f"{directory}/perf.data"
        command = ["perf", "record", "-a", "-m", "4096", "-e", events, "-o", data, "--"]
        return run([*command, *STORM, str(seconds)])


def total_lost(infos: Sequence[Result]) -> int | None:
    """Lost events of all recordings; None if one does not know its number."""
    counts = [info["lost"] for info in infos]
    return None if None in counts else sum(counts)


def cost(seconds: float, rounds: int) -> Result:
    """The page set: rounds of each way in turn."""
    ways: dict[str, Callable[[float], Result]] = {
        "none": untraced,
        "ring": overwritten_ring,
        "pagetape": lambda s: recorded("page", s),
    }
    if shutil.which("perf"):
        ways["perf"] = perf
    runs: dict[str, list[Result]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            runs[name].append(way(seconds))
    slowdowns = {
        name: [
            1 - result["faults_per_s"] / base["faults_per_s"]
            for result, base in zip(runs[name], runs["none"], strict=True)
        ]
        for name in ways
        if name != "none"
    }
    slowdown = {name: statistics.median(values) for name, values in slowdowns.items()}
    ours = runs["pagetape"]
    infos = [result["info"] for result in ours]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        disk = disk_rate(directory)
    return {
        "seconds": seconds,
        "disk_mb_per_s": disk,
        "spool_peak_mb": max(info["spool"]["peak_bytes"] for info in infos) / 2**20,
        "rounds": rounds,
        "faults_per_s": {
            name: statistics.median(r["faults_per_s"] for r in runs[name]) for name in ways
        },
        "slowdown": slowdown,
        "slowdowns": slowdowns,
        "over_ring_points": 100 * (slowdown["pagetape"] - slowdown["ring"]),
        "to_perf": slowdown["pagetape"] / slowdown["perf"] if "perf" in slowdown else None,
        "perf_lost": sum("lost" in r["words"].lower() for r in runs.get("perf", [])),
        "events": sum(sum(info["events"].values()) for info in infos),
        "events_per_s": statistics.median(
            sum(info["events"].values()) / info["duration_s"] for info in infos
        ),
        "lost": total_lost(infos),
        "bytes_per_event": statistics.median(info["bytes_per_event"] for info in infos),
        "recorder_cpus": statistics.median(r["parent_cpu_s"] / seconds for r in ours),
        "around_s": statistics.median(r["around_s"] for r in ours),
        "rss_mb": max(r["rss_mb"] for r in ours),
    }


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="of a run")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    page = cost(given.seconds, given.rounds)
    speed, slower = page.pop("faults_per_s"), page.pop("slowdown")
    rows = [
        {"": WAYS[way], "faults, M/s": speed[way] / 1e6}
        | {"slower than untraced, %": 100 * slower[way] if way in slower else None}
        for way in speed
    ]
    program.give({"page": page, "speed": rows})


if __name__ == "__main__":
    program.run(main)
