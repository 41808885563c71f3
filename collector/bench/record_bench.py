# SPDX-License-Identifier: Apache-2.0
"""What recording costs a load that does nothing but allocate and free pages.

One run is a page-fault storm on every CPU for a few seconds: map 1 MiB, fault
it in, unmap. Runs take turns, and the best of each kind counts, so that a busy
machine disturbs least; the CPU time of a fault depends little on who else runs.

    none       no tracing
    ring       the same events into a ring that nobody reads (what tracing itself costs)
    pagetape   the recorder, writing a tape
    perf       perf record of the same events, where perf is installed

Prints both for each, and the ratios; --json for one JSON object.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape import _collector
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Writer

EVENTS = [tracepoint for kind in TABLES["event"].kinds for tracepoint in kind.tracepoints]
INSTANCES = Path("/sys/kernel/tracing/instances")
MADV_POPULATE_WRITE = 23
CHUNK = 1 << 20


def storm(cpu: int, seconds: float) -> int:
    """Fault pages in and out on one CPU; how many."""
    os.sched_setaffinity(0, {cpu})
    faults, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with mmap.mmap(-1, CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            memory.madvise(MADV_POPULATE_WRITE)
        faults += CHUNK // mmap.PAGESIZE
    return faults


def load(seconds: float) -> dict[str, float]:
    """The storm on every CPU, in processes of its own: its speed, and what a fault costs."""
    command = [sys.executable, __file__, "--seconds", str(seconds), "--storm"]
    children = [
        subprocess.Popen([*command, str(cpu)], stdout=subprocess.PIPE)
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    faults, cpu_ns = 0, 0
    for child in children:
        f, c = child.communicate()[0].split()
        faults += int(f)
        cpu_ns += int(c)
    return {"faults_per_s": faults / seconds, "cpu_ns_per_fault": cpu_ns / faults}


def without(seconds: float) -> dict[str, Any]:
    return load(seconds)


def overwritten_ring(seconds: float) -> dict[str, Any]:
    instance = INSTANCES / f"bench-{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text("32768")
        for tracepoint in EVENTS:
            enable = instance / "events" / tracepoint.replace(":", "/") / "enable"
            if enable.exists():
                enable.write_text("1")
        return load(seconds)
    finally:
        (instance / "events/enable").write_text("0")
        instance.rmdir()


def recorder(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        before = resource.getrusage(resource.RUSAGE_SELF)
        r = _collector.Recorder(EVENTS, directory)
        tape = Path(directory) / "bench.tape"

        def write() -> None:
            with Writer(tape, r.facts) as writer:
                while (item := r.read()) is not None:
                    writer.write(item[0], pa.record_batch(item[1]))

        writing = threading.Thread(target=write)
        writing.start()
        r.start()
        result: dict[str, Any] = dict(load(seconds))
        during = resource.getrusage(resource.RUSAGE_SELF)
        r.stop()
        stopped = time.monotonic()
        writing.join()
        used = resource.getrusage(resource.RUSAGE_SELF)
        events = sum(row["events"] for row in r.tracepoints() if row["stored"] == "event")
        own = {row["pid"] for row in r.tasks() if row["tgid"] == os.getpid()}
        result |= {
            "events_per_s": events / seconds,
            "events": events,
            "lost": sum(ring["overrun"] + ring["dropped"] for ring in r.rings()),
            "bytes_per_event": (tape / "event.arrow").stat().st_size / events,
            "own_events": own_events(tape, own),
            "cpu_s": cpu(used) - cpu(before),
            "cpu_s_during": cpu(during) - cpu(before),
            "drain_s": time.monotonic() - stopped,
        }
        r.close()
        return result


def cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def own_events(tape: Path, pids: set[int]) -> int:
    """Page events of the recorder's own threads."""
    with pa.ipc.open_file(tape / "event.arrow") as file:
        pid = file.read_all()["pid"]
    return sum(
        count["counts"] for count in pid.value_counts().to_pylist() if count["values"] in pids
    )


def perf(seconds: float) -> dict[str, Any]:
    known = {p.name for p in Path("/sys/kernel/tracing/events/kmem").iterdir()}
    events = ",".join(e for e in EVENTS if e.removeprefix("kmem:") in known)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        data = Path(directory) / "perf.data"
        child = subprocess.Popen(
            ["perf", "record", "-a", "-m", "4096", "-e", events, "-o", str(data)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        result = load(seconds)
        child.terminate()
        child.communicate()
        return result


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    modes: dict[str, Callable[[float], dict[str, Any]]] = {
        "none": without,
        "ring": overwritten_ring,
        "pagetape": recorder,
    }
    if shutil.which("perf"):
        modes["perf"] = perf
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in modes}
    for _ in range(repeats):
        for name, mode in modes.items():
            runs[name].append(mode(seconds))
    speed = {name: max(r["faults_per_s"] for r in runs[name]) for name in modes}
    cost = {name: min(r["cpu_ns_per_fault"] for r in runs[name]) for name in modes}
    ours = runs["pagetape"]
    events = sum(r["events"] for r in ours)
    return {
        "faults_per_s": speed,
        "cpu_ns_per_fault": cost,
        "slowdown": {name: 1 - speed[name] / speed["none"] for name in modes if name != "none"},
        "to_ring": speed["pagetape"] / speed["ring"],
        "to_perf": speed["pagetape"] / speed["perf"] if "perf" in speed else None,
        "events_per_s": statistics.median(r["events_per_s"] for r in ours),
        "events": events,
        "lost": sum(r["lost"] for r in ours),
        "bytes_per_event": statistics.median(r["bytes_per_event"] for r in ours),
        "own_share": sum(r["own_events"] for r in ours) / events,
        "cpu_us_per_event": 1e6 * sum(r["cpu_s"] for r in ours) / events,
        "cpu_share_during": sum(r["cpu_s_during"] for r in ours)
        / (seconds * repeats * len(os.sched_getaffinity(0))),
        "drain_s": statistics.median(r["drain_s"] for r in ours),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording costs.")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--storm", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.storm is not None:
        faults = storm(args.storm, args.seconds)
        print(faults, time.process_time_ns())
        return
    result = measure(args.seconds, args.repeats)
    if args.json:
        print(json.dumps(result))
        return
    for name, speed in result["faults_per_s"].items():
        slowdown = result["slowdown"].get(name)
        print(
            f"{name:<10}{speed / 1e6:6.2f} M faults/s, "
            f"{result['cpu_ns_per_fault'][name]:5.0f} ns of CPU each"
            + (f"  {slowdown:6.1%} slower" if slowdown is not None else "")
        )
    print(
        f"pagetape recorded {result['events']} events ({result['events_per_s'] / 1e6:.2f} M/s), "
        f"lost {result['lost']}; {result['bytes_per_event']:.2f} bytes per event; "
        f"{result['own_share']:.2%} its own; {result['cpu_us_per_event']:.3f} us of CPU per event, "
        f"{result['cpu_share_during']:.1%} of all CPUs during the load; "
        f"{result['drain_s']:.2f} s from stop to the end"
    )
    print(f"{result['to_ring']:.2f} of the speed with a ring that nobody reads")
    if result["to_perf"] is not None:
        print(f"{result['to_perf']:.2f} of the speed under perf record")


if __name__ == "__main__":
    main()
