# SPDX-License-Identifier: Apache-2.0
"""The directory where a query puts rows that do not fit into memory: one per process.

A killed process leaves its directory behind; the next process removes it. A locked directory
belongs to a live process. A process id would not prove that: the kernel reuses ids, and a
container that shares /tmp has its own ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "pagetape-sql-"


def _locked(directory: Path) -> int:
    """The directory's descriptor, locked; raises OSError if another process has the lock."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _tidy(above: Path) -> None:
    """Remove the directories that dead processes of this user left behind."""
    for directory in above.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # its process lives, or another process removes it now
            if directory.lstat().st_uid == os.geteuid():
                fd = _locked(directory)
                shutil.rmtree(directory, ignore_errors=True)
                os.close(fd)


def _made(above: Path) -> tuple[Path, int]:
    """A new directory and its locked descriptor; retries while a tidying process has the lock."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=above))
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            fd = _locked(directory)
            if directory.exists():
                return directory, fd
            os.close(fd)


@contextlib.contextmanager
def spill_dir() -> Iterator[tuple[Path, int]]:
    """A directory that is removed at the end, and its limit in bytes: half of the free space."""
    above = Path(tempfile.gettempdir())
    _tidy(above)
    disk = os.statvfs(above)
    directory, fd = _made(above)
    try:
        yield directory, disk.f_bavail * disk.f_frsize // 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(fd)
