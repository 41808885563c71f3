# SPDX-License-Identifier: Apache-2.0
"""Files that are not what a table should be: refused in words, before they cost memory."""

import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagetape.schemas import TABLES, batch_sizes
from pagetape.schemas.tape import Tape, TapeError, Writer, file_metadata

ROWS = 100
EVENTS = [
    {
        "ts": 1000 + i,
        "cpu": 0,
        "pid": 7,
        "kind": "alloc" if i % 2 else "free",
        "flags": 0,
        "pfn": i,
        "page_order": 0,
        "migratetype": "MOVABLE",
    }
    for i in range(ROWS)
]
TASKS = [{"pid": i, "comm": f"task-{i:04}"} for i in range(ROWS)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Writer(tmp_path / "a.tape", {}) as tape:
        tape.rows("event", EVENTS)
        tape.rows("task", TASKS)
    return tmp_path / "a.tape"


def store(path: Path, name: str, batch: pa.RecordBatch, compression: str | None = None) -> Path:
    """Replace the file of a table; its schema is that of `batch`."""
    file = path / f"{name}.arrow"
    metadata = file_metadata({})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(file), "wb") as sink:
        schema = batch.schema.with_metadata(metadata)
        with pa.ipc.new_file(sink, schema, options=options) as out:
            out.write_batch(batch)
    return file


def changed(name: str, rows: list[dict[str, Any]], **columns: pa.Array) -> pa.RecordBatch:
    """Rows of a table with other arrays in some columns, which stay nullable as in the table."""
    batch = TABLES[name].batch(rows)
    arrays, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        arrays.append(columns.get(field.name, array))
        fields.append(field.with_type(arrays[-1].type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def patch(file: Path, old: bytes, new: bytes) -> None:
    """Replace the first `old` in a file."""
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new, 1))


def refused(path: Path, name: str) -> str:
    """The reason why a table is refused, of every method that decodes rows."""
    with pytest.raises(TapeError) as caught:
        Tape(path).table(name)
    with pytest.raises(TapeError):
        for batch in Tape(path).batches(name):
            assert batch.num_rows
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("offset", [200_000, 2_000_000_000, -1])
def test_an_offset_outside_its_text_is_found(path: Path, offset: int) -> None:
    file = store(path, "task", TABLES["task"].batch(TASKS))
    length = len(TASKS[0]["comm"])
    there = struct.pack("<3i", *(length * i for i in (50, 51, 52)))
    patch(file, there, struct.pack("<3i", length * 50, offset, length * 52))
    assert "table 'task' is damaged in column 'comm'" in refused(path, "task")


def test_text_that_is_not_utf8_is_found(path: Path) -> None:
    file = store(path, "task", TABLES["task"].batch(TASKS))
    patch(file, b"task-0050", b"task\xff0050")
    assert "in column 'comm'" in refused(path, "task")


def test_an_index_outside_its_labels_is_found(path: Path) -> None:
    kinds = pa.DictionaryArray.from_arrays(
        pa.array([250] * ROWS, pa.uint8()), list(TABLES["event"].column("kind").labels), safe=False
    )
    store(path, "event", changed("event", EVENTS, kind=kinds))
    assert "in column 'kind'" in refused(path, "event")


def test_a_null_in_a_column_without_nulls_is_found(path: Path) -> None:
    pids = pa.array([None, *range(1, ROWS)], pa.int32())
    store(path, "task", changed("task", TASKS, pid=pids))
    assert "nulls in column 'pid'" in refused(path, "task")


@pytest.mark.parametrize("place", [0, 1])
def test_a_column_shorter_than_its_batch_is_found(path: Path, place: int) -> None:
    """The number of rows of a batch, and of a column, one after the other in the metadata."""
    file = store(path, "task", TABLES["task"].batch(TASKS))
    data = file.read_bytes()
    rows = struct.pack("<q", ROWS)
    at = -1
    for _ in range(place + 1):
        at = data.index(rows, at + 1)
    file.write_bytes(data[:at] + struct.pack("<q", 100 * ROWS) + data[at + 8 :])
    assert "table 'task' is damaged" in refused(path, "task")


ORDERS: dict[str, Callable[[tuple[str, ...]], list[str]]] = {
    "reversed": lambda labels: list(reversed(labels)),
    "fewer": lambda labels: [label for label in labels if label in ("alloc", "free", "MOVABLE")],
    "more": lambda labels: ["of a later version", *labels],
    "twice": lambda labels: [*labels, *labels],
}


@pytest.mark.parametrize("order", ORDERS)
def test_labels_are_matched_by_name(path: Path, order: str) -> None:
    before = Tape(path).table("event").to_pylist()
    others = {}
    for name in ("kind", "migratetype"):
        labels = ORDERS[order](TABLES["event"].column(name).labels)
        last = {label: i for i, label in enumerate(labels)}
        codes = pa.array([last[row[name]] for row in before], pa.uint8())
        others[name] = pa.DictionaryArray.from_arrays(codes, labels)
    store(path, "event", changed("event", EVENTS, **others))
    found = Tape(path).table("event")
    assert found.to_pylist() == before
    assert found["kind"].chunk(0).dictionary.to_pylist() == list(
        TABLES["event"].column("kind").labels
    )


def test_an_unknown_label_is_null_or_an_error(path: Path) -> None:
    codes = pa.array([0] * ROWS, pa.uint8())
    strange = pa.DictionaryArray.from_arrays(codes, ["of a later version"])
    store(path, "event", changed("event", EVENTS, migratetype=strange))
    assert Tape(path).table("event")["migratetype"].to_pylist() == [None] * ROWS
    store(path, "event", changed("event", EVENTS, kind=strange))
    assert "does not know, one of 'of a later version'" in refused(path, "event")


def test_the_labels_of_absent_columns_are_those_of_the_table(path: Path) -> None:
    whole = TABLES["event"].batch(EVENTS)
    fewer = list(whole.schema.names).index("migratetype")
    store(path, "event", whole.select(range(fewer)))
    found = Tape(path).table("event")["migratetype"].chunk(0)
    assert found.null_count == ROWS
    assert found.dictionary.to_pylist() == list(TABLES["event"].column("migratetype").labels)


def test_other_columns_are_refused(path: Path) -> None:
    batch = TABLES["task"].batch(TASKS)
    shutil.copy(path / "task.arrow", path / "event.arrow")
    assert "table 'event' has no machine facts" in refused(path, "event")
    store(path, "event", batch)
    assert "table 'event' has other columns: 'pid' (int32 not null)" in refused(path, "event")
    for method in (Tape.num_rows, Tape.span):
        with pytest.raises(TapeError, match="has other columns"):
            method(Tape(path), "event")
    with pytest.raises(TapeError, match="has other columns"):
        assert Tape(path).complete
    twice = pa.RecordBatch.from_arrays(
        [*batch.columns, batch.column(0)], schema=batch.schema.append(batch.schema.field(0))
    )
    store(path, "task", twice)
    assert "table 'task' has other columns" in refused(path, "task")
    store(path, "task", batch.select([0]))
    assert "table 'task' has other columns" in refused(path, "task")


def fifo(file: Path) -> None:
    os.mkfifo(file)


def a_socket(file: Path) -> None:
    here = Path.cwd()
    os.chdir(file.parent)  # the path of a socket is limited to 108 bytes
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(file.name)
    os.chdir(here)


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def link(file: Path) -> None:
    other = file.with_name("elsewhere")
    other.write_bytes(b"")
    file.symlink_to(other)


@pytest.mark.parametrize("name", ["event", "task"])
@pytest.mark.parametrize("make", [fifo, a_socket, device, link, Path.mkdir])
def test_only_regular_files_are_opened(path: Path, make: Callable[[Path], None], name: str) -> None:
    file = path / f"{name}.arrow"
    file.unlink()
    make(file)
    assert f"table '{name}' is " in refused(path, name)
    if name == "task":
        with pytest.raises(TapeError, match="table 'task' is "):
            assert Tape(path).files


@pytest.mark.parametrize("data", [0, 1 << 20])
def test_a_file_with_a_large_hole_is_refused(path: Path, data: int) -> None:
    file = path / "task.arrow"
    file.write_bytes(b"ARROW1\0\0".ljust(data, b"x"))
    os.truncate(file, 1 << 40)
    assert "has holes among its 1,099,511,627,776 bytes" in refused(path, "task")
    with file.open("r+b") as end:
        end.seek(0, os.SEEK_END)
        end.write(b"ARROW1")
    with pytest.raises(TapeError, match="has holes"):
        assert Tape(path).files


def zeros(rows: int) -> pa.RecordBatch:
    table = TABLES["event"]
    labels = {c.name: list(c.labels) for c in table.columns if c.labels}
    arrays = []
    for field in table.arrow:
        kind = pa.uint8() if field.name in labels else field.type
        values = pa.repeat(pa.scalar(0, kind), rows)
        if field.name in labels:
            values = pa.DictionaryArray.from_arrays(values, labels[field.name])
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


def test_a_file_that_decodes_to_far_more_is_refused_before_it_does(path: Path) -> None:
    file = store(path, "event", zeros(4_000_000), "zstd")
    assert file.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    assert "decodes from" in refused(path, "event")
    with pytest.raises(TapeError, match="decodes from"):
        Tape(path).num_rows("event")
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_buffer_that_claims_gigabytes_is_refused_before_it_is_decoded(path: Path) -> None:
    file = store(path, "task", TABLES["task"].batch(TASKS), "zstd")
    zstd = b"\x28\xb5\x2f\xfd"
    sizes = (struct.pack("<q", size) + zstd for size in (4 * ROWS + 4, 1 << 33))
    patch(file, *sizes)
    assert "the limit is" in refused(path, "task")


def test_labels_of_megabytes_are_refused(path: Path) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.uint8()), ["x" * (2 << 20)])
    store(path, "event", changed("event", EVENTS, migratetype=long))
    assert "the limit is" in refused(path, "event")


def test_rows_for_python_have_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ROWS * len(TABLES["task"].columns)
    monkeypatch.setattr("pagetape.schemas.tape._CELLS", cells)
    assert len(Tape(path).rows("task")) == ROWS
    monkeypatch.setattr("pagetape.schemas.tape._CELLS", cells - 1)
    with pytest.raises(TapeError, match="table 'task' has"):
        Tape(path).rows("task")


def test_a_table_held_in_memory_has_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagetape.schemas.tape._HELD", 1000)
    monkeypatch.setattr("pagetape.schemas.tape._HELD_RATIO", 0)
    with pytest.raises(TapeError, match="table 'event' takes"):
        Tape(path).table("event")
    assert sum(batch.num_rows for batch in Tape(path).batches("event")) == ROWS


def test_sizes_are_those_of_the_decoded_batches(path: Path) -> None:
    with Writer(path.with_name("b.tape"), {}) as tape:
        for nr in (100, 7, 0, 50):
            tape.rows("event", EVENTS[:nr])
    file = path.with_name("b.tape") / "event.arrow"
    with pa.OSFile(str(file)) as source:
        sizes = batch_sizes.of_file(source)
        assert list(batch_sizes.of_stream(source)) == sizes
        reader = pa.ipc.open_file(source)
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    rows = [size for size in sizes if not size.dictionary]
    assert [size.rows for size in rows] == [batch.num_rows for batch in batches]
    for size, batch in zip(rows, batches, strict=True):
        buffers = [b for column in batch.columns for b in column.buffers() if b is not None]
        assert size.decoded == sum(b.size for b in buffers)


def test_every_damaged_byte_is_a_result_or_an_error(path: Path) -> None:
    """Bytes of the file's metadata and of its data, one at a time."""
    file = store(path, "task", TABLES["task"].batch(TASKS))
    whole = file.read_bytes()
    found = set()
    for at in range(0, len(whole), 37):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            found.add(Tape(path).table("task").num_rows)
        except TapeError as e:
            assert str(e).startswith(("[Errno", str(path)))
            found.add(-1)
    assert found >= {ROWS, -1}
