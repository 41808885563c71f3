# SPDX-License-Identifier: Apache-2.0
"""Ships the finished tapes of a directory to an archive, beside the recorder that writes them.

The shipper stores no state of its own: the archive answers which tapes it has. So it may be killed
at any moment, run twice, or begin anew on another day. Without the archive, tapes wait in the
directory; `keep` bounds them.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from errno import EBUSY
from pathlib import Path
from typing import Any

from pagetape import answer
from pagetape.archive import put
from pagetape.archive.policy import Policy
from pagetape.archive.store import Store, StoreError
from pagetape.schemas.tape import is_tape
from pagetape.tapes import series

EVERY_S = 10.0  # between two looks into the directory
_LATER_S = 300.0  # most time between two tries while the archive does not answer

_Mark = tuple[str, int, int, int]  # name, inode, size and time of a change


class Pace:
    """Waits so long that no more bytes leave than a rate permits, from the first on."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate  # bytes per second
        self._free = time.monotonic()

    def __call__(self, size: int) -> None:
        """Wait until an object of that many bytes may be sent."""
        if self._rate is not None:
            self._free = max(self._free, time.monotonic()) + size / self._rate
            time.sleep(max(self._free - time.monotonic(), 0))


@dataclass(frozen=True)
class Limits:
    """What a shipper may take."""

    rate: float | None = None  # bytes per second
    keep: float | None = None  # bytes of finished tapes in the directory


@dataclass
class Shipped:
    """What a shipper did."""

    tapes: list[dict[str, Any]] = field(default_factory=list)  # made, or same
    refused: list[dict[str, str]] = field(default_factory=list)  # tape and reason
    waiting: list[str] = field(default_factory=list)  # tapes that are being recorded
    removed: list[str] = field(default_factory=list)  # by `keep`
    lost: int = 0  # of these, not shipped before


def _is_locked(directory: Path) -> bool:
    """Whether a recorder of a series runs there. To try its lock could make a new one fail."""
    with suppress(OSError):
        found = directory.stat()
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        return f" {device} " in Path("/proc/locks").read_text()
    return False


class Shipper:
    """Ships one directory; `say` takes a line about each tape, `warn` one about each problem."""

    def __init__(
        self,
        directory: Path,
        store: Store,
        policy: Policy,
        limits: Limits,
        say: Callable[[str], None] = lambda _line: None,
        warn: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._directory, self._store, self._policy = directory, store, policy
        self._pace, self._keep = Pace(limits.rate), limits.keep
        self._say, self._warn = say, warn
        self._done: dict[_Mark, bool] = {}  # of each tape that was looked at: is it in the archive?
        self._warned: set[str] = set()

    def _tapes(self) -> list[tuple[Path, _Mark]]:
        """The tapes by name, which begins with the host and has the time."""
        found = []
        for path in sorted(self._directory.glob("*.tape")):
            with suppress(OSError):  # the recorder removed it
                if is_tape(path):
                    now = path.stat()
                    found.append((path, (path.name, now.st_ino, now.st_size, now.st_mtime_ns)))
        return found

    def once(self) -> Shipped:
        """Ship the tapes that are there; raises StoreError for an archive that does not answer."""
        done, tapes = Shipped(), self._tapes()
        self._done = {mark: self._done[mark] for _, mark in tapes if mark in self._done}
        try:
            for path, mark in tapes:
                if mark not in self._done:
                    self._ship(path, mark, done)
        finally:
            self._bound(done)
        return done

    def _ship(self, path: Path, mark: _Mark, done: Shipped) -> None:
        try:
            found = put.put(path, self._store, self._policy, self._pace)
        except OSError as e:
            if not put.is_of_tape(e):
                raise
            if not path.exists():  # removed meanwhile
                return
            # The tape of a private recorder has no spool that could be locked.
            if e.errno == EBUSY or (path.is_dir() and _is_locked(self._directory)):
                done.waiting.append(str(path))
                return
            reason = e.strerror or str(e)
            done.refused.append({"tape": str(path), "reason": reason})
            if reason not in self._warned:
                self._warned.add(reason)
                self._warn(reason)
            if path.is_file():  # a directory may become a finished tape
                self._done[mark] = False
            return
        self._done[mark] = True
        done.tapes.append(asdict(found))
        self._say(f"{path.name}: {found.put}, {answer.size(found.bytes)}")

    def _bound(self, done: Shipped) -> None:
        """Remove finished tapes of a recorder beyond `keep`: shipped ones first, then the oldest.

        The newest one stays.
        """
        if self._keep is None:
            return
        sizes = {}
        for path, _ in self._tapes():
            with suppress(OSError):  # the recorder removed it
                sizes[path] = series.stored(path)
        if sum(sizes.values()) <= self._keep:
            return
        tapes = [one for one in self._tapes() if series.is_finished(one[0])]
        total = sum(sizes.get(path, 0) for path, _ in tapes)
        shipped = {path: self._done.get(mark, False) for path, mark in tapes[:-1]}
        order = {path: sizes.get(path, 0) for path in sorted(shipped, key=lambda p: not shipped[p])}
        for path, *_ in series.remove_beyond(self._directory, order, total, self._keep):
            done.removed.append(str(path))
            if not shipped[path]:
                done.lost += 1
                self._warn(f"{path}: removed, not shipped: --keep {answer.size(self._keep)}")

    def follow(self) -> None:
        """Ship each tape when it is finished, until the process ends."""
        wait, answers = EVERY_S, True
        while True:
            try:
                self.once()
                wait = EVERY_S
                if not answers:
                    self._warn(f"{self._store.url}: answers again")
                answers = True
            except StoreError as e:
                wait = min(2 * wait, _LATER_S)
                if answers:
                    self._warn(f"{e.strerror or e}; trying again, tapes wait in {self._directory}")
                answers = False
            time.sleep(wait)
