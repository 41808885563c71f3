# SPDX-License-Identifier: Apache-2.0
"""The views of one pass over a tape, beside a loop over its rows in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matrix
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape.asking import query, query_memory, sequence_dataset
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
from pagetape.asking.span import Span
from pagetape.schemas.tape import Tape, TapeError, Writer

Row = dict[str, Any]

KINDS = ["alloc", "free", "free_batched", "alloc_zone_locked", "pcpu_drain", "alloc_extfrag"]
TYPES = ["UNMOVABLE", "MOVABLE", None]
ORDER = 9  # of a pageblock
END = 1000

events = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(1, 4),  # since the event before
            "cpu": st.integers(0, 2),
            "pid": st.integers(0, 2),
            "kind": st.sampled_from(KINDS),
            "flags": st.just(0),
            "pfn": st.sampled_from([0, 1, 512, 513, 1 << 40, None]),
            "page_order": st.sampled_from([0, 1, ORDER, 255, None]),
            "migratetype": st.sampled_from(TYPES),
            "percpu_refill": st.sampled_from([True, False, None]),
        }
    ),
    max_size=60,
)


def written(path: Path, rows: list[Row], batch: int) -> Tape:
    ts = 0
    with Writer(path, {"pageblock_order": ORDER}) as tape:
        for first in range(0, len(rows), batch):
            part = []
            for row in rows[first : first + batch]:
                ts += row["ts"]
                part.append(row | {"ts": ts})
            tape.rows("event", part)
    return Tape(path)


def uses(rows: list[Row]) -> Iterator[tuple[Any, ...]]:
    """(pfn, ts, cpu, pid, page_order, migratetype, until_ts, freed, freed_before) of each use."""
    last: dict[int, Row] = {}
    names = ("ts", "cpu", "pid", "page_order", "migratetype")
    for row in rows:
        if row["kind"] not in ("alloc", "free") or row["pfn"] is None:
            continue
        before, freed = last.get(row["pfn"]), row["kind"] == "free"
        if before and before["kind"] == "alloc":
            yield row["pfn"], *(before[name] for name in names), row["ts"], freed, False
        elif freed:
            yield row["pfn"], *(None for _ in names), row["ts"], True, before is not None
        last[row["pfn"]] = row
    for pfn, row in last.items():
        if row["kind"] == "alloc":
            yield pfn, *(row[name] for name in names), None, None, False


def runs(rows: list[Row]) -> Iterator[tuple[Any, ...]]:
    """(what, cpu, blocks, from_ts, until_ts) of each run."""
    for cpu in {row["cpu"] for row in rows}:
        run: list[Any] = []
        for row in [*(row for row in rows if row["cpu"] == cpu), {"kind": "none", "ts": 0}]:
            what = {"pcpu_drain": "give", "free_batched": "trace"}.get(row["kind"])
            if row["kind"] == "alloc_zone_locked" and row["percpu_refill"]:
                what = "take"
            if run and run[0] == what and what:
                if what == "trace":
                    yield what, cpu, 2, run[2], row["ts"]
                    run = [what, 1, row["ts"], row["ts"]]
                else:
                    run = [what, run[1] + 1, run[2], row["ts"]]
                continue
            if run and run[0] in ("take", "give"):
                yield run[0], cpu, *run[1:]
            run = [what, 1, row["ts"], row["ts"]]


def check(db: Database, view: str, wanted: Iterator[tuple[Any, ...]]) -> None:
    found = db.ask(f"SELECT * EXCLUDE (tape) FROM {view}").rows
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


@settings(max_examples=matrix.number(20, 60), deadline=None)
@given(rows=events, batch=st.integers(1, 20))
def test_each_use_and_each_run_is_that_of_a_loop_over_the_rows(rows: list[Row], batch: int) -> None:
    with TemporaryDirectory() as place:
        tape = written(Path(place) / "t.tape", rows, batch)
        rows = tape.rows("event")
        movable = [
            row
            for row in rows
            if row["kind"] == "free"
            or (row["migratetype"] == "MOVABLE" and row["page_order"] in (0, ORDER))
        ]
        of_movable = ((u[0], u[1], u[2], u[4], u[6]) for u in uses(movable) if u[1] is not None)
        with Database([tape], threads=1) as db:
            check(db, "page_use", uses(rows))
            check(db, "lock_run", runs(rows))
            check(db, "movable_page_use", of_movable)


@settings(max_examples=matrix.number(8, 15), deadline=None)
@given(rows=events, batch=st.integers(1, 20), interval_ms=st.integers(1, 9))
def test_counts_by_time_are_those_of_a_loop_over_the_rows(
    rows: list[Row], batch: int, interval_ms: int
) -> None:
    sql = "FROM sequence_event_count WHERE interval_ms = $interval_ms::BIGINT"
    question = replace(query.reports()["events.over_time"], sql=sql)
    with TemporaryDirectory() as place:
        later = [row | {"ts": row["ts"] * 700_000} for row in rows]
        tape = written(Path(place) / "t.tape", later, batch)
        wanted: Counter[Any] = Counter()
        for row in tape.rows("event"):
            interval = (row["ts"] - tape.rows("event")[0]["ts"]) // (interval_ms * 1_000_000)
            key = interval, row["kind"], row["page_order"]
            wanted[(*key, "events")] += 1
            wanted[(*key, "with_page")] += row["pfn"] is not None
        with KeepingDatabase([tape], [question], {"interval_ms": interval_ms}) as db:
            for _ in range(2):
                found: Counter[Any] = Counter()
                for row in db.run(question, {"interval_ms": interval_ms}).objects():
                    key = row["interval"], row["kind"], row["page_order"]
                    found.update({(*key, n): row[n] for n in ("events", "with_page")})
                assert found == wanted
            one = db.run(question, {"interval_ms": 1000}).objects()
            assert {row["interval"] for row in one} <= {0}
            # Relations are read later than they are made.
            both = [db.relation(question, {"interval_ms": ms}) for ms in (interval_ms, 1000)]
            for relation, ms in zip(both, (interval_ms, 1000), strict=True):
                rows_of = db.evaluate(relation.fetchall)
                assert {row[1] for row in rows_of} == ({ms} if rows else set())


@settings(max_examples=matrix.number(8, 20), deadline=None)
@given(rows=events, first=st.integers(0, 20), length=st.integers(0, 60))
def test_a_part_of_the_time_begins_without_a_past(rows: list[Row], first: int, length: int) -> None:
    with TemporaryDirectory() as place:
        tape = written(Path(place) / "t.tape", rows, 7)
        rows = tape.rows("event")
        span = Span(first / 1e9, (first + length) / 1e9)
        begin, end = span.limits(*(tape.clock or (0, 0)))
        inside = [row for row in rows if begin <= row["ts"] < end]
        with Database([tape], threads=1, span=span) as db:
            check(db, "page_use", uses(inside))
            check(db, "lock_run", runs(inside))


def test_more_pages_than_the_first_table_has_room_for(tmp_path: Path) -> None:
    nr = 100_000
    row = {"cpu": 0, "pid": 1, "kind": "alloc", "flags": 0, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as tape:
        tape.rows("event", [row | {"ts": i, "pfn": i << 9} for i in range(nr)])
        tape.rows("event", [row | {"ts": nr + i, "pfn": i << 9, "kind": "free"} for i in range(9)])
    with Database([Tape(tmp_path / "t.tape")]) as db:
        (found,) = db.ask("SELECT count(*), count(freed), count(DISTINCT pfn) FROM page_use").rows
    assert found == (nr, 9, nr)


def test_pages_beyond_the_memory_are_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_memory, "of_duckdb", lambda: 40 << 20)
    row = {"cpu": 0, "pid": 1, "kind": "alloc", "flags": 0, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as tape:
        for first in range(0, 1 << 20, 1 << 18):
            tape.rows("event", [row | {"ts": i, "pfn": i} for i in range(first, first + (1 << 18))])
    with (
        Database([Tape(tmp_path / "t.tape")]) as db,
        pytest.raises(TapeError, match=r"t\.tape: the pages .* more memory .*--memory SIZE"),
    ):
        db.run(query.reports()["pages.lifetimes"])


def test_pages_in_use_are_found_once_by_all_queries_of_a_command(tmp_path: Path) -> None:
    row = {"cpu": 0, "pid": 1, "kind": "alloc", "flags": 0, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as writer:
        writer.rows("event", [row | {"ts": i, "pfn": i} for i in range(9)])
        writer.rows("event", [row | {"ts": 10, "pfn": 4, "kind": "free"}])
    tape = Tape(tmp_path / "t.tape")
    passes = counted(tape)
    with Database([tape]) as db:
        columns = "* EXCLUDE (until_ts, freed, freed_before)"
        ended = "WHERE until_ts IS NULL ORDER BY pfn"
        wanted = db.ask(f"SELECT {columns} FROM page_use {ended}").rows
        assert len(wanted) == 8 and len(passes) == 1
        for _ in range(2):
            assert db.ask("SELECT * FROM page_in_use ORDER BY pfn").rows == wanted
            assert len(passes) == 2
    asked = replace(query.internal()["diagnose.oom"], sql="FROM extfrag UNION ALL FROM extfrag")
    with KeepingDatabase([tape], [asked]) as db:
        for _ in range(2):
            assert db.run(asked).rows == []
            assert len(passes) == 3


def counted(tape: Tape) -> list[str]:
    """Grows with each scan of the events."""
    passes: list[str] = []
    read = tape.grouped

    def grouped(name: str, *how: Any) -> Any:
        passes.append(name)
        return read(name, *how)

    tape.grouped = grouped  # type: ignore[method-assign]
    return passes


def test_rows_that_are_too_many_to_keep_leave_the_shared_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"cpu": 0, "pid": 1, "kind": "alloc", "flags": 0, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as writer:
        writer.rows("event", [row | {"ts": i, "pfn": i or None} for i in range(9)])
    tape = Tape(tmp_path / "t.tape")
    passes = counted(tape)
    monkeypatch.setattr(sequence_dataset, "_KEPT", 4)
    questions = [query.reports()[name] for name in ("metrics", "pages.long_lived")]
    with KeepingDatabase([tape], questions) as db:
        for nr in (2, 3):  # the shared pass, and one for each query about pages
            assert db.ask("SELECT count(pfn) FROM page_in_use").rows == [(8,)]
            assert db.ask("SELECT sum(events)::INTEGER FROM event_group").rows == [(9,)]
            assert len(passes) == nr


def test_the_demand_of_lists_is_that_of_a_sum_over_the_rows(tmp_path: Path) -> None:
    kinds, orders = ["alloc", "free", "pcpu_drain"], [0, 1, 3, 4, ORDER, None]
    rows = [
        {"ts": 1, "cpu": i % 5 % 3, "pid": 1, "kind": kinds[i % 7 % 3], "flags": 0}
        | {"pfn": i if i % 11 else None, "page_order": orders[i % 13 % 6]}
        for i in range(500)
    ]
    for i, row in enumerate(rows):
        row["ts"] = 70_000 if i % 50 else 3_000_000
    tape = written(tmp_path / "t.tape", rows, 64)
    with Database([tape]) as db:
        found = db.ask("SELECT cpu, bin, pages FROM sequence_list_demand ORDER BY cpu, bin").rows
        wanted = db.ask(
            "SELECT cpu, ts // 1000000, sum(if(kind = 'alloc', 1, -1) * (1 << page_order::INTEGER))"
            " AS pages FROM event WHERE kind IN ('alloc', 'free') AND pfn IS NOT NULL"
            f" AND page_order IN (0, 1, 2, 3, {ORDER}) GROUP BY ALL HAVING pages <> 0 ORDER BY ALL"
        ).rows
    assert found == wanted and len(found) > 20
