# SPDX-License-Identifier: Apache-2.0
"""Creates tapes and files beside their place; they get their name when they are complete.

An output replaces only what pagetape wrote: a tape is recognised by its contents, a file by the
mark that its writer puts into it. It never replaces an input of the same command. A file is not
readable by more users than the tapes that it is made from.
"""

import contextlib
import errno
import gzip
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from pagetape.schemas import TABLES, bundle
from pagetape.schemas.facts import parse_facts
from pagetape.schemas.table_file import TableError, read_metadata
from pagetape.schemas.tape import TapeError, Writer, is_tape
from pagetape.tapes import temporary

_SPOOL = "spool"  # directory in a tape, with a dot while it is removed: tapes/spool.py
_SPOOLED = re.compile(r"cpu\d+(\.\w+)?|(formats|tasks|checkpoint)(\.part)?|kallsyms")
_NEXT = "remove it, or choose another name"
STDOUT = Path("-")
_MARK = b"pagetape.version"  # in the schema of every table
_HEAD = 1 << 16  # bytes of a file that are searched for a mark


def _place(path: Path) -> tuple[int, int] | None:
    """Device and inode of a path's target; None without a target."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _places(path: Path) -> set[tuple[int, int]]:
    """The places of a path's target and of all directories above it, as far as they exist."""
    real = Path(os.path.realpath(path))
    return {place for one in (real, *real.parents) if (place := _place(one))}


def _parts(given: Path) -> Iterator[Path]:
    """An input, and the files in it if it is a tape."""
    yield given
    with contextlib.suppress(OSError):
        yield from given.iterdir()
        yield from (given / _SPOOL).iterdir()


def _check_apart(path: Path, inputs: Iterable[Path]) -> None:
    """Raise TapeError if an input is the output, is in it, or has it inside."""
    mine, above = _place(path), _places(path)
    for given in inputs:
        if mine and any(mine in _places(part) for part in _parts(given)):
            raise _refusal(path, f"is an input of this command ({given}): choose another name")
        if _place(given) in above:
            raise _refusal(path, f"is inside the input {given}: choose another place")


def _refusal(path: Path, why: str) -> TapeError:
    return TapeError(errno.EEXIST, f"{path}: {why}")


def _is_file(path: Path) -> bool:
    """Whether it is a regular file and no link."""
    return stat.S_ISREG(path.lstat().st_mode)


def _head(path: Path) -> bytes:
    """The begin of a regular file, decompressed; nothing of anything else."""
    with contextlib.suppress(OSError, EOFError, zlib.error):
        if _is_file(path):
            with path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                return gzip.GzipFile(fileobj=file).read(_HEAD) if packed else file.read(_HEAD)
    return b""


def has_mark(path: Path, mark: bytes) -> bool:
    """Whether it is a regular file with the mark of its writer near its begin."""
    return mark in _head(path)


def _is_part(file: Path) -> bool:
    """Whether a file or directory in a tape is a part of the tape."""
    if file.name in (_SPOOL, f".{_SPOOL}") and not file.is_symlink():
        return all(_SPOOLED.fullmatch(one.name) and _is_file(one) for one in file.iterdir())
    return file.suffix in (".arrow", ".part") and file.stem in TABLES and _is_file(file)


def is_own(path: Path) -> bool:
    """Whether a path is a tape, and has nothing in it that pagetape did not write."""
    try:
        if path.is_symlink() or not is_tape(path):
            return False
        if path.is_dir():
            return _MARK in _head(path / "event.arrow") and all(map(_is_part, path.iterdir()))
        return _MARK in read_metadata(bundle.sections(path)["event"])
    except (OSError, TableError, KeyError):
        return False


def check_not_stdout(path: Path) -> None:
    """Raise TapeError if a tape or directory is to go to stdout."""
    if path == STDOUT:
        raise TapeError(errno.EINVAL, "-: a directory cannot go to stdout: name a place for it")


def check_free(path: Path, *, replace: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise TapeError if no tape can be made at `path`, or if one exists and may not be replaced.

    `inputs` are the files and directories that the command reads.
    """
    check_not_stdout(path)
    _check_apart(path, inputs)
    if not os.path.lexists(path):
        return
    if not replace:
        raise _refusal(path, "exists already (--force replaces it)")
    if path.is_symlink():
        raise _refusal(path, "is a symbolic link: name the tape itself")
    if not is_own(path):
        raise _refusal(path, f"exists and is not a tape, or holds other files too: {_NEXT}")
    if temporary.is_locked(path / _SPOOL):
        raise TapeError(errno.EBUSY, f"{path}: is still being recorded")


@contextlib.contextmanager
def _explained(path: Path, part: Path | None = None) -> Iterator[None]:
    """Name `path` in errors that name its temporary `part` or no file."""
    try:
        yield
    except TapeError as e:
        if part is None or part.name not in str(e):
            raise
        raise TapeError(e.errno, str(e.strerror).replace(str(part), str(path))) from e
    except OSError as e:
        if part is not None and e.filename not in (None, str(part)):
            raise
        raise TapeError(e.errno, f"{path}: {e.strerror or e}") from e


def _beside(path: Path) -> str:
    """The prefix of the temporaries that become `path`."""
    return f".{path.name}."


@contextlib.contextmanager
def whole_tape(
    path: Path,
    facts: dict[str, Any],
    *,
    replace: bool,
    inputs: Sequence[Path],
    durable: bool = True,
) -> Iterator[Writer]:
    """A new tape that gets its name when it is complete; `replace` permits an old tape.

    With `durable`, it is on the disk by then. Raises TapeError for facts that no reader takes.
    """
    check_free(path, replace=replace, inputs=inputs)
    try:
        parse_facts(json.dumps(facts).encode())
    except ValueError as e:
        raise TapeError(errno.EINVAL, f"{path}: the machine facts are wrong: {e}") from e
    with contextlib.ExitStack() as stack:
        with _explained(path):
            part = stack.enter_context(temporary.temporary(path.parent, _beside(path)))
        stack.enter_context(_explained(path, part))
        with Writer(part, facts, over=True) as tape:
            yield tape
        with _in_one_file(part, _beside(path), durable=durable) as file:
            if os.path.lexists(path):
                check_free(path, replace=replace, inputs=inputs)
                temporary.exchange(file, path)
            else:
                temporary.rename_new(file, path)
        if durable:
            temporary.sync_directory(path.parent)


@contextlib.contextmanager
def _in_one_file(tape: Path, prefix: str, *, durable: bool = True) -> Iterator[Path]:
    """A temporary file beside a closed tape that has all of it."""
    with temporary.temporary(tape.parent, prefix, file_mode=0o600) as file:
        bundle.write(tape, file)
        if durable:
            temporary.sync(file)
        yield file


def put_in_one_file(tape: Path) -> None:
    """Replace the directory of a closed tape by one file, in one step.

    It stays a directory where that is impossible: on a full disk, or on a filesystem that cannot
    exchange two names.
    """
    with contextlib.suppress(OSError), _in_one_file(tape, _beside(tape)) as file:
        temporary.swap(file, tape)


def _readers(inputs: Iterable[Path]) -> tuple[int, set[int]]:
    """Permission of group and others to read all inputs (0o044 or less), and the files' groups."""
    bits, groups = 0o044, set()
    for part in (part for given in inputs for part in _parts(given)):
        try:
            file = part.stat()
        except FileNotFoundError:  # a link to nothing
            continue
        # To read a file in a directory takes the permission to enter it.
        entered = (file.st_mode & 0o011) << 2 if stat.S_ISDIR(file.st_mode) else file.st_mode
        bits &= entered
        groups.add(file.st_gid)
    return bits, groups


def private_mode(above: Path, inputs: Sequence[Path]) -> int:
    """The mode of a new file in the directory `above`, before the umask.

    No more users can read it than each of the inputs. The owner always can.
    """
    bits, groups = _readers(inputs)
    there = above.stat()
    group = there.st_gid if there.st_mode & stat.S_ISGID else os.getegid()
    if bits == 0o040 and groups != {group}:
        bits = 0
    return 0o600 | bits


def make_directory(path: Path, inputs: Sequence[Path]) -> None:
    """Create a directory and those above it, as private as the inputs; existing ones stay.

    Raises TapeError for a place in a tape or in an input: a tape has no other files.
    """
    check_not_stdout(path)
    for one in (path.absolute(), *path.absolute().parents):
        if is_tape(one):
            inside = "is" if one == path.absolute() else "is inside"
            raise _refusal(path, f"{inside} a tape: choose another place")
    with _explained(path):
        for one in reversed([one for one in (path, *path.parents) if not one.exists()]):
            bits = private_mode(one.parent, inputs) & 0o044
            with contextlib.suppress(FileExistsError):
                one.mkdir(mode=0o700 | bits | bits >> 2)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _file_mode(path: Path, inputs: Sequence[Path]) -> int:
    """The mode of a new file: private_mode(), and no wider than that of the file it replaces."""
    mode = private_mode(path.parent, inputs)
    return mode & path.stat().st_mode if path.exists() else mode


def _is_stream(path: Path) -> bool:
    """Whether writing to `path` replaces nothing: it is a pipe, a terminal or /dev/null.

    A FIFO with a name, of another user than root, may have a reader who may not read the tape.
    """
    try:
        found = path.stat()
    except OSError:
        return False
    if not stat.S_ISFIFO(found.st_mode):
        return stat.S_ISCHR(found.st_mode)
    named = Path(os.path.realpath(path)).exists()
    return not named or found.st_uid in (0, os.geteuid())


def check_file_free(
    path: Path, *, replace: bool, mark: bytes, inputs: Sequence[Path] = (), stream: bool = True
) -> None:
    """Raise TapeError if no file can be made at `path`, or if one may not be replaced.

    With `stream`, stdout, a pipe, a terminal or /dev/null may take the bytes.
    """
    if stream and (path == STDOUT or _is_stream(path)):
        return
    _check_apart(path, inputs)
    if not os.path.lexists(path):
        return
    if not replace:
        raise _refusal(path, "exists already (--force replaces it)")
    if not has_mark(path, mark) and not (_is_file(path) and not path.stat().st_size):
        raise _refusal(path, f"exists and was not written by pagetape: {_NEXT}")


@contextlib.contextmanager
def whole_file(
    path: Path, *, replace: bool, mark: bytes, inputs: Sequence[Path], durable: bool = True
) -> Iterator[BinaryIO]:
    """A new file that gets its name when it is complete; compressed if the name ends in .gz.

    It must have `mark` near its begin; `replace` permits a file that has the mark, too. STDOUT
    gets the bytes as they come.
    """
    if path == STDOUT:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if _is_stream(path):
        with path.open("wb") as stream:
            yield stream
        return
    check_file_free(path, replace=replace, mark=mark, inputs=inputs)
    with contextlib.ExitStack() as stack:
        with _explained(path):
            mode = _file_mode(path, inputs)
            part = stack.enter_context(
                temporary.temporary(path.parent, _beside(path), file_mode=mode)
            )
        stack.enter_context(_explained(path, part))
        with part.open("wb") as plain:
            if path.suffix != ".gz":
                yield plain
            else:
                with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
        if durable:
            temporary.sync(part)
        if os.path.lexists(path):
            check_file_free(path, replace=replace, mark=mark, inputs=inputs)
            part.replace(path)
        else:
            temporary.rename_new(part, path)
        if durable:
            temporary.sync_directory(path.parent)
