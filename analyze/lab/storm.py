# SPDX-License-Identifier: Apache-2.0
"""storm.py SECONDS [MIB [cross | GROUP]]: a page-fault storm on every CPU, and what it cost.

For SECONDS, one process per CPU maps MIB (1), touches each page and unmaps. With 1, only the page
allocator's fast path runs.

With `cross`, pages are taken on one half of the CPUs and freed on the other, so that each passes
the per-CPU lists. With GROUP, the directory of a memory control group, the pages are those of a
file without blocks, in that group: if MIB is more than its limit, each fault reclaims a page.

Prints one JSON object: faults_per_s (of all), cpu_ns_per_fault, and parent_cpu_s, the CPU time of
the parent process meanwhile. If a recorder runs this program as its command, that is the recorder's
cost without its start and end. bpf_runs and bpf_ns are of the parent's BPF programs, if the sysctl
kernel.bpf_stats_enabled is 1.
"""

import contextlib
import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def storm(taken_on: set[int], freed_on: set[int], seconds: float, mib: int) -> int:
    """Fault pages in on one set of CPUs and out on another; how many."""
    size = mib << 20
    touch = bytes(size // mmap.PAGESIZE)
    faults, end = 0, time.monotonic() + seconds
    os.sched_setaffinity(0, taken_on)
    while time.monotonic() < end:
        if taken_on != freed_on:
            os.sched_setaffinity(0, taken_on)
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            with memoryview(memory) as view:
                view[:: mmap.PAGESIZE] = touch
            if taken_on != freed_on:
                os.sched_setaffinity(0, freed_on)
        faults += len(touch)
    return faults


def pressed_storm(cpu: int, seconds: float, mib: int, group: Path) -> int:
    """Fault in the pages of a file on one CPU, as a process of the control group; how many."""
    size = mib << 20
    os.sched_setaffinity(0, {cpu})
    (group / "cgroup.procs").write_text(str(os.getpid()))
    faults, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        file.truncate(size)
        while time.monotonic() < end:
            with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as memory:
                memory.madvise(mmap.MADV_RANDOM)  # one page at a time
                faults += len(memory[:: mmap.PAGESIZE])
    return faults


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bpf_runs(pid: int) -> tuple[int, int]:
    """How often the BPF programs of a process ran so far, and for how long (ns)."""
    runs = ns = 0
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            fields = dict(re.findall(r"^(run_cnt|run_time_ns):\s*(\d+)$", file.read_text(), re.M))
            runs += int(fields.get("run_cnt", 0))
            ns += int(fields.get("run_time_ns", 0))
    return runs, ns


def child(cpu: int, seconds: float, mib: int, how: str = "") -> int:
    """The storm of one CPU; its faults."""
    if how not in ("", "cross"):
        return pressed_storm(cpu, seconds, mib, Path(how))
    cpus = sorted(os.sched_getaffinity(0))
    half = (len(cpus) + 1) // 2
    if how == "cross":
        return storm(set(cpus[:half]), set(cpus[half:] or cpus), seconds, mib)
    return storm({cpu}, {cpu}, seconds, mib)


def main(seconds: float, mib: int, *how: str) -> None:
    parent = os.getppid()
    before, (runs, ns) = cpu_s(parent), bpf_runs(parent)
    children = [
        subprocess.Popen(
            [sys.executable, __file__, str(seconds), str(mib), *how, f"cpu={cpu}"],
            stdout=subprocess.PIPE,
        )
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    results = [child.communicate()[0].split() for child in children]
    faults = sum(int(result[0]) for result in results)
    more_runs, more_ns = bpf_runs(parent)
    print(
        json.dumps(
            {
                "faults_per_s": faults / seconds,
                "cpu_ns_per_fault": sum(int(result[1]) for result in results) / faults,
                "parent_cpu_s": cpu_s(parent) - before,
                "bpf_runs": more_runs - runs,
                "bpf_ns": more_ns - ns,
            }
        )
    )


if __name__ == "__main__":
    words = sys.argv[1:]
    of_cpu = words.pop() if words[-1].startswith("cpu=") else ""
    seconds, mib = float(words[0]), int(words[1]) if len(words) > 1 else 1
    if of_cpu:
        faults = child(int(of_cpu.removeprefix("cpu=")), seconds, mib, *words[2:])
        print(faults, time.process_time_ns())
    else:
        main(seconds, mib, *words[2:])
