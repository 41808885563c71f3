#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed of `pagetape import`, relative to `trace-cmd report` on the same file.

    import_bench.py [FILE] [--repeat N]

Without FILE, the program makes a trace.dat with 4 million page events on 4 CPUs. Both are timed as
whole processes, output to a tape and to /dev/null, best of N; the result is their ratio. `decoding
alone` has no start-up and no compression. Of a FILE of another tool, which has no peer, it has both
passes. Rates are events/s.
"""

import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import program

sys.path.insert(0, str(program.ROOT / "collector/tests"))
from tracedat import ALLOC, FREE, Machine, TraceDat, ring

from pagetape.dat_file import DatFile
from pagetape.foreign_file import ForeignFile
from pagetape.recording.foreign import TRACE_DAT

_EVENTS = 4_000_000
_CPUS = 4
_PEER = "trace-cmd report"


def made(path: Path) -> None:
    """Write a file of _EVENTS events: some pages of them, repeated in time."""
    machine = Machine()
    alloc = replace(
        ALLOC,
        print_fmt='"pfn=0x%lx gfp_flags=%s", REC->pfn, '
        '__print_flags(REC->gfp_flags, "|", {0x40u, "__GFP_IO"}, {0x80u, "__GFP_FS"})',
    )
    some = 20_000
    rings = []
    for cpu in range(_CPUS):
        records = [
            (
                1000 + 700 * n + cpu,
                alloc.record(machine, 7919 * n % 2**20, 0, 0xC0, 1, pid=1000 + cpu)
                if n % 2
                else FREE.record(machine, 7907 * n % 2**20, 0, pid=1000 + cpu),
            )
            for n in range(some)
        ]
        pages = ring(machine, records)
        out = bytearray()
        for again in range(_EVENTS // _CPUS // some):
            copy = bytearray(pages)
            for at in range(0, len(copy), machine.page_size):
                (ts,) = struct.unpack_from("<Q", copy, at)
                struct.pack_into("<Q", copy, at, ts + again * 700 * some)
            out += copy
        rings.append(bytes(out))
    path.write_bytes(TraceDat(machine, [FREE, alloc], buffers={"": rings}).write(7))


def best(repeat: int, run: Callable[[], object]) -> float:
    """Seconds of the fastest of `repeat` runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def is_dat(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(TRACE_DAT)) == TRACE_DAT


def count(path: Path) -> int:
    """Events in the file; reads all of it."""
    source = DatFile(str(path)) if is_dat(path) else ForeignFile(str(path))
    while source.read() is not None:
        pass
    return sum(row["events"] for row in source.tracepoints())


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    pagetape = program.BIN / "pagetape"
    with TemporaryDirectory() as directory:
        path = arguments.file or Path(directory) / "made.dat"
        if not arguments.file:
            made(path)
        tape = Path(directory) / "out.tape"

        def quiet(*command: str | Path) -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        events = count(path)
        steps: dict[str, Callable[[], object]] = {
            "decoding alone": lambda: count(path),
            "pagetape import, the whole command": lambda: quiet(
                pagetape, "import", path, "-o", tape, "--force"
            ),
        }
        if is_dat(path) and shutil.which("trace-cmd"):
            steps[_PEER] = lambda: quiet("trace-cmd", "report", path)
        rates = {words: events / best(arguments.repeat, run) for words, run in steps.items()}
    peer = rates.get(_PEER)
    rows = [
        {"": words, "events/s": rate, "times trace-cmd report": peer and rate / peer}
        for words, rate in rates.items()
    ]
    program.give({"events": events, "speed": rows})


if __name__ == "__main__":
    program.run(main)
