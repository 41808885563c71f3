# SPDX-License-Identifier: Apache-2.0
"""Puts objects into an archive that is a directory, which other users may write, too.

An object gets its name when it is complete and on the disk. Names in the archive can change at any
moment. So a directory is opened once, without following links, and used by its descriptor.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from pagetape.tapes import temporary

_PREFIX = ".put."  # of an object that is not complete
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


@contextlib.contextmanager
def _opened(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _shared(archive: int) -> int:
    """Permissions that let everybody write who may write the archive; with its sticky bit."""
    mode = os.fstat(archive).st_mode
    return mode & 0o1022 | (mode & 0o022) >> 1


def _enter(archive: int, parts: Sequence[str], mode: int) -> int:
    """A descriptor of a directory below the archive; missing ones are made with that mode."""
    here = os.dup(archive)
    for part in parts:
        made = False
        with _opened(here):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=here)
                made = True
            try:
                below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            except OSError as e:
                if e.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                why = f"{part} is a link or no directory; an archive has neither in this place"
                raise OSError(errno.ENOTDIR, why) from e
            if made:
                os.fchmod(below, mode | _shared(archive))
                os.fsync(here)
        here = below
    return here


def put(root: Path, name: str, source: BinaryIO, mode: int) -> bool:
    """Put an object of that mode; False if there is one of its name, whatever it is."""
    *parts, leaf = name.split("/")
    directories = 0o700 | mode & 0o044 | (mode & 0o044) >> 2
    with (
        _opened(os.open(root, _DIRECTORY)) as archive,
        _opened(_enter(archive, parts, directories)) as below,
        temporary.temporary(Path(f"/proc/self/fd/{below}"), _PREFIX, file_mode=mode) as part,
    ):
        with part.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        temporary.sync(part)
        try:
            _name_it(part, part.with_name(leaf))
        except FileExistsError:
            return False
        os.fsync(below)
    return True


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes of this user left beside an object."""
    temporary.remove_leftovers(path.parent, _PREFIX)


def _name_it(part: Path, final: Path) -> None:
    try:
        os.link(part, final, follow_symlinks=False)
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        temporary.rename_new(part, final)
