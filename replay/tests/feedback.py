# SPDX-License-Identifier: Apache-2.0
"""Tapes played with reclaim of the model's own (R1), by the oracle and by the engine.

Daemons are woken, but run an hour later: after the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagetape import _replay
from pagetape.schemas import TABLES

from .oracle import KERNELS
from .oracle.feedback import Call, Feedback
from .outcome import Outcome, feed, machine_of, oracle_outcome, outcome_of
from .tapes import Player, Row
from .world import World, fill, tables

HOUR = 3_600_000_000_000
COUNTERS = (
    "slowpath_wake_calls", "kswapd_wakeups", "kcompactd_asked", "direct_reclaims",
    "direct_compactions", "direct_compactions_deferred", "compacted_pages", "would_fail",
)  # fmt: skip
CALLS = {
    "reclaim": ("wakeup_kswapd",),
    "compaction": ("wakeup_kcompactd", "try_to_compact_pages"),
}


def build(world: World, kernel: str, *, defrag_mode: bool = False) -> Feedback:
    """The oracle of a world."""
    machine = Feedback(KERNELS[kernel], world.geometry, defrag_mode=defrag_mode)
    fill(machine, world)
    return machine


class FeedbackPlayer(Player):
    """A player that follows the pages that compaction moves."""

    def __init__(self, machine: Feedback, rows: Sequence[Row]) -> None:
        machine.listeners.append(self.note_move)
        super().__init__(machine, rows, boosts_act=True)

    def note_move(self, pfn: int, to: int, order: int) -> None:
        names = {place: name for name, place in self.pages.items() if place is not None}
        for i in range(1 << order):
            self.pages[names.get(pfn + i, pfn + i)] = to + i


def play_oracle(
    world: World, kernel: str, rows: Sequence[Row], *, defrag_mode: bool = False
) -> tuple[Outcome, dict[str, list[Call]]]:
    """The outcome, and the calls by table."""
    machine = build(world, kernel, defrag_mode=defrag_mode)
    FeedbackPlayer(machine, rows)
    out = oracle_outcome(machine)
    for counter in COUNTERS:
        out.counters[counter] = sum(zone.counters[counter] for zone in machine.zones)
    out.counters["kswapd_wakeups"] = len(machine.kswapds_woken)
    out.counters["kcompactd_asked"] = len(machine.kcompactds_woken)
    return out, {
        table: [call for call in machine.calls if call.kind in kinds]
        for table, kinds in CALLS.items()
    }


def engine_of(
    world: World, kernel: str, *, defrag_mode: bool = False, proactiveness: int = 0
) -> _replay.Replay:
    """The engine of a world."""
    engine = _replay.Replay(
        kernel,
        [],
        reclaim="R1",
        compaction_proactiveness=proactiveness,
        defrag_mode=int(defrag_mode),
        **machine_of(world),
    )
    for name, batch in tables(world).items():
        engine.load(name, batch)
    return engine


def play_engine(
    world: World, kernel: str, rows: Sequence[Row], *, defrag_mode: bool = False
) -> tuple[Outcome, dict[str, list[Call]]]:
    """The same by the engine."""
    engine = engine_of(world, kernel, defrag_mode=defrag_mode)
    engine.load("service", TABLES["service"].batch([{"what": "wake", "ns": HOUR}]))
    outputs = feed(engine, rows)
    out = outcome_of(world, KERNELS[kernel], outputs, engine.totals)
    out.counters |= {counter: engine.totals[counter] for counter in COUNTERS}
    return out, {
        table: [_call(row) for row in outputs[table] if row["kind"] in kinds]
        for table, kinds in CALLS.items()
    }


def _call(row: dict[str, Any]) -> Call:
    return Call(row["kind"], row["node"], row["zone"], row["page_order"])
