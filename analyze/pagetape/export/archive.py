# SPDX-License-Identifier: Apache-2.0
"""Tapes as Parquet, for fleets: small, and readable by many tools.

    DIR/TABLE/host=NAME/date=YYYY-MM-DD/boot-BOOT-START-NUMBER-IDENTITY.parquet

Host, date and boot are those of the recording, or `unknown`. START is the time of the first event
on the trace clock, NUMBER the tape's number in its series. IDENTITY is a hash of what makes a tape
the one it is: boot, begin, number, and the run of a replay. So a recording is archived once, from
whichever copy. The rows keep the tape's order. The metadata of the schema holds facts and
documentation, as on the tape, and a hash of the tape's contents. Columns of the schema type bool
are Parquet booleans.

All files of a tape are written in a temporary directory `.archive-*.part` of DIR, under names that
no reader of Parquet takes. When they are complete and on the disk, the directory becomes
`.archive-*.ready`, and its files get their places, `event` last. Whoever archives next finishes
what a killed process left `ready`, and removes what it left unfinished.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pagetape.schemas import TABLES, Table
from pagetape.schemas.tape import Tape, TapeError, stored_schema
from pagetape.tapes import cache, output, temporary
from pagetape.tapes.spool import Found

_GROUP_ROWS = 1 << 20
_ZSTD = 3
# Encodings of the large columns: times grow in small steps, pfns share their upper bytes.
_ENCODINGS = {"ts": "DELTA_BINARY_PACKED", "pfn": "BYTE_STREAM_SPLIT"}

_CONTENTS = b"pagetape.contents"  # key in the metadata: hash of the tape's files
_STAGE = ".archive-"
_OLD = "old"  # file in a stage
_STAGED = ".staged"  # suffix of a file that is not in its place yet

# Facts that distinguish tapes.
_IDENTITY = (
    "boot_id",
    "host",
    "recorded_at",
    "series",
    "instances",
    "source",
    "replay",
    "validate",
)


@dataclass(frozen=True)
class Archived:
    """The files of one tape in the archive."""

    tape: str
    files: int  # one per table with rows
    made: int  # new files; 0: the tape was in the archive before
    rows: int
    bytes: int


def _word(value: object) -> str:
    """A fact as a component of a path."""
    return (
        re.sub(r"[^\w.-]+", "-", "" if value is None else str(value)).strip("-.")[:100] or "unknown"
    )


def _identity(tape: Tape, start: int | None) -> str:
    """Hash of what all copies of the tape share, and no other tape has."""
    known: dict[str, Any] = {name: tape.facts.get(name) for name in _IDENTITY}
    if known["boot_id"] is None and known["source"] is None:  # a time alone says little
        known["contents"] = cache.contents(tape)
    text = json.dumps([start, known], sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def file_name(tape: Tape) -> str:
    """The path of a tape's files below TABLE/: host=HOST/date=DATE/NAME."""
    facts = tape.facts
    host, boot = _word(facts.get("host")), _word(facts.get("boot_id"))[:8]
    day = re.match(r"\d{4}-\d\d-\d\d", str(facts.get("recorded_at") or ""))
    start = tape.clock and tape.clock[0]
    series = facts.get("series")
    number = _word(series.get("number", 0)) if isinstance(series, dict) else "0"
    file = f"boot-{boot}-{start or 0}-{number}-{_identity(tape, start)}.parquet"
    return f"host={host}/date={day[0] if day else 'unknown'}/{file}"


def check_finished(tape: Tape) -> None:
    """Raise TapeError if the tape does not hold all of its recording."""
    found = Found.of(tape.path)
    if found is not None and found.in_use:
        raise TapeError(errno.EBUSY, f"{tape.path}: is still being recorded")
    if found is not None or tape.facts.get("deferred"):
        next_step = f"pagetape import {tape.path} -o NEW.tape makes a finished one"
        raise TapeError(errno.EINVAL, f"{tape.path}: is unfinished; {next_step}")
    if not tape.complete:
        raise TapeError(errno.EINVAL, f"{tape.path}: is unfinished: its recorder was killed")


def _schema(table: Table, facts: dict[str, Any]) -> pa.Schema:
    stored = stored_schema(table, facts)
    bools = {column.name for column in table.columns if column.type == "bool"}
    fields = [f.with_type(pa.bool_()) if f.name in bools else f for f in stored]
    return pa.schema(fields, stored.metadata)


def _groups(tape: Tape, name: str) -> Iterator[pa.Table]:
    """The rows of a table, a row group at a time."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in tape.batches(name):
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _write(tape: Tape, name: str, path: Path, mode: int, contents: str) -> None:
    schema = _schema(TABLES[name], tape.facts)
    schema = schema.with_metadata({**schema.metadata, _CONTENTS: contents})
    encodings = {column: how for column, how in _ENCODINGS.items() if column in schema.names}
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": _ZSTD,
        "column_encoding": encodings,
        "use_dictionary": [column for column in schema.names if column not in encodings],
    }
    path.parent.mkdir(mode=0o700, parents=True)
    path.touch(mode=mode)
    with pq.ParquetWriter(path, schema, **options) as writer:
        for group in _groups(tape, name):
            writer.write_table(group.cast(schema), row_group_size=_GROUP_ROWS)


def _contents(path: Path) -> str | None:
    """The hash of the tape that an archived file was made from; None without a sound file."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    return str(metadata.get(_CONTENTS, b"").decode(errors="replace"))


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep other processes from moving files into their places."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a filesystem without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _settle(stage: Path, directory: Path) -> None:
    """Move the files of a complete stage into their places, and remove the stage.

    `old` in the stage lists the files of an older copy that have no successor.
    """
    for line in (stage / _OLD).read_text("utf-8").splitlines():
        (directory / line).unlink(missing_ok=True)
    staged = stage.rglob(f"*{_STAGED}")
    for file in sorted(staged, key=lambda file: file.relative_to(stage).parts[0] == "event"):
        place = directory / file.relative_to(stage).with_suffix("")
        output.make_directory(place.parent, [file])
        file.replace(place)
        temporary.sync_directory(place.parent)
    shutil.rmtree(stage, ignore_errors=True)


def _settle_left(directory: Path) -> None:
    """Finish what killed processes left complete."""
    for stage in directory.glob(f"{_STAGE}*.ready"):
        if not stage.is_symlink() and stage.is_dir():
            _settle(stage, directory)


def _places(tape: Tape, directory: Path) -> dict[str, Path]:
    """The files of a tape in the archive, by table."""
    where = file_name(tape)
    return {name: directory / name / where for name in sorted(tape.tables) if tape.num_rows(name)}


def _old_files(places: dict[str, Path], directory: Path) -> list[Path]:
    """Files in the archive of the tape that has these places."""
    wheres = {place.relative_to(directory / name) for name, place in places.items()}
    return [
        path for where in wheres for table in TABLES if (path := directory / table / where).exists()
    ]


def archive(tape: Tape, directory: Path, *, replace: bool = False) -> Archived:
    """Put a finished tape into the archive, whole.

    A tape that is there already stays as it is. If the archive has the same recording with other
    contents, `replace` replaces it, and TapeError is raised otherwise.
    """
    check_finished(tape)
    output.make_directory(directory, [tape.path])
    temporary.remove_leftovers(directory, _STAGE)
    contents, places = cache.contents(tape), _places(tape, directory)
    made = 0
    try:
        with _alone(directory):  # another process may have moved some of its files
            _settle_left(directory)
            there = _is_there(tape, places, contents, directory, replace=replace)
        if not there:
            made = len(places)
            mode = output.private_mode(directory, [tape.path])
            with temporary.temporary(directory, _STAGE) as stage:
                for name, place in places.items():
                    file = stage / place.relative_to(directory)
                    _write(tape, name, file.with_name(file.name + _STAGED), mode, contents)
                with _alone(directory):
                    if _is_there(tape, places, contents, directory, replace=replace):
                        made = 0
                    else:
                        _publish(stage, places, directory)
    except OSError as e:
        if isinstance(e, TapeError):
            raise
        raise TapeError(e.errno, f"{directory}: {e.strerror or e}") from e
    rows = sum(tape.num_rows(name) for name in places)
    size = sum(place.stat().st_size for place in places.values())
    return Archived(str(tape.path), len(places), made, rows, size)


def _publish(stage: Path, places: dict[str, Path], directory: Path) -> None:
    """Give the files of a stage their places instead of those of an older copy."""
    old = set(_old_files(places, directory)) - set(places.values())
    lines = "".join(f"{path.relative_to(directory)}\n" for path in sorted(old))
    (stage / _OLD).write_text(lines, "utf-8")
    temporary.sync(stage)
    ready = stage.with_suffix(".ready")
    stage.rename(ready)
    temporary.sync_directory(directory)
    _settle(ready, directory)


def _is_there(
    tape: Tape, places: dict[str, Path], contents: str, directory: Path, *, replace: bool
) -> bool:
    """Whether the archive has the tape; raises TapeError if it has another copy of it."""
    old = _old_files(places, directory)
    if not old:
        return False
    if set(old) == set(places.values()) and all(_contents(file) == contents for file in old):
        return True
    if not replace:
        raise TapeError(
            errno.EEXIST,
            f"{tape.path}: {directory} has this recording with other contents"
            " (--force replaces them)",
        )
    return False
