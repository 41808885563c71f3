#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run `make fuzz` for each target, one per CPU at a time, and read the figures that it prints.

    fuzz.py [--seconds N] [--jobs N] [--only TARGET]...

A target runs until it has had N seconds of CPU time, however busy the machine is.

Exit status 1 if a target found an input that breaks it.
"""

import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import program
from program import ROOT

_PROGRESS = re.compile(r"^#(\d+)\s.*\bcov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
_EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_FINDING = re.compile(r"^(?:==\d+== ?ERROR: (.*)|SUMMARY: (.*))", re.MULTILINE)


def parse(text: str) -> list[dict[str, Any]]:
    """One row per target of the output of `make fuzz`."""
    found = []
    for name, part in re.findall(r"^== (fuzz_\w+)\n(.*?)(?=^== fuzz_|\Z)", text, re.S | re.M):
        progress = _PROGRESS.findall(part)
        executed = _EXECUTED.search(part)
        finding = _FINDING.search(part)
        found.append(
            {
                "target": name,
                "executions": int(executed[1]) if executed else int((progress or [(0,)])[-1][0]),
                "edges": int(progress[-1][1]) if progress else 0,
                "features": int(progress[-1][2]) if progress else 0,
                "corpus": int(progress[-1][3]) if progress else 0,
                "finding": next(filter(None, finding.groups())) if finding else None,
            }
        )
    return found


def _make(*words: str) -> tuple[int, str, float]:
    """Exit status, output and CPU seconds of `make fuzz`."""
    command = ["make", "fuzz", *words]
    pipe, into = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=into, text=True) as child:
        assert child.stdout is not None
        text = child.stdout.read()
        cpu, _ = program.taken(child)
    return child.returncode, text, cpu


def _run(name: str, seconds: int) -> dict[str, Any]:
    """The row of one target, which runs for so many CPU seconds or until a finding."""
    row: dict[str, Any] = {"executions": 0, "cpu_seconds": 0.0, "finding": None}
    while row["cpu_seconds"] < seconds and not row["finding"]:
        left = math.ceil(seconds - row["cpu_seconds"])
        status, text, used = _make(f"FUZZ_TARGETS={name}", f"FUZZ_SECONDS={left}")
        found = parse(text) or parse(f"== {name}\n")
        if status and not found[-1]["finding"]:
            found[-1]["finding"] = f"status {status}: {text[-500:].strip()}"
        executions = row["executions"] + found[-1]["executions"]
        row = found[-1] | {"executions": executions, "cpu_seconds": row["cpu_seconds"] + used}
    return row


def _targets() -> list[str]:
    """Build all; their names."""
    status, text, _ = _make("FUZZ_TARGETS=none")
    if status:
        sys.exit(f"fuzz: the targets cannot be built:\n{text[-2000:]}")
    built = (ROOT / "build/fuzz").glob("*/fuzz_*")
    programs = {"fuzz_messages", "fuzz_proc", "fuzz_table"}
    return sorted({file.name for file in built if file.is_file()} | programs)


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="CPU time of each target")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", action="append", metavar="TARGET", help="not all targets")
    arguments = parser.parse_args()

    def run(name: str) -> dict[str, Any]:
        program.say(f"fuzz: {name} for {arguments.seconds} CPU seconds")
        row = _run(name, arguments.seconds)
        program.say(f"fuzz: {json.dumps(row)}")
        return row

    with ThreadPoolExecutor(arguments.jobs) as pool:
        names = [name for name in _targets() if name in (arguments.only or [name])]
        targets = list(pool.map(run, names))
    program.give({"targets": targets})
    return int(any(target["finding"] for target in targets))


if __name__ == "__main__":
    program.run(main)
