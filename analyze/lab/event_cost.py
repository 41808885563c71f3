# SPDX-License-Identifier: Apache-2.0
"""What one event of ftrace costs, as a bound for the events of locks: no load contends evenly.

    event_cost.py [--rounds N] [--filter EVENTS]

A system call, with its event off, on behind a filter of as many comparisons (4) as a machine has
zones, and recorded. Each round (40) times the three, in turn, by CPU time. Events of system calls
also make the kernel enter them on its slow path, so the costs are upper bounds.

Prints one JSON object: the least and the median ns of the filtered and of the recorded event.
"""

import os
import statistics
import time
from pathlib import Path

import program

CALLS = 200_000
INSTANCE = Path("/sys/kernel/tracing/instances", f"pagetape-bench-{os.getpid()}")


def call_ns() -> float:
    """CPU time of one system call."""
    call = os.getppid
    began = time.process_time_ns()
    for _ in range(CALLS):
        call()
    return (time.process_time_ns() - began) / CALLS


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--filter", type=int, default=4, metavar="COMPARISONS")
    given = parser.parse_args()
    event = INSTANCE / "events/raw_syscalls/sys_enter"
    filters = {
        "filtered": " || ".join(f"id == {90_000 + i}" for i in range(given.filter)),
        "recorded": "id >= 0",
    }
    found: dict[str, list[float]] = {name: [] for name in ("off", *filters)}
    INSTANCE.mkdir()
    try:
        (INSTANCE / "trace_clock").write_text("mono")
        for _ in range(given.rounds):
            found["off"].append(call_ns())
            for name, text in filters.items():
                (event / "filter").write_text(text)
                (event / "enable").write_text("1")
                found[name].append(call_ns())
                (event / "enable").write_text("0")
    finally:
        (event / "enable").write_text("0")
        INSTANCE.rmdir()
    least, median = min, statistics.median
    program.give(
        {
            name: {
                "least_ns": round(least(found[name]) - least(found["off"]), 1),
                "median_ns": round(median(found[name]) - median(found["off"]), 1),
            }
            for name in filters
        }
    )


if __name__ == "__main__":
    program.run(main)
