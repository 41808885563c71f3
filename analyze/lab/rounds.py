# SPDX-License-Identifier: Apache-2.0
"""rounds.py ROUNDS MB - a fixed amount of work on the page allocator, for runs to be compared.

One process per CPU maps up to MB of anonymous memory, touches it in single pages, unmaps it and
writes a small file, ROUNDS times, with sizes from a fixed seed. The rounds begin 0.3 s apart, or as
soon as the one before is over: a run under another setting makes the same requests in the same
time.
"""

import mmap
import os
import random
import sys
import tempfile
import time
from pathlib import Path

_MADV_NOHUGEPAGE, _MADV_POPULATE_WRITE = 15, 23  # Linux 5.14
_FILES, _FILE_PAGES = 100, 4
_APART_S = 0.3


def work(cpu: int, rounds: int, most: int) -> None:
    """The rounds of one CPU."""
    os.sched_setaffinity(0, {cpu})
    sizes = random.Random(cpu)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            time.sleep(max(began + number * _APART_S - time.monotonic(), 0))
            size = sizes.randrange(1, most >> 20) << 20
            with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
                area.madvise(_MADV_NOHUGEPAGE)
                area.madvise(_MADV_POPULATE_WRITE)
            path = Path(directory, str(number % _FILES))
            path.write_bytes(bytes(_FILE_PAGES * mmap.PAGESIZE))


def main(rounds: int, megabytes: int) -> int:
    children = []
    for cpu in os.sched_getaffinity(0):
        child = os.fork()
        if not child:
            work(cpu, rounds, megabytes << 20)
            os._exit(0)
        children.append(child)
    return int(any(os.waitpid(child, 0)[1] for child in children))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
