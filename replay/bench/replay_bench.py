#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast does the engine play a tape?

    replay_bench.py [T.tape] [--repeat N]

Without a tape, the benchmark makes a storm on 24 GB of memory. Two processes, each on its
own CPU, map, touch and unmap pages: one 1 MB at a time, the other 80 MB, so that the PCP
refills and drains all the time. Figures are per second of CPU time, so that other work on
the machine costs only its share of the caches. They are medians of N rounds; each round
runs every measurement once. Prints one JSON object:

  loop      a free run, the engine alone, without rows of the model's own events
  rows      a free run that writes those rows
  validate  validate on those rows
  chase     a limit: random page frames, each step waiting for the one before
  read      a limit: pyarrow adds up the columns that the engine reads
  fifo      a peer: libCacheSim's FIFO cache on the tape's pages (pip install libcachesim)
"""

import argparse
import importlib
import json
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape._replay import Replay, Validate, kernel_for_release
from pagetape.schemas import GFP_BITS, TABLES
from pagetape.schemas.tape import Tape

_FRAMES = 6 << 20  # 24 GB of 4 KiB pages
_ZONE_START = 1 << 20  # NORMAL begins at 4 GB
_ROUNDS = 40
_REFILL = 64  # pages that lie side by side
_FOLIO_BATCH = 31  # pages the kernel frees at once
_CHASE = Path(__file__).parents[2] / "build/release/replay/replay_bench_latency"
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


def all_free() -> dict[str, pa.RecordBatch]:
    """The snapshot of one zone, all free."""
    zone: dict[str, Any] = {column.name: 0 for column in TABLES["zone"].columns if not column.null}
    zone |= {"zone": "NORMAL", "start_pfn": _ZONE_START, "wmark_min": 14770}
    zone |= {"wmark_low": 20164, "wmark_high": 25558}
    zone |= dict.fromkeys(("spanned", "present", "managed", "free"), _FRAMES)
    blocks = [
        {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "page_order": 10, "pfn": pfn}
        for pfn in range(_ZONE_START + 1024, _ZONE_START + _FRAMES, 1024)
    ]
    return {
        name: TABLES[name].batch(rows) for name, rows in (("zone", [zone]), ("block_guess", blocks))
    }


_MACHINE: dict[str, Any] = {
    "nr_cpus": 2,
    "cpu_nodes": [0, 0],
    "node_distances": [[10]],
    "pageblock_order": 9,
    "percpu_pagelist_high_fraction": 1000,  # PCPs of 12 MB, without tuning
}


def empty_machine(events: bool) -> Replay:
    """2 CPUs and one zone, all free."""
    engine = Replay("6.18", [], **_MACHINE, events=events)
    for name, rows in all_free().items():
        engine.load(name, rows)
    return engine


def foresee(batches: list[pa.RecordBatch]) -> float:
    """Events a second of validate, on the events that the model makes of the storm."""
    model, engine = empty_machine(True), Validate("6.18", **_MACHINE)
    for name, rows in all_free().items():
        engine.load(name, rows)
    for batch in batches:
        model.feed(batch)
        while (found := model.read()) is not None:
            if found[0] == "event":
                engine.feed(pa.record_batch(found[1]))
            while engine.read() is not None:
                pass
    engine.finish()
    return speed(engine)


def speed(engine: Replay | Validate) -> float:
    """Events a second of the engine's own loop."""
    seconds: float = engine.totals["loop_seconds"]
    return int(engine.totals["events"]) / seconds


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
    return speed(engine)


def read(batches: list[pa.RecordBatch]) -> float:
    """Events a second at which pyarrow adds up the columns the engine reads."""
    start = time.process_time()
    for batch in batches:
        for name in ("ts", "cpu", "pfn", "page_order", "gfp_flags"):
            pc.sum(batch[name])
    seconds = time.process_time() - start
    return sum(int(batch.num_rows) for batch in batches) / seconds


def chase(frames: int) -> float | None:
    """Dependent random steps a second over as many page frames; None if it is not built."""
    if not _CHASE.exists():
        return None
    ran = subprocess.run([_CHASE, str(frames)], capture_output=True, text=True, check=True)
    return float(ran.stdout)


class Fifo:
    """libCacheSim's simplest cache: every alloc and free asks for its page."""

    _RECORD = struct.Struct("<IQIq")  # oracleGeneral: time, object, size, next access

    def __init__(self, batches: list[pa.RecordBatch], directory: Path) -> None:
        self._sim: Any = importlib.import_module("libcachesim")
        self._trace = directory / "pages.oracleGeneral"
        self._requests = 0
        self._pages: set[int] = set()
        with self._trace.open("wb") as file:
            for batch in batches:
                asked = batch.filter(pc.is_valid(batch["page_order"]))
                asked = asked.filter(pc.is_in(asked["kind"], pa.array(["alloc", "free"])))
                pages = [pfn for pfn in asked["pfn"].to_pylist() if pfn is not None]
                file.write(b"".join(self._RECORD.pack(0, pfn, 1, -1) for pfn in pages))
                self._requests += len(pages)
                self._pages.update(pages)

    def run(self) -> float:
        """Requests a second, in a cache that holds every page."""
        reader = self._sim.TraceReader(
            str(self._trace), trace_type=self._sim.TraceType.ORACLE_GENERAL_TRACE
        )
        cache = self._sim.FIFO(cache_size=len(self._pages) + 1)
        start = time.process_time()
        cache.process_trace(reader)
        return self._requests / (time.process_time() - start)


def fifo(batches: list[pa.RecordBatch], directory: Path) -> Fifo | None:
    try:
        return Fifo(batches, directory)
    except ImportError:
        return None


_WORDS = {
    "loop": "events of a free run, the engine alone",
    "rows": "events of a free run that writes its own events",
    "validate": "events of validate, one step ahead of the model's own events",
    "chase": "steps from page frame to page frame at random (a limit)",
    "read": "events of pyarrow, adding up the columns that the engine reads (a limit)",
    "fifo": "requests of libCacheSim's FIFO cache (a peer)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tape", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="replay-bench-") as directory:
        result = measure(arguments.tape, arguments.repeat, Path(directory))
    rates = {name: result.pop(name) for name in _WORDS}
    rows = [
        {"per second of CPU time": words, "M/s": rate and rate / 1e6}
        | {"a free run is, times": rate and rates["loop"] / rate}
        for rate, words in zip(rates.values(), _WORDS.values(), strict=True)
    ]
    print(json.dumps(result | {"speed": rows}))


def measure(path: Path | None, repeat: int, directory: Path) -> dict[str, Any]:
    """Events a second by name, medians; None for what cannot be measured here."""
    frames = _FRAMES
    new: Callable[[bool], Replay] = empty_machine
    if path:
        tape = Tape(path)
        batches = list(tape.batches("event"))
        frames = sum(zone["spanned"] for zone in tape.table("zone").to_pylist())

        def new(events: bool) -> Replay:
            return machine_of(tape, events)
    else:
        batches = storms()
    peer = fifo(batches, directory)
    measurements: dict[str, Callable[[], float | None]] = {
        "loop": lambda: play(new(False), batches),
        "rows": lambda: play(new(True), batches),
        "validate": lambda: None if path else foresee(batches),
        "chase": lambda: chase(frames),
        "read": lambda: read(batches),
        "fifo": peer.run if peer else lambda: None,
    }
    rounds = [{name: run() for name, run in measurements.items()} for _ in range(repeat)]
    result: dict[str, Any] = {"bench": "replay", "events": sum(b.num_rows for b in batches)}
    result |= {"frames": frames, "repeat": repeat}
    for name in measurements:
        known = [figure for one in rounds if (figure := one[name]) is not None]
        result[name] = median(known) if known else None
    return result


if __name__ == "__main__":
    main()
