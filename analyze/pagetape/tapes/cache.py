# SPDX-License-Identifier: Apache-2.0
"""The user's cache of tables that are expensive: a run of the engine, or a long query.

The key is a hash of the recording and of the installed pagetape: a changed tape or another
pagetape recomputes the table. Without a writable cache, every call computes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

import pagetape
from pagetape.schemas.tape import Tape

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


def contents(tape: Tape) -> str:
    """Hash of the tape's files."""
    return digest(tape.path.glob("*.arrow"))


def table(tape: Tape, what: str, schema: pa.Schema, make: Callable[[], pa.Table]) -> pa.Table:
    """The table `what` of `tape`: from the cache, or computed and put into the cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(home) / "pagetape" / what / f"{contents(tape)}-{build()}.arrow"
    with contextlib.suppress(OSError, pa.ArrowInvalid):
        found = pa.ipc.open_file(path).read_all()
        if found.schema.equals(schema):
            return found
    made = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_table(made)
        part.rename(path)
    return made
