# SPDX-License-Identifier: Apache-2.0
"""The moments at which watermarks and sizes of zones changed during a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagetape.replaying.new_limits import new_limits
from pagetape.schemas.tape import Tape, Writer

Rows = list[dict[str, Any]]

S = 1_000_000_000
RAN = {"cpu": 0, "pid": 1, "flags": 0, "node": 0, "zone": "NORMAL"}


def found(path: Path, kernel: str = "6.18.44", **tables: Rows) -> list[tuple[Any, ...]]:
    """The new limits of a tape as (row, zone, what, value)."""
    with Writer(path, {"kernel": kernel}) as writer:
        for name, rows in tables.items():
            writer.rows(name, rows)
    rows = new_limits(Tape(path)).to_pylist()
    return [(row["at"], row["zone"], row["what"], row["value"]) for row in rows]


def sampled(ts: int, at: int, name: str, value: int, zone: str | None = "NORMAL") -> dict[str, Any]:
    place = {"node": None if zone is None else 0, "zone": zone}
    return {"ts": ts, "at": at, "name": name, "value": value, **place}


def set_marks(ts: int, at: int, low: int) -> dict[str, Any]:
    marks = {"wmark_min": low - 1, "wmark_low": low, "wmark_high": low + 1, "wmark_promo": low + 2}
    return {"ts": ts, "at": at, "kind": "setup_wmarks", **RAN, **marks}


def test_an_event_is_the_moment_of_what_the_next_sample_shows(tmp_path: Path) -> None:
    rows = found(
        tmp_path / "t.tape",
        reclaim=[set_marks(5 * S, 50, 100), set_marks(9 * S, 90, 200)],
        parameter=[
            sampled(6 * S, 60, "managed", 1000),
            sampled(6 * S, 60, "wmark_low", 100),
            sampled(6 * S, 60, "pcp_high_max", 7),
            sampled(10 * S, 100, "managed", 2000),
        ],
    )
    assert rows == [
        (50, "NORMAL", "wmark_min", 99),
        (50, "NORMAL", "wmark_low", 100),
        (50, "NORMAL", "wmark_high", 101),
        (50, "NORMAL", "wmark_promo", 102),
        (50, "NORMAL", "managed", 1000),
        (90, "NORMAL", "wmark_min", 199),
        (90, "NORMAL", "wmark_low", 200),
        (90, "NORMAL", "wmark_high", 201),
        (90, "NORMAL", "wmark_promo", 202),
        (90, "NORMAL", "managed", 2000),
    ]


def test_a_change_without_a_new_event_counts_from_its_sample(tmp_path: Path) -> None:
    rows = found(
        tmp_path / "t.tape",
        reclaim=[set_marks(5 * S, 50, 100)],
        parameter=[
            sampled(6 * S, 60, "managed", 1000),
            sampled(8 * S, 80, "managed", 2000),
            sampled(9 * S, 95, "vm.percpu_pagelist_high_fraction", 8, None),
        ],
    )
    assert rows[-2:] == [(80, "NORMAL", "managed", 2000), (95, "DMA", "high_fraction", 8)]


def test_without_events_the_samples_have_the_marks_and_reserves(tmp_path: Path) -> None:
    parameter = [
        sampled(6 * S, 60, "wmark_low", 100),
        sampled(6 * S, 60, "lowmem_reserve_movable", 9),
    ]
    rows = found(tmp_path / "t.tape", "6.12.1", parameter=parameter)
    assert rows == [(60, "NORMAL", "wmark_low", 100), (60, "NORMAL", "lowmem_reserve", 9)]


def stamped(ts: int, at: int, low: int, zone: str = "NORMAL") -> dict[str, Any]:
    numbers = ("reclaim_active", "boosted_watermark", "free", "vm_stat_diff", "boost")
    marks = {"wmark_min": low - 1, "wmark_low": low, "wmark_high": low + 1}
    others = {"kind": "refill", **RAN, **dict.fromkeys(numbers, 0)}
    return {"ts": ts, "at": at, **others, **marks, "zone": zone}


def test_a_stamp_with_other_marks_is_the_moment_of_the_change(tmp_path: Path) -> None:
    rows = found(
        tmp_path / "t.tape",
        "6.12.1",
        stamp=[
            stamped(1 * S, 10, 100),
            stamped(2 * S, 20, 7, "DMA"),
            stamped(3 * S, 30, 100),
            stamped(4 * S, 40, 200),
            stamped(5 * S, 50, 200),
        ],
        parameter=[sampled(6 * S, 60, "wmark_low", 200), sampled(6 * S, 60, "managed", 5)],
    )
    assert rows == [
        (40, "NORMAL", "wmark_min", 199),
        (40, "NORMAL", "wmark_low", 200),
        (40, "NORMAL", "wmark_high", 201),
        (40, "NORMAL", "wmark_low", 200),
        (40, "NORMAL", "managed", 5),
    ]


def test_rows_without_a_zone_are_no_limits(tmp_path: Path) -> None:
    rows = found(
        tmp_path / "t.tape",
        reclaim=[set_marks(5 * S, 50, 100) | {"zone": None}],
        parameter=[sampled(6 * S, 60, "managed", 5, None)],
    )
    assert not rows


def test_marks_that_contain_a_boost_are_not_limits(tmp_path: Path) -> None:
    """zoneinfo_show_print has the boost beside the marks since 5.16."""
    parameter = [sampled(6 * S, 60, "wmark_low", 100), sampled(6 * S, 60, "managed", 5)]
    for kernel, limits in (("5.10.0", 1), ("5.15.200", 1), ("5.16.0", 2), ("mine", 1)):
        rows = found(tmp_path / f"{kernel}.tape", kernel, parameter=parameter)
        assert rows[-1] == (60, "NORMAL", "managed", 5)
        assert len(rows) == limits, kernel
