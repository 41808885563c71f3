# SPDX-License-Identifier: Apache-2.0
"""Temporaries of many processes in one directory: each removes what the dead left, and no more."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pagetape.tapes.temporary import scratch, temporary


@pytest.fixture
def threads_change_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


# A thread has a lock of its own, like a process.
@pytest.mark.usefixtures("threads_change_often")
@pytest.mark.parametrize("file_mode", [None, 0o600], ids=["directory", "file"])
def test_many_at_once_do_not_take_each_others(tmp_path: Path, file_mode: int | None) -> None:
    def make_some(_: int) -> None:
        for _ in range(200):
            with temporary(tmp_path, "many-", file_mode=file_mode) as path:
                assert path.exists()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make_some, range(8)))
    assert not list(tmp_path.iterdir())


_UNTIL_KILLED = """
from pagetape.tapes.temporary import scratch
with scratch("compact") as room, scratch("pack", file_mode=0o600):
    (room / "a.tape").write_bytes(b"x")
    print("ready", flush=True)
    input()
"""


def _began(tmp: Path) -> subprocess.Popen[str]:
    """A process with two scratch files."""
    child = subprocess.Popen(
        [sys.executable, "-c", _UNTIL_KILLED],
        env={"TMPDIR": str(tmp)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout and child.stdout.readline() == "ready\n"
    return child


def test_the_next_scratch_removes_those_of_the_dead_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "pagetape-mine").touch()  # no name of a temporary
    dead, alive = _began(tmp_path), _began(tmp_path)
    before = {*tmp_path.iterdir()}
    assert len(before) == 5
    dead.kill()
    dead.communicate()
    with scratch("sql"):  # of another command
        assert len({*tmp_path.iterdir()} & before) == 3
    alive.communicate("\n")
    assert [path.name for path in tmp_path.iterdir()] == ["pagetape-mine"]
