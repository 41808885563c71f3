# SPDX-License-Identifier: Apache-2.0
"""The reports on per-CPU lists and zone locks, for loads with known answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.replaying import lock_costs
from pagetape.schemas.tape import Tape, TapeError, Writer
from pagetape.tapes.machine import recorder_pids

FACTS = {"cpus": 1, "pageblock_order": 9}
SECOND = 1_000_000_000


def _tape(path: Path, facts: dict[str, Any] | None = None, **tables: list[dict[str, Any]]) -> Tape:
    with Writer(path, FACTS | (facts or {})) as tape:
        for name, rows in tables.items():
            tape.rows(name, rows)
    return Tape(path)


def _ask(report: str, *tapes: Tape, **values: Any) -> list[dict[str, Any]]:
    with Database(tapes) as db:
        return db.run(query.reports()[report], values).objects()


def _event(ts: int, kind: str, **columns: Any) -> dict[str, Any]:
    event = {"ts": ts, "cpu": 0, "pid": 1, "kind": kind, "flags": 0, "pfn": 1, "page_order": 0}
    return event | {"migratetype": "MOVABLE" if kind != "free" else None} | columns


def _wave(pages: int, periods: int) -> Iterator[dict[str, Any]]:
    """A triangle: `pages` taken and given back, once a second."""
    step = SECOND // (2 * pages)
    for i in range(2 * pages * periods):
        kind = "alloc" if i % (2 * pages) < pages else "free"
        yield _event(i * step, kind)


def _pcp(high_min: int, high_max: int) -> dict[str, Any]:
    limits = {"high": high_min, "high_min": high_min, "high_max": high_max}
    return {"snapshot": 0, "ts": 0, "cpu": 0, "node": 0, "zone": "NORMAL", "count": 0} | (
        {"batch": 63} | limits
    )


def test_a_wave_swings_by_its_pages_in_its_period(tmp_path: Path) -> None:
    tape = _tape(tmp_path / "t.tape", event=list(_wave(100, 10)), pcp=[_pcp(50, 200)])
    rows = {row["window_s"]: row for row in _ask("alloc_patterns", tape)}
    assert rows[1]["mean_pages"] == rows[1]["most_pages"] == 100
    assert rows[1]["windows"] == rows[1]["class_2"] == 10
    assert rows[5]["most_pages"] == 100
    assert rows[0.5]["most_pages"] == 0  # it only rises, or only falls


@pytest.mark.parametrize(("high_min", "high_max", "kind"), [(100, 200, 1), (50, 99, 3)])
def test_a_swing_is_of_the_class_of_the_list_that_holds_it(
    high_min: int, high_max: int, kind: int, tmp_path: Path
) -> None:
    tape = _tape(tmp_path / "t.tape", event=list(_wave(100, 4)))
    row = next(
        row
        for row in _ask("alloc_patterns", tape, high_min=high_min, high_max=high_max)
        if row["window_s"] == 1
    )
    assert [row[f"class_{n}"] for n in (1, 2, 3)] == [4 * (n == kind) for n in (1, 2, 3)]


def _taken(pages: int) -> list[dict[str, Any]]:
    return [_event(i, "alloc_zone_locked", percpu_refill=True) for i in range(pages)]


def test_traffic_is_in_percent_of_the_first_tape(tmp_path: Path) -> None:
    fixed = _tape(tmp_path / "fixed.tape", event=_taken(50))
    tuned = _tape(tmp_path / "auto.tape", event=_taken(10))
    rows = _ask("pcp.traffic", fixed, tuned)
    assert [(row["tape"], row["taken"], row["traffic"]) for row in rows] == [
        ("fixed", 50, 100),
        ("auto", 10, 20),
    ]


def test_lists_that_take_more_than_is_allocated_recycle_nothing(tmp_path: Path) -> None:
    counts = {0: (2, 3), 1: (4, 1), 2: (1, 0)}  # by CPU: allocations, and blocks that lists took
    events = [
        _event(0, kind, cpu=cpu)
        for cpu, both in counts.items()
        for kind, nr in zip(("alloc", "alloc_zone_locked"), both, strict=True)
        for _ in range(nr)
    ]
    rows = _ask("pcp.by_cpu", _tape(tmp_path / "t.tape", event=events))
    assert [row["recycled_percent"] for row in rows] == [0, 75, None]


def _machine_with_runs() -> list[dict[str, Any]]:
    """300 ns from page to page of a refill, 350 of a drain; tracing takes 200 at most."""
    events = [_event(1000 + 300 * i, "alloc_zone_locked", percpu_refill=True) for i in range(9)]
    events += [_event(10_000 + 350 * i, "pcpu_drain") for i in range(9)]
    events += [_event(20_000 + 200 * i, "free_batched") for i in range(9)]
    return events


def test_hold_times_are_fitted_without_what_tracing_costs(tmp_path: Path) -> None:
    tape = _tape(tmp_path / "t.tape", event=_machine_with_runs())
    rows = _ask("zone_lock.fit", tape)
    assert [(row["what"], row["runs"], row["net_ns"]) for row in rows] == [
        ("take", 1, 100),
        ("give", 1, 150),
    ]
    assert lock_costs.fitted(tape, "zone_lock:profile=tape,give_ps=7") == (
        "zone_lock:profile=tape,give_ps=7,take_ps=100000,take_block_ps=100000,give_block_ps=150000"
    )


def test_a_profile_that_needs_no_tape_is_left_alone(tmp_path: Path) -> None:
    tape = _tape(tmp_path / "t.tape")
    for spec in ("zone_lock", "zone_lock:profile=icx", "pcp:mode=fixed"):
        assert lock_costs.fitted(tape, spec) == spec
    with pytest.raises(TapeError, match=r"too few refills and drains for a fit; give take_ps,"):
        lock_costs.fitted(tape, "zone_lock:profile=tape")


def test_a_refill_run_begins_with_an_order_that_a_list_has(tmp_path: Path) -> None:
    """The recorder's own writes of order 4 and 5 were 39 % of the refill runs of a recording."""
    steps = ((0, 2), (3, 1), (4, 1), (9, 1), (0, 1))  # an order, and pages taken before its alloc
    events = []
    for order, taken in steps:
        for kind in [*["alloc_zone_locked"] * taken, "alloc"]:
            events.append(_event(len(events), kind, page_order=order))
    counted = [
        {
            "kind": "alloc_zone_locked",
            "page_order": order,
            "events": nr,
            "without_page": 0,
            "runs": nr,
        }
        for order, nr in ((0, 2), (3, 1), (4, 1), (9, 1))
    ]
    for name, tables in {"rows": {"event": events}, "counts": {"event_count": counted}}.items():
        metrics = _ask("metrics", _tape(tmp_path / f"{name}.tape", **tables))
        assert [row["value"] for row in metrics if row["metric"] == "refill runs"] == [4]


def test_the_requests_of_the_recorder_are_no_metric(tmp_path: Path) -> None:
    """The recorder writes each event, so its requests depend on what the tape records."""
    load, recorder, late = 100, 7, 9
    steps = ((load, 2), (recorder, 8), (load, 0), (late, 8), (load, 1))
    events = []
    for pid, taken in steps:
        for kind in [*["alloc_zone_locked"] * taken, "alloc"]:
            events.append(_event(len(events), kind, pid=pid))
    counted = [
        {
            "kind": kind,
            "page_order": 0,
            "events": nr,
            "without_page": 0,
            "runs": runs,
            "recorder": own,
        }
        for kind, nr, runs, own in (
            ("alloc", 3, None, False),
            ("alloc", 2, None, True),
            ("alloc_zone_locked", 3, 2, False),
            ("alloc_zone_locked", 16, 2, True),
        )
    ]
    tasks = [
        {"pid": pid, "tgid": tgid, "comm": "x"}
        for pid, tgid in ((load, load), (recorder, recorder), (late, recorder), (11, None))
    ]
    wanted = {"allocs": 3, "pages taken under the zone lock": 3, "refill runs": 2}
    for name, tables in {"rows": {"event": events}, "counts": {"event_count": counted}}.items():
        facts = {"recorder_pid": recorder}
        tape = _tape(tmp_path / f"{name}.tape", facts, task=tasks, **tables)
        metrics = {row["metric"]: row["value"] for row in _ask("metrics", tape)}
        assert {metric: metrics[metric] for metric in wanted} == wanted
        assert recorder_pids(tape) == {recorder, late}
