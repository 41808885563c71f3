# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of a busy machine: correctness, and how long they hold the machine.

The loads `storm` and `grow` of pagetape-load run: page faults on every CPU, processes that grow and
shrink, and files that are written and read. With --fragment, the free lists are long besides: every
other page of so much memory is free. Meanwhile snapshots are taken. For each it prints: whether it
is exact, how many redundant numbers of the kernel were compared and how many differed, the length
of the lists, and how long a zone's lock and the CPUs were held.

The summary has the 99.9th percentile and the longest of all single holds. A hypervisor may take
a CPU away during a hold, so the same figures follow without that time (what the thread ran; zone
locks cannot be corrected so), and for an empty control: meetings of the CPUs without any work.

--sim GIB also plays snapshots of a simulated machine of that size, with the measured time per
list entry; snapshot_sim.c names its assumptions. For comparison, the time to read the same
state from /proc, which is neither of one instant nor in list order.

Needs what the exact snapshot needs (`pagetape doctor`).
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import program
import pyarrow as pa

from pagetape import _snapshot, procfs
from pagetape._collector import CollectorError
from pagetape.recording.exact import MAX_MS

BUILD = program.ROOT / "build/release"
LONGEST_S = 3600  # of the load

# The simulated machine: one node for each 128 GiB, 32 CPUs a node.
GIB_PER_NODE = 128
CPUS_PER_NODE = 32
BLOCKS_PER_NODE = 200_000
CHANGES_PER_MS = 8000


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
    with contextlib.closing(snapshot), contextlib.ExitStack() as work:
        work.enter_context(program.fragmented(args.fragment))
        # The time for one entry, before anything else wants the CPU.
        quiet = [figures(*snapshot.take(0, max_ms), 0)["entry_ns"] for _ in range(3)]
        files = work.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        work.enter_context(program.running(*program.load("storm+grow", LONGEST_S, files, BUILD)))
        time.sleep(program.SETTLED_S)
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
    programs = sorted(program.ROOT.glob("build/*/collector/snapshot_sim"), key=os.path.getmtime)
    if not programs:
        sys.exit("build/*/collector/snapshot_sim is missing: run `make setup`")
    nodes = max(gib // GIB_PER_NODE, 1)
    machine = (gib, nodes, nodes * CPUS_PER_NODE, BLOCKS_PER_NODE, CHANGES_PER_MS)
    words = [str(word) for word in (*machine, round(max(entry_ns, 50)), snapshots)]
    done = subprocess.run([programs[-1], *words], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"gib": gib, "nodes": nodes, "cpus": nodes * CPUS_PER_NODE}


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--max-ms", type=float, help="limit of a hold")
    parser.add_argument("--fragment", type=int, default=3000, metavar="MB")
    parser.add_argument("--sim", type=int, default=0, metavar="GIB")
    args = parser.parse_args()
    result = measure(args)
    if args.sim:
        result["simulated"] = simulate(args.sim, result["entry_ns"], 2)
    program.give(result)


if __name__ == "__main__":
    program.run(main)
