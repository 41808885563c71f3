#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast does the engine play a tape?

    replay_bench.py [T.tape] [--json] [--repeat N]

Without a tape, a storm is made: 24 GB of memory, 2 processes on a CPU each; one maps,
touches and unmaps 1 MB at a time, the other 80 MB, so that refills and drains run all
the time. `loop` is the engine alone, without rows of the model's own events; `rows`
writes them; `read` is what reading the same batches costs in pyarrow, a limit of the
same run. Best of N.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape._replay import Replay, kernel_for_release
from pagetape.schemas import GFP_BITS, TABLES
from pagetape.schemas.tape import Tape

_FRAMES = 6 << 20  # 24 GB of 4 KiB pages
_ZONE_START = 1 << 20  # NORMAL begins at 4 GB
_ROUNDS = 40
_REFILL = 64  # pages that lie side by side
_FOLIO_BATCH = 31  # pages the kernel frees at once
_FAULT = sum(  # gfp flags of an anonymous page fault
    1 << GFP_BITS.index(bit)
    for bit in ("HIGHMEM", "MOVABLE", "IO", "FS", "ZERO", "DIRECT_RECLAIM", "KSWAPD_RECLAIM")
)

Row = tuple[int, str, int]  # cpu, kind, pfn


def cycle(cpu: int, pages: int, first: int) -> Iterator[Row]:
    """One process maps, touches and unmaps `pages` pages, one refill here, another there."""
    pfns = [
        _ZONE_START
        + 2048
        + (first + n) // _REFILL * 7919 % (6_000_000 // _REFILL) * _REFILL
        + (first + n) % _REFILL
        for n in range(pages)
    ]
    yield from ((cpu, "alloc", pfn) for pfn in pfns)
    for at in range(0, pages, _FOLIO_BATCH):
        group = pfns[at : at + _FOLIO_BATCH]
        yield from ((cpu, "free", pfn) for pfn in group)
        yield from ((cpu, "free_batched", pfn) for pfn in group)


def storm() -> pa.RecordBatch:
    """One round of both processes, interleaved; every page is free again at its end."""
    large = list(cycle(1, 20480, 0))
    small = [row for n in range(80) for row in cycle(0, 256, 20480 + 256 * n)]
    rows = [row for pair in zip(large, small, strict=False) for row in pair]
    rows += large[len(small) :] + small[len(large) :]
    return TABLES["event"].batch(
        [
            {
                "ts": 1_000_000_000 + 400 * n,
                "cpu": cpu,
                "pid": 1000 + cpu,
                "kind": kind,
                "flags": 0,
                "pfn": pfn,
                "page_order": None if kind == "free_batched" else 0,
                "migratetype": "MOVABLE" if kind == "alloc" else None,
                "gfp_flags": _FAULT if kind == "alloc" else None,
            }
            for n, (cpu, kind, pfn) in enumerate(rows)
        ]
    )


def storms() -> list[pa.RecordBatch]:
    """The same round again and again, later each time."""
    first = storm()
    span = 400 * first.num_rows
    at = first.schema.get_field_index("ts")
    return [
        first.set_column(
            at, first.schema.field(at), pc.add(first["ts"], pa.scalar(n * span, pa.uint64()))
        )
        for n in range(_ROUNDS)
    ]


def empty_machine(events: bool) -> Replay:
    """2 CPUs and one zone, all free."""
    engine = Replay(
        "6.18",
        [],
        nr_cpus=2,
        cpu_nodes=[0, 0],
        node_distances=[[10]],
        pageblock_order=9,
        percpu_pagelist_high_fraction=1000,  # PCPs of 12 MB, without tuning
        events=events,
    )
    zone: dict[str, Any] = {column.name: 0 for column in TABLES["zone"].columns if not column.null}
    zone |= {"zone": "NORMAL", "start_pfn": _ZONE_START, "wmark_min": 14770}
    zone |= {"wmark_low": 20164, "wmark_high": 25558}
    zone |= dict.fromkeys(("spanned", "present", "managed", "free"), _FRAMES)
    blocks = [
        {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "page_order": 10, "pfn": pfn}
        for pfn in range(_ZONE_START + 1024, _ZONE_START + _FRAMES, 1024)
    ]
    engine.load("zone", TABLES["zone"].batch([zone]))
    engine.load("block_guess", TABLES["block_guess"].batch(blocks))
    return engine


def machine_of(tape: Tape, events: bool) -> Replay:
    """The machine of a tape, at its start."""
    facts = tape.facts
    nodes = {cpu: node["id"] for node in facts["nodes"] for cpu in node["cpus"]}
    engine = Replay(
        kernel_for_release(facts["kernel"]),
        [],
        nr_cpus=facts["cpus"],
        cpu_nodes=[nodes.get(cpu, 0) for cpu in range(facts["cpus"])],
        node_distances=[node["distance"] for node in facts["nodes"]],
        pageblock_order=facts["pageblock_order"],
        events=events,
    )
    for name in ("zone", "pcp", "pageblock", "free_block", "pcp_page", "block_guess", "reclaim"):
        if name == "block_guess" and "free_block" in tape.tables:
            continue
        for batch in tape.batches(name):
            engine.load(name, batch)
    return engine


def play(engine: Replay, batches: list[pa.RecordBatch]) -> float:
    """Events a second of the engine's own loop."""
    for batch in batches:
        engine.feed(batch)
        while engine.read() is not None:
            pass
    engine.finish()
    totals = engine.totals
    seconds: float = totals["loop_seconds"]
    return int(totals["events"]) / seconds


def read(batches: list[pa.RecordBatch]) -> float:
    """Events a second at which pyarrow adds up the columns the engine reads."""
    start = time.perf_counter()
    for batch in batches:
        for name in ("ts", "cpu", "pfn", "page_order", "gfp_flags"):
            pc.sum(batch[name])
    seconds = time.perf_counter() - start
    return sum(int(batch.num_rows) for batch in batches) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tape", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    new: Callable[[bool], Replay] = empty_machine
    if arguments.tape:
        tape = Tape(arguments.tape)
        batches = list(tape.batches("event"))

        def new(events: bool) -> Replay:
            return machine_of(tape, events)
    else:
        batches = storms()
    result: dict[str, Any] = {"bench": "replay", "events": sum(b.num_rows for b in batches)}
    result["loop"] = max(play(new(False), batches) for _ in range(arguments.repeat))
    result["rows"] = max(play(new(True), batches) for _ in range(arguments.repeat))
    result["read"] = max(read(batches) for _ in range(arguments.repeat))
    result["ratio"] = result["loop"] / result["read"]
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{result['events']:,} events of {arguments.tape or 'a storm made here'}")
    for name, words in (
        ("loop", "the engine alone"),
        ("rows", "the engine, writing the model's own events"),
        ("read", "pyarrow, adding up the columns the engine reads"),
    ):
        print(f"{result[name] / 1e6:8.2f} M events/s  {words}")
    print(f"{result['ratio']:8.2f} of the speed of reading the batches")


if __name__ == "__main__":
    main()
