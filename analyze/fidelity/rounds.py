# SPDX-License-Identifier: Apache-2.0
"""rounds.py ROUNDS MB - a fixed amount of work on the page allocator, for runs to be compared.

One process per CPU maps up to MB of anonymous memory, touches it in single pages and unmaps it,
ROUNDS times, with sizes from a fixed seed. Between two rounds it writes a small file and pauses for
0.1 s. A run under another setting makes the same requests.
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
_PAUSE_S = 0.1


def work(cpu: int, rounds: int, most: int) -> None:
    """The rounds of one CPU."""
    os.sched_setaffinity(0, {cpu})
    sizes = random.Random(cpu)
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            size = sizes.randrange(1, most >> 20) << 20
            with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
                area.madvise(_MADV_NOHUGEPAGE)
                area.madvise(_MADV_POPULATE_WRITE)
            path = Path(directory, str(number % _FILES))
            path.write_bytes(bytes(_FILE_PAGES * mmap.PAGESIZE))
            time.sleep(_PAUSE_S)


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
