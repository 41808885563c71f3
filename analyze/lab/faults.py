#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of the faults in faults.toml, and count those that failed or were skipped.

Exit status 1 if there is one, or a fault has no test.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import program
from program import ROOT

Results = list[tuple[str, bool]]  # tests, and whether each passed

FAULTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)["fault"]


def run_tests(tests: list[str], **given: str) -> Results:
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


def give(
    name: str, columns: tuple[str, ...], rows: list[tuple[list[str], set[str]]], results: Results
) -> int:
    """Print a table of rows with the tests of each; 1 if one failed, or a row has none."""
    counted = [
        [*cells, len(good), len(good) - sum(good)]
        for cells, tests in rows
        for good in [[passed for test, passed in results if test in tests]]
    ]
    program.give({name: program.table((*columns, "tests", "failed"), counted)})
    return int(any(failed or not tests for *_, tests, failed in counted))


def main() -> int:
    program.parser(__doc__).parse_args()
    rows = [([one["fault"], one["answer"]], set(one["tests"])) for one in FAULTS]
    results = run_tests(sorted(set().union(*(tests for _, tests in rows))))
    return give("faults", ("fault", "answer"), rows, results)


if __name__ == "__main__":
    program.run(main)
