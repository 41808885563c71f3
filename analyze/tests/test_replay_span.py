# SPDX-License-Identifier: Apache-2.0
"""The events between a tape's exact snapshots, which a replay plays."""

from pathlib import Path
from typing import Any

import pytest

from pagetape.asking.database import Database
from pagetape.replaying import replay_span
from pagetape.replaying.recorded_counts import RecordedCounts
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import played_span

MARK = {"cpu": 1, "pid": 7, "pfn": 4096, "page_order": 4}
OTHER = {"cpu": 0, "pid": 8, "pfn": 99, "page_order": 0}
BEGIN, END = 1000, 5_000_000_000
FIRST, LAST = 900, END + 10  # events


def event(ts: int, kind: str, page: dict[str, Any] = OTHER) -> dict[str, Any]:
    return {"ts": ts, "kind": kind, "flags": 0, **page}


def snapshot(number: int, ts: int, how: str = "exact") -> dict[str, Any]:
    return {"snapshot": number, "ts": ts, "how": how, **(MARK if how == "exact" else {})}


def tape(path: Path, events: list[dict[str, Any]], snapshots: list[dict[str, Any]]) -> Tape:
    """Its events in batches of two."""
    with Writer(path, {}) as out:
        for first in range(0, len(events), 2):
            out.rows("event", events[first : first + 2])
        out.rows("snapshot", snapshots)
    return Tape(path)


START = [
    event(900, "free"),
    event(980, "alloc_zone_locked", MARK),  # a cut that was tried before
    event(990, "alloc", MARK),
    event(991, "free", MARK),
    event(999, "alloc_zone_locked", MARK),  # row 4: the cut
    event(1020, "free"),
    event(1100, "alloc", MARK),  # row 6: in the state
    event(1200, "free", MARK),
]
MIDDLE = [event(1_000_000_000 * second, "alloc") for second in range(1, 5)]
FINISH = [
    event(END - 1, "alloc_zone_locked", MARK),  # row 12: the cut
    event(END + 5, "free"),
    event(END + 9, "alloc", MARK),  # row 14: in the state
    event(END + 10, "free", MARK),
]
EVENTS = START + MIDDLE + FINISH


def test_what_lies_between_the_cuts_is_played(tmp_path: Path) -> None:
    both = tape(tmp_path / "t.tape", EVENTS, [snapshot(0, BEGIN), snapshot(1, END)])
    assert replay_span.spans(both) == [(5, 6), (7, 13), (14, 15)]


@pytest.mark.parametrize("after", [[], [snapshot(1, END, "proc")]])
def test_without_an_exact_end_all_that_follows_is_played(after: Any, tmp_path: Path) -> None:
    assert replay_span.spans(tape(tmp_path / "t.tape", EVENTS, [snapshot(0, BEGIN), *after])) == [
        (5, 6),
        (7, 16),
    ]


@pytest.mark.parametrize("before", [[], [snapshot(0, BEGIN, "proc")]])
def test_without_an_exact_start_everything_is_played(before: Any, tmp_path: Path) -> None:
    assert replay_span.spans(tape(tmp_path / "t.tape", EVENTS, [*before, snapshot(1, END)])) == []


def test_a_cut_that_was_not_recorded_is_taken_by_its_time(tmp_path: Path) -> None:
    events = [row for row in EVENTS if row["pfn"] != MARK["pfn"]]
    lossy = tape(tmp_path / "t.tape", events, [snapshot(0, BEGIN), snapshot(1, END)])
    assert replay_span.spans(lossy) == [(1, 6)]


def test_a_cut_in_the_segment_before_leaves_its_alloc_in_the_state(tmp_path: Path) -> None:
    segment = tape(tmp_path / "t.tape", EVENTS[5:], [snapshot(0, BEGIN)])
    assert replay_span.spans(segment) == [(0, 1), (2, 11)]


def test_the_last_of_several_snapshots_is_the_end(tmp_path: Path) -> None:
    marks = [snapshot(0, BEGIN), snapshot(1, 2_500_000_000, "proc"), snapshot(2, END)]
    assert replay_span.spans(tape(tmp_path / "t.tape", EVENTS, marks)) == [
        (5, 6),
        (7, 13),
        (14, 15),
    ]


def test_a_tape_without_events_has_none_to_play(tmp_path: Path) -> None:
    empty = tape(tmp_path / "t.tape", [], [snapshot(0, BEGIN), snapshot(1, END)])
    assert replay_span.spans(empty) == [(0, 0)]


@pytest.mark.parametrize(
    ("snapshots", "span"),
    [
        ([], (FIRST, LAST)),
        ([snapshot(0, BEGIN)], (BEGIN + 1, LAST)),
        ([snapshot(0, BEGIN), snapshot(1, END)], (BEGIN + 1, END)),
        ([snapshot(0, BEGIN), snapshot(1, END), snapshot(2, END + 1, "proc")], (BEGIN + 1, LAST)),
        ([snapshot(0, BEGIN, "proc"), snapshot(1, END)], (FIRST, LAST)),
    ],
)
def test_the_events_of_the_view_played_are_counted(
    snapshots: list[dict[str, Any]], span: tuple[int, int], tmp_path: Path
) -> None:
    found = tape(tmp_path / "t.tape", EVENTS, snapshots)
    with Database([found]) as db:
        (row,) = db.ask("SELECT since, until FROM played").objects()
    assert (row["since"], row["until"]) == span
    counts = RecordedCounts(found, played_span.of_tape(found))
    counts.feed(TABLES["event"].batch(EVENTS))
    counted = sum(counts.tables()["event_count"]["events"].to_pylist())
    assert counted == sum(span[0] <= row["ts"] <= span[1] for row in EVENTS)
