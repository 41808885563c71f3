# SPDX-License-Identifier: Apache-2.0
"""storm.py SECONDS [MIB]: a page-fault storm on every CPU, and what it cost.

For SECONDS, one process per CPU maps MIB (1), touches each page and unmaps. With 1, only the page
allocator's fast path runs; 200 does not fit on the per-CPU lists. Prints one JSON object:
faults_per_s (of all), cpu_ns_per_fault, and parent_cpu_s, the CPU time of the parent process
meanwhile. If a recorder runs this program as its command, that is the recorder's cost without its
start and end.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path


def storm(cpu: int, seconds: float, mib: int) -> int:
    """Fault pages in and out on one CPU; how many."""
    size = mib << 20
    touch = bytes(size // mmap.PAGESIZE)
    os.sched_setaffinity(0, {cpu})
    faults, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            with memoryview(memory) as view:
                view[:: mmap.PAGESIZE] = touch
        faults += len(touch)
    return faults


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(seconds: float, mib: int) -> None:
    parent = os.getppid()
    before = cpu_s(parent)
    children = [
        subprocess.Popen(
            [sys.executable, __file__, str(seconds), str(mib), str(cpu)], stdout=subprocess.PIPE
        )
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    results = [child.communicate()[0].split() for child in children]
    faults = sum(int(result[0]) for result in results)
    print(
        json.dumps(
            {
                "faults_per_s": faults / seconds,
                "cpu_ns_per_fault": sum(int(result[1]) for result in results) / faults,
                "parent_cpu_s": cpu_s(parent) - before,
            }
        )
    )


if __name__ == "__main__":
    seconds, mib = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    if len(sys.argv) == 4:
        print(storm(int(sys.argv[3]), seconds, mib), time.process_time_ns())
    else:
        main(seconds, mib)
