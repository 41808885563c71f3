# SPDX-License-Identifier: Apache-2.0
"""The files of one tape on their way into an archive that other users may write, too.

A stage is a directory `.archive-*.part` of the archive. It belongs to this user, and nobody else
can write into it. It has a file for each table, under names that no reader of Parquet takes. When
all are complete and on the disk, a plan says where they go, and the stage becomes
`.archive-*.ready`. Then the files get their places, `event` last. Whoever archives next as the
same user finishes what a killed process left `ready`, and removes what it left unfinished.

Names in the archive can change at any moment. So a directory is opened once, without following
links, and used by its descriptor from then on. A plan has plain names only.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from pagetape.schemas.tape import TapeError
from pagetape.tapes import regular, temporary

PREFIX = ".archive-"

_READY = re.compile(rf"{re.escape(PREFIX)}[0-9a-f]{{8}}\.ready")
_PLAN = "plan"  # file in a stage: {"where": HOST/DATE/FILE below each table, "old": [TABLE, ...]}
_PLAN_BYTES = 1 << 16
_STAGED = ".staged"  # suffix of a file that is not in its place yet
_TABLE = re.compile(r"\w{1,100}")
_WHERE = re.compile(r"host=\w[\w.-]{0,255}/date=[\w-]{1,20}/boot-[\w.-]{1,250}\.parquet")

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOCK_S = 60  # moving the files of a tape takes far less


@contextlib.contextmanager
def opened(fd: int) -> Iterator[int]:
    """The descriptor, closed at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def open_archive(directory: Path) -> int:
    """A descriptor of the archive; the path itself may be a link."""
    return os.open(directory, _DIRECTORY)


def enter(archive: int, parts: Sequence[str], mode: int | None = None) -> int:
    """A descriptor of a directory below the archive; with `mode`, missing ones are made.

    Who may write the archive may write a new directory, too. Raises FileNotFoundError, or
    NotADirectoryError if a part is a link or no directory.
    """
    here = os.dup(archive)
    for part in parts:
        made = False
        with opened(here):
            if mode is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=here)
                    made = True
            try:
                below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            except OSError as e:
                if e.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                why = f"{'/'.join(parts)}: {part} is a link or no directory"
                raise OSError(errno.ENOTDIR, f"{why}; an archive has neither in this place") from e
        if made and mode is not None:
            os.fchmod(below, mode | _shared(archive))
        here = below
    return here


def _shared(archive: int) -> int:
    """Permissions that let everybody write who may write the archive; with its sticky bit."""
    mode = os.fstat(archive).st_mode
    return mode & 0o1022 | (mode & 0o022) >> 1


def _check_places(archive: int, tables: Iterable[str], where: str, mode: int) -> None:
    """Make the directories of the places; raises OSError for a place that cannot get its file."""
    *parts, name = where.split("/")
    for table in tables:
        place = "/".join((table, *parts))
        try:
            with opened(enter(archive, [table, *parts], mode)) as below:
                if not os.access(f"/proc/self/fd/{below}", os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                if stat.S_ISDIR(mode_of(below, name)):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        except (PermissionError, IsADirectoryError) as e:
            raise OSError(e.errno, f"{place}: {e.strerror}") from e


def mode_of(directory: int, name: str) -> int:
    """The mode of the directory's file of that name, of whatever kind; 0: there is none."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def open_file(directory: int, name: str) -> BinaryIO | None:
    """A regular file of the directory, opened for reading; None if it is something else."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=directory)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")


@contextlib.contextmanager
def alone(archive: int, directory: Path) -> Iterator[None]:
    """Keep other processes from moving files into their places.

    Raises TapeError if another process keeps the lock: any user who can read the archive may.
    """
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(archive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as e:
            if time.monotonic() > end:
                why = f"another process has locked it for {_LOCK_S} s (fuser {directory})"
                raise TapeError(errno.EAGAIN, f"{directory}: {why}") from e
            time.sleep(0.01)
        except OSError:  # a filesystem without locks
            break
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(archive, fcntl.LOCK_UN)


def _is_own(stage: int) -> bool:
    """Whether the directory belongs to this user, and no other can write into it."""
    found = os.fstat(stage)
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


class Stage:
    """A new stage of the archive, made by `staged`."""

    def __init__(self, fd: int, name: str, archive: int) -> None:
        self._fd, self._name, self._archive = fd, name, archive

    def create(self, table: str, mode: int) -> BinaryIO:
        """A new file for the rows of a table."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(table + _STAGED, flags, mode, dir_fd=self._fd), "wb")

    def publish(self, where: str, old: Sequence[str], mode: int) -> None:
        """Give the files their places TABLE/`where`, in directories of that mode.

        The tables `old` lose theirs.
        """
        assert _WHERE.fullmatch(where), where
        _check_places(self._archive, [*_tables(self._fd), *old], where, mode)
        with self.create(_PLAN, 0o600) as plan:
            plan.write(json.dumps({"where": where, "old": list(old), "mode": mode}).encode())
            plan.flush()
            os.fsync(plan.fileno())
        os.fsync(self._fd)
        ready = self._name.removesuffix(".part") + ".ready"
        os.rename(self._name, ready, src_dir_fd=self._archive, dst_dir_fd=self._archive)
        os.fsync(self._archive)
        _settle(self._fd, ready, self._archive)


@contextlib.contextmanager
def staged(directory: Path, archive: int) -> Iterator[Stage]:
    """A stage; what was not published is removed at the end."""
    with (
        temporary.temporary(directory, PREFIX) as path,
        opened(os.open(path.name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=archive)) as fd,
    ):
        if not _is_own(fd):
            raise TapeError(errno.EPERM, f"{path}: was replaced by another user")
        yield Stage(fd, path.name, archive)


def settle_left(directory: Path, archive: int) -> list[str]:
    """Finish what killed processes of this user left complete, and remove the rest.

    Returns a line for each stage that cannot be finished; it stays.
    """
    temporary.remove_leftovers(directory, PREFIX)
    problems = []
    for name in filter(_READY.fullmatch, os.listdir(archive)):
        try:
            stage = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=archive)
        except OSError:  # no stage
            continue
        with opened(stage):
            if not _is_own(stage):
                continue
            try:
                _settle(stage, name, archive)
            except OSError as e:
                problems.append(f"{directory / name}: cannot be finished: {e.strerror}")
    return problems


def _plan(stage: int) -> tuple[str, list[str], int] | None:
    """Place, old tables and directories' mode in the plan of a stage; None without a sound one."""
    place = Path(f"/proc/self/fd/{stage}/{_PLAN}{_STAGED}")
    try:
        found = json.loads(regular.read(place, _PLAN_BYTES, links=False))
        where, old, mode = found["where"], found["old"], found["mode"]
        sound = _WHERE.fullmatch(where) and all(map(_TABLE.fullmatch, old))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return (where, old, mode & 0o755) if sound and isinstance(mode, int) else None


def _tables(stage: int) -> list[str]:
    """The tables that have a file in the stage, `event` last."""
    files = [one.removesuffix(_STAGED) for one in os.listdir(stage) if one.endswith(_STAGED)]
    tables = [table for table in files if table != _PLAN and _TABLE.fullmatch(table)]
    return sorted(tables, key=lambda table: table == "event")


def _settle(stage: int, name: str, archive: int) -> None:
    """Move the files of a complete stage into their places, and remove the stage.

    Without locks, another process of this user may do the same: what is gone is in its place.
    """
    plan = _plan(stage)
    if plan is None:
        return
    where, old, mode = plan
    *parts, file = where.split("/")
    for table in old:
        with (
            contextlib.suppress(FileNotFoundError),
            opened(enter(archive, [table, *parts])) as place,
        ):
            os.unlink(file, dir_fd=place)
    for table in _tables(stage):
        with opened(enter(archive, [table, *parts], mode)) as place:
            with contextlib.suppress(FileNotFoundError):
                os.rename(table + _STAGED, file, src_dir_fd=stage, dst_dir_fd=place)
            os.fsync(place)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_PLAN + _STAGED, dir_fd=stage)
        os.rmdir(name, dir_fd=archive)
