# SPDX-License-Identifier: Apache-2.0
"""Tapes as Parquet, for fleets: small, and readable by many tools.

    DIR/TABLE/host=NAME/date=YYYY-MM-DD/boot-BOOT-START-NUMBER-IDENTITY.parquet

Host, date and boot are those of the recording, or `unknown`. START is the time of the first event
on the trace clock, NUMBER the tape's number in its series. IDENTITY is a hash of what makes a tape
the one it is: boot, begin, number, and the run of a replay. So a recording is archived once, from
whichever copy. The rows keep the tape's order. The metadata of the schema holds facts and
documentation, as on the tape, and a hash of the tape's contents. Columns of the schema type bool
are Parquet booleans.

A tape gets there whole, by a stage: see stage.py.
"""

import errno
import json
import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pagetape import console
from pagetape.export import stage
from pagetape.schemas import TABLES, Table
from pagetape.schemas.form import in_batches_of
from pagetape.schemas.tape import Tape, TapeError, file_metadata
from pagetape.tapes import cache, output
from pagetape.tapes.spool import Found

_GROUP_ROWS = 1 << 20
_ZSTD = 3
# Encodings of the large columns: times grow in small steps, pfns share their upper bytes.
_ENCODINGS = {"ts": "DELTA_BINARY_PACKED", "pfn": "BYTE_STREAM_SPLIT"}

_CONTENTS = b"pagetape.contents"  # key in the metadata: hash of the tape's files

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
    """A fact as a component of a path, of at most 100 bytes."""
    text = re.sub(r"[^\w.-]+", "-", "" if value is None else str(value)).strip("-.")
    return text.encode()[:100].decode(errors="ignore") or "unknown"


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
    bools = {column.name for column in table.columns if column.type == "bool"}
    fields = [f.with_type(pa.bool_()) if f.name in bools else f for f in table.arrow]
    return pa.schema(fields, file_metadata(facts))


def _write(tape: Tape, name: str, file: BinaryIO, contents: str) -> None:
    """Write the rows of a table to the disk."""
    schema = _schema(TABLES[name], tape.facts)
    schema = schema.with_metadata({**schema.metadata, _CONTENTS: contents})
    encodings = {column: how for column, how in _ENCODINGS.items() if column in schema.names}
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": _ZSTD,
        "column_encoding": encodings,
        "use_dictionary": [column for column in schema.names if column not in encodings],
    }
    with pq.ParquetWriter(file, schema, **options) as writer:
        for batch in in_batches_of(_GROUP_ROWS, tape.batches(name)):
            group = pa.Table.from_batches([batch]).cast(schema)
            writer.write_table(group, row_group_size=_GROUP_ROWS)
    file.flush()
    os.fsync(file.fileno())


def _contents(file: BinaryIO | None) -> str | None:
    """The hash of the tape that an archived file was made from; None for an unsound file."""
    if file is None:
        return None
    with file:
        try:
            metadata = pq.read_schema(file).metadata or {}
        except (OSError, pa.ArrowException):
            return None
    return str(metadata.get(_CONTENTS, b"").decode(errors="replace"))


@dataclass(frozen=True)
class _Place:
    """The places of one tape's files: DIR/TABLE/WHERE."""

    directory: Path
    fd: int  # of the directory
    where: str
    tables: list[str]  # with rows

    def there(self) -> dict[str, str | None]:
        """The tables that the archive has of the recording, with the hash of their tape."""
        found: dict[str, str | None] = {}
        *parts, name = self.where.split("/")
        for table in TABLES:
            try:
                below = stage.enter(self.fd, [table, *parts])
            except FileNotFoundError:
                continue
            with stage.opened(below):
                if stage.mode_of(below, name):
                    found[table] = _contents(stage.open_file(below, name))
        return found

    def has(self, contents: str, *, replace: bool, tape: Tape) -> bool:
        """Whether the archive has the tape; raises TapeError if it has another copy of it."""
        there = self.there()
        if not there:
            return False
        if sorted(there) == self.tables and set(there.values()) == {contents}:
            return True
        if replace:
            return False
        why = "has this recording with other contents (--force replaces them)"
        raise TapeError(errno.EEXIST, f"{tape.path}: {self.directory} {why}")

    def bytes(self) -> int:
        """Size of the files."""
        *parts, name = self.where.split("/")
        size = 0
        for table in self.tables:
            with stage.opened(stage.enter(self.fd, [table, *parts])) as below:
                size += os.stat(name, dir_fd=below, follow_symlinks=False).st_size
        return size


def _put(tape: Tape, place: _Place, contents: str, mode: int, *, replace: bool) -> bool:
    """Bring the tape to its place; whether it was not there before."""
    directories = 0o700 | mode & 0o044 | (mode & 0o044) >> 2
    with stage.staged(place.directory, place.fd) as new:
        for name in place.tables:
            with new.create(name, mode) as file:
                _write(tape, name, file, contents)
        with stage.alone(place.fd, place.directory):
            if place.has(contents, replace=replace, tape=tape):
                return False
            old = [table for table in place.there() if table not in place.tables]
            new.publish(place.where, old, directories)
    return True


def archive(tape: Tape, directory: Path, *, replace: bool = False) -> Archived:
    """Put a finished tape into the archive, whole.

    A tape that is there already stays as it is. If the archive has the same recording with other
    contents, `replace` replaces it, and TapeError is raised otherwise.
    """
    check_finished(tape)
    output.make_directory(directory, [tape.path])
    contents = cache.contents(tape)
    tables = sorted(name for name in tape.tables if tape.num_rows(name))
    try:
        mode = output.private_mode(directory, [tape.path])
        with stage.opened(stage.open_archive(directory)) as fd:
            place = _Place(directory, fd, file_name(tape), tables)
            with stage.alone(fd, directory):  # another process may have moved some of its files
                for problem in stage.settle_left(directory, fd):
                    console.report(problem)
                there = place.has(contents, replace=replace, tape=tape)
            made = not there and _put(tape, place, contents, mode, replace=replace)
            size = place.bytes()
    except OSError as e:
        if isinstance(e, TapeError):
            raise
        raise TapeError(
            e.errno, f"{tape.path}: not archived: {directory}: {e.strerror or e}"
        ) from e
    rows = sum(tape.num_rows(name) for name in tables)
    return Archived(str(tape.path), len(tables), len(tables) if made else 0, rows, size)
