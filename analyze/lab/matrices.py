#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the whole matrices of tests of which `make test` has a short member.

Each file of tests that imports schemas/tests/matrix.py, or a profile that is made with it, runs
with all cases and examples. Exit status 1 if a test failed.
"""

import re

import program
from faults import give, run_tests
from program import ROOT

_IMPORT = re.compile(r"^import matrix$|^from .* import .*\bPROFILE\b", re.MULTILINE)


def files() -> list[str]:
    """The files of tests with a matrix, from the root of the tree."""
    found = (path for room in ROOT.iterdir() for path in room.glob("tests/**/test_*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found if _IMPORT.search(path.read_text()))


def main() -> int:
    program.parser(__doc__).parse_args()
    results = run_tests([*files(), "--numprocesses=2"], PAGETAPE_MATRIX="whole")
    of_files = [(name.partition("::")[0], good) for name, good in results]
    return give("files", ("file",), [([file], {file}) for file in files()], of_files)


if __name__ == "__main__":
    program.run(main)
