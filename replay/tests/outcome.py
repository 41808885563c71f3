# SPDX-License-Identifier: Apache-2.0
"""The outcome of a run by the oracle or the engine, and the first difference of two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from pagetape import _replay
from pagetape.schemas import GFP_BITS, TABLES

from .oracle import KERNELS, MOVABLE, Event, Kernel, Machine
from .oracle.pcp import Pcp
from .tapes import KSWAPD, RECLAIM_EVENTS, Row
from .world import World, tables

COUNTERS = (
    "allocs", "alloc_pages", "frees", "free_pages", "pcp_hits", "refills", "refill_pages",
    "drains", "drain_pages", "decays", "decay_pages",
    "fallback_claim", "fallback_steal", "fallback_whole", "boost_asks", "buddy_frees",
    "nofragment_retries", "lower_zone", "remote_node", "below_low", "below_min", "failed",
)  # fmt: skip

# What the lists of one (CPU, zone) have, by the kernel's tuning.
PCP_NUMBERS = {
    "fixed": ("count",),
    "free_factor": ("count", "free_factor"),
    "auto": ("count", "high", "alloc_factor", "free_count", "prev_free_high_order"),
}


@dataclass
class Outcome:
    """Events and end state of a run, in a form that both models have."""

    events: list[Event]
    free: dict[tuple[int, int, str], list[int]]  # (zone, order, migratetype) -> pfns
    pcp_pages: dict[tuple[int, int, int, str], list[int]]  # (zone, cpu, order, migratetype)
    blocks: dict[tuple[int, int], str]  # (zone, pfn) -> migratetype
    pcps: dict[tuple[int, int], tuple[int | None, ...]]  # (zone, cpu) -> its numbers
    zones: dict[int, tuple[Any, ...]]
    counters: dict[str, int]


def difference(expected: Outcome, got: Outcome) -> str:
    """The first difference as text; empty if there is none."""
    for number, (event, other) in enumerate(zip(expected.events, got.events, strict=False)):
        if event != other:
            before = "".join(f"  {e}\n" for e in expected.events[max(number - 5, 0) : number])
            return f"after\n{before}expected {event}\ngot      {other}"
    if len(expected.events) != len(got.events):
        return f"expected {len(expected.events)} events, got {len(got.events)}"
    for what in fields(Outcome)[1:]:
        ours, theirs = getattr(expected, what.name), getattr(got, what.name)
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                return f"{what.name} {key}: expected {ours.get(key)}, got {theirs.get(key)}"
    return ""


def oracle_outcome(machine: Machine) -> Outcome:
    out = Outcome(machine.trace.events, {}, {}, {}, {}, {}, {})
    for number, zone in enumerate(machine.zones):
        buddy = zone.buddy
        out.free |= {(number, *key): pfns for key, pfns in buddy.lists.items() if pfns}
        out.blocks |= {
            (number, block << buddy.pageblock_order): migratetype
            for block, migratetype in buddy.block_types.items()
        }
        for pcp in zone.pcps:
            out.pcps[number, pcp.cpu] = tuple(
                getattr(pcp, name) for name in PCP_NUMBERS[zone.kernel.tuning]
            )
            for index, entries in enumerate(pcp.lists):
                if entries:
                    out.pcp_pages[number, pcp.cpu, *_list_key(zone.kernel, index, pcp)] = entries
        out.zones[number] = (
            buddy.free_pages(),
            zone.reserved_highatomic,
            zone.below_high,
            zone.boost,
        )
    for counter in COUNTERS:
        out.counters[counter] = sum(zone.counters[counter] for zone in machine.zones)
    return out


def _list_key(kernel: Kernel, index: int, pcp: Pcp) -> tuple[int, str]:
    if kernel.mixed_list:
        return 0, ""
    order = pcp.order_of(index)
    if index < pcp.low_lists:
        return order, pcp.list_type(index)
    types = {1: ("",), 2: ("", MOVABLE), 3: kernel.pcp_types}[kernel.thp_lists]
    return order, types[index - pcp.low_lists]


def _shared_list_key(kernel: Kernel, order: int, migratetype: str) -> tuple[int, str]:
    """Pages of several types may share a list."""
    if kernel.mixed_list:
        return 0, ""
    shared = {1: True, 2: migratetype != MOVABLE}.get(kernel.thp_lists, False)
    return order, "" if order > kernel.pcp_max_order and shared else migratetype


# The engine


def play(
    world: World,
    kernel: str,
    rows: Sequence[Row],
    *,
    policies: Sequence[str] = (),
    batch_rows: int = 1000,
    **given: Any,
) -> Outcome:
    """The engine's outcome of a tape. `given` is for the engine."""
    engine = _replay.Replay(kernel, policies, **machine_of(world), **given)
    for name, batch in tables(world).items():
        engine.load(name, batch)
    outputs = feed(engine, rows, batch_rows=batch_rows)
    unserved = sum(1 for row in outputs["anomaly"] if row["kind"] == "no_free_page")
    assert len(outputs["anomaly"]) == unserved, outputs["anomaly"][:3]
    return outcome_of(world, KERNELS[kernel], outputs, engine.totals)


def feed(
    engine: _replay.Replay, rows: Sequence[Row], *, batch_rows: int = 1000
) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables that the engine makes of a tape; its input's of reclaim, if the
    engine has none of its own."""
    events: list[dict[str, Any]] = []
    reclaim_events: list[dict[str, Any]] = []
    for row in rows:
        if row.event.kind in RECLAIM_EVENTS:
            reclaim_events.append(_reclaim_row(row, at=len(events)))
        else:
            events.append(_event_row(row))
    engine.load("reclaim", TABLES["reclaim"].batch(reclaim_events))
    outputs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for begin in range(0, len(events), batch_rows):
        engine.feed(TABLES["event"].batch(events[begin : begin + batch_rows]))
        _collect(engine, outputs)
    engine.finish()
    _collect(engine, outputs)
    outputs["reclaim"] = outputs["reclaim"] or reclaim_events
    return outputs


def machine_of(world: World) -> dict[str, Any]:
    """The machine, as the engine takes it."""
    return {
        "nr_cpus": len(world.geometry.cpu_nodes),
        "cpu_nodes": world.geometry.cpu_nodes,
        "node_distances": world.geometry.node_distances,
        "pageblock_order": world.geometry.pageblock_order,
        "max_order": world.geometry.max_order,
    }


def _event_row(row: Row) -> dict[str, Any]:
    gfp = sum(1 << GFP_BITS.index(bit) for bit in row.gfp)
    return row.event._asdict() | {
        "ts": row.ts,
        "pid": 1,
        "flags": 0,
        "gfp_flags": gfp if row.event.kind == "alloc" else None,
    }


def _reclaim_row(row: Row, *, at: int) -> dict[str, Any]:
    where = row.event.cpu
    kswapd = row.event.kind != "vmstat_update"
    return {
        "ts": row.ts,
        "cpu": 0 if kswapd else where,
        "pid": KSWAPD + where if kswapd else 1,
        "flags": 0,
        "at": at,
        "kind": row.event.kind,
        "node": where if kswapd else None,
        "zone": row.zone,
    }


def _collect(engine: _replay.Replay, outputs: dict[str, list[dict[str, Any]]]) -> None:
    while (part := engine.read()) is not None:
        outputs[part[0]] += pa.record_batch(part[1]).to_pylist()


def outcome_of(
    world: World,
    kernel: Kernel,
    outputs: dict[str, list[dict[str, Any]]],
    totals: dict[str, Any],
) -> Outcome:
    out = Outcome([], defaultdict(list), defaultdict(list), {}, {}, {}, {})
    for row in outputs["event"]:
        out.events.append(Event(**{name: row[name] for name in Event._fields}))
    number = {(z.node, z.name): i for i, z in enumerate(world.zones)}
    for row in outputs["free_block"]:
        key = number[row["node"], row["zone"]], row["page_order"], row["migratetype"]
        out.free[key].append(row["pfn"])
    for row in outputs["pcp_page"]:
        listed = _shared_list_key(kernel, row["page_order"], row["migratetype"])
        out.pcp_pages[number[row["node"], row["zone"]], row["cpu"], *listed].append(row["pfn"])
    for row in outputs["pageblock"]:
        out.blocks[number[row["node"], row["zone"]], row["pfn"]] = row["migratetype"]
    for row in outputs["pcp"]:
        numbers = row | {"prev_free_high_order": bool((row["flags"] or 0) & 1)}
        out.pcps[number[row["node"], row["zone"]], row["cpu"]] = tuple(
            numbers[name] for name in PCP_NUMBERS[kernel.tuning]
        )
    for row in outputs["zone"]:
        reserved = (kernel.highatomic_reserve and row["nr_reserved_highatomic"]) or 0
        out.zones[number[row["node"], row["zone"]]] = (
            row["free"], reserved, kernel.below_high and bool(row["below_high"]), row["boost"] or 0,
        )  # fmt: skip
    out.counters = {counter: totals[counter] for counter in COUNTERS}
    return out
