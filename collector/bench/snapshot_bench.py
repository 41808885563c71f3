# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of a busy machine: correctness and cost.

On every CPU one process maps, touches and unmaps memory; one more writes a file, reads it
back and drops it from the page cache. Meanwhile snapshots are taken. For each it
prints: whether it is exact, how many redundant numbers of the kernel were compared and how
many differed, the length of the lists, and how long the CPUs and a zone's lock were held.
For comparison, the time to read the same state from /proc, which is neither of one instant
nor in list order.

Needs what the exact snapshot needs (`pagetape doctor`); --json for one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from pagetape import procfs
from pagetape.recording.exact import Exact, ExactSnapshots

CHUNK = 1 << 20
FILE = 64 << 20
MADV_POPULATE_WRITE = 23


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


def figures(exact: Exact, seconds: float) -> dict[str, Any]:
    """Result and cost of one snapshot."""
    facts = exact.facts
    return {
        "exact": exact.why is None,
        "why": exact.why,
        "zones": {f"{z['node']} {z['zone']}": z["how"] for z in facts["zones"]},
        "checks": sum(nr for name, nr in facts["checks"].items() if name != "pcp_types"),
        "mismatches": sum(facts["mismatches"].values()),
        "pcp_types": facts["checks"]["pcp_types"],
        "pcp_types_differ": facts["pcp_types_differ"],
        "free_blocks": exact.tables["free_block"].num_rows,
        "pcp_pages": exact.tables["pcp_page"].num_rows,
        "attempts": facts["attempts"],
        "held_ms": facts["held_ns"] / 1e6,
        "lock_ms": max(zone["lock_ns"] for zone in facts["zones"]) / 1e6,
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


def measure(repeats: int, max_ms: int) -> dict[str, Any]:
    with contextlib.closing(ExactSnapshots(max_ms)) as snapshots:
        if snapshots.refused:
            sys.exit(f"no exact snapshot here: {snapshots.refused}")
        runs = []
        with load():
            stolen = stolen_ms()
            for number in range(repeats):
                begin = time.monotonic()
                exact = snapshots.take(number)
                if not exact.facts:
                    sys.exit(f"snapshot {number}: {exact.why}")
                runs.append(figures(exact, time.monotonic() - begin))
                time.sleep(0.1)
            stolen = stolen_ms() - stolen
            proc_ms = from_proc()
    return {
        "snapshots": runs,
        "max_ms": max_ms,
        "exact": sum(run["exact"] for run in runs),
        "checks": sum(run["checks"] for run in runs),
        "mismatches": sum(run["mismatches"] for run in runs),
        "longest_lock_ms": max(run["lock_ms"] for run in runs),
        "longest_held_ms": max(run["held_ms"] for run in runs),
        "median_lock_ms": statistics.median(run["lock_ms"] for run in runs),
        "median_total_ms": statistics.median(run["total_ms"] for run in runs),
        "proc_ms": proc_ms,
        "stolen_ms": stolen,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Exact snapshots of a busy machine.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--max-ms", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.repeats, args.max_ms)
    if args.json:
        print(json.dumps(result))
        return
    columns = ("checks", "mismatches", "free_blocks", "pcp_pages", "attempts")
    times = ("held_ms", "lock_ms", "total_ms")
    print("       ", *(f"{name:>11}" for name in columns + times))
    for run in result["snapshots"]:
        cells = [f"{run[name]:11}" for name in columns] + [f"{run[name]:11.2f}" for name in times]
        print("exact  " if run["exact"] else "INEXACT", *cells, run["why"] or "")
    differ = sum(run["pcp_types_differ"] for run in result["snapshots"])
    pages = sum(run["pcp_types"] for run in result["snapshots"])
    print(
        f"{result['exact']} of {len(result['snapshots'])} exact; {result['checks']:,} numbers"
        f" compared, {result['mismatches']} differ; {differ:,} of {pages:,} PCP pages in a list"
        " of another type than their pageblock"
    )
    print(
        f"a zone's lock held {result['median_lock_ms']:.2f} ms (median),"
        f" {result['longest_lock_ms']:.2f} ms at most ({result['max_ms']} allowed); CPUs held"
        f" {result['longest_held_ms']:.2f} ms at most; {result['median_total_ms']:.1f} ms in all,"
        f" {result['median_total_ms'] / result['proc_ms']:.3f} of what /proc takes"
        f" ({result['proc_ms']:.0f} ms). The machine under this one took the CPUs away for"
        f" {result['stolen_ms']:.0f} ms meanwhile, under a lock or not."
    )


if __name__ == "__main__":
    main()
