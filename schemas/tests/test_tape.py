# SPDX-License-Identifier: Apache-2.0
"""Tapes on disk: rows come back as written, and errors name the damaged part."""

import errno
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matrix
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagetape import schemas
from pagetape.schemas import TABLES, Column, Table
from pagetape.schemas.tape import Tape, TapeError, Writer

Row = dict[str, Any]

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_BITS |= {f"u{name}": bits for name, bits in _BITS.items()}


def values(column: Column) -> st.SearchStrategy[Any]:
    """Any value that the column can hold."""
    if column.labels:
        found: st.SearchStrategy[Any] = st.sampled_from(column.labels)
    elif column.type == "utf8":
        found = st.text(max_size=20)
    elif column.type == "bool":
        found = st.booleans()
    else:
        bits = _BITS[column.type]
        low = 0 if column.type.startswith("u") else -(2 ** (bits - 1))
        found = st.integers(low, low + 2**bits - 1)
    return st.none() | found if column.null else found


def rows_of(table: Table) -> st.SearchStrategy[list[Row]]:
    columns = {column.name: values(column) for column in table.columns}
    return st.lists(st.fixed_dictionaries(columns), max_size=5)


def write(path: Path, rows: dict[str, list[Row]], facts: dict[str, Any] | None = None) -> Path:
    with Writer(path, facts or {}) as tape:
        for name, batch in rows.items():
            tape.rows(name, batch)
    return path


EVENT = {"ts": 1, "cpu": 0, "pid": 7, "kind": "free", "flags": 0, "pfn": 5, "page_order": 0}


@pytest.mark.parametrize("name", TABLES)
@settings(
    deadline=None, max_examples=matrix.number(3, 12), suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_rows_come_back_as_they_were(name: str, data: st.DataObject) -> None:
    rows = data.draw(rows_of(TABLES[name]))
    with TemporaryDirectory() as directory:
        tape = Tape(write(Path(directory) / "a.tape", {name: rows}))
        assert tape.table(name).to_pylist() == rows
        assert tape.num_rows(name) == len(rows)


def test_facts_are_in_one_file(tmp_path: Path) -> None:
    facts = {"kernel": "6.12.1", "nodes": [{"id": 0, "cpus": [0]}], "boot_id": None}
    tape = Tape(write(tmp_path / "a.tape", {}, facts))
    assert tape.facts == {"kernel": "6.12.1", "nodes": [{"id": 0, "cpus": [0]}]}
    with_facts = [file.name for file in tape.path.iterdir() if b"6.12.1" in file.read_bytes()]
    assert with_facts == ["event.arrow"] and len(list(tape.path.iterdir())) > 1


REPLAYS = (
    "mainline",
    {},
    {"own": 1},
    {"policies": "mainline"},
    {"policies": [1]},
    {"tier": "C"},
    {"kernel": None},
    {"clock": [1]},
    {"clock": [-1, 1]},
)


@pytest.mark.parametrize("replay", REPLAYS, ids=json.dumps)
def test_incomplete_facts_of_a_replay_are_refused(replay: Any, tmp_path: Path) -> None:
    made = {"kernel": "6.18", "policies": ["mainline"], "reclaim": "R0", "own": True, "tier": "A"}
    assert write(tmp_path / "good.tape", {}, {"replay": made | {"clock": [1, 2]}})
    assert Tape(tmp_path / "good.tape").clock == (1, 2)
    spoiled = made | replay if replay and isinstance(replay, dict) else replay
    caught = error(write(tmp_path / "bad.tape", {}, {"replay": spoiled}))
    assert "replay" in str(caught)


def test_required_tables_are_there_though_empty(tmp_path: Path) -> None:
    tape = Tape(write(tmp_path / "a.tape", {}))
    assert tape.tables == {name for name, table in TABLES.items() if table.required}
    assert tape.num_rows("event") == 0
    assert tape.table("free_block").num_rows == 0  # not required: absent reads as empty


@pytest.mark.parametrize("torn", [False, True])
def test_the_span_is_from_the_first_to_the_last_row(torn: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.tape"
    with Writer(path, {}) as tape:
        tape.rows("event", [])
        for ts in (5, 17, 99):
            tape.rows("event", [EVENT | {"ts": ts}, EVENT | {"ts": ts + 1}])
        tape.rows("event", [])
    file = path / "event.arrow"
    if torn:
        file.write_bytes(file.read_bytes()[:-10])
    assert Tape(path).span("event") == (5, 100)
    assert Tape(path).num_rows("event") == 6
    assert Tape(path).span("reclaim") is None


def test_a_large_batch_is_stored_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagetape.schemas.tape._BATCH_ROWS", 40)
    rows = [EVENT | {"ts": ts} for ts in range(100)]
    tape = Tape(write(tmp_path / "a.tape", {"event": rows}))
    assert [b.num_rows for b in tape.batches("event") if b.num_rows] == [40, 40, 20]
    assert tape.table("event")["ts"].to_pylist() == list(range(100))


def error(path: Path) -> TapeError:
    with pytest.raises(TapeError) as caught:
        Tape(path)
    return caught.value


def test_a_newer_version_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagetape.schemas.tape.VERSION", 99)
    path = write(tmp_path / "a.tape", {})
    monkeypatch.undo()
    caught = error(path)
    assert caught.errno == errno.EPROTO
    assert str(caught).endswith(
        f"schema version 99; this pagetape reads versions 2 to {schemas.VERSION}"
    )


def test_every_value_has_a_sentence() -> None:
    for table in TABLES.values():
        for column in table.columns:
            assert all(value.doc.endswith(".") for value in column.values), column.name
        assert all(kind.doc.endswith(".") for kind in table.kinds), table.name


def test_something_else_than_a_tape_is_refused_by_name(tmp_path: Path) -> None:
    assert "no such tape" in str(error(tmp_path / "none.tape"))
    assert "not a tape" in str(error(tmp_path))
    path = write(tmp_path / "a.tape", {})
    (path / "zone.arrow").unlink()
    assert "table 'zone' is missing" in str(error(path))
    (path / "event.arrow").write_bytes(b"not arrow")
    assert error(path).errno == errno.EBADMSG


def test_an_existing_tape_is_only_replaced_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tape", {"event": [EVENT]})
    with pytest.raises(TapeError, match="exists already"):
        Writer(path, {})
    with Writer(path, {}, replace=True):
        pass
    assert Tape(path).num_rows("event") == 0
    other = tmp_path / "notes"
    other.mkdir()
    with pytest.raises(TapeError, match="exists and is not a tape"):
        Writer(other, {}, replace=True)


def test_a_name_with_a_colon_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Writer(Path("pcp:mode=fixed.tape"), {}):
        pass
    assert Tape(Path("pcp:mode=fixed.tape")).table("event").num_rows == 0


def test_a_torn_table_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.tape"
    with Writer(path, {}) as tape:
        for start in range(0, 500, 100):
            tape.rows("event", [EVENT | {"ts": start + n} for n in range(100)])
    file = path / "event.arrow"
    whole = file.read_bytes()
    seen = set()
    for cut in range(len(whole) - 1, len(whole) // 2, -97):
        file.write_bytes(whole[:cut])
        ts = Tape(path).table("event").column("ts").to_pylist()
        assert ts == list(range(len(ts)))
        assert len(ts) % 100 == 0
        seen.add(len(ts))
    assert {300, 400} <= seen


def test_tables_without_an_end_are_named_and_looked_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.tape"
    with Writer(path, {}):
        pass
    whole = Tape(path)
    assert whole.complete and whole.cut_off == ()
    for name in ("task", "event"):
        file = path / f"{name}.arrow"
        file.write_bytes(file.read_bytes()[:-10])
    cut = Tape(path)
    assert cut.cut_off == ("event", "task") and not cut.complete
    assert cut.is_cut("event") and not cut.is_cut("lost") and not cut.is_cut("frame")
    assert "frame" not in cut.tables
    assert whole.complete and whole.is_cut("event")


@pytest.mark.parametrize("torn", [False, True])
def test_the_batches_around_a_time_are_found_with_the_rows_before_them(
    torn: bool, tmp_path: Path
) -> None:
    with Writer(tmp_path / "a.tape", {}) as tape:
        for first in (10, 20, 30, 40):
            tape.rows("event", [EVENT | {"ts": ts} for ts in range(first, first + 5)])
    if torn:
        file = tmp_path / "a.tape" / "event.arrow"
        file.write_bytes(file.read_bytes()[:-10])
    tape = Tape(tmp_path / "a.tape")
    for first, last, expected in ((22, 33, (5, 20, 34)), (0, 9, (0, 0, 0)), (44, 99, (15, 40, 44))):
        before, near = tape.around("event", first, last)
        ts = near["ts"].to_pylist()
        if not expected[2]:
            assert ts == []
        else:
            assert (before, ts[0], ts[-1]) == expected
