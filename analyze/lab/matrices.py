#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the whole matrices of tests of which `make test` has a short member.

Each file of tests that imports schemas/tests/matrix.py runs with all cases and examples. The exit
status is that of pytest.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import program
from program import ROOT

_IMPORT = re.compile(r"^(?:import matrix|from matrix import .*)$", re.MULTILINE)


def files() -> list[str]:
    """The files of tests with a matrix, from the root of the tree."""
    found = (path for room in ROOT.iterdir() for path in room.glob("tests/**/test_*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found if _IMPORT.search(path.read_text()))


def main() -> int:
    program.parser(__doc__).parse_args()
    tried, failed = Counter[str](), Counter[str]()
    with TemporaryDirectory() as work:
        report = Path(work) / "report.xml"
        options = ["-q", "--numprocesses=2", "--dist=worksteal", f"--junitxml={report}"]
        words = [sys.executable, "-m", "pytest", *options, *files()]
        whole = os.environ | {"PAGETAPE_MATRIX": "whole"}
        ended = subprocess.run(words, cwd=ROOT, stdout=sys.stderr, env=whole, check=False)
        for case in ElementTree.parse(report).iter("testcase"):
            file = case.get("classname", "").replace(".", "/") + ".py"
            tried[file] += 1
            failed[file] += any(case.find(end) is not None for end in ("failure", "error"))
    rows = [[file, tried[file], failed[file]] for file in sorted(tried)]
    program.give({"files": program.table(("file", "tests", "failed"), rows)})
    return ended.returncode


if __name__ == "__main__":
    program.run(main)
