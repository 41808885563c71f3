# SPDX-License-Identifier: Apache-2.0
"""Temporary files of queries: limited in size, and removed when the process ends in any way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pagetape.asking.database import Database
from pagetape.asking.spill_dir import spill_dir
from pagetape.schemas.tape import Tape, TapeError

HOLDER = """
from pagetape.asking.spill_dir import spill_dir
with spill_dir() as (directory, _):
    (directory / "spilled").write_bytes(b"rows")
    print(directory, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def holder(above: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a spill directory, and the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(above)},
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_the_directory_goes_with_the_block_and_what_is_in_it(above: Path) -> None:
    with spill_dir() as (directory, limit):
        (directory / "spilled").write_bytes(b"rows")
        disk = os.statvfs(above)
        assert 0 < limit < disk.f_blocks * disk.f_frsize
    assert not list(above.iterdir())


def test_what_a_killed_process_left_is_taken_away_by_the_next(above: Path) -> None:
    process, left = holder(above)
    with process:
        process.send_signal(signal.SIGKILL)
    assert (left / "spilled").exists()
    with spill_dir() as (directory, _):
        assert list(above.iterdir()) == [directory]


def test_the_directory_of_a_process_that_lives_is_left_alone(above: Path) -> None:
    process, held = holder(above)
    with spill_dir() as (directory, _):
        assert sorted(above.iterdir()) == sorted([directory, held])
    assert (held / "spilled").exists()
    with process:
        process.communicate("\n")
    assert not list(above.iterdir())


def test_a_query_that_needs_more_than_there_is_says_so(empty: Path) -> None:
    with Database([Tape(empty)], threads=1, unsafe=True) as db:
        db.ask("SET max_temp_directory_size = '1MB'")
        db.ask("SET memory_limit = '20MB'")
        with pytest.raises(
            TapeError, match="the query needs more memory or disk space than is free"
        ):
            db.ask("SELECT list(i ORDER BY hash(i)) FROM range(20000000) t(i)")
