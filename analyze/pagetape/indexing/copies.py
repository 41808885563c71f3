# SPDX-License-Identifier: Apache-2.0
"""Copies of an archive's objects on this machine: a bounded cache. An archive that is a directory
is read in place."""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

from pagetape.archive.store import Object, Store, StoreError
from pagetape.tapes import cache, temporary

MOST = 10 << 30  # bytes of all copies; the ones that were used last stay
_AT_ONCE = 4  # objects that are fetched at the same time


class Copies:
    """Copies of the objects of one archive. They stay until close(), and if there is a cache, as
    long as it has room."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = cache.directory("archive")
        self._own = contextlib.ExitStack()
        self._above = self._kept or self._own.enter_context(temporary.scratch("archive"))
        self._used: set[Path] = set()
        self.fetched = 0  # objects
        self.bytes = 0  # of them

    def paths(
        self, objects: Sequence[Object], progress: Callable[[float], None] = lambda _: None
    ) -> list[Path]:
        """The files of objects, in their order; raises StoreError."""
        found = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for nr, path in enumerate(pool.map(self._path, objects)):
                progress(nr / len(objects))
                found.append(path)
        self._trim()
        return found

    def of(self, name: str) -> Path:
        """The file of the object of that name; raises StoreError."""
        if (found := self._store.head(name)) is None:
            raise StoreError(errno.ENOENT, f"{self._store.where(name)}: no such object")
        return self.paths([found])[0]

    def _path(self, one: Object) -> Path:
        if self._store.root is not None:
            return self._store.local(one.name, self._above)
        about = f"{self._store.url} {one.name} {one.etag}"
        path = (
            self._above / blake2b(about.encode(), digest_size=8).hexdigest() / Path(one.name).name
        )
        self._used.add(path)
        if not (path.is_file() and path.stat().st_size == one.size):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._store.fetch(one.name, path)
            self.fetched += 1
            self.bytes += one.size
        with contextlib.suppress(OSError):
            os.utime(path)
        return path

    def _trim(self) -> None:
        """Remove the copies that were not used for the longest time, beyond the bound."""
        if self._kept is None or self._store.root is not None:
            return
        known = []
        for path in self._kept.glob("*/*"):
            with contextlib.suppress(OSError):
                state = path.stat()
                known.append((state.st_mtime_ns, state.st_size, path))
        total = sum(size for _, size, _ in known)
        for _, size, path in sorted(known):
            if total <= MOST:
                break
            if path not in self._used:
                with contextlib.suppress(OSError):
                    path.unlink()
                    path.parent.rmdir()
                total -= size

    def close(self) -> None:
        self._own.close()
