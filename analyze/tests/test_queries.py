# SPDX-License-Identifier: Apache-2.0
"""Every .sql file: its header, and its answer for the golden tape."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagetape import answer
from pagetape.asking import query, query_memory
from pagetape.asking.database import Database
from pagetape.schemas.tape import Tape, TapeError, Writer

from .conftest import check_header

ANSWERS = Path(__file__).parent / "golden" / "answers"
EVERY = [*query.reports().values(), *query.views()]


def _sql(q: query.Query) -> str:
    return f"SELECT * FROM {q.name} ORDER BY ALL" if q in query.views() else q.sql


@pytest.fixture(scope="module")
def of_golden(golden: Path) -> Iterator[Database]:
    with Database([Tape(golden)]) as db:
        yield db


@pytest.mark.parametrize("q", EVERY, ids=lambda q: q.name)
def test_the_header_is_true(q: query.Query, of_nothing: Database) -> None:
    check_header(of_nothing, q, {})


@pytest.mark.parametrize("q", EVERY, ids=lambda q: q.name)
def test_golden(q: query.Query, of_golden: Database) -> None:
    """The answer for the golden tape. `make golden` accepts another; read the diff."""
    found = of_golden.ask(_sql(q), {p.name: p.default for p in q.parameters})
    text = answer.table(found.columns, found.rows) + "\n"
    expected = ANSWERS / f"{q.name}.txt"
    if os.environ.get("PAGETAPE_BLESS"):
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("q", query.reports().values(), ids=lambda q: q.name)
def test_every_report_has_a_tier(q: query.Query) -> None:
    assert q.tier in ("A", "B", "-")


def test_every_golden_answer_has_a_query() -> None:
    assert {file.stem for file in ANSWERS.iterdir()} == {q.name for q in EVERY}


def test_rows_come_in_the_tapes_order(tmp_path: Path) -> None:
    """Queries that number the rows rely on it, however many batches and threads there are."""
    event = {"cpu": 0, "pid": 1, "kind": "free", "flags": 0, "pfn": 1, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as tape:
        for first in range(0, 200_000, 10_000):
            tape.rows("event", [event | {"ts": ts} for ts in range(first, first + 10_000)])
    numbered = "SELECT row_number() OVER () - 1 AS place, ts FROM event WHERE kind = 'free'"
    with Database([Tape(tmp_path / "t.tape")]) as db:
        found = db.ask(f"SELECT count(*), count(*) FILTER (place <> ts) FROM ({numbered})")
    assert found.rows == [(200_000, 0)]


BAD_HEADERS = {
    "no full stop": "-- Title\n--\n\nSELECT 1",
    "no empty line": "-- Title.\n-- more\n--\nSELECT 1",
    "column without type": "-- Title.\n--\n-- Columns:\n--   nr  How many.\nSELECT 1",
    "parameter without doc": "-- Title.\n--\n-- Parameters:\n--   n  BIGINT = 1\nSELECT 1",
}


@pytest.mark.parametrize("text", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_malformed_header_is_refused(text: str) -> None:
    with pytest.raises(query.HeaderError):
        query.parse("bad", text)


def test_a_column_doc_may_span_lines() -> None:
    q = query.parse("q", "-- T.\n--\n-- Columns:\n--   nr  BIGINT  How\n--      many.\nSELECT 1")
    assert q.columns == (query.Column("nr", "BIGINT", "How many."),)


RANGED = [(q, p) for q in query.reports().values() for p in q.parameters if p.type != "VARCHAR"]


@pytest.mark.parametrize(("q", "p"), RANGED, ids=lambda x: x.name)
def test_a_number_out_of_range_is_refused_and_its_limits_are_not(
    q: query.Query, p: query.Parameter, of_nothing: Database, of_golden: Database
) -> None:
    assert p.least is not None and p.most is not None
    for value in (p.least - 1, p.most + 1, -(2**63), 2**63, 2**64, float("nan")):
        with pytest.raises(query.ParameterError, match="is not in"):
            of_nothing.run(q, {p.name: value})
    for value in (p.least, p.most):
        of_golden.run(q, {p.name: value})


def with_event(path: Path, last: dict[str, object]) -> Tape:
    """A tape with two allocations, the second with other values."""
    event = {"ts": 10, "cpu": 0, "pid": 1, "kind": "alloc", "flags": 0, "pfn": 1, "page_order": 0}
    with Writer(path, {}) as tape:
        tape.rows("event", [event, event | {"ts": 11} | last])
    return Tape(path)


def test_arithmetic_that_overflows_blames_the_tape(tmp_path: Path) -> None:
    q = query.reports()["alloc.by_order"]
    with (
        Database([with_event(tmp_path / "t.tape", {"page_order": 255})]) as db,
        pytest.raises(TapeError, match=r"alloc\.by_order: impossible values"),
    ):
        db.run(q)


def test_a_timeline_has_a_bounded_number_of_intervals(tmp_path: Path) -> None:
    q = query.internal()["perfetto.rates"]
    values = {"machine_pid": 1, "bin_ns": 100_000_000}
    for ts, fits in ((10**14, True), (2**62, False)):
        with Database([with_event(tmp_path / f"{ts}.tape", {"ts": ts})]) as db:
            if fits:
                assert db.run(q, values).rows
                continue
            with pytest.raises(query.ParameterError, match="10 million intervals"):
                db.run(q, values)


def memory_of_duckdb(tape: Path) -> float:
    """The limit in MiB."""
    with Database([Tape(tape)]) as db:
        (text,) = db.ask("SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'").rows[0]
        assert db.run(query.reports()["events.by_kind"]).rows
    number, unit = text.split()
    return float(number) * {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}[unit]


def test_queries_take_a_gigabyte_or_what_memory_allows(small: Path, pagetape: Any) -> None:
    """With the process around them: DuckDB's own limit is lower."""
    assert 512 <= memory_of_duckdb(small) < 1024
    asked = "SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'"
    more, usual = (pagetape("sql", small, *of, asked) for of in (["--memory", "3GiB"], []))
    assert ("2.7 GiB" in more.out, "768.0 MiB" in usual.out) == (True, True)
    refused = pagetape("sql", small, "--memory", "1MB", "SELECT 1")
    assert (refused.status, "too small" in refused.err) == (2, True)


def test_memory_beyond_that_of_the_machine_is_that_of_duckdb(small: Path) -> None:
    query_memory.limit(1 << 60)
    try:
        assert memory_of_duckdb(small) < 1 << 30
    finally:
        query_memory.limit(None)
