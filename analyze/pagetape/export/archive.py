# SPDX-License-Identifier: Apache-2.0
"""Tapes as Parquet, for fleets: small, and readable by many tools.

    DIR/TABLE/host=NAME/date=YYYY-MM-DD/boot-BOOT-TAPE-CONTENTS.parquet

Host, date and boot are those of the recording, or `unknown`. CONTENTS is a hash of the tape's
files: a tape is archived once, and two tapes with equal names have different files. The rows keep
the tape's order. The metadata of the schema holds facts and documentation, as on the tape.
Columns of the schema type bool are Parquet booleans.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pagetape.schemas import TABLES, Table
from pagetape.schemas.tape import Tape, TapeError, stored_schema
from pagetape.tapes import cache

_GROUP_ROWS = 1 << 20
_ZSTD = 3
# Encodings of the large columns: times grow in small steps, pfns share their upper bytes.
_ENCODINGS = {"ts": "DELTA_BINARY_PACKED", "pfn": "BYTE_STREAM_SPLIT"}


@dataclass(frozen=True)
class Archived:
    """The files of one tape in the archive."""

    tape: str
    files: int  # one per table with rows
    made: int  # new files; the others existed before
    rows: int
    bytes: int


def _word(value: object) -> str:
    """A fact as a component of a path."""
    return re.sub(r"[^\w.-]+", "-", str(value or "")).strip("-.") or "unknown"


def file_name(tape: Tape) -> str:
    """The path of a tape's files below TABLE/: host=HOST/date=DATE/NAME."""
    facts = tape.facts
    host, boot = _word(facts.get("host")), _word(facts.get("boot_id"))[:8]
    day = re.match(r"\d{4}-\d\d-\d\d", str(facts.get("recorded_at") or ""))
    name = _word(tape.path.name.removesuffix(".tape"))
    file = f"boot-{boot}-{name}-{cache.contents(tape)[:8]}.parquet"
    return f"host={host}/date={day[0] if day else 'unknown'}/{file}"


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


def _write(tape: Tape, name: str, path: Path) -> None:
    schema = _schema(TABLES[name], tape.facts)
    encodings = {column: how for column, how in _ENCODINGS.items() if column in schema.names}
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": _ZSTD,
        "column_encoding": encodings,
        "use_dictionary": [column for column in schema.names if column not in encodings],
    }
    part = path.with_suffix(f".{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pq.ParquetWriter(part, schema, **options) as writer:
            for group in _groups(tape, name):
                writer.write_table(group.cast(schema), row_group_size=_GROUP_ROWS)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def archive(tape: Tape, directory: Path) -> Archived:
    """Archive the tables of a tape that have rows; existing files stay as they are."""
    where = file_name(tape)
    files = made = rows = size = 0
    for name in sorted(tape.tables):
        nr = tape.num_rows(name)
        if not nr:
            continue
        path = directory / name / where
        try:
            if not path.exists():
                _write(tape, name, path)
                made += 1
            size += path.stat().st_size
        except OSError as e:
            raise TapeError(e.errno, f"{path}: {e.strerror or e}") from e
        files += 1
        rows += nr
    return Archived(str(tape.path), files, made, rows, size)
