# SPDX-License-Identifier: Apache-2.0
"""Temporary files and directories that nothing but a kill leaves behind, and then only for a while.

Their names are PREFIX, eight hex digits and `.part`. Each is locked while its process lives: a
process id would not prove that, because the kernel reuses ids and containers have their own. The
next process that makes one with the same prefix in the same directory removes those without a lock.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r".*[0-9a-f]{8}\.part")
_COMMANDS = "pagetape-"  # prefix of scratch()

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
# Answers of filesystems and kernels that do not know the flags of renameat2().
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def lock(path: Path) -> int:
    """The descriptor of a file or directory, locked until it is closed.

    Raises BlockingIOError if another process has the lock, and another OSError if the filesystem
    has no locks.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def is_locked(path: Path) -> bool:
    """Whether a process has locked the file or directory."""
    with contextlib.suppress(OSError):
        try:
            os.close(lock(path))
        except BlockingIOError:
            return True
    return False


def remove(path: Path) -> None:
    """Remove a file, or a directory of this user with all that is in it.

    Another user may have put a directory of his own there, however deep. Another process may remove
    the same at any instant.
    """
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            path.unlink()
        elif found.st_uid == os.geteuid():
            with contextlib.suppress(RecursionError):
                shutil.rmtree(path, ignore_errors=True)


def remove_leftovers(directory: Path, prefix: str) -> None:
    """Remove this user's temporaries whose names begin so, and whose process is dead."""
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.name.startswith(prefix) and _NAME.fullmatch(path.name[len(prefix) :]):
                _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    with contextlib.suppress(OSError):  # its process lives, or another process removes it now
        if path.lstat().st_uid == os.geteuid():
            fd = lock(path)
            remove(path)
            os.close(fd)


def _make(path: Path, file_mode: int | None) -> None:
    if file_mode is None:
        path.mkdir(mode=0o700)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_mode))


@contextlib.contextmanager
def temporary(directory: Path, prefix: str, *, file_mode: int | None = None) -> Iterator[Path]:
    """An empty directory of mode 0700, or with `file_mode` a file, removed at the end.

    A temporary that was renamed in between stays.
    """
    remove_leftovers(directory, prefix)
    with contextlib.ExitStack() as at_end:
        yield _made(directory, prefix, file_mode, at_end)


@contextlib.contextmanager
def scratch(what: str, *, file_mode: int | None = None) -> Iterator[Path]:
    """temporary() in the system's directory for such files. It removes what killed commands of this
    user left there, whatever they were."""
    above = Path(tempfile.gettempdir())
    remove_leftovers(above, _COMMANDS)
    with contextlib.ExitStack() as at_end:
        yield _made(above, f"{_COMMANDS}{what}-", file_mode, at_end)


def _made(
    directory: Path, prefix: str, file_mode: int | None, at_end: contextlib.ExitStack
) -> Path:
    """A new temporary, locked; until it has its lock, another process may remove it."""
    while True:
        path = directory / f"{prefix}{os.urandom(4).hex()}.part"
        with at_end.pop_all() as stack:
            stack.callback(remove, path)
            _make(path, file_mode)
            try:
                stack.callback(os.close, lock(path))
            except (FileNotFoundError, BlockingIOError):
                continue
            except OSError:  # a filesystem without locks: no process removes what is not locked
                pass
            if path.exists():
                at_end.push(stack.pop_all())
                return path


def _rename2(old: Path, new: Path, flags: int) -> None:
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    if rename(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(old), None, str(new))


def swap(one: Path, other: Path) -> bool:
    """Exchange two files or directories in one step; False if their filesystem cannot."""
    try:
        _rename2(one, other, _RENAME_EXCHANGE)
    except OSError as e:
        if e.errno not in _UNKNOWN:
            raise
        return False
    return True


def exchange(one: Path, other: Path) -> None:
    """Exchange two files or directories of one filesystem, in one step where that is possible."""
    if not swap(one, other):
        former = one.with_name(f"{one.name}.former")
        other.rename(former)
        one.rename(other)
        former.rename(one)


def rename_new(old: Path, new: Path) -> None:
    """Rename `old`; raises FileExistsError if `new` exists."""
    try:
        _rename2(old, new, _RENAME_NOREPLACE)
    except OSError as e:
        if e.errno not in _UNKNOWN:
            raise
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from e
        old.rename(new)


def sync(path: Path) -> None:
    """Write a file, or a directory and all that is in it, to the disk."""
    for file in path.iterdir() if path.is_dir() else ():
        sync(file)
    sync_directory(path)


def sync_directory(path: Path) -> None:
    """Write the entries of a directory to the disk, or the contents of a file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
