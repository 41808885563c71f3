# SPDX-License-Identifier: Apache-2.0
"""The counts of one pass by group, beside a loop over the rows in Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape.asking.database import Database
from pagetape.asking.span import Span
from pagetape.schemas.tape import Tape, Writer

Row = dict[str, Any]

KINDS = ["alloc", "free", "free_batched", "alloc_zone_locked", "pcpu_drain", "alloc_extfrag"]
KEY = (
    "kind", "cpu", "pid", "page_order", "migratetype", "gfp_flags", "percpu_refill",
    "fallback_order", "fallback_migratetype", "change_ownership",
)  # fmt: skip
RECORDER = 7  # its threads are 2 and 3
SINCE, UNTIL = 20, 60  # exact snapshots

TYPES = st.sampled_from(["UNMOVABLE", "MOVABLE", None])


def event(kind: str) -> st.SearchStrategy[Row]:
    """An event with the columns that its kind can have."""
    fallback, alloc = kind == "alloc_extfrag", kind == "alloc"
    none = st.none()
    return st.fixed_dictionaries(
        {
            "ts": st.integers(0, 4),  # since the event before
            "kind": st.just(kind),
            "cpu": st.integers(0, 1),
            "pid": st.integers(0, 3),
            "flags": st.integers(0, 127),
            "pfn": st.sampled_from([0, None]),
            "page_order": st.sampled_from([0, 9, None]),
            "migratetype": TYPES,
            "gfp_flags": st.sampled_from([0, 1 << 31, None]) if alloc else none,
            "percpu_refill": st.sampled_from([True, False, None])
            if kind == "alloc_zone_locked"
            else none,
            "fallback_order": st.sampled_from([0, 255, None]) if fallback else none,
            "fallback_migratetype": TYPES if fallback else none,
            "change_ownership": st.sampled_from([True, False, None]) if fallback else none,
        }
    )


events = st.lists(st.sampled_from(KINDS).flatmap(event), max_size=60)


def written(path: Path, rows: list[Row]) -> Tape:
    ts, timed = 0, []
    for row in rows:
        ts += row["ts"]
        timed.append(row | {"ts": ts})
    with Writer(path, {"pageblock_order": 9, "recorder_pid": RECORDER}) as tape:
        for first in range(0, len(timed), 7):
            tape.rows("event", timed[first : first + 7])
        threads = [{"pid": pid, "tgid": RECORDER, "comm": "pagetape"} for pid in (2, 3)]
        tape.rows("task", [*threads, {"pid": 1, "tgid": 1, "comm": "web"}])
        exact = [{"snapshot": 0, "ts": SINCE}, {"snapshot": 1, "ts": UNTIL}]
        tape.rows("snapshot", [row | {"how": "exact"} for row in exact])
    return Tape(path)


def groups(rows: list[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(events, without_page, runs, first_ts, last_ts) by key."""
    nr, runs = Counter[Any](), Counter[Any]()
    missing: dict[Any, list[int]] = {}
    moved: dict[tuple[int, bool], bool] = {}
    for row in rows:
        kind, recorder = row["kind"], row["pid"] in (2, 3)
        played = SINCE < row["ts"] <= UNTIL
        key = (played, recorder, (row["flags"] & 6) != 0, *(row[name] for name in KEY))
        nr[key] += 1
        if row["pfn"] is None:
            missing.setdefault(key, []).append(row["ts"])
        if recorder or not played or kind in ("free_batched", "alloc_extfrag"):
            continue
        side, moves = kind in ("free", "pcpu_drain"), kind in ("alloc_zone_locked", "pcpu_drain")
        runs[key] += moves and not moved.get((row["cpu"], side))
        moved[row["cpu"], side] = moves
    return {
        key: (nr[key], len(ts), runs[key], min(ts, default=None), max(ts, default=None))
        for key in nr
        for ts in [missing.get(key, [])]
    }


@settings(max_examples=matrix.number(12, 40), deadline=None)
@given(rows=events, first=st.integers(0, 60), length=st.integers(1, 120))
def test_each_group_is_that_of_a_loop_over_the_rows(
    rows: list[Row], first: int, length: int
) -> None:
    with TemporaryDirectory() as place:
        tape = written(Path(place) / "t.tape", rows)
        rows = tape.rows("event")
        for span in (None, Span(first / 1e9, (first + length) / 1e9)):
            begin, end = span.limits(*(tape.clock or (0, 0))) if span else (0, 1 << 62)
            names = ", ".join(KEY)
            with Database([tape], threads=1, span=span) as db:
                found = db.ask(
                    f"SELECT played, recorder, in_interrupt, {names}, events, without_page, runs,"
                    " first_ts, last_ts FROM event_group"
                ).rows
            wanted = groups([row for row in rows if begin <= row["ts"] < end])
            assert {row[:-5]: row[-5:] for row in found} == wanted
            assert len(found) == len(wanted)
