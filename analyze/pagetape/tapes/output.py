# SPDX-License-Identifier: Apache-2.0
"""Creates tapes and files atomically."""

from __future__ import annotations

import contextlib
import errno
import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from pagetape.schemas.tape import TapeError, Writer, is_tape


def check_free(path: Path, *, replace: bool) -> None:
    """Raise TapeError if `path` exists and may not be replaced."""
    if not path.exists():
        return
    if not replace:
        raise TapeError(errno.EEXIST, f"{path}: exists already (--force replaces it)")
    if not is_tape(path):
        raise TapeError(errno.EEXIST, f"{path}: exists and is not a tape")


@contextlib.contextmanager
def whole_tape(path: Path, facts: dict[str, Any], *, replace: bool) -> Iterator[Writer]:
    """A new tape that gets its name when it is complete; `replace` permits an old tape."""
    check_free(path, replace=replace)
    part = path.with_name(path.name + ".part")
    if part.is_dir() and all(file.suffix in (".arrow", ".part") for file in part.iterdir()):
        shutil.rmtree(part)  # left behind by a killed process, maybe not yet a tape
    try:
        with Writer(part, facts, replace=True) as tape:
            yield tape
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    if path.exists():
        shutil.rmtree(path)
    part.rename(path)


@contextlib.contextmanager
def whole_file(path: Path, *, replace: bool) -> Iterator[BinaryIO]:
    """A new file that gets its name when it is complete; compressed if the name ends in .gz."""
    if path.exists() and not replace:
        raise FileExistsError(errno.EEXIST, "exists already (--force replaces it)", str(path))
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as plain:
            if path.suffix != ".gz":
                yield plain
            else:
                with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
