# SPDX-License-Identifier: Apache-2.0
"""The directory where a query puts rows that do not fit into memory: one per process."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pagetape.tapes.temporary import temporary


@contextlib.contextmanager
def spill_dir() -> Iterator[tuple[Path, int]]:
    """A directory that is removed at the end, and its limit in bytes: half of the free space."""
    above = Path(tempfile.gettempdir())
    disk = os.statvfs(above)
    with temporary(above, "pagetape-sql-") as directory:
        yield directory, disk.f_bavail * disk.f_frsize // 2
