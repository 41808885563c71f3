# SPDX-License-Identifier: Apache-2.0
"""The recorder's memory and losses during minutes of a page-fault storm on every CPU.

Runs `pagetape record` around storm.py and measures the recorder once a second: its resident
memory, and the undecoded bytes in its spool. Memory must stay under 256 MiB for any
duration, so the last line is the result. --json for one JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIMIT_MB = 256
STORM = [sys.executable, str(Path(__file__).with_name("storm.py"))]
PAGETAPE = str(Path(sys.executable).with_name("pagetape"))


def resident_mb(pid: int) -> float:
    """Resident memory now, in MiB; 0 if the process has ended."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0


def spooled_mb(tape: Path) -> float:
    """Disk space of the spool."""
    try:
        return sum(path.stat().st_blocks * 512 for path in (tape / "spool").iterdir()) / 2**20
    except FileNotFoundError:  # there is none yet, or none any more
        return 0


def soak(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        tape = Path(directory) / "soak.tape"
        recorder = subprocess.Popen(
            [PAGETAPE, "record", "--events", "page", "-o", tape, "--", *STORM, str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        memory, spool = [], []
        while recorder.poll() is None:
            memory.append(resident_mb(recorder.pid))
            spool.append(spooled_mb(tape))
            time.sleep(1)
        assert recorder.stdout
        storm = json.loads(recorder.stdout.read())
        info = json.loads(subprocess.check_output([PAGETAPE, "info", tape, "--json"]))
    events = sum(info["events"].values())
    return {
        "seconds": seconds,
        "events": events,
        "events_per_s": events / info["duration_s"],
        "lost": info["lost"],
        "rss_mb_max": max(memory),
        "rss_mb_by_tenth": [max(part) for part in tenths(memory)],
        "spool_mb_max": max(spool),
        "after_s": len(memory) - seconds,
        "recorder_cpus": storm["parent_cpu_s"] / seconds,
        "bytes_per_event": info["bytes_per_event"],
    }


def tenths(values: list[float]) -> list[list[float]]:
    """Ten parts of about the same length, none empty."""
    step = max(1, len(values) // 10)
    return [values[i : i + step] for i in range(0, len(values), step)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Recording for minutes.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = soak(args.seconds)
    if args.json:
        print(json.dumps(found))
        return
    print(
        f"{found['events'] / 1e6:.1f} M events in {args.seconds:.0f} s"
        f" ({found['events_per_s'] / 1e6:.2f} M/s), lost {found['lost']},"
        f" {found['bytes_per_event']:.2f} bytes per event"
    )
    print(
        "resident MB, by tenths of the time: "
        + " ".join(f"{mb:.0f}" for mb in found["rss_mb_by_tenth"])
    )
    print(
        f"recorder: at most {found['rss_mb_max']:.0f} MB of {LIMIT_MB}, spool at most"
        f" {found['spool_mb_max']:.0f} MB, {found['recorder_cpus']:.2f} CPUs;"
        f" done {found['after_s']:.0f} s after the load"
    )


if __name__ == "__main__":
    main()
