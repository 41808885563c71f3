# SPDX-License-Identifier: Apache-2.0
"""Puts a tape into an archive: the file of a finished tape becomes one object, as it is."""

import contextlib
import errno
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pagetape.archive import listing, names
from pagetape.archive.policy import Policy
from pagetape.archive.store import Put, Store, StoreError
from pagetape.schemas import TABLES, bundle
from pagetape.schemas.table_file import TableError
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import temporary
from pagetape.tapes.spool import Found


@dataclass(frozen=True)
class Archived:
    """A tape that is in the archive."""

    tape: str
    object: str  # its name there
    put: str  # made, or same: it was there before
    bytes: int  # of the object


def check_finished(tape: Tape) -> None:
    """Raise TapeError if the tape does not hold all of its recording."""
    found = Found.of(tape.path)
    if found is not None and found.in_use:
        raise TapeError(errno.EBUSY, f"{tape.path}: is still being recorded")
    if found is not None or tape.facts.get("deferred"):
        next_step = f"pagetape import {tape.path} -o NEW.tape makes a finished one"
        raise TapeError(errno.EINVAL, f"{tape.path}: is unfinished; {next_step}")
    if not tape.complete:
        why = "is unfinished: its recorder was killed"
        if tape.path.is_file():
            keep = f"pagetape import {tape.path} -o NEW.tape keeps what can be read"
            why = f"is cut off at its end; {keep}"
        raise TapeError(errno.EINVAL, f"{tape.path}: {why}")


def check_whole(tape: Tape) -> None:
    """Raise TapeError if a finished tape has a damaged table, or other files beside its tables."""
    check_finished(tape)
    for name in sorted(tape.tables):
        for _ in tape.batches(name):  # with their checksums
            pass
    if tape.path.is_dir():
        return
    try:
        with zipfile.ZipFile(tape.path) as opened:
            others = {*opened.namelist()} - {f"{name}{bundle.SUFFIX}" for name in TABLES}
    except (zipfile.BadZipFile, OSError) as e:
        raise TapeError(errno.EBADMSG, f"{tape.path}: is damaged at its end: {e}") from e
    if others:
        why = f"holds other files too, such as {min(others)}"
        raise TapeError(errno.EINVAL, f"{tape.path}: {why}: unpack it, and pass the directory")


@contextlib.contextmanager
def _in_one_file(tape: Tape) -> Iterator[Path]:
    """The file of a tape; a directory, as older recorders left it, is packed for as long."""
    if not tape.path.is_dir():
        yield tape.path
        return
    with temporary.scratch("pack", file_mode=0o600) as file:
        try:
            bundle.write(tape.path, file)
        except TableError as e:
            raise TapeError(errno.EBADMSG, f"{tape.path}: a table {e}") from e
        yield file


def put(
    path: Path, store: Store, policy: Policy, before: Callable[[int], None] = lambda _bytes: None
) -> Archived:
    """Put a finished tape into the archive; `before` is called with the bytes to be sent.

    Raises TapeError for a tape that is not finished, that the policy keeps here, or that the
    archive has with other contents, and StoreError for an archive that does not answer.
    """
    tape = Tape(path)
    check_whole(tape)
    policy.check(tape)
    name = names.object_name(tape)
    with _in_one_file(tape) as file:
        listing.mark_late(store, names.date_of(name))
        found, size = store.put_new(name, file, before), file.stat().st_size
    if found is Put.OTHER:
        why = f"{store.url} has this recording with other contents, which stay: {name}"
        raise TapeError(errno.EEXIST, f"{path}: {why}")
    return Archived(str(path), name, found.value, size)


def is_of_tape(error: OSError) -> bool:
    """Whether an error is about one tape, and others may still be put."""
    return not isinstance(error, StoreError) or error.errno in (errno.EFBIG, errno.EINVAL)
