# SPDX-License-Identifier: Apache-2.0
"""A directory of tapes that one recorder after the other fills, and the tapes removed from it.

A `finished` tape has all of its recording and no spool: it is history. The tape `being recorded`
has a spool that is allocated beforehand. `unfinished` is what a killed recorder left, which
`pagetape import` decodes. A tape that a killed flight recorder was writing is `half written`: the
next recorder in the directory removes it, as its memory is lost.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pagetape.schemas.tape import Tape, TapeError, is_tape
from pagetape.tapes import output, regular, temporary
from pagetape.tapes.spool import Found

# The fact that marks the tapes of a series.
MARK = "series"

_REMOVED = ".pagetape-removed"  # a line of JSON for each removed tape, the oldest first
_HIDDEN = f".*.tape.{'[0-9a-f]' * 8}.part"  # a tape until it is complete: tapes/temporary.py
_MOST_LINES = 10_000
_MOST_BYTES = 1 << 24


def is_finished(path: Path) -> bool:
    """Whether a recorder of a series made and finished the tape, and nothing else is in it."""
    try:
        tape = Tape(path)
        return MARK in tape.facts and tape.complete and output.is_own(path)
    except OSError:  # damaged, or of another version
        return False


def stored(path: Path) -> int:
    """Bytes of a tape's files."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _state(path: Path) -> str:
    if path.suffix == ".part":
        return "being written" if temporary.is_locked(path) else "half written"
    try:
        spool = Found.of(path)
        if spool is not None and spool.in_use:
            return "being recorded"
        return "finished" if Tape(path).complete else "unfinished"
    except OSError:
        return "unreadable"


def is_directory_of_tapes(path: Path) -> bool:
    """Whether a path is no tape, but a directory that holds some or did."""
    if is_tape(path) or not path.is_dir():
        return False
    return (path / _REMOVED).exists() or any(map(is_tape, _found(path)))


def _found(directory: Path) -> list[Path]:
    """What may be tapes in the directory; a hidden one that gets its name meanwhile is in it."""
    hidden = sorted(directory.glob(_HIDDEN))
    return [*sorted(directory.glob("*.tape")), *(one for one in hidden if one.exists())]


def removed(directory: Path) -> list[dict[str, Any]]:
    """The tapes that retention removed, the oldest first: at, tape, bytes, finished_bytes (before
    it was removed) and keep_bytes. Lines that are no such rows are left out."""
    rows = []
    with contextlib.suppress(TapeError):
        for line in regular.read(directory / _REMOVED, _MOST_BYTES, links=False).splitlines():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, dict) and {"at", "tape", "bytes"} <= row.keys():
                    rows.append(row)
    return rows


def note_removed(directory: Path, row: dict[str, Any]) -> None:
    """Add a removed tape, as a recorder and a shipper may at once; of many, 10,000 stay."""
    new = directory / f"{_REMOVED}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(directory / f"{_REMOVED}.lock", flags, 0o600)
    try:
        with contextlib.suppress(OSError):  # a filesystem without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        rows = [*removed(directory), row][-_MOST_LINES:]
        with os.fdopen(os.open(new, flags | os.O_TRUNC, 0o600), "w") as file:
            file.writelines(json.dumps(one) + "\n" for one in rows)
        new.replace(directory / _REMOVED)
    finally:
        os.close(lock)


def remove_beyond(
    directory: Path, order: Mapping[Path, int], total: int, keep: float
) -> Iterator[tuple[Path, int, int]]:
    """Remove tapes with their bytes in this order until the finished ones, `total` bytes, have at
    most `keep`, and note each; yields its path, its bytes, and the total before."""
    for path, size in order.items():
        if total <= keep:
            return
        temporary.remove(path)
        row = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "tape": path.name,
            "bytes": size,
            "finished_bytes": total,
            "keep_bytes": int(keep),
        }
        with contextlib.suppress(OSError):
            note_removed(directory, row)
        yield path, size, total
        total -= size


def describe(directory: Path) -> dict[str, Any]:
    """The tapes of a directory by name, with their states and bytes, and the removed ones."""
    tapes: list[dict[str, Any]] = []
    for path in filter(is_tape, _found(directory)):
        with contextlib.suppress(FileNotFoundError):  # removed, or renamed, meanwhile
            tapes.append({"tape": path.name, "state": _state(path), "bytes": stored(path)})
    finished = sum(tape["bytes"] for tape in tapes if tape["state"] == "finished")
    return {
        "directory": str(directory),
        "tapes": tapes,
        "finished_bytes": finished,
        "other_bytes": sum(tape["bytes"] for tape in tapes) - finished,
        "removed": removed(directory),
    }
