# SPDX-License-Identifier: Apache-2.0
"""validate through its binding, on tapes that the engine itself made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pagetape import _replay
from pagetape.schemas import TABLES

from .generate import random_world, record
from .oracle import Marks
from .outcome import feed, machine_of
from .tapes import RECLAIM_EVENTS, Row
from .world import World, tables

DECISIONS = {
    "alloc": ("allocs", "alloc_exact"),
    "zone_locked": ("zone_locked", "zone_locked_exact"),
    "refill_size": ("refills", "refill_size_exact"),
    "drain": ("drained", "drained_exact"),
    "drain_size": ("drains", "drain_size_exact"),
    "extfrag": ("extfrag", "extfrag_exact"),
}


def own_tape(world: World, kernel: str, rows: list[Row]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The events the engine makes of requests, and the rows of reclaim that belong to them."""
    engine = _replay.Replay(kernel, [], **machine_of(world))
    for name, batch in tables(world).items():
        engine.load(name, batch)
    outputs = feed(engine, rows)
    events = TABLES["event"].batch(outputs["event"])
    stamps = events.column("ts").to_pylist()
    reclaim_events = [
        row | {"at": sum(ts < row["ts"] for ts in stamps)} for row in outputs["reclaim"]
    ]
    return events, TABLES["reclaim"].batch(reclaim_events)


def validate(
    world: World, kernel: str, events: pa.RecordBatch, reclaim: pa.RecordBatch, checks: str
) -> tuple[_replay.Validate, dict[str, list[dict[str, Any]]]]:
    validation = _replay.Validate(kernel, **machine_of(world), checks=checks)
    for name, batch in tables(world).items():
        validation.load(name, batch)
    validation.load("reclaim", reclaim)
    validation.feed(events)
    validation.finish()
    outputs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    while (part := validation.read()) is not None:
        outputs[part[0]] += pa.record_batch(part[1]).to_pylist()
    return validation, outputs


def test_the_tables_add_up_to_the_totals() -> None:
    here = random_world(3)
    ops = [(n * 37 % 100, n * 7919 % 10000, n * 104729 % 10000) for n in range(600)]
    rows = [row for row in record(here, "6.18", ops).rows if row.event.kind not in RECLAIM_EVENTS]
    validation, outputs = validate(here, "6.18", *own_tape(here, "6.18", rows), "full")
    totals = validation.totals
    assert totals["events"] > 1000
    for decision, (nr, exact) in DECISIONS.items():
        scored = [row for row in outputs["exactness"] if row["decision"] == decision]
        missed = [row for row in outputs["miss"] if row["decision"] == decision]
        assert sum(row["nr"] for row in scored) == totals[nr]
        assert sum(row["exact"] for row in scored) == totals[exact] == totals[nr] - len(missed)
    for cause, nr in totals["repairs"].items():
        assert sum(row["nr"] for row in outputs["repair"] if row["cause"] == cause) == nr


# Worlds of tick_world() with enough pages on a PCP for both ticks.
BOTH_TICKS_DRAIN = {15, 35, 36, 48, 59}


def tick_world(seed: int) -> World:
    """A world without watermarks, whose PCPs may hold 32 pages and shrink at each tick."""
    here = random_world(seed)
    for zone in here.zones:
        zone.below_high = zone.reclaim_active = False
        zone.marks = Marks()
        zone.pcps = [replace(pcp, batch=4, high=32, high_min=4, high_max=1000) for pcp in zone.pcps]
    return here


@pytest.mark.parametrize("seed", range(60))
def test_two_vmstat_ticks_in_a_row_are_two_drains(seed: int) -> None:
    here = tick_world(seed)
    ops = [(60, n * 7919, 0) for n in range(150)] + 2 * [(99, 1, 0)]
    rows = record(here, "6.18", [*ops, (0, 0, 0)], reclaim_events=True).rows
    events, recorded = own_tape(here, "6.18", rows)
    worker = {"pid": 0}  # the task that drains in the engine's own events
    reclaim = TABLES["reclaim"].batch([row | worker for row in recorded.to_pylist()])
    _, outputs = validate(here, "6.18", events, reclaim, "full")
    assert not outputs["miss"]
    assert not outputs["repair"]
    begun = [*reclaim.column("at").to_pylist(), len(events)]
    kinds = events.column("kind").to_pylist()
    drained = [kinds[a:b].count("pcpu_drain") for a, b in pairwise(begun)]
    assert len(drained) == 2
    assert all(drained) == (seed in BOTH_TICKS_DRAIN)


def test_a_check_level_that_is_none_is_refused() -> None:
    here = random_world(0)
    with pytest.raises(_replay.EngineError, match="checks 'some': there are off, cheap, full"):
        _replay.Validate("6.18", **machine_of(here), checks="some")


@pytest.mark.parametrize("kernel", ["5.10", "6.1.192", "6.12.19", "6.18"])
def test_whatever_a_tape_says_the_model_stays_whole(kernel: str) -> None:
    """A quarter of the events name wrong pages: validate repairs the model and checks it."""
    rng = Random(kernel)
    for seed in (0, 1, 2, 39, 109):
        here = random_world(1000 + seed)
        ops = [(rng.randrange(93), rng.randrange(10000), rng.randrange(10000)) for _ in range(60)]
        events, reclaim = own_tape(here, kernel, record(here, kernel, ops).rows)
        rows = [row for row in events.to_pylist() if row["pfn"] is not None]
        for row in rng.sample(rows, len(rows) // 4):
            row["pfn"] = rng.choice(rows)["pfn"]
        hostile = TABLES["event"].batch(rows)
        validation, outputs = validate(here, kernel, hostile, reclaim, "full")
        assert validation.totals["events"] == len(rows)
        assert outputs["miss"]
        assert outputs["repair"]
