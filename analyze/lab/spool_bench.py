# SPDX-License-Identifier: Apache-2.0
"""Spools under a synthetic load: 3 M events/s on few and on many CPUs, without a kernel.

spool_bench.c fills the spools of simulated CPUs at a fixed rate, through the code and with the
memory of a recording; nothing is decoded meanwhile, so everything goes to the disk. Then one
decoder reads it all. The disk's sequential rate is measured just before. Prints one JSON list.
"""

import json
import os
import subprocess
import tempfile
from typing import Any

import program

BUILD = program.ROOT / "build/release"
WORDS = {
    "cpus": "CPUs",
    "events_per_s": "events/s",
    "mb_per_s": "MB/s",
    "disk_mb_per_s": "disk alone, MB/s",
    "late": "sub-buffers late",
    "longest_wait_ms": "longest wait, ms",
    "memory_peak_mb": "memory, most, MB",
    "memory_mb": "memory, limit, MB",
    "fill_cpus": "CPUs for filling and writing",
    "decoded_per_s": "events/s of one decoder",
}


def spooled(directory: str, cpus: int, rate: float, seconds: float) -> dict[str, Any]:
    """One run of spool_bench in a directory of its own."""
    with tempfile.TemporaryDirectory(dir=directory) as spool:
        command = [BUILD / "collector" / "spool_bench", spool, str(cpus), str(rate), str(seconds)]
        result: dict[str, Any] = json.loads(subprocess.check_output(command))
    return result


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=3e6, help="events/s of all CPUs")
    parser.add_argument("--cpus", type=int, nargs="*", default=[2, 256])
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    subprocess.run(
        [program.BIN / "meson", "compile", "-C", BUILD, "spool_bench"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PATH": f"{program.BIN}:{os.environ['PATH']}"},
    )
    results = [spooled(args.dir, cpus, args.rate, args.seconds) for cpus in args.cpus]
    program.give([{words: found[key] for key, words in WORDS.items()} for found in results])


if __name__ == "__main__":
    program.run(main)
