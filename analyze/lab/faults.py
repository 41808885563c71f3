#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of the faults in faults.toml, and count those that passed.

    faults.py [--json]

Exit status 1 if a test failed or was skipped, or a fault has none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
FAULTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)["fault"]


def _run(tests: list[str]) -> list[tuple[str, bool]]:
    """Each test as FILE::NAME without parameters, and whether it passed."""
    with TemporaryDirectory() as work:
        report = Path(work) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *tests]
        subprocess.run(words, cwd=ROOT, stdout=sys.stderr, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    found = []
    for case in cases:
        file = case.get("classname", "").replace(".", "/") + ".py"
        name = case.get("name", "").partition("[")[0]
        found.append((f"{file}::{name}", len(case.findall("*[@message]")) == 0))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    arguments = parser.parse_args()
    results = _run(sorted({test for fault in FAULTS for test in fault["tests"]}))
    tried = Counter(name for name, _ in results)
    passed = Counter(name for name, good in results if good)
    faults = [
        {
            "fault": fault["fault"],
            "answer": fault["answer"],
            "tests": sum(tried[test] for test in fault["tests"]),
            "passed": sum(passed[test] for test in fault["tests"]),
        }
        for fault in FAULTS
    ]
    if arguments.json:
        print(json.dumps({"faults": faults}, indent=1))
    else:
        for fault in faults:
            print(f"{fault['passed']} of {fault['tests']}\t{fault['fault']}: {fault['answer']}")
    return 0 if all(fault["tests"] == fault["passed"] > 0 for fault in faults) else 1


if __name__ == "__main__":
    sys.exit(main())
