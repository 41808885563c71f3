# SPDX-License-Identifier: Apache-2.0
"""Tapes of older builds: those of this schema version stay readable, those of another are refused.

A column at the end of a table is no new version: tapes written before have nulls there.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas import TABLES, VERSION
from pagetape.schemas.tape import OLDEST, Tape, Writer, file_metadata

Run = Callable[..., Any]


COMMANDS = ("info {}", "replay {}", "validate {}", "report alloc.by_order {}", "archive {} -o out")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_tape_of_an_older_version_is_refused_with_the_next_step(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pagetape: Run
) -> None:
    path, older = tmp_path / "a.tape", OLDEST - 1
    monkeypatch.setattr("pagetape.schemas.tape.VERSION", older)
    with Writer(path, {}):
        pass
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    said = pagetape(*command.format(path).split())
    assert said.status == 1
    assert said.err == (
        f"pagetape: {path}: tape of schema version {older}; this pagetape reads versions {OLDEST}"
        f" to {VERSION}: record or import it again, or use the pagetape that made it\n"
    )


SLEEPING = ["sleeping_orders", "sleeping_orders_reserve", "sleeping_orders_failed"]
LATER = [*SLEEPING, "alloc_batch_split", "stall_us"]


@pytest.fixture
def before_sleeping(golden: Path, tmp_path: Path) -> Path:
    """The golden tape as it was before the model counted requests that may sleep."""
    path = shutil.copytree(golden, tmp_path / golden.name)
    rows = Tape(path).table("counter").drop_columns(LATER)
    assert TABLES["counter"].arrow.names[-len(LATER) :] == LATER
    schema = rows.schema.with_metadata(file_metadata(Tape(path).facts))
    with pa.ipc.new_file(str(path / "counter.arrow"), schema) as file:
        file.write_table(rows)
    return path


def test_counters_that_a_tape_lacks_at_the_end_are_null(
    golden: Path, before_sleeping: Path, pagetape: Run
) -> None:
    now, then = Tape(golden).rows("counter"), Tape(before_sleeping).rows("counter")
    assert all(row[name] is not None for row in now for name in SLEEPING)
    assert then == [row | dict.fromkeys(LATER) for row in now]
    sql = f"SELECT count(*) AS nr, {', '.join(f'sum({name})' for name in SLEEPING)} FROM counter"
    (row,) = pagetape("sql", before_sleeping, sql, "--json").json["rows"]
    assert list(row.values()) == [len(now), None, None, None]


def test_only_the_reports_of_lacking_counters_differ_and_have_no_false_zeros(
    golden: Path, before_sleeping: Path
) -> None:
    """Others name no counters."""
    reports = [q for q in query.reports().values() if query.words_of([q.sql])["counter"]]
    found = []
    for path in (golden, before_sleeping):
        with Database([Tape(path)]) as db:
            found.append({report.name: db.run(report) for report in reports})
    now, then = found
    assert len(now) > 5
    assert {name for name in now if now[name] != then[name]} == {"reserve.integrity"}
    columns = now["reserve.integrity"].columns
    sleeping = [name.startswith("sleeping_") for name in columns]
    assert sum(sleeping) == len(SLEEPING)
    rows = zip(now["reserve.integrity"].rows, then["reserve.integrity"].rows, strict=True)
    for row, former in rows:
        assert None not in row
        expected = [None if new else value for new, value in zip(sleeping, row, strict=True)]
        assert list(former) == expected
