#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what pagetape survives, and write the page of the results.

    reliability.py [--work DIR] [--only SECTION]... [--page-only] OUT.md

Each section of the page is one command that prints JSON. The work directory keeps its result as
SECTION.json; a section that is not run again is written from there. With --page-only no command
runs. Exit status 1 if a command failed: the page then shows its last result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import page

ROOT = Path(__file__).parents[2]


def measure(section: page.Section, work: Path) -> bool:
    """Run the section's command and keep its result; whether it succeeded."""
    print(f"== {section.name}: {' '.join(section.command)}", file=sys.stderr, flush=True)
    command = [sys.executable, *section.command]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        result: Any = json.loads(done.stdout)
    except ValueError:
        print(f"reliability: {section.name}: no result", file=sys.stderr)
        return False
    results = {"date": time.strftime("%Y-%m-%d"), "result": result}
    (work / f"{section.name}.json").write_text(json.dumps(results, indent=1) + "\n")
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [section.name for section in page.SECTIONS]
    parser.add_argument("--work", type=Path, default=Path("build/reliability"))
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--page-only", action="store_true", help="run no command")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    chosen = [] if arguments.page_only else arguments.only or names
    wrong = [s.name for s in page.SECTIONS if s.name in chosen and not measure(s, arguments.work)]
    results = {
        name: json.loads(file.read_text())
        for name in names
        if (file := arguments.work / f"{name}.json").is_file()
    }
    arguments.out.write_text(page.markdown(results))
    if wrong:
        print(f"reliability: failed: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as e:
        sys.exit(f"reliability: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
