# SPDX-License-Identifier: Apache-2.0
"""Tapes as Parquet: the same rows, in the layout of a fleet."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

FACTS = {"host": "web 1/a", "boot_id": "0123456789abcdef", "recorded_at": "2026-11-21T10:00:00"}


@pytest.fixture
def dressed(golden_with: Callable[[dict[str, Any]], Path]) -> Path:
    """The golden tape, with the name and boot id of its machine."""
    return golden_with(FACTS)


def _files(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*.*"))


def test_every_table_with_rows_becomes_a_file_of_its_host_and_date(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    found = pagetape("archive", dressed, "-o", tmp_path / "fleet", "--json").json["tapes"][0]
    tape = Tape(dressed)
    with_rows = sorted(name for name in tape.tables if tape.num_rows(name))
    files = _files(tmp_path / "fleet")
    assert [file.partition("/")[0] for file in files] == with_rows
    assert all("/host=web-1-a/date=2026-11-21/boot-01234567-plain-" in file for file in files)
    assert (found["files"], found["made"]) == (len(files), len(files))
    assert found["rows"] == sum(tape.num_rows(name) for name in with_rows)
    assert found["bytes"] == sum((tmp_path / "fleet" / file).stat().st_size for file in files)


def test_the_rows_are_those_of_the_tape_in_its_order(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    pagetape("archive", dressed, "-o", tmp_path / "fleet")
    tape = Tape(dressed)
    for file in _files(tmp_path / "fleet"):
        name = file.partition("/")[0]
        found = pq.ParquetFile(tmp_path / "fleet" / file).read()
        assert found.column_names == tape.table(name).column_names
        for column in found.column_names:
            kind = pa.bool_() if pa.types.is_boolean(found[column].type) else None
            expected = tape.table(name)[column]
            assert (
                found[column].to_pylist() == (expected.cast(kind) if kind else expected).to_pylist()
            )


def test_the_facts_and_the_encodings_of_the_large_columns_are_in_the_file(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    pagetape("archive", dressed, "-o", tmp_path / "fleet")
    (path,) = (tmp_path / "fleet" / "event").rglob("*.parquet")
    file = pq.ParquetFile(path)
    facts = [value for value in file.schema_arrow.metadata.values() if value.startswith(b"{")]
    assert [json.loads(value)["host"] for value in facts] == ["web 1/a"]
    group = file.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["ts"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["pfn"].encodings
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_a_fleet_is_one_table_and_a_tape_is_archived_once(
    dressed: Path, small: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    pagetape("archive", dressed, "-o", fleet)
    before = {file: (fleet / file).stat().st_mtime_ns for file in _files(fleet)}
    made = [
        one["made"]
        for one in pagetape("archive", dressed, small, "-o", fleet, "--json").json["tapes"]
    ]
    whole = Tape(small)
    assert made == [0, sum(whole.num_rows(table) > 0 for table in whole.tables)]
    assert all((fleet / file).stat().st_mtime_ns == when for file, when in before.items())
    rows = duckdb.sql(
        f"SELECT host, count(*) FROM '{fleet}/event/**/*.parquet' GROUP BY host ORDER BY host"
    ).fetchall()
    nr = {path: Tape(path).num_rows("event") for path in (dressed, small)}
    assert dict(rows)["web-1-a"] == nr[dressed]
    assert sum(count for _, count in rows) == sum(nr.values())


def test_large_tables_have_several_row_groups(tmp_path: Path, pagetape: Run) -> None:
    row = {"ts": 1, "cpu": 0, "pid": 1, "kind": "free", "flags": 0, "pfn": 1, "page_order": 0}
    one = pa.Table.from_batches([TABLES["event"].batch([row])])
    (batch,) = one.take(pa.repeat(0, 100_000)).combine_chunks().to_batches()
    with Writer(tmp_path / "long.tape", {}) as tape:
        for _ in range(11):
            tape.write("event", batch)
    pagetape("archive", tmp_path / "long.tape", "-o", tmp_path / "fleet")
    (path,) = (tmp_path / "fleet" / "event").rglob("*.parquet")
    metadata = pq.ParquetFile(path).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (1_100_000, 2)


def test_a_place_that_cannot_be_written_is_one_line(
    dressed: Path, tmp_path: Path, pagetape: Run
) -> None:
    (tmp_path / "file").write_text("")
    said = pagetape("archive", dressed, "-o", tmp_path / "file")
    assert (said.status, said.out, said.err.count("\n")) == (1, "", 1)
    assert pagetape("archive", tmp_path / "none.tape", "-o", tmp_path / "fleet").status == 1
