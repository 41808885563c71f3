# SPDX-License-Identifier: Apache-2.0
"""The user's cache of tables that are expensive: a run of the engine, or a long query.

The key is a hash of the recording and of the installed pagetape: a changed tape or another
pagetape recomputes the table. Of a tape in one file, the checksums of its tables are hashed.
Without a writable cache, every call computes it. The cache belongs to one user: no other can read
it, or put tables into it.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

import pagetape
from pagetape.schemas.tape import Tape
from pagetape.tapes import temporary

_PARTS = {".py", ".sql", ".toml", ".so"}
_CHUNK = 1 << 20


def digest(files: Iterable[Path]) -> str:
    """Hash of the contents of files, in the order of their names."""
    found = blake2b(digest_size=16)
    for path in sorted(files):
        found.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
    return found.hexdigest()


@cache
def build() -> str:
    """Hash of this pagetape's files."""
    (home,) = pagetape.__path__
    return digest(path for path in Path(home).rglob("*") if path.suffix in _PARTS)


_State = tuple[Path, int, int, int, int, int]

# A file system may give equal times to changes that are this close to each other.
_SETTLED_NS = 2_000_000_000


def _state(path: Path) -> _State:
    """What changes when a file does."""
    found = path.stat()
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache
def _digest_of(files: tuple[_State, ...]) -> str:
    return digest(path for path, *_ in files)


def contents(tape: Tape) -> str:
    """Hash of the tape's files; each file is read once, unless it changes or has just changed."""
    files = tuple(map(_state, tape.files))
    changed = max(times for *_, times in files)
    settled = changed + _SETTLED_NS < time.time_ns()
    return _digest_of(files) if settled else digest(tape.files)


def directory(what: str) -> Path | None:
    """The directory for files `what`, which only this user can read and change; None without one.

    A directory of another user, or a link in its place, is not used.
    """
    above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        if not above.is_dir():
            above.mkdir(mode=0o700, parents=True)
        if above.stat().st_uid != os.geteuid():
            return None
        for one in (above / "pagetape", above / "pagetape" / what):
            with contextlib.suppress(FileExistsError):
                one.mkdir(mode=0o700)
            found = one.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                return None
            if found.st_mode & 0o077:
                one.chmod(0o700)
    except OSError:
        return None
    return above / "pagetape" / what


def _read(path: Path, schema: pa.Schema) -> pa.Table | None:
    """A table of the cache; None if there is no sound one."""
    with contextlib.suppress(OSError, pa.ArrowException, ValueError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                found = pa.ipc.open_file(file).read_all()
                found.validate(full=True)
                return found if found.schema.equals(schema) else None
    return None


def stored(tape: Tape, what: str, schema: pa.Schema) -> pa.Table | None:
    """The table `what` of `tape`, if the cache has it."""
    place = directory(what)
    return None if place is None else _read(place / _name(tape), schema)


def table(tape: Tape, what: str, schema: pa.Schema, make: Callable[[], pa.Table]) -> pa.Table:
    """The table `what` of `tape`: from the cache, or computed and put into the cache."""
    place = directory(what)
    if place is None:
        return make()
    if (found := _read(place / _name(tape), schema)) is not None:
        return found
    made = make()
    store(tape, what, made)
    return made


def _name(tape: Tape) -> str:
    known = tape.checksums
    if known is None:
        return f"{contents(tape)}-{build()}.arrow"
    return f"{blake2b(repr(known).encode(), digest_size=16).hexdigest()}-{build()}.arrow"


def store(tape: Tape, what: str, rows: pa.Table) -> None:
    """Put the table `what` of `tape` into the cache, if there is one."""
    if (place := directory(what)) is None:
        return
    path = place / _name(tape)
    with (
        contextlib.suppress(OSError),
        temporary.temporary(place, f".{path.stem}.", file_mode=0o600) as part,
    ):
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        part.replace(path)
