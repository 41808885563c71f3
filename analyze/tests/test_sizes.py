# SPDX-License-Identifier: Apache-2.0
"""How long files may be, and all together. The linters limit functions: ruff, and lizard for C."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_LINES = 600
MAX_TOTAL = 137_173  # a change that needs more says which mechanism it replaces, and raises this
CODE = {".c", ".h", ".pyx", ".pxi", ".py", ".pyi", ".sql", ".toml", ".build", ".css", ""}


def lengths() -> dict[Path, int]:
    """The lines of each file of product and laboratory: no tests, data, pages or tables."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    code = [
        path
        for path in (ROOT / name for name in listed.splitlines())
        if path.suffix in CODE
        and path.is_file()
        and not {"tests", "data", "corpus"} & set(path.relative_to(ROOT).parts)
    ]
    assert len(code) > 500
    return {path: path.read_text(encoding="utf-8").count("\n") for path in code}


def test_no_file_is_too_long() -> None:
    assert not {path: lines for path, lines in lengths().items() if lines > MAX_LINES}


def test_the_tree_does_not_grow_unnoticed() -> None:
    assert sum(lengths().values()) <= MAX_TOTAL
