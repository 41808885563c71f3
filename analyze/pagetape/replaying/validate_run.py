# SPDX-License-Identifier: Apache-2.0
"""Runs the engine one step ahead of a tape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pagetape import _replay
from pagetape.replaying import replay_span
from pagetape.replaying.prefetch import prefetch
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import SNAPSHOT, snapshot_rows, topology

# What a decision is called: how many were recorded, how many were exact.
DECISIONS = (
    ("allocated pages", "allocs", "alloc_exact"),
    ("pages taken under the zone lock", "zone_locked", "zone_locked_exact"),
    ("refill sizes", "refills", "refill_size_exact"),
    ("drained pages", "drained", "drained_exact"),
    ("drain sizes", "drains", "drain_size_exact"),
    ("fallbacks", "extfrag", "extfrag_exact"),
)

Sink = Callable[[str, pa.RecordBatch], None]


def _first(spans: list[replay_span.Span], most: int) -> list[replay_span.Span]:
    """The spans again, up to `most` rows after the first."""
    end = (spans[0][0] if spans else 0) + most
    return [(begin, min(until, end)) for begin, until in spans or [(0, end)] if begin < end]


def _batches(tape: Tape, rows: int) -> Iterator[pa.RecordBatch]:
    """The batches of event that hold the first `rows`."""
    for batch in prefetch(tape.batches("event")):
        yield batch
        rows -= batch.num_rows
        if rows <= 0:
            return


def run(
    tape: Tape,
    row: str,
    sink: Sink,
    progress: Callable[[float], None] = lambda _share: None,
    *,
    most: int | None = None,
    scene: _replay.Scene | None = None,
) -> _replay.Validate:
    """The engine after it has seen the tape, or its first `most` events from the exact start.

    Its rows go to `sink`. With a `scene` it has a witness of that.
    """
    spans, rows = replay_span.spans(tape), tape.num_rows("event")
    if most is not None:
        spans = _first(spans, most)
        rows = min(rows, spans[-1][1])
    engine = _replay.Validate(row, **topology(tape), spans=spans, nr_rows=rows, scene=scene)
    for name in SNAPSHOT:
        for batch in snapshot_rows(tape, name, 0):
            engine.load(name, batch)
    for name in ("reclaim", "compaction"):
        for batch in tape.batches(name):
            engine.load(name, batch)

    def drain() -> None:
        while (found := engine.read()) is not None:
            sink(found[0], pa.record_batch(found[1]))

    for batch in _batches(tape, rows):
        engine.preview(batch)
    fed = 0
    for batch in _batches(tape, rows):
        engine.feed(batch)
        drain()
        fed += batch.num_rows
        progress(fed / rows if rows else 1.0)
    engine.finish()
    drain()
    return engine
