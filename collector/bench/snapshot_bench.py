# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of a busy machine: correctness, and how long they hold the machine.

On every CPU one process maps, touches and unmaps memory; one more writes a file, reads it
back and drops it from the page cache. With --fragment, the free lists are long besides: every
other page of so much memory is free. Meanwhile snapshots are taken. For each it prints:
whether it is exact, how many redundant numbers of the kernel were compared and how many
differed, the length of the lists, and how long a zone's lock and the CPUs were held.

The summary has the 99.9th percentile and the longest of all single holds. A hypervisor may take
a CPU away during a hold, so the same figures follow without that time (what the thread ran; zone
locks cannot be corrected so), and for an empty control: meetings of the CPUs without any work.

--sim GIB also plays snapshots of a simulated machine of that size, with the measured time per
list entry; snapshot_sim.c names its assumptions. For comparison, the time to read the same
state from /proc, which is neither of one instant nor in list order.

Needs what the exact snapshot needs (`pagetape doctor`); --json for one JSON object.
"""

import argparse
import contextlib
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape import _snapshot, procfs
from pagetape._collector import CollectorError
from pagetape.recording.exact import MAX_MS

CHUNK = 1 << 20
FILE = 64 << 20
MADV_POPULATE_WRITE = 23

# The simulated machine: one node for each 128 GiB, 32 CPUs a node.
GIB_PER_NODE = 128
CPUS_PER_NODE = 32
BLOCKS_PER_NODE = 200_000
CHANGES_PER_MS = 8000


def storm(stop: Event, cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    while not stop.is_set():
        with mmap.mmap(-1, CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            memory.madvise(MADV_POPULATE_WRITE)


def file_io(stop: Event) -> None:
    data = bytes(CHUNK)
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        while not stop.is_set():
            file.seek(0)
            for _ in range(FILE // CHUNK):
                file.write(data)
            file.flush()
            os.fdatasync(file.fileno())
            file.seek(0)
            while file.read(CHUNK) and not stop.is_set():
                pass
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def load() -> Iterator[None]:
    context = get_context("fork")
    stop = context.Event()
    work = [context.Process(target=file_io, args=(stop,))]
    cpus = sorted(os.sched_getaffinity(0))
    work += [context.Process(target=storm, args=(stop, cpu)) for cpu in cpus]
    for process in work:
        process.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        stop.set()
        for process in work:
            process.join()


@contextlib.contextmanager
def fragmented(megabytes: int) -> Iterator[None]:
    """Free every other page of that much memory, so that no larger block is free in it."""
    if not megabytes:
        yield
        return
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, megabytes << 20, flags=private) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)
        for offset in range(0, len(memory), 2 * mmap.PAGESIZE):
            memory.madvise(mmap.MADV_DONTNEED, offset, mmap.PAGESIZE)
        yield


def figures(facts: dict[str, Any], batches: list[Any], seconds: float) -> dict[str, Any]:
    """Result and cost of one snapshot."""
    rows = {name: pa.record_batch(batch).num_rows for name, batch in batches}
    walk_ns = max(zone["walk_ns"] for zone in facts["zones"])
    return {
        "exact": facts["exact"],
        "zones": {f"{z['node']} {z['zone']}": z["how"] for z in facts["zones"]},
        "checks": sum(nr for name, nr in facts["checks"].items() if name != "pcp_types"),
        "mismatches": sum(facts["mismatches"].values()),
        "pcp_types": facts["checks"]["pcp_types"],
        "pcp_types_differ": facts["pcp_types_differ"],
        "free_blocks": rows["free_block"],
        "pcp_pages": rows["pcp_page"],
        "attempts": facts["attempts"],
        "meetings": facts["meetings"],
        "held_ms": facts["held_ns"] / 1e6,
        "lock_ms": max(zone["lock_ns"] for zone in facts["zones"]) / 1e6,
        "entry_ns": walk_ns / max(rows["free_block"] + rows["pcp_page"], 1),
        "total_ms": 1e3 * seconds,
    }


def from_proc() -> float:
    """Milliseconds to read the state from /proc."""
    proc = procfs.live()
    (stage,) = proc.stages
    assert proc.facts  # read once for all
    begin = time.monotonic()
    proc.rows(stage, 0)
    proc.blocks(stage, 0)
    return 1e3 * (time.monotonic() - begin)


def stolen_ms() -> float:
    """How long the hypervisor has withheld the CPUs (steal time)."""
    steal = Path("/proc/stat").read_text().split()[8]
    return 1e3 * int(steal) / os.sysconf("SC_CLK_TCK")


def spread(held: str, ns: list[int]) -> dict[str, Any]:
    """Number, 99.9th percentile and longest, in ms."""
    ordered = sorted(ns) or [0]
    percentile = ordered[len(ordered) - 1 - len(ordered) // 1000]
    times = {"p999_ms": percentile / 1e6, "longest_ms": ordered[-1] / 1e6}
    return {"held": held, "nr": len(ns)} | times


def measure(args: argparse.Namespace) -> dict[str, Any]:
    max_ms = args.max_ms or MAX_MS[0]
    try:
        snapshot = _snapshot.Snapshot()
    except CollectorError as e:
        sys.exit(f"no exact snapshot here: {e.strerror}")
    runs: list[dict[str, Any]] = []
    locks: list[int] = []
    holds: list[tuple[int, int]] = []
    control: list[tuple[int, int]] = []
    with contextlib.closing(snapshot), fragmented(args.fragment), contextlib.ExitStack() as work:
        # The time for one entry, before anything else wants the CPU.
        quiet = [figures(*snapshot.take(0, max_ms), 0)["entry_ns"] for _ in range(3)]
        work.enter_context(load())
        stolen = stolen_ms()
        for number in range(args.repeats):
            begin = time.monotonic()
            facts, batches = snapshot.take(number, max_ms)
            runs.append(figures(facts, batches, time.monotonic() - begin))
            locks += snapshot.locks
            holds += snapshot.holds
            for _ in range(facts["meetings"]):
                control += snapshot.hold_only(int(max_ms * 1e6 / 2))
            time.sleep(0.1)
        stolen = stolen_ms() - stolen
        proc_ms = from_proc()
    return {
        "snapshots": runs,
        "max_ms": max_ms,
        "exact": sum(run["exact"] for run in runs),
        "checks": sum(run["checks"] for run in runs),
        "mismatches": sum(run["mismatches"] for run in runs),
        "holds": [
            spread("a zone's lock", locks),
            spread("a CPU", [ns for ns, _ in holds]),
            spread("a CPU, less stolen time", [ran for _, ran in holds]),
            spread("a CPU, empty section", [ns for ns, _ in control]),
            spread("a CPU, empty section, less stolen time", [ran for _, ran in control]),
        ],
        "longest_held_ms": max(run["held_ms"] for run in runs),
        "median_total_ms": statistics.median(run["total_ms"] for run in runs),
        "entry_ns": min(quiet),
        "proc_ms": proc_ms,
        "stolen_ms": stolen,
    }


def simulate(gib: int, entry_ns: float, snapshots: int) -> dict[str, Any]:
    """Snapshots of a simulated machine; the program is built with the tests."""
    root = Path(__file__).parents[2]
    programs = sorted(root.glob("build/*/collector/snapshot_sim"), key=os.path.getmtime)
    if not programs:
        sys.exit("build/*/collector/snapshot_sim is missing: run `make setup`")
    nodes = max(gib // GIB_PER_NODE, 1)
    machine = (gib, nodes, nodes * CPUS_PER_NODE, BLOCKS_PER_NODE, CHANGES_PER_MS)
    words = [str(word) for word in (*machine, round(max(entry_ns, 50)), snapshots)]
    done = subprocess.run([programs[-1], *words], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"gib": gib, "nodes": nodes, "cpus": nodes * CPUS_PER_NODE}


def main() -> None:
    parser = argparse.ArgumentParser(description="Exact snapshots of a busy machine.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--max-ms", type=float, help="limit of a hold")
    parser.add_argument("--fragment", type=int, default=3000, metavar="MB")
    parser.add_argument("--sim", type=int, default=0, metavar="GIB")
    args = parser.parse_args()
    result = measure(args)
    if args.sim:
        result["simulated"] = simulate(args.sim, result["entry_ns"], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
