# SPDX-License-Identifier: Apache-2.0
"""Tapes of earlier schema versions stay readable, under today's names.

data/version-1.tar.xz was written by the last build of schema version 1: `recorded.tape` (the first
12000 events of the demo's tape), `validated.tape` (validate -o) and `replayed.tape` (replay -o
under alloc_unit:order=2). It never changes.

A column at the end of a table is no new version: tapes written before have nulls there.
"""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas import RENAMES, TABLES, VERSION
from pagetape.schemas.tape import Tape, Writer, stored_schema

Run = Callable[..., Any]

ARCHIVE = Path(__file__).parent / "data" / "version-1.tar.xz"
NAMES = ("recorded", "validated", "replayed")

# Sums that the build which wrote the tapes gave, under the names of version 1.
KNOWN = {
    "SELECT sum(slowpath_wake_calls) AS a, sum(alloc_batches) AS b, sum(alloc_batch_waste) AS c"
    " FROM counter": ("replayed", (1, 1769, 1737)),
    "SELECT count(*) AS a, sum(page_us) AS b FROM pcp_occupancy": ("replayed", (48, 1086875835)),
    "SELECT count(*) AS a, count(event_row) AS b, sum(event_row) AS c FROM inferred": (
        "validated",
        (1035, 909, 7346463),
    ),
    "SELECT count(*) AS a FROM repair": ("validated", (7,)),
    "SELECT count(*) AS a FROM miss": ("validated", (24,)),
}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the old tapes."""
    home = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(home, filter="data")
    return home


@pytest.fixture(scope="module")
def new(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in tapes of today's version."""
    home = tmp_path_factory.mktemp("new")
    for name in NAMES:
        tape = Tape(old / f"{name}.tape")
        with Writer(home / f"{name}.tape", tape.facts) as writer:
            for table in sorted(tape.tables):
                for batch in tape.batches(table):
                    writer.write(table, batch)
    return home


def test_the_files_are_of_an_old_version_and_its_names(old: Path) -> None:
    with pa.memory_map(str(old / "replayed.tape" / "counter.arrow")) as source:
        schema = pa.ipc.open_file(source).schema
    assert int(schema.metadata[b"pagetape.version"]) == 1 < VERSION
    assert "kswapd_wakes" in schema.names and "slowpath_wake_calls" not in schema.names
    assert (old / "validated.tape" / "untold.arrow").is_file()
    assert (old / "replayed.tape" / "pcp_level.arrow").is_file()


def test_an_old_tape_has_the_tables_columns_and_labels_of_today(old: Path) -> None:
    for name in NAMES:
        tape = Tape(old / f"{name}.tape")
        files = {RENAMES[1].tables.get(f.stem, f.stem) for f in tape.path.glob("*.arrow")}
        assert tape.tables == files
        for table in tape.tables:
            for column, field in zip(TABLES[table].columns, tape.table(table).schema, strict=True):
                assert field.name == column.name
    causes = Tape(old / "validated.tape").table("repair")["cause"].chunk(0).dictionary.to_pylist()
    assert tuple(causes) == TABLES["repair"].column("cause").labels
    assert Tape(old / "replayed.tape").facts["replay"]["policies"] == ["alloc_batch:order=2"]


@pytest.mark.parametrize("sql", KNOWN, ids=lambda sql: sql.rpartition(" ")[2])
def test_sql_finds_the_numbers_of_the_old_build(sql: str, old: Path, pagetape: Run) -> None:
    name, known = KNOWN[sql]
    (row,) = pagetape("sql", old / f"{name}.tape", sql, "--json").json["rows"]
    assert tuple(row.values()) == known


@pytest.mark.parametrize("name", NAMES)
def test_every_report_is_that_of_a_tape_of_today(name: str, old: Path, new: Path) -> None:
    found = []
    for home in (old, new):
        with Database([Tape(home / f"{name}.tape")]) as db:
            found.append({report.name: db.run(report) for report in query.reports().values()})
    assert found[0] == found[1]
    assert any(answer.rows for answer in found[0].values())


@pytest.mark.parametrize("name", NAMES)
def test_info_is_that_of_a_tape_of_today(name: str, old: Path, new: Path, pagetape: Run) -> None:
    infos = [pagetape("info", home / f"{name}.tape", "--json").json for home in (old, new)]
    for info in infos:
        for key in ("tape", "bytes", "bytes_per_event"):
            del info[key]
    assert infos[0] == infos[1]


COMMANDS = {
    "validate": ("validate", "recorded.tape"),
    "replay": ("replay", "recorded.tape", "--policy", "alloc_unit:order=2"),
    "compare": ("compare", "recorded.tape", "replayed.tape"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_gives_what_it_gives_for_a_tape_of_today(
    command: tuple[str, ...], old: Path, new: Path, pagetape: Run
) -> None:
    said = []
    for home in (old, new):
        args = [home / arg if arg.endswith(".tape") else arg for arg in command]
        said.append(pagetape(*args, "--json"))
    answers = [json.loads(s.out.replace(str(old), str(new))) for s in said]
    for answer in answers:
        answer.pop("events_per_s", None)
    assert answers[0] and answers[0] == answers[1]


def test_a_replay_under_a_former_policy_name_stores_the_name_of_today(
    old: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "out.tape"
    assert pagetape(
        "replay", old / "recorded.tape", "--policy", "alloc_unit:order=2", "-o", out, "--json"
    ).json
    assert Tape(out).facts["replay"]["policies"] == ["alloc_batch:order=2"]


def test_an_archive_of_an_old_tape_has_the_names_of_today(
    old: Path, tmp_path: Path, pagetape: Run
) -> None:
    assert pagetape("archive", old / "validated.tape", "-o", tmp_path, "--json").json
    tables = {path.name for path in tmp_path.iterdir()}
    assert "inferred" in tables and not tables & set(RENAMES[1].tables)


SLEEPING = ["sleeping_orders", "sleeping_orders_reserve", "sleeping_orders_failed"]


@pytest.fixture
def before_sleeping(golden: Path, tmp_path: Path) -> Path:
    """The golden tape as it was before the model counted requests that may sleep."""
    path = shutil.copytree(golden, tmp_path / golden.name)
    rows = Tape(path).table("counter").drop_columns(SLEEPING)
    stored = stored_schema(TABLES["counter"], Tape(path).facts)
    assert stored.names[-len(SLEEPING) :] == SLEEPING
    schema = rows.schema.with_metadata(stored.metadata)
    with pa.ipc.new_file(str(path / "counter.arrow"), schema) as file:
        file.write_table(rows)
    return path


def test_counters_that_a_tape_lacks_at_the_end_are_null(
    golden: Path, before_sleeping: Path, pagetape: Run
) -> None:
    now, then = Tape(golden).rows("counter"), Tape(before_sleeping).rows("counter")
    assert all(row[name] is not None for row in now for name in SLEEPING)
    assert then == [row | dict.fromkeys(SLEEPING) for row in now]
    sql = f"SELECT count(*) AS nr, {', '.join(f'sum({name})' for name in SLEEPING)} FROM counter"
    (row,) = pagetape("sql", before_sleeping, sql, "--json").json["rows"]
    assert list(row.values()) == [len(now), None, None, None]


def test_only_the_reports_of_lacking_counters_differ_and_have_no_false_zeros(
    golden: Path, before_sleeping: Path
) -> None:
    found = []
    for path in (golden, before_sleeping):
        with Database([Tape(path)]) as db:
            found.append({report.name: db.run(report) for report in query.reports().values()})
    now, then = found
    assert {name for name in now if now[name] != then[name]} == {"reserve.integrity"}
    columns = now["reserve.integrity"].columns
    sleeping = [name.startswith("sleeping_") for name in columns]
    assert sum(sleeping) == len(SLEEPING)
    rows = zip(now["reserve.integrity"].rows, then["reserve.integrity"].rows, strict=True)
    for row, former in rows:
        assert None not in row
        expected = [None if new else value for new, value in zip(sleeping, row, strict=True)]
        assert list(former) == expected
