# SPDX-License-Identifier: Apache-2.0
"""How long files may be. The linters limit functions: ruff those of Python, lizard those of C."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_LINES = 600
CODE = {".c", ".h", ".pyx", ".pxi", ".py", ".pyi", ".sql", ".toml", ".build", ".css", ""}


def test_no_file_is_too_long() -> None:
    """Tests, data, pages and tables of numbers have no limit."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = [ROOT / name for name in listed.splitlines()]
    code = [
        path
        for path in files
        if path.suffix in CODE
        and path.is_file()
        and not {"tests", "data", "corpus"} & set(path.parts)
    ]
    assert len(code) > 500
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in code}
    assert not {path: lines for path, lines in lengths.items() if lines > MAX_LINES}
