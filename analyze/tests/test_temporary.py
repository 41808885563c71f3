# SPDX-License-Identifier: Apache-2.0
"""Temporaries of many processes in one directory: each removes what the dead left, and no more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pagetape.tapes.temporary import temporary


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
