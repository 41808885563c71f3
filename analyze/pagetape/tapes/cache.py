# SPDX-License-Identifier: Apache-2.0
"""Answers about a recording that take a run of the engine, kept in the user's cache.

They are kept by the contents of the recording and of the installed pagetape: a changed
tape or another engine is asked anew. Where the cache cannot be written, every time.
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
    """Of the contents of files, in the order of their names."""
    found = blake2b(digest_size=16)
    for path in sorted(files):
        found.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
    return found.hexdigest()


@cache
def build() -> str:
    """Tells this pagetape from any other."""
    (home,) = pagetape.__path__
    return digest(path for path in Path(home).rglob("*") if path.suffix in _PARTS)


def contents(tape: Tape) -> str:
    """Tells this tape from any other."""
    return digest(tape.path.glob("*.arrow"))


def table(tape: Tape, what: str, schema: pa.Schema, make: Callable[[], pa.Table]) -> pa.Table:
    """The answer `what` about `tape`: the kept one, or what `make` gives, which is kept."""
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
