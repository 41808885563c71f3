# SPDX-License-Identifier: Apache-2.0
"""The spool of a recording, inside the tape that it becomes: T.tape/spool.

    cpuN, cpuN.more, formats, tasks   the collector's raw sub-buffers, and the data to decode them
    checkpoint                        one line of JSON, {"rows": {table: rows}, "number": n}: the
                                      rows that the tape already has, and its number in its series;
                                      then the position after them in the spool

A kill of the recorder leaves the rest of the rings there, too: its guard stores cpuN.rest.

A tape has a spool while it is being recorded, after its recorder was killed or found the disk
full, and with deferred decoding. `pagetape import` makes a complete tape from tape and spool.
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pagetape.schemas import TABLES
from pagetape.schemas.tape import SPOOL, TapeError, Writer
from pagetape.tapes import output, temporary

MAX_BYTES = 8 << 30  # default limit of a spool: 90 s of the worst page-fault storm measured

# Tables that are decoded from the spool; a checkpoint counts their rows.
DECODED = (*(name for name, table in TABLES.items() if table.kinds), "stack", "stamp", "list_head")


_CHECKPOINT_BYTES = 1 << 30  # pids and stacks, at most some 100 MB
_MOST_ROWS = 1 << 56


def _read(path: Path) -> bytes:
    """A file of a spool: no FIFO, which has no end, and no link, which the recorder never makes."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _CHECKPOINT_BYTES:
            raise TapeError(errno.EINVAL, f"{path}: not a file that a recorder makes")
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read()
    finally:
        os.close(file)


def default_bound(directory: Path) -> int:
    """Default limit of a spool in `directory`, in bytes: 8 GiB, at most half of the free space."""
    disk = os.statvfs(directory)
    return min(MAX_BYTES, disk.f_bavail * disk.f_frsize // 2)


class Spool:
    """The recorder's side. As a context manager, it removes the spool of a finished recording.

    All paths lead through a descriptor of the spool's directory: a tape may be renamed meanwhile.
    """

    def __init__(self, tape: Path, *, replace: bool, defer: bool) -> None:
        self.tape = tape  # the one that the recording began with
        self.writer: Writer | None = None  # of the tape that is being written
        self.begun = False  # the recording has started: do not remove the tape
        self.left: Callable[[Path], None] = output.put_in_one_file  # with each tape it has left
        self.lock = -1  # descriptor of the spool's directory
        self._replaces = replace and tape.exists()
        self._beside = contextlib.ExitStack()  # removes what is beside the tape
        self._part: Path | None = None  # the new tape beside the one that it replaces
        self._defer = defer

    @property
    def path(self) -> Path:
        """The spool's directory, by descriptor."""
        return Path(f"/proc/self/fd/{self.lock}")

    @property
    def above(self) -> Path:
        """The tape's directory, by the descriptor of the spool's."""
        return self.path / ".."

    def make(self, facts: dict[str, Any]) -> None:
        """Make a tape without rows, with the spool's directory in it; it appears whole or not.

        A tape that it replaces stays until begin().
        """
        above, prefix = self.tape.parent, f".{self.tape.name}."
        try:
            part = self._beside.enter_context(temporary.temporary(above, prefix))
            Writer(part, facts, over=True).close()
            (part / SPOOL).mkdir(mode=0o700)
            self.lock = temporary.lock(part / SPOOL)
            if self._replaces:
                self._part = part
                return
            temporary.rename_new(part, self.tape)
        except OSError as e:
            raise TapeError(e.errno, f"{self.tape}: {os.strerror(e.errno or errno.EIO)}") from e
        self._beside.close()

    def begin(self, facts: dict[str, Any]) -> None:
        """All is known and can be recorded: store the facts, and replace the former tape."""
        if self._part is None:
            Writer(self.tape, facts, over=True, at=self.above).close()
            return
        Writer(self._part, facts, over=True).close()
        temporary.exchange(self._part, self.tape)
        self._part = None
        self._beside.close()

    def checkpoint(self, state: bytes) -> None:
        """Store `state`: the tape has all rows before it. The spool moves with the tape."""
        assert self.writer is not None
        rows = {name: self.writer.nr_rows[name] for name in DECODED}
        head = {"rows": rows, "number": number_of(self.writer.facts)}
        closed: Path | None = None
        try:
            tape = self.writer.where()
            if tape is None:
                raise FileNotFoundError(errno.ENOENT, "was removed while it was written")
            if not (tape / SPOOL).exists():  # a new segment
                # First the spool: with the old checkpoint it fits the new tape, see Found.fitting.
                closed = self.path.readlink().parent
                self.path.readlink().rename(tape / SPOOL)
            part = self.path / "checkpoint.part"
            part.write_bytes(json.dumps(head).encode() + b"\n" + state)
            part.chmod(0o600)
            part.rename(self.path / "checkpoint")
        except OSError as e:
            raise TapeError(e.errno, f"{self.writer.path}: {e.strerror}") from e
        if closed is not None:
            self.left(closed)

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._beside.close()
        if self.lock < 0:  # make() did not run
            return
        path = self.path.readlink()
        tape = path.parent
        if not self.begun:
            shutil.rmtree(tape, ignore_errors=True)
        elif error is None and not self._defer and path.exists():
            # In one step: half a spool would look like that of a killed recorder.
            gone = path.with_name(f".{SPOOL}")
            path.rename(gone)
            shutil.rmtree(gone)
            self.left(tape)
        by_fd = str(self.path)
        os.close(self.lock)
        self.lock = -1
        if isinstance(error, OSError):
            why = (error.strerror or str(error)).replace(by_fd, str(path))
            rest = f"; pagetape import {tape} reads what was recorded"
            raise TapeError(error.errno, why + (rest if self.begun and tape.exists() else ""))


def number_of(facts: dict[str, Any]) -> int | None:
    """The number of a tape in the series of one recorder; None without a series."""
    series = facts.get("series")
    return series.get("number") if isinstance(series, dict) else None


@dataclass(frozen=True)
class Found:
    """The spool of a tape that is not finished."""

    path: Path
    rows: dict[str, int]  # by table: rows that the tape has already
    state: bytes | None  # position in the spool after these rows; None: its start
    number: int | None = None  # of the tape in its series, at that time

    @classmethod
    def of(cls, tape: Path) -> "Found | None":
        """The spool of `tape`, or None; raises TapeError if it is damaged."""
        path = tape / SPOOL
        if not path.is_dir():
            return None
        try:
            line, _, state = _read(path / "checkpoint").partition(b"\n")
            head = json.loads(line)
            rows, number = head["rows"], head.get("number")
            counts = {name: rows[name] for name in DECODED if name in rows}
        except FileNotFoundError:
            return cls(path, {}, None)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise TapeError(errno.EBADMSG, f"{path}/checkpoint: damaged") from e
        if not all(type(nr) is int and 0 <= nr < _MOST_ROWS for nr in counts.values()):
            raise TapeError(errno.EBADMSG, f"{path}/checkpoint: damaged: rows {counts}")
        return cls(path, counts, state, number)

    def fitting(self, facts: dict[str, Any]) -> "Found":
        """The same for a tape with these facts.

        A recorder killed between two tapes leaves the former tape's checkpoint: none of the rows
        before it are in this tape.
        """
        if self.state is None or self.number == number_of(facts):
            return self
        return Found(self.path, {}, self.state)

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
        from pagetape import _collector  # needs libraries, which most readers of tapes lack

        return _collector.look_into_spool(str(self.path))
