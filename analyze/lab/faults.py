#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of the faults in faults.toml, and count those that failed or were skipped.

Exit status 1 if there is one, or a fault has no test.
"""

import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import program
from program import ROOT

FAULTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)["fault"]


def run_tests(tests: list[str], **given: str) -> list[tuple[str, bool]]:
    """Each test as FILE::NAME without parameters, and whether it passed. `given`: environment."""
    with TemporaryDirectory() as work:
        report = Path(work) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *tests]
        subprocess.run(words, cwd=ROOT, stdout=sys.stderr, env=os.environ | given, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    found = []
    for case in cases:
        file = case.get("classname", "").replace(".", "/") + ".py"
        name = case.get("name", "").partition("[")[0]
        found.append((f"{file}::{name}", len(case.findall("*[@message]")) == 0))
    return found


def main() -> int:
    program.parser(__doc__).parse_args()
    results = run_tests(sorted({test for fault in FAULTS for test in fault["tests"]}))
    tried = Counter(name for name, _ in results)
    failed = Counter(name for name, good in results if not good)
    rows = []
    for fault in FAULTS:
        counts = (sum(found[test] for test in fault["tests"]) for found in (tried, failed))
        rows.append([fault["fault"], fault["answer"], *counts])
    program.give({"faults": program.table(("fault", "answer", "tests", "failed"), rows)})
    return int(any(failed or not tests for *_, tests, failed in rows))


if __name__ == "__main__":
    program.run(main)
