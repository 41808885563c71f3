# SPDX-License-Identifier: Apache-2.0
"""Event tables in groups: every row comes back, in its order, whatever its values are."""

import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import matrix
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagetape.schemas import TABLES, Column
from pagetape.schemas._grouped import Order
from pagetape.schemas.form import BATCH_ROWS, Grouped, form_of, plain_form
from pagetape.schemas.tape import Tape, TapeError, Writer, file_metadata

GROUPED = [name for name, table in TABLES.items() if table.group]


def values(column: Column) -> st.SearchStrategy[Any]:
    """Values of a column: few that are equal, some at the ends of its range, and nulls."""
    if column.labels:
        some: st.SearchStrategy[Any] = st.sampled_from(column.labels[:3])
    elif column.type == "utf8":
        some = st.sampled_from(["", "nr_free_pages", "größer"])
    else:
        wide = [
            value for value in (0, 1, -1, 1 << 20, 1 << 33, (1 << 64) - 1) if column.fits(value)
        ]
        some = st.sampled_from(wide)
    return st.none() | some if column.null else some


def batches(name: str) -> st.SearchStrategy[list[list[dict[str, Any]]]]:
    row = st.fixed_dictionaries({column.name: values(column) for column in TABLES[name].columns})
    return st.lists(st.lists(row, max_size=20), max_size=4)


@pytest.mark.parametrize("name", GROUPED)
@given(data=st.data())
@settings(
    deadline=None,
    max_examples=matrix.number(5, 15),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_rows_come_back(tmp_path: Path, name: str, data: st.DataObject) -> None:
    rows = data.draw(batches(name))
    with Writer(tmp_path / "a.tape", {}, replace=True) as tape:
        for some in rows:
            tape.rows(name, some)
    there = Tape(tmp_path / "a.tape")
    assert there.rows(name) == [row for some in rows for row in some]
    names = data.draw(st.lists(st.sampled_from(TABLES[name].arrow.names), min_size=1, unique=True))
    chosen = [batch.to_pylist() for batch in there.batches(name, names)]
    assert [row for some in chosen for row in some] == [
        {column: row[column] for column in names} for some in rows for row in some
    ]


def big(name: str, nr: int) -> pa.RecordBatch:
    """`nr` rows of a table, with one CPU per row: each is a group of its own."""
    rows = TABLES[name].batch(
        [{"ts": 7, "cpu": 0, "pid": 1, "kind": TABLES[name].kinds[0].name, "flags": 0, "at": 0}]
    )
    arrays = [array.take(pa.array([0] * nr)) for array in rows.columns]
    arrays[1] = pa.array([i % (1 << 16) for i in range(nr)], pa.uint16())
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def test_the_most_groups_of_a_batch_come_back() -> None:
    form, batch = form_of("event"), big("event", BATCH_ROWS)
    ((stored, about),) = form.stored(batch, 1 << 20)
    assert form.arrays(stored, about, list(range(len(batch.columns)))) == batch.columns


def test_a_sliced_batch_comes_back() -> None:
    form, batch = form_of("event"), big("event", 3 * BATCH_ROWS).slice(77, 2 * BATCH_ROWS)
    pieces = list(form.stored(batch, 1 << 20))
    assert [one.num_rows for one, _ in pieces] == [BATCH_ROWS] * 2
    fields = form.chosen([1, 2])
    back = [form.arrays(one.select(fields), about, [1, 2]) for one, about in pieces]
    for i, name in enumerate(("cpu", "pid")):
        assert pa.chunked_array([one[i] for one in back]).equals(pa.chunked_array([batch[name]]))


def test_times_of_one_instant_keep_their_order(tmp_path: Path) -> None:
    kinds = [kind.name for kind in TABLES["event"].kinds]
    rows = [{"ts": 5, "cpu": 1, "pid": i, "kind": kinds[i * i % 5], "flags": 0} for i in range(100)]
    with Writer(tmp_path / "a.tape", {}) as tape:
        tape.rows("event", rows)
    assert [row["pid"] for row in Tape(tmp_path / "a.tape").rows("event")] == list(range(100))


def stored(path: Path, batch: pa.RecordBatch, about: Any = None) -> Path:
    """A tape whose events are one stored batch; without its metadata, they are of version 2."""
    with Writer(path, {}):
        pass
    schema = batch.schema.with_metadata(file_metadata({}))
    if about:
        schema = form_of("event").file_schema(schema.metadata)
        schema = pa.schema(list(batch.schema), schema.metadata)
    with pa.ipc.new_file(str(path / "event.arrow"), schema) as file:
        file.write_batch(batch, about)
    return path


def grouped(nr: int = 2) -> tuple[pa.RecordBatch, dict[bytes, bytes]]:
    """A stored batch of two groups, and its metadata."""
    ((batch, about),) = form_of("event").stored(big("event", nr), 1 << 20)
    return batch, dict(about or {})


def test_a_batch_with_too_many_rows_is_refused(tmp_path: Path) -> None:
    one, about = grouped()
    many = one.take(pa.array([0] * (BATCH_ROWS + 1)))
    with pytest.raises(TapeError, match="is damaged: 65,537 rows in one batch"):
        Tape(stored(tmp_path / "a.tape", many, about)).table("event")


@pytest.mark.parametrize("name", ["group_0", "ts_2", "pfn_high"])
def test_a_null_in_a_part_of_a_column_is_refused(tmp_path: Path, name: str) -> None:
    one, about = grouped()
    at = one.schema.get_field_index(name)
    damaged = one.set_column(
        at, one.schema.field(at), pa.array([None, 1], one.schema.field(at).type)
    )
    with pytest.raises(TapeError, match=f"nulls in column '{name}'"):
        Tape(stored(tmp_path / "a.tape", damaged, about)).table("event")


def test_a_file_that_ends_within_a_column_is_refused(tmp_path: Path) -> None:
    one, about = grouped()
    cut = one.select(one.schema.names[: one.schema.get_field_index("ts_2")])
    with pytest.raises(TapeError, match="has other columns: 4, not"):
        Tape(stored(tmp_path / "a.tape", cut, about)).table("event")


def test_nullable_key_columns_at_the_end_may_be_missing(tmp_path: Path) -> None:
    """As in a tape of an older pagetape, whose rows have no such column."""
    known = form_of("event")._groups  # type: ignore[attr-defined]
    form = Grouped(TABLES["event"], pa.schema(list(known)[:-1]))
    path = tmp_path / "a.tape"
    with Writer(path, {}):
        pass
    with pa.ipc.new_file(str(path / "event.arrow"), form.file_schema(file_metadata({}))) as file:
        for batch, about in form.stored(big("event", 3), 1 << 20):
            file.write_batch(batch, about)
    there = Tape(path).table("event")
    assert there["gfp_flags"].null_count == 3
    assert there == pa.Table.from_batches([big("event", 3)])


def packed(message: Any) -> bytes:
    return b64encode(zlib.compress(message))


def group_table(**columns: Any) -> bytes:
    """The group table of grouped(), with other columns."""
    schema = form_of("event")._groups  # type: ignore[attr-defined]
    rows = {field.name: [None] * 2 for field in schema}
    rows |= {"rows": [1, 1], "kind": [0, 0], "cpu": [0, 1]} | columns
    fields = [field.with_nullable(True) for field in schema]
    arrays = [pa.array(rows[field.name], field.type) for field in schema]
    return packed(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)).serialize())


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (group_table(rows=[1, 2]), "the groups of 2 rows have another number of rows"),
        (group_table(rows=[2, 0]), "the groups of 2 rows have another number of rows"),
        (group_table(rows=[1, 1 << 31]), "the groups of 2 rows have another number of rows"),
        (group_table(kind=[0, 99]), "99"),
        (group_table(cpu=[None, 1]), "nulls in column 'cpu' of its groups"),
        (group_table()[:60], "its groups are missing, or no table"),
        (group_table()[:5], "base64"),
        (b"", "its groups are missing, or no table"),
        (packed(bytes(64)), "its groups are missing, or no table"),
        (packed(bytes(1 << 25)), "its groups are missing, or no table"),
        (b64encode(bytes(64)), "its groups are missing, or no table"),
    ],
)
def test_a_damaged_group_table_is_refused(tmp_path: Path, table: bytes, why: str) -> None:
    one, about = grouped()
    path = stored(tmp_path / "a.tape", one, about | {b"pagetape.groups": table})
    with pytest.raises(TapeError, match=f"table 'event' is damaged: .*{why}") as found:
        Tape(path).table("event")
    assert "\n" not in str(found.value)


def test_a_compressed_group_table_is_refused(tmp_path: Path) -> None:
    one, about = grouped()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    schema = form_of("event")._groups  # type: ignore[attr-defined]
    arrays = [pa.array([0] * 70_000, field.type) for field in schema]
    table = pa.RecordBatch.from_arrays(arrays, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as file:
        file.write_batch(table)
    _, message = list(pa.ipc.MessageReader.open_stream(sink.getvalue()))
    message = message.serialize()
    path = stored(tmp_path / "a.tape", one, about | {b"pagetape.groups": packed(message)})
    with pytest.raises(TapeError, match="its groups are compressed"):
        Tape(path).table("event")


@pytest.mark.parametrize("first", [b"", b"x", b"9" * 5000])
def test_a_damaged_first_time_is_refused(tmp_path: Path, first: bytes) -> None:
    one, about = grouped()
    path = stored(tmp_path / "a.tape", one, about | {b"pagetape.first": first})
    assert Tape(path).num_rows("event") == 2
    with pytest.raises(TapeError, match="table 'event' is damaged") as found:
        Tape(path).around("event", 0, 9)
    assert "\n" not in str(found.value)


def test_the_groups_of_another_table_are_refused(tmp_path: Path) -> None:
    one, _ = grouped()
    path = stored(tmp_path / "a.tape", one)
    with pytest.raises(TapeError, match="is damaged: no schema of groups"):
        Tape(path).table("event")
    groups = packed(pa.schema([pa.field("rows", pa.uint32(), False)]).serialize())
    schema = one.schema.with_metadata(file_metadata({}) | {b"pagetape.groups": groups})
    with pa.ipc.new_file(str(path / "event.arrow"), schema) as file:
        file.write_batch(one)
    with pytest.raises(TapeError, match="is damaged: other columns of groups"):
        Tape(path).table("event")


def test_events_of_version_2_are_not_in_groups(tmp_path: Path) -> None:
    batch = big("event", 3)
    path = stored(tmp_path / "a.tape", batch)
    assert Tape(path).table("event") == pa.Table.from_batches([batch])
    assert plain_form("event").schema == TABLES["event"].arrow


@given(times=st.lists(st.integers(0, 40), min_size=1, max_size=60), data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_batches_around_a_time_are_found(
    tmp_path: Path, times: list[int], data: st.DataObject
) -> None:
    kinds = [kind.name for kind in TABLES["event"].kinds]
    rows = [
        {"ts": ts, "cpu": i % 2, "pid": i, "kind": kinds[ts % 5], "flags": 0}
        for i, ts in enumerate(sorted(times))
    ]
    with Writer(tmp_path / "a.tape", {}, replace=True) as tape:
        for at in range(0, len(rows), 7):
            tape.rows("event", rows[at : at + 7])
    first, last = sorted(data.draw(st.tuples(st.integers(0, 45), st.integers(0, 45))))
    before, found = Tape(tmp_path / "a.tape").around("event", first, last)
    pids = found["pid"].to_pylist()
    assert pids == list(range(before, before + len(pids)))
    wanted = {row["pid"] for row in rows if first <= row["ts"] <= last}
    assert wanted <= set(pids) and (len(pids) <= len(wanted) + 2 * 6 if wanted else len(pids) <= 7)


def test_more_groups_than_a_batch_can_have_rows_are_refused() -> None:
    """Also groups without rows: a pass has room for so many."""
    with pytest.raises(ValueError, match="65,537 groups in one batch"):
        Order(bytes(1), bytes(1), bytes(4 * 65537), 65537, 1)
