#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run `make fuzz`, and read the figures that libFuzzer prints.

    fuzz.py [--seconds N] [--json]

Exit status 1 if a target found an input that breaks it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

_PROGRESS = re.compile(r"^#(\d+)\s.*\bcov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
_EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_SECONDS = re.compile(r"^Done \d+ runs in (\d+) second", re.MULTILINE)
_FINDING = re.compile(r"^(?:==\d+== ?ERROR: (.*)|SUMMARY: (.*))", re.MULTILINE)


def parse(text: str) -> list[dict[str, Any]]:
    """One row per target of the output of `make fuzz`."""
    found = []
    for name, part in re.findall(r"^== (fuzz_\w+)\n(.*?)(?=^== fuzz_|\Z)", text, re.S | re.M):
        progress = _PROGRESS.findall(part)
        executed, seconds = _EXECUTED.search(part), _SECONDS.search(part)
        finding = _FINDING.search(part)
        found.append(
            {
                "target": name,
                "executions": int(executed[1]) if executed else int((progress or [(0,)])[-1][0]),
                "seconds": int(seconds[1]) if seconds else None,
                "edges": int(progress[-1][1]) if progress else 0,
                "features": int(progress[-1][2]) if progress else 0,
                "corpus": int(progress[-1][3]) if progress else 0,
                "finding": next(filter(None, finding.groups())) if finding else None,
            }
        )
    return found


def _lines(pipe: Iterable[str]) -> str:
    """All lines, with the names of the targets on stderr as they begin."""
    text = []
    for line in pipe:
        text.append(line)
        if line.startswith("== fuzz_"):
            print(line, end="", file=sys.stderr, flush=True)
    return "".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    arguments = parser.parse_args()
    words = ["make", "fuzz", f"FUZZ_SECONDS={arguments.seconds}"]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        text = _lines(running.stdout)
    targets = parse(text)
    if running.returncode and not any(target["finding"] for target in targets):
        print(text[-2000:], file=sys.stderr)
        return running.returncode
    if arguments.json:
        print(json.dumps({"targets": targets}, indent=1))
    else:
        for target in targets:
            print(*(f"{name}={value}" for name, value in target.items()))
    return 1 if running.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
