# SPDX-License-Identifier: Apache-2.0
"""Samples in the order of the events."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape.numa_maps import Processes
from pagetape.recording.sampling import Placed, Sampling, _Packed
from pagetape.sampler import Reading, Sample
from pagetape.schemas import TABLES


class Taken(Sampling):
    """Samples that were taken at these times."""

    def __init__(self, *times: int) -> None:
        super().__init__(0, lambda _: None)
        for ts in times:
            row = {"began": ts - 1, "ts": ts, "name": "n", "node": None, "zone": None, "value": ts}
            free = {"began": ts - 1, "ts": ts, "node": 0, "zone": "NORMAL", "page_order": 0}
            rows = {
                "parameter": [row | {"cpu": None}],
                "sample": [row],
                "free_count": [free | {"nr_free": ts}],
            }
            self._readings.append(_Packed.of(Reading(ts, rows)))


class Rows:
    """A sink that stores its rows."""

    def __init__(self) -> None:
        self.events = 0
        self.found: dict[str, list[tuple[int, int]]] = {
            "parameter": [],
            "sample": [],
            "free_count": [],
        }

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        assert name == "event"
        self.events += batch.num_rows

    def rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        assert TABLES[name].batch(rows).num_rows
        self.found[name] += [(row["ts"], row["at"]) for row in rows]


def events(*times: int) -> pa.RecordBatch:
    common = {"cpu": 0, "pid": 1, "flags": 0, "kind": "free"}
    return TABLES["event"].batch([common | {"ts": ts} for ts in times])


def test_a_sample_stands_after_the_events_up_to_its_time() -> None:
    sink = Rows()
    placed = Placed(sink, Taken(5, 20, 21, 35, 60, 90))
    placed.write("event", events(10, 20, 30))
    placed.write("event", events(40, 50))
    placed.end(70)
    expected = [(5, 0), (20, 2), (21, 2), (35, 3), (60, 5)]
    assert sink.found == dict.fromkeys(("parameter", "sample", "free_count"), expected)
    placed.write("event", events(80, 100))  # of the next segment
    placed.end(100)
    assert sink.found["sample"] == [*expected, (90, 1)]
    assert sink.events == 7


def test_a_segment_without_events_has_samples_all_the_same() -> None:
    sink = Rows()
    placed = Placed(sink, Taken(5, 6))
    placed.end(5)
    placed.end(100)
    assert sink.found["parameter"] == [(5, 0), (6, 0)]


def test_samples_are_taken_until_the_end_and_at_the_end() -> None:
    seen: list[Sample] = []
    sampling = Sampling(0.01, seen.append)
    sampling.start()
    while len(seen) < 2:
        time.sleep(0.01)
    sampling.close()
    taken = sampling.until(1 << 63)
    of_seen = [reading for sample in seen for reading in sample.readings]
    assert taken[: len(of_seen)] == of_seen
    assert taken[-1].ts > of_seen[-1].ts
    assert sampling.until(1 << 63) == []


def test_a_segment_ends_with_a_sample_and_the_next_begins_with_all_counters() -> None:
    sampling = Sampling(3600, lambda _: None)
    sampling.start()
    with sampling.cut():
        began = time.monotonic_ns()
    sampling.close()  # the last sample: the only one of the second segment
    found: dict[bool, set[str]] = {False: set(), True: set()}
    for reading in sampling.until(1 << 63):
        found[reading.ts > began] |= {row["name"] for row in reading.rows.get("sample", ())}
    names = {"nr_free_pages", "pgfault", "oom_kill", "free"}  # the third does not change
    assert names <= found[False] and names <= found[True]


def test_an_interval_of_0_takes_no_samples() -> None:
    sampling = Sampling(0, lambda _: None)
    sampling.start()
    assert not sampling.is_alive()
    with sampling.cut():
        pass
    sampling.close()
    assert sampling.until(1 << 63) == []


def test_policies_of_processes_are_asked_once_in_each_segment(tmp_path: Path) -> None:
    def process(pid: int, policy: str) -> None:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "numa_maps").write_text(f"7f00 {policy} anon=1\n7f01 {policy}\n")
        (tmp_path / str(pid) / "status").write_text("Name:\tx\nMems_allowed_list:\t0-1\n")

    class Asked(Sampling):
        """Policies on request."""

        look = Sampling._look

    class Policies(Rows):
        def __init__(self) -> None:
            super().__init__()
            self.policies: list[list[dict[str, Any]]] = []

        def rows(self, name: str, rows: list[dict[str, Any]]) -> None:
            if name == "memory_policy":
                self.policies.append(rows)
            else:
                super().rows(name, rows)

    sink, sampling = Policies(), Asked(0, lambda _: None, Processes(tmp_path))
    placed = Placed(sink, sampling)
    process(7, "default")
    process(12, "bind:1")
    sampling.look()
    placed.write("event", events(1))
    sampling.look()
    process(8, "prefer (many):0-1")
    (tmp_path / "9").mkdir()  # a kernel thread
    sampling.look()
    placed.end(10**18)
    seven, eight, twelve = (
        {"pid": pid, "policy": policy, "cpuset": "0-1"}
        for pid, policy in ((7, "default"), (8, "prefer (many):0-1"), (12, "bind:1"))
    )
    assert sink.policies == [[seven, twelve], [eight]]
    with sampling.cut():
        pass
    sampling.look()
    placed.end(2 * 10**18)
    assert sink.policies[2:] == [[seven, eight, twelve]]
    sampling.close()
