# SPDX-License-Identifier: Apache-2.0
"""Spools under a synthetic load: 3 M events/s on few and on many CPUs, without a kernel.

spool_bench.c fills the spools of simulated CPUs at a fixed rate, through the code and with the
memory of a recording; nothing is decoded meanwhile, so everything goes to the disk. Then one
decoder reads it all. The disk's sequential rate is measured just before. --json for one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
STORM_PER_CPU = 1.35e6  # events/s of the page set in the worst page-fault storm measured


def spooled(directory: str, cpus: int, rate: float, seconds: float) -> dict[str, Any]:
    """One run of spool_bench in a directory of its own."""
    with tempfile.TemporaryDirectory(dir=directory) as spool:
        command = [BUILD / "collector" / "spool_bench", spool, str(cpus), str(rate), str(seconds)]
        result: dict[str, Any] = json.loads(subprocess.check_output(command))
    return result


def show(found: dict[str, Any]) -> None:
    print(
        f"{found['cpus']} CPUs: {found['events_per_s'] / 1e6:.2f} M events/s,"
        f" {found['mb_per_s']:.0f} MB/s to a disk of {found['disk_mb_per_s']:.0f} MB/s;"
        f" {found['late']} sub-buffers late, longest wait {found['longest_wait_ms']:.1f} ms;"
        f" memory {found['memory_peak_mb']:.0f} of {found['memory_mb']:.0f} MB;"
        f" {found['fill_cpus']:.2f} CPUs for filling and writing"
    )
    print(
        f"    one decoder: {found['decoded_per_s'] / 1e6:.1f} M events/s of CPU time, as many as"
        f" {found['decoded_per_s'] / STORM_PER_CPU:.0f} CPUs make in a page-fault storm"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Spools under a synthetic load.")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=3e6, help="events/s of all CPUs")
    parser.add_argument("--cpus", type=int, nargs="*", default=[2, 256])
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    tools = Path(sys.executable).parent
    subprocess.run(
        [tools / "meson", "compile", "-C", BUILD, "spool_bench"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
    )
    results = [spooled(args.dir, cpus, args.rate, args.seconds) for cpus in args.cpus]
    if args.json:
        print(json.dumps(results))
        return
    for found in results:
        show(found)


if __name__ == "__main__":
    main()
