# SPDX-License-Identifier: Apache-2.0
"""load.py SECONDS - an everyday load on the page allocator during a recording.

Touches and frees anonymous memory, writes and deletes small files, fills and closes
pipes. Uses at most a few hundred megabytes of memory and leaves no files behind.
"""

import mmap
import os
import sys
import tempfile
import time
from pathlib import Path

PAGE = mmap.PAGESIZE
AREA = 48 << 20


def touch_anonymous(size: int) -> None:
    with mmap.mmap(-1, size) as area:
        for offset in range(0, size, PAGE):
            area[offset] = 1


def write_files(directory: Path, number: int) -> None:
    for i in range(number):
        (directory / f"{i}").write_bytes(bytes(PAGE * (1 + i % 5)))
    for i in range(number):
        (directory / f"{i}").unlink()


def fill_pipes(number: int) -> None:
    pipes = [os.pipe2(os.O_NONBLOCK) for _ in range(number)]
    for _, writer in pipes:
        os.write(writer, bytes(65536))
    for reader, writer in pipes:
        os.close(reader)
        os.close(writer)


def main(seconds: float) -> None:
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as directory:
        while time.monotonic() < end:
            touch_anonymous(AREA)
            write_files(Path(directory), 200)
            fill_pipes(64)


if __name__ == "__main__":
    main(float(sys.argv[1]))
