# SPDX-License-Identifier: Apache-2.0
"""The text files of a directory, an archive or a single file, opened one after the other.

A file may be compressed (gzip, xz, bzip2, zstd), and so may be a tar archive, as sosreport writes
it. Nothing is unpacked to the disk. Links and devices are left out.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

import pyarrow as pa

HEAD = 1 << 16  # bytes that tell what a file is
_MOST_FILES = 1 << 20
_LINE = 1 << 16  # characters of a line; the rest of a longer one counts as the next
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)


@dataclass
class Source:
    """One file: its place below the input, when it was changed last (s), and its bytes."""

    place: PurePosixPath
    changed: float
    file: IO[bytes]
    head: str = ""
    broken: str | None = None  # why the lines ended early

    def lines(self) -> Iterator[str]:
        """The lines, as far as the file can be read."""
        text = io.TextIOWrapper(self.file, "utf-8", "replace", newline="\n")
        try:
            yield from iter(lambda: text.readline(_LINE), "")
        except _BROKEN as e:
            self.broken = str(e) or type(e).__name__
        finally:
            text.detach()


class _Joined(io.RawIOBase):
    """The bytes that were read to look at them, then the rest of a stream."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _buffered(head: bytes, rest: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Joined(head, rest), HEAD))


def _plain(file: IO[bytes]) -> IO[bytes]:
    """The bytes of a file, decompressed if they are compressed."""
    magic = file.read(6)
    whole = _buffered(magic, file)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=whole))
    if magic.startswith(b"\xfd7zXZ\0"):
        return cast(IO[bytes], lzma.LZMAFile(whole))
    if magic.startswith(b"BZh"):
        return cast(IO[bytes], bz2.BZ2File(whole))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(whole, "r"), "zstd"))
    return whole


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _opened(place: PurePosixPath, changed: float, file: IO[bytes]) -> Iterator[Source]:
    """The file, or the files of the archive that it is."""
    try:
        plain = _plain(file)
        head = plain.read(HEAD)
    except _BROKEN as e:
        yield Source(place, changed, io.BytesIO(), broken=str(e) or type(e).__name__)
        return
    whole = _buffered(head, plain)
    if _is_tar(head):
        yield from _members(place, whole)
    elif b"\0" not in head:
        yield Source(place, changed, whole, head.decode("utf-8", "replace"))


class _Archive:
    """Passes the bytes of an archive on, and keeps the last ones: a whole one ends with zeros."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.tail = b""

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.tail = data[-tarfile.BLOCKSIZE :] or self.tail
        return data


def _members(place: PurePosixPath, file: IO[bytes]) -> Iterator[Source]:
    whole = _Archive(file)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], whole), mode="r|") as archive:
            for nr, member in enumerate(archive):
                if nr >= _MOST_FILES:
                    return
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None:
                    inside = place / member.name.lstrip("/.")
                    yield from _opened(inside, float(member.mtime), content)
        if any(whole.tail):
            yield Source(place, 0.0, io.BytesIO(), broken="the archive is cut")
    except _BROKEN as e:
        yield Source(place, 0.0, io.BytesIO(), broken=f"the archive ends early: {e}")


def _one(path: Path, place: PurePosixPath) -> Iterator[Source]:
    # A FIFO would wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            yield from _opened(place, status.st_mtime, file)


def sources(path: Path) -> Iterator[Source]:
    """The files of `path`, sorted by name; each is open until the next one. Raises OSError."""
    if not path.is_dir():
        yield from _one(path, PurePosixPath(path.name))
        return
    found = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            found += 1
            if found > _MOST_FILES:
                raise OSError(errno.EFBIG, f"more than {_MOST_FILES:,} files", str(path))
            if not file.is_symlink():
                place = PurePosixPath(path.resolve().name) / file.relative_to(path).as_posix()
                yield from _one(file, place)
