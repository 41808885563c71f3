# SPDX-License-Identifier: Apache-2.0
"""The spool of a recording, inside the tape that it becomes: T.tape/spool.

    cpuN, cpuN.more, formats, tasks   the collector's raw sub-buffers, and the data to decode them
    checkpoint                        one line of JSON, {"rows": {table: rows}}: the rows that the
                                      tape already has; then the position after them in the spool

A tape has a spool while it is being recorded, after its recorder was killed or found the disk
full, and with deferred decoding. `pagetape import` makes a complete tape from tape and spool.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pagetape import _collector
from pagetape.schemas import TABLES
from pagetape.schemas.tape import TapeError, Writer

NAME = "spool"

MAX_BYTES = 8 << 30  # default limit of a spool: 90 s of the worst page-fault storm measured

# Tables that are decoded from the spool; a checkpoint counts their rows.
DECODED = (*(name for name, table in TABLES.items() if table.kinds), "stack")


_CHECKPOINT_BYTES = 1 << 30  # pids and stacks, at most some 100 MB
_MOST_ROWS = 1 << 56


def _read(path: Path) -> bytes:
    """A file of a spool: no FIFO, which has no end, and no link, which the recorder never makes."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _CHECKPOINT_BYTES:
            raise TapeError(errno.EINVAL, f"{path}: not a file that a recorder makes")
        return opened.read()


def default_bound(directory: Path) -> int:
    """Default limit of a spool in `directory`, in bytes: 8 GiB, at most half of the free space."""
    disk = os.statvfs(directory)
    return min(MAX_BYTES, disk.f_bavail * disk.f_frsize // 2)


class Spool:
    """The recorder's side. As a context manager, it removes the spool of a finished recording."""

    def __init__(self, tape: Path, *, replace: bool, defer: bool) -> None:
        self.path = tape / NAME
        self.writer: Writer | None = None  # of the tape that is being written
        self.begun = False  # the recording has started: do not remove the tape
        self._replace = replace
        self._defer = defer
        self._lock = -1

    def make(self, facts: dict[str, Any]) -> None:
        """Make a tape without rows, and the spool directory in it, before the recording starts."""
        Writer(self.path.parent, facts, replace=self._replace).close()
        self.path.mkdir(mode=0o700)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def checkpoint(self, state: bytes) -> None:
        """Store `state`: the tape has all rows before it. The spool moves with the tape."""
        assert self.writer is not None
        rows = {name: self.writer.nr_rows[name] for name in DECODED}
        part = self.path / "checkpoint.part"
        try:
            part.write_bytes(json.dumps({"rows": rows}).encode() + b"\n" + state)
            part.chmod(0o600)
            part.rename(self.path / "checkpoint")
            if self.path.parent != self.writer.path:  # a new segment
                self.path = self.path.rename(self.writer.path / NAME)
        except OSError as e:
            raise TapeError(e.errno, f"{self.path}: {os.strerror(e.errno or errno.EIO)}") from e

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock < 0:  # make() did not run
            return
        os.close(self._lock)
        if not self.begun:
            shutil.rmtree(self.path.parent)
        elif error is None and not self._defer:
            shutil.rmtree(self.path)
        elif isinstance(error, OSError):
            tape = self.path.parent
            why = error.strerror or str(error)
            raise TapeError(error.errno, f"{why}; pagetape import {tape} reads what was recorded")


@dataclass(frozen=True)
class Found:
    """The spool of a tape that is not finished."""

    path: Path
    rows: dict[str, int]  # by table: rows that the tape has already
    state: bytes | None  # position in the spool after these rows; None: its start

    @classmethod
    def of(cls, tape: Path) -> Found | None:
        """The spool of `tape`, or None; raises TapeError if it is damaged."""
        path = tape / NAME
        if not path.is_dir():
            return None
        try:
            head, _, state = _read(path / "checkpoint").partition(b"\n")
            rows = json.loads(head)["rows"]
            counts = {name: rows[name] for name in DECODED if name in rows}
        except FileNotFoundError:
            return cls(path, {}, None)
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise TapeError(errno.EBADMSG, f"{path}/checkpoint: damaged") from e
        if not all(type(nr) is int and 0 <= nr < _MOST_ROWS for nr in counts.values()):
            raise TapeError(errno.EBADMSG, f"{path}/checkpoint: damaged: rows {counts}")
        return cls(path, counts, state)

    @property
    def begun(self) -> bool:
        """Whether the recording started."""
        return (self.path / "formats").is_file()

    @property
    def in_use(self) -> bool:
        """Whether the recorder still runs."""
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(directory)
        return False

    def look(self) -> tuple[int, str]:
        """The number of undecoded bytes, and the way the recording ended."""
        if not self.begun:
            return 0, "killed"
        return _collector.look_into_spool(str(self.path))
