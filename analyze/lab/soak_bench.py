# SPDX-License-Identifier: Apache-2.0
"""The recorder's memory and losses during minutes of a page-fault storm on every CPU.

Runs `pagetape record` around storm.py and measures the recorder once a second: its resident
memory, and the undecoded bytes in its spool. Memory must stay under 400 MiB for any duration.
The disk's sequential rate is measured just before, in the same directory.

recorder_bench.py measures a recorder without a load.
"""

import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import program

DISK_MB = 512
STORM = [sys.executable, str(Path(__file__).with_name("storm.py"))]
PAGETAPE = str(program.BIN / "pagetape")


def resident_mb(pid: int) -> float:
    """Resident memory now, in MiB; 0 if the process has ended."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0


def spooled_mb(tape: Path) -> float:
    """Disk space of the spool."""
    try:
        return sum(path.stat().st_blocks * 512 for path in (tape / "spool").iterdir()) / 2**20
    except (FileNotFoundError, NotADirectoryError):  # there is none yet, or none any more
        return 0


def disk_rate(directory: str) -> float:
    """MB/s of sequential writes of 1 MiB, past the page cache if the file system can."""
    path = Path(directory) / "rate"
    block = mmap.mmap(-1, 1 << 20)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    except OSError:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    start = time.monotonic()
    for _ in range(DISK_MB):
        os.write(fd, block)
    os.fsync(fd)
    os.close(fd)
    seconds = time.monotonic() - start
    path.unlink()
    return DISK_MB * 1.048576 / seconds


def soak(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        tape = Path(directory) / "soak.tape"
        disk = disk_rate(directory)
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
        "length of the storm, s": seconds,
        "events recorded": events,
        "events per second": events / info["duration_s"],
        "events lost": info["lost"],
        "memory of the recorder, most, MiB": max(memory),
        "the same, by tenths of the time": [max(part) for part in tenths(memory)],
        "spool on the disk, most, MiB": max(spool),
        "sequential writes of the disk, MB/s": disk,
        "end of the recorder after that of the storm, s": len(memory) - seconds,
        "CPUs that the recorder used": storm["parent_cpu_s"] / seconds,
        "bytes per event": info["bytes_per_event"],
    }


def tenths(values: list[float]) -> list[list[float]]:
    """Ten parts of about the same length, none empty."""
    step = max(1, len(values) // 10)
    return [values[i : i + step] for i in range(0, len(values), step)]


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    program.give(soak(parser.parse_args().seconds))


if __name__ == "__main__":
    program.run(main)
