# SPDX-License-Identifier: Apache-2.0
"""The cost of a sample of /proc, as a share of one CPU at one sample a second.

The peer only reads the same three files. A recording spends at most 10 % of a CPU on
samples: if a sample costs more than 100 milliseconds, some are left out. Prints one JSON object.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import program

from pagetape.recording.sampling import SHARE
from pagetape.sampler import Sampler

ROUNDS = 200


def cost_us(step: Callable[[], object]) -> float:
    """CPU time of one step, of all threads, the median of many."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        step()
        times.append((time.process_time_ns() - began) / 1000)
    return statistics.median(times)


def main() -> None:
    files = [Path("/proc", name) for name in ("zoneinfo", "vmstat", "buddyinfo")]
    sampler = Sampler()
    found = {
        "a sample, us": cost_us(sampler.ask),
        "reading the three files, us": cost_us(lambda: [path.read_bytes() for path in files]),
        "most at one sample a second, us": SHARE * 1e6,
    }
    sampler.close()
    program.give(found)


if __name__ == "__main__":
    program.run(main)
