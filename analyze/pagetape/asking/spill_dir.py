# SPDX-License-Identifier: Apache-2.0
"""The directory where a query puts rows that do not fit into memory: one per process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pagetape.tapes import temporary


@contextlib.contextmanager
def spill_dir() -> Iterator[tuple[Path, int]]:
    """A directory that is removed at the end, and its limit in bytes: half of the free space."""
    with temporary.scratch("sql") as directory:
        disk = os.statvfs(directory)
        yield directory, disk.f_bavail * disk.f_frsize // 2
