# SPDX-License-Identifier: Apache-2.0
"""Reads whole files that pagetape did not just make itself.

Opening a FIFO waits for a writer, and a device may have no end: only regular files are read, of a
limited size.
"""

import errno
import os
import stat
from pathlib import Path

from pagetape.schemas.tape import TapeError


def read(path: Path, most: int, *, links: bool = True) -> bytes:
    """The bytes of a regular file; without `links`, of one that is no symbolic link.

    Raises TapeError with the path: for anything else, and for more than `most` bytes.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TapeError(errno.EINVAL, f"{path}: not a regular file")
            return _limited(path, file.fileno(), most)
    except TapeError:
        raise
    except OSError as e:
        raise TapeError(e.errno, f"{path}: {e.strerror}") from e


def _limited(path: Path, fd: int, most: int) -> bytes:
    found = bytearray()
    while part := os.read(fd, min(most + 1 - len(found), 1 << 20)):
        found += part
        if len(found) > most:
            raise TapeError(errno.EFBIG, f"{path}: more than {most:,} bytes")
    return bytes(found)
