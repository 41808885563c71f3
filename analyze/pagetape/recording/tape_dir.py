# SPDX-License-Identifier: Apache-2.0
"""A directory of tapes that one recorder writes one after the other, bounded in bytes.

A tape's name is its begin: HOST-2026-11-21T061500Z.tape. A TapeDir removes only finished tapes
that a TapeDir made, the oldest first, and names each. It never removes the newest tape.
"""

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pagetape import answer
from pagetape.schemas.tape import Tape, TapeError, is_tape
from pagetape.tapes import series, temporary

SPOOLS = ".pagetape."  # prefix of a directory for spools that no kill leaves to be read

_NAME = re.compile(r"-(\d{4}-\d\d-\d\dT\d{6}Z)(?:-(\d+))?\.tape$")


class TapeDir:
    """The tapes of `host` (default: this one) in `directory`, which is created if missing.

    While it is open, no other recorder can use the directory. `keep` limits the finished tapes,
    in bytes; the tape being written, its spool and what a killed recorder left do not count. `said`
    takes a line about each removed tape.
    """

    def __init__(
        self,
        directory: Path,
        keep: float | None,
        host: str | None = None,
        said: Callable[[str], None] = lambda _line: None,
    ) -> None:
        if is_tape(directory):
            raise TapeError(errno.EEXIST, f"{directory}: is a tape; give a directory for tapes")
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as e:
            raise TapeError(e.errno, f"{directory}: {os.strerror(e.errno or errno.EIO)}") from e
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(self._lock)
            raise TapeError(e.errno, f"{directory}: another recorder uses this directory") from e
        self.directory = directory
        self._keep = keep
        self._said = said
        self._host = re.sub(r"[^\w.-]", "_", host or os.uname().nodename)
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self.made = 0
        for prefix in (f".{self._host}-", SPOOLS):
            temporary.remove_leftovers(directory, prefix)

    def mark(self) -> dict[str, Any]:
        """Facts of the next tape: its recorder and its number."""
        return {series.MARK: {"since": self._since, "number": self.made}}

    def place(self, at: datetime) -> Path:
        """The path of the tape that begins at `at`, wherever the directory is now."""
        now = Path(f"/proc/self/fd/{self._lock}")
        if not os.fstat(self._lock).st_nlink:
            raise TapeError(errno.ENOENT, f"{self.directory}: was removed")
        if not (self.directory.exists() and self.directory.samefile(now)):
            self.directory = now.readlink()
        self.made += 1
        name = f"{self._host}-{at.astimezone(UTC):%Y-%m-%dT%H%M%SZ}"
        path = self.directory / f"{name}.tape"
        nr = 1
        while path.exists():  # a tape of the same second exists, or the clock was set back
            nr += 1
            path = self.directory / f"{name}-{nr}.tape"
        return path

    def _tapes(self) -> list[Path]:
        """Tapes of this host, the oldest first."""
        found = []
        for path in self.directory.glob(f"{self._host}-*.tape"):
            name = _NAME.fullmatch(path.name, len(self._host))
            if name and is_tape(path):
                found.append((name[1], int(name[2] or 1), path))
        return [path for *_, path in sorted(found)]

    def tidy(self) -> None:
        """Remove the oldest finished tapes beyond the limit, and name them."""
        if self._keep is None:
            return
        tapes = self._tapes()
        sizes = {}
        for path in tapes:
            with contextlib.suppress(OSError):  # a shipper removed it meanwhile
                if series.is_finished(path):
                    sizes[path] = Tape(path).bytes
        older = {path: size for path, size in sizes.items() if path != tapes[-1]}
        gone = series.remove_beyond(self.directory, older, sum(sizes.values()), self._keep)
        for path, size, total in gone:
            self._said(
                f"{path}: removed, {answer.size(size)}: finished tapes had "
                f"{answer.size(total)}, --keep {answer.size(self._keep)}"
            )

    def close(self) -> None:
        os.close(self._lock)
