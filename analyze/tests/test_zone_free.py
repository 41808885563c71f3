# SPDX-License-Identifier: Apache-2.0
"""The count of free memory by one pass, beside a loop over the rows in Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matrix
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape.asking import query_memory, sequence_dataset
from pagetape.asking.database import Database
from pagetape.asking.span import Span
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError, Writer

Row = dict[str, Any]

HUGE = 9  # order of a pageblock
PAGE, BLOCK, OLD = "6.12.30-test", "6.1.100-test", "4.19.1-test"  # fallbacks of; no high lists
KINDS = ["alloc", "free", "free_batched", "alloc_zone_locked", "pcpu_drain", "alloc_extfrag"]
LOW = 996  # pages
ZONES = [("NORMAL", 0, 1024), ("MOVABLE", 1024, 3072), ("DMA", 512, 600)]  # DMA lies in NORMAL

pfns = st.sampled_from([0, 4, 520, 1024, 1536, 9000])

events = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 3),  # since the event before
            "cpu": st.integers(0, 1),
            "pid": st.just(1),
            "kind": st.sampled_from(KINDS),
            "flags": st.just(0),
            "pfn": pfns | st.none(),
            "page_order": st.sampled_from([0, 1, 4, HUGE, 20, None]),
        }
    ),
    max_size=50,
)

compaction = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 9),
            "cpu": st.just(0),
            "pid": st.integers(1, 2),
            "flags": st.just(0),
            "at": st.just(0),
            "kind": st.sampled_from(
                ["begin", "isolate_freepages", "fast_isolate_freepages", "migratepages", "end"]
            ),
            "start_pfn": pfns | st.none(),
            "nr_taken": st.integers(-1, 40) | st.none(),
            "nr_migrated": st.integers(0, 40) | st.none(),
        }
    ),
    max_size=20,
)

tapes = st.fixed_dictionaries(
    {
        "kernel": st.sampled_from([PAGE, BLOCK, OLD]),
        "event": events,
        "compaction": compaction,
        "samples": st.lists(st.integers(0, 60), max_size=4, unique=True),
        "kswapd": st.lists(st.integers(0, 60), max_size=4),
        "listed": st.lists(st.tuples(pfns, st.sampled_from([0, 1, HUGE])), max_size=3),
        "exact": st.booleans(),
        "all_seen": st.booleans(),
    }
)


def timed(rows: list[Row]) -> list[Row]:
    """The rows with times from 10 on, in place of the time since the row before."""
    ts, found = 10, []
    for row in rows:
        ts += row["ts"]
        found.append(row | {"ts": ts})
    return found


def place(zone: str) -> Row:
    return {"node": 0, "zone": zone}


def write(path: Path, t: Row) -> Tape:
    zeros = {**dict.fromkeys(TABLES["zone"].arrow.names, 0), "managed": 512, "wmark_low": LOW}
    with Writer(path, {"kernel": t["kernel"], "pageblock_order": HUGE}) as tape:
        for snapshot, ts, free in ((0, 5, 1000), (1, 0, 900)):
            tape.rows(
                "zone",
                [
                    zeros
                    | place(zone)
                    | {"snapshot": snapshot, "ts": ts, "free": free, "start_pfn": start}
                    | {"spanned": end - start}
                    for zone, start, end in ZONES
                ],
            )
        tape.rows("event", timed(t["event"]))
        tape.rows("compaction", timed(t["compaction"]))
        counts = [
            place("NORMAL") | {"ts": ts, "at": 0, "page_order": order, "nr_free": ts, "began": ts}
            for ts in sorted(t["samples"])
            for order in (0, 3)
        ]
        tape.rows("free_count", counts)
        kswapd = {"at": 0, "cpu": 0, "pid": 9, "flags": 0, "node": 0, "kind": "kswapd_wake"}
        tape.rows("reclaim", [kswapd | {"ts": ts} for ts in sorted(t["kswapd"])])
        on_list = {"snapshot": 0, "ts": 5, "cpu": 0, "migratetype": "MOVABLE"} | place("NORMAL")
        tape.rows("pcp_page", [on_list | {"pfn": p, "page_order": o} for p, o in t["listed"]])
        how = "exact" if t["exact"] else "proc"
        tape.rows("snapshot", [{"snapshot": 0, "ts": 5, "how": how}])
        if t["all_seen"]:
            name = "mm_compaction_fast_isolate_freepages"
            tape.rows("tracepoint", [{"system": "compaction", "name": name, "events": 0}])
    return Tape(path)


def lists(kernel: str, order: int) -> bool:
    return order == 0 or (kernel != OLD and (order <= 3 or order == HUGE))


def event_changes(t: Row, rows: list[Row], captures: bool) -> Iterator[tuple[int, int, int]]:
    """(ts, pfn, pages) of each event that takes or gives pages."""
    last: dict[tuple[int, int], str] = {}
    taken: dict[int, Row] = {}
    for row in rows:
        kind, pfn, order = row["kind"], row["pfn"], row["page_order"]
        if kind == "free_batched":
            continue
        before = taken.get(row["cpu"])
        if kind in ("alloc_zone_locked", "alloc_extfrag"):
            taken[row["cpu"]] = row
        if pfn is None or order is None or order >= 20:
            continue
        was = last.get((pfn, order), "")
        if order:
            last[pfn, order] = kind
        high = lists(t["kernel"], order)
        known = before and before["kind"] == "alloc_zone_locked" and before["pfn"] == pfn
        if kind == "pcpu_drain" or (kind == "free" and not high):
            yield row["ts"], pfn, 1 << order
        elif kind == "alloc_zone_locked" or (
            kind == "alloc_extfrag" and t["kernel"] == PAGE and not known
        ):
            yield row["ts"], pfn, -(1 << order)
        elif kind == "alloc" and order and captures:
            if not high:
                gone = was not in ("alloc_zone_locked", "alloc_extfrag")
            elif was:
                gone = was in ("alloc", "pcpu_drain")
            else:
                gone = t["exact"] and (pfn, order) not in t["listed"]
            if gone:
                yield row["ts"], pfn, -(1 << order)


def compaction_changes(t: Row, rows: list[Row]) -> Iterator[tuple[int, int | None, int]]:
    runs: dict[int, Row] = {}
    for row in rows:
        taken, kind = row["nr_taken"] or 0, row["kind"]
        if kind in ("isolate_freepages", "fast_isolate_freepages") and taken > 0:
            yield row["ts"], row["start_pfn"], -taken
        if t["all_seen"] or kind not in ("begin", "isolate_freepages", "migratepages"):
            continue
        if kind == "begin":
            runs[row["pid"]] = {"pfn": row["start_pfn"], "short": 0, "most": 0}
        if (run := runs.get(row["pid"])) is None:
            continue
        run["short"] += (row["nr_migrated"] or 0) if kind == "migratepages" else -taken
        if run["short"] > run["most"]:
            yield row["ts"], run["pfn"], run["most"] - run["short"]
            run["most"] = run["short"]


def count(t: Row, tape: Tape, begin: int, end: int) -> list[Row]:
    """The rows of zone_free of each zone, in order."""

    def inside(rows: list[Row]) -> list[Row]:
        return [row for row in rows if begin <= row["ts"] < end]

    events, moves = inside(tape.rows("event")), inside(tape.rows("compaction"))
    clock = tape.clock
    items: list[tuple[int, int, str | None, int | None, int]] = []
    for zone, _, _ in ZONES:
        items.append((5, 0, zone, None, 1000))
        if clock:
            first = max(clock[0], begin)
            items.append((max(min(clock[1], end - 1), first), 0, zone, None, 900))
    items += [(ts, 0, "NORMAL", None, 9 * ts) for ts in sorted(t["samples"]) if begin <= ts < end]
    items += [(ts, 1, None, pfn, n) for ts, pfn, n in event_changes(t, events, bool(moves))]
    items += [(ts, 2, None, pfn, n) for ts, pfn, n in compaction_changes(t, moves)]
    found: dict[str, list[Row]] = defaultdict(list)
    changed = False
    for ts, what, zone, pfn, pages in sorted(items, key=lambda item: item[:2]):
        for name, start, stop in ZONES:
            if zone == name or (what and pfn is not None and start <= pfn < stop):
                changed |= what > 0
                rows = found[name]
                if rows or not what:
                    free = pages if not what else rows[-1]["free"] + pages
                    rows.append({"zone": name, "ts": ts, "free": free, "reading": not what})
    for rows in found.values():
        error, next_ts = None, None
        for before, row in reversed([*zip([None, *rows[:-1]], rows, strict=True)]):
            row |= {"error": error, "next_ts": next_ts, "before": before}
            if row["reading"] and before:
                error, next_ts = (before["free"] - row["free"] if changed else None), row["ts"]
    return [row for rows in found.values() for row in rows]


def asked(db: Database, sql: str) -> list[Any]:
    return sorted(db.ask(sql).rows, key=repr)


def check(t: Row, tape: Tape, span: Span | None = None) -> None:
    with Database([tape], threads=1, span=span) as db:
        _check(t, tape, db, span)


_ROW = ("zone", "ts", "free", "reading", "error", "next_ts")
_BEFORE = ("ts", "free", "error", "reading")


def values(row: Row | None, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row and row[name] for name in names)


def low(rows: list[Row]) -> Iterator[tuple[Row, int]]:
    """Readings, low counts, and the lowest other count of each interval, and how many each has."""
    held: list[Row] = []
    since = 0
    for row in [*rows, {"reading": True, "zone": None}]:
        begins = row["reading"]
        if begins and held:
            yield min(held, key=lambda r: r["free"]), since
            held, since = [], 0
        if row["zone"] is None:
            return
        before = row["before"]
        if begins or row["free"] < LOW or (before and before["free"] < LOW):
            yield row, since + 1
            since = 0
        else:
            held.append(row)
            since += 1


def has_error(row: Row) -> bool:
    return row["error"] is not None


def _check(t: Row, tape: Tape, db: Database, span: Span | None) -> None:
    begin, end = span.limits(*tape.clock) if span and tape.clock else (0, 1 << 62)
    rows = count(t, tape, begin, end)
    widest = {
        zone: max(
            (abs(r["error"]) for r in rows if r["zone"] == zone and has_error(r)), default=None
        )
        for zone, _, _ in ZONES
    }
    columns = "zone, ts, free_pages, reading, error_pages, next_ts, widest_pages"
    before = "before_ts, before_pages, before_error_pages, before_reading"
    wanted = [(*values(r, _ROW), widest[r["zone"]], *values(r["before"], _BEFORE)) for r in rows]
    assert asked(db, f"SELECT {columns}, {before} FROM zone_free") == sorted(wanted, key=repr)

    def at(moments: set[int]) -> list[Any]:
        last = {
            (moment, zone): [r for r in rows if r["zone"] == zone and r["ts"] <= moment][-1:]
            for moment in moments
            for zone, _, _ in ZONES
        }
        return sorted(
            (
                (zone, ts, r["free"], r["error"], widest[zone])
                for (ts, zone), found in last.items()
                for r in found
            ),
            key=repr,
        )

    events = [row for row in tape.rows("event") if begin <= row["ts"] < end]
    failed = {
        row["ts"]
        for row in events
        if row["kind"] == "alloc" and row["pfn"] is None and (row["page_order"] or 0) < 20
        if row["page_order"] is not None and any(e["kind"] == "alloc_zone_locked" for e in events)
    }
    kswapd = {ts for ts in t["kswapd"] if begin <= ts < end}
    columns = "zone, ts, free_pages, reading, error_pages, next_ts, widest_pages, changes"
    wanted = [(*values(r, _ROW), widest[r["zone"]], nr) for r, nr in low(rows)]
    found = asked(db, f"SELECT {columns} FROM sequence_low_free")
    assert found == sorted(wanted, key=repr)

    for view, moments in (("free_at_failure", failed), ("free_at_kswapd", kswapd)):
        columns = "zone, ts, free_pages, error_pages, widest_pages"
        assert asked(db, f"SELECT {columns} FROM {view}") == at(moments), view


@settings(max_examples=matrix.number(10, 30), deadline=None)
@given(t=tapes)
def test_each_count_is_that_of_a_loop_over_the_rows(t: Row) -> None:
    with TemporaryDirectory() as where:
        check(t, write(Path(where) / "t.tape", t))


@settings(max_examples=matrix.number(5, 12), deadline=None)
@given(t=tapes, first=st.integers(0, 20), length=st.integers(0, 60))
def test_a_part_of_the_time_has_its_own_count(t: Row, first: int, length: int) -> None:
    with TemporaryDirectory() as where:
        tape = write(Path(where) / "t.tape", t)
        check(t, tape, Span(first / 1e9, (first + length) / 1e9))


def long_tape(path: Path) -> Tape:
    """Every other event is a failure; the others take blocks, while a task compacts."""
    base = {"cpu": 0, "pid": 1, "flags": 0, "page_order": 1, "ts": 1}
    t: Row = {"kernel": BLOCK, "exact": True, "all_seen": True}
    t |= {name: [] for name in ("samples", "kswapd", "listed")}
    begin = {"cpu": 0, "pid": 1, "flags": 0, "at": 0, "kind": "begin", "ts": 0}
    pair = [{"kind": "alloc_zone_locked"}, {"kind": "alloc", "pfn": None}]
    rows = [base | {"pfn": 4 * i} | one for i in range(50_000) for one in pair]
    return write(path, t | {"event": rows, "compaction": [begin]})


def test_more_moments_than_are_kept_take_a_second_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = long_tape(tmp_path / "t.tape")
    sql = "SELECT zone, ts, free_pages, error_pages, widest_pages FROM free_at_failure"
    with Database([tape]) as db:
        kept = asked(db, sql)
    monkeypatch.setattr(sequence_dataset, "_KEPT", 1000)
    with Database([tape]) as db:
        assert asked(db, sql) == kept
    assert len(kept) == 3 * 50_000


def test_blocks_beyond_the_memory_are_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = long_tape(tmp_path / "t.tape")
    monkeypatch.setattr(query_memory, "of_duckdb", lambda: 300 << 10)
    with Database([tape]) as db, pytest.raises(TapeError, match=r"more memory .*--memory SIZE"):
        db.ask("SELECT count(free_pages) FROM zone_free")
