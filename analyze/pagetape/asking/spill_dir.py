# SPDX-License-Identifier: Apache-2.0
"""Where a query keeps what does not fit into memory: a directory of the process's own.

A process that is killed leaves its directory behind; the next one takes it away. A lock on
the directory says that its process lives: process ids come again, and are other ones in a
container that shares /tmp.
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
    """The directory's descriptor with its lock; OSError if that is held, or it is not ours."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _tidy(above: Path) -> None:
    """Take away what dead processes of this user left."""
    for directory in above.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it lives, or another one takes it away just now
            if directory.lstat().st_uid == os.geteuid():
                fd = _locked(directory)
                shutil.rmtree(directory, ignore_errors=True)
                os.close(fd)


def _made(above: Path) -> tuple[Path, int]:
    """A new one with its lock, which another process that tidies may hold for a moment."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=above))
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            fd = _locked(directory)
            if directory.exists():
                return directory, fd
            os.close(fd)


@contextlib.contextmanager
def spill_dir() -> Iterator[tuple[Path, int]]:
    """A directory that goes away at the end, and the bytes it may take: half of what is free."""
    above = Path(tempfile.gettempdir())
    _tidy(above)
    disk = os.statvfs(above)
    directory, fd = _made(above)
    try:
        yield directory, disk.f_bavail * disk.f_frsize // 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(fd)
