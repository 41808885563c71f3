# SPDX-License-Identifier: Apache-2.0
"""The memory of a flight recorder, and the tapes written from it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pagetape.recording.capture import Snapshot
from pagetape.recording.flight import Callbacks, Flight
from pagetape.recording.session import Boundary
from pagetape.recording.tape_dir import TapeDir
from pagetape.recording.watch import SECOND, Firing
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, is_tape
from pagetape.tapes.info import describe, flight

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def boundary(second: float, firing: Firing | None = None) -> Boundary:
    ts = int(second * SECOND)
    rows = {
        "snapshot": [{"snapshot": 0, "ts": ts, "how": "proc"}],
        "vmstat": [{"snapshot": 0, "ts": ts, "name": "nr_free_pages", "value": ts}],
    }
    facts = {"host": "h", "sysctls": {"at": second}}
    return Boundary(
        Snapshot(rows, {}, {"how": "proc"}), NOON + timedelta(seconds=second), facts, firing
    )


def event(ts: int) -> dict[str, Any]:
    return {"ts": ts, "cpu": 0, "pid": 1, "flags": 0, "kind": "free", "pfn": ts % 1000}


def reclaim(ts: int, at: int) -> dict[str, Any]:
    return {"ts": ts, "cpu": 0, "pid": 1, "flags": 0, "at": at, "kind": "kswapd_wake", "node": 0}


class Recorded:
    """A flight recorder that the test feeds."""

    def __init__(self, directory: Path, seconds: float = 60, memory: float = 1e9) -> None:
        self.made: list[Path] = []
        self.errors: list[OSError] = []
        self.asked = 0
        self.flight = Flight(
            TapeDir(directory, None),
            seconds,
            memory,
            Callbacks(full=self.full, done=self.made.append, failed=self.errors.append),
        )

    def full(self) -> None:
        self.asked += 1

    def batch(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.flight.write(name, TABLES[name].batch(rows))

    def segment(self, begin: int, end: int, firing: Firing | None = None) -> None:
        """Two events each second, and a wake of kswapd after the first of them."""
        self.flight.begin(boundary(begin))
        for nr, second in enumerate(range(begin, end)):
            ts = second * SECOND
            self.batch("event", [event(ts + 1), event(ts + 3)])
            self.batch("reclaim", [reclaim(ts + 2, 2 * nr + 1)])
        self.flight.rows("tracepoint", [
            {"name": "mm_page_free", "system": "kmem", "events": 2 * (end - begin),
             "stored": "event"},
            {"name": "mm_vmscan_kswapd_wake", "system": "vmscan", "events": end - begin,
             "stored": "reclaim"},
        ])  # fmt: skip
        self.flight.rows("ring", [{
            "cpu": 0, "instance": "i", "read": 3 * (end - begin), "overrun": 0,
            "first_ts": begin * SECOND + 1, "last_ts": (end - 1) * SECOND + 3,
        }])  # fmt: skip
        self.flight.rows("lost", [{"cpu": 0, "from_ts": None, "to_ts": begin * SECOND + 1,
                                   "events": 1}])  # fmt: skip
        self.flight.rows("frame", [{"stack": begin // 5, "depth": 0, "function": "f", "offset": 1}])
        self.flight.rows("task", [{"pid": 1, "comm": f"from {begin}"}])
        self.flight.end(boundary(end, firing))


FIRED = Firing("extfrag>3/s", 7.0, "/s", 0)


def seconds(tape: Tape) -> list[int]:
    return sorted({ts // SECOND for ts in tape.table("event")["ts"].to_pylist()})


def test_a_firing_makes_a_tape_of_the_segments_in_memory(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, seconds=10)
    recorded.segment(0, 10)
    recorded.segment(10, 20)
    recorded.segment(20, 25, FIRED)
    (path,) = recorded.made
    tape = Tape(path)
    assert path.name.endswith("-2026-11-21T120025Z.tape")
    assert seconds(tape) == list(range(10, 25))  # older events are dropped
    assert tape.table("reclaim")["at"].to_pylist() == list(range(1, 31, 2))
    shots = tape.table("snapshot").to_pylist()
    assert [(s["snapshot"], s["ts"] // SECOND) for s in shots] == [(0, 10), (1, 20), (2, 25)]
    assert tape.table("vmstat")["snapshot"].to_pylist() == [0, 1, 2]
    assert tape.facts["sysctls"] == {"at": 10}
    info = describe(tape)
    assert info["events"] == {"mm_page_free": 30, "mm_vmscan_kswapd_wake": 15}
    assert info["lost"] == 2
    assert flight(info) == "extfrag>3/s: 7/s, 15.0 s of the 10 s wanted"
    (ring,) = tape.table("ring").to_pylist()
    assert (ring["read"], ring["overrun"], ring["bytes"]) == (45, 0, None)
    assert (ring["first_ts"], ring["last_ts"]) == (10 * SECOND + 1, 24 * SECOND + 3)
    assert tape.table("task").to_pylist()[0]["comm"] == "from 20"
    assert tape.table("frame")["stack"].to_pylist() == [2, 4]


def test_memory_goes_on_after_a_tape(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, seconds=10)
    recorded.segment(0, 10)
    recorded.segment(10, 12, FIRED)
    recorded.segment(12, 22)
    recorded.segment(22, 24, replace(FIRED, value=None, trigger="signal"))
    first, second = map(Tape, recorded.made)
    assert seconds(first) == list(range(12))
    assert seconds(second) == list(range(12, 24))
    assert flight(describe(second)) == "signal, 12.0 s of the 10 s wanted"


def test_there_are_never_fewer_seconds_than_wanted(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, seconds=10)
    for begin in range(0, 60, 4):
        recorded.segment(begin, begin + 4, FIRED)
    assert len(recorded.made) == 15
    for path in recorded.made[3:]:
        assert 10 <= Tape(path).facts["flight"]["holds_s"] <= 20


def test_where_memory_is_short_the_oldest_segment_goes_early(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.segment(0, 20)
    assert recorded.asked == 0
    one = recorded.flight.bytes
    recorded = Recorded(tmp_path / "small", memory=1.7 * one)
    recorded.segment(0, 20)
    assert recorded.asked == 1  # to make smaller segments
    recorded.segment(20, 40, FIRED)
    assert recorded.flight.bytes <= 1.7 * one
    tape = Tape(recorded.made[0])
    assert seconds(tape) == list(range(20, 40))
    assert flight(describe(tape)) == "extfrag>3/s: 7/s, 20.0 s of the 60 s wanted"


def test_a_segment_that_is_too_big_alone_loses_its_beginning(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.segment(0, 100)
    one = recorded.flight.bytes
    recorded = Recorded(tmp_path / "small", memory=one / 2)
    recorded.segment(0, 100, FIRED)
    tape = Tape(recorded.made[0])
    held = seconds(tape)
    assert 20 < len(held) < 60 and held == list(range(held[0], 100))
    events = tape.table("event")["ts"].to_pylist()
    for row in tape.table("reclaim").to_pylist():
        before = row["at"]
        assert all(ts < row["ts"] for ts in events[:before])
        assert all(ts > row["ts"] for ts in events[before:])
    info = describe(tape)
    assert info["snapshot"] == "none"
    assert [shot["snapshot"] for shot in info["snapshots"]] == [1]
    assert info["events"] == {
        "mm_page_free": tape.num_rows("event"),
        "mm_vmscan_kswapd_wake": tape.num_rows("reclaim"),
    }
    assert tape.facts["flight"]["holds_s"] == pytest.approx(100 - held[0], abs=0.01)
    assert info["lost"] == 0  # the gap was among the dropped events


def test_a_tape_that_cannot_be_made_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "tapes")
    (tmp_path / "tapes").rmdir()
    recorded.segment(0, 2, FIRED)
    assert recorded.made == [] and len(recorded.errors) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_renamed_directory_gets_the_next_tapes(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "tapes")
    (tmp_path / "tapes").rename(tmp_path / "renamed")
    recorded.segment(0, 2, FIRED)
    (made,) = recorded.made
    assert made.parent == tmp_path / "renamed" and is_tape(made)


def test_a_part_tape_of_a_killed_recorder_is_removed(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.segment(0, 2, FIRED)
    recorded.flight.close()
    path = recorded.made[0]
    path.rename(path.with_name(f".{path.name}.0123abcd.part"))  # as tapes/temporary names it
    TapeDir(tmp_path, None).close()
    assert list(tmp_path.iterdir()) == []
