# SPDX-License-Identifier: Apache-2.0
"""The run of validate: the engine predicts every decision of a tape, one step ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pagetape import _replay
from pagetape.replaying import replay_span
from pagetape.replaying.engine_run import (
    EngineRun,
    Progress,
    Sink,
    Tables,
    discard,
    event_batches,
    naming,
    preview_batches,
    silent,
    start_tables,
)
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import topology

# Tables beside the snapshot that the run takes as input.
INPUT = ("reclaim", "compaction", "new_limit", "stamp", "list_head")

# Decisions in words, and their totals: recorded, exact and unknown decisions.
DECISIONS = (
    ("allocated pages", "allocs", "alloc_exact", "alloc_unknown"),
    ("pages taken under the zone lock", "zone_locked", "zone_locked_exact", "zone_locked_unknown"),
    ("refill sizes", "refills", "refill_size_exact", "refill_size_unknown"),
    ("drained pages", "drained", "drained_exact", "drained_unknown"),
    ("drain sizes", "drains", "drain_size_exact", "drain_size_unknown"),
    ("fallbacks", "extfrag", "extfrag_exact", "extfrag_unknown"),
)
# Of these, the ones of which a tape of the event set zone has the decisions.
ZONE_DECISIONS = {"zone_locked", "extfrag"}


def _first(spans: list[replay_span.Span], most: int) -> list[replay_span.Span]:
    """The spans, cut `most` rows after their first row."""
    end = (spans[0][0] if spans else 0) + most
    return [(begin, min(until, end)) for begin, until in spans or [(0, end)] if begin < end]


FIRST = 1 << 20  # number of first events by which a run is judged

Judge = Callable[[Mapping[str, Any]], None]  # takes the totals of a run; may raise


def ignore(_batch: pa.RecordBatch) -> None:
    """A reader that has no use for the events."""


def accept(_totals: Mapping[str, Any]) -> None:
    """A judge of every run."""


@dataclass(frozen=True)
class Look:
    """A run that ends `most` events after the start. With `trace`, its `state_trace` has the states
    around one request."""

    most: int
    trace: _replay.TraceConfig | None = None


@dataclass(frozen=True)
class Begin:
    """Tables to load instead of the tape's own. `seen` gets every batch of `event` once.

    `judge` gets the totals after about FIRST events, or after all of a shorter tape. Its error ends
    the run.
    """

    tables: Tables
    seen: Callable[[pa.RecordBatch], object] = ignore
    judge: Judge = accept


def run(
    tape: Tape,
    row: str,
    sink: Sink = discard,
    progress: Progress = silent,
    *,
    look: Look | None = None,
    begin: Begin | None = None,
) -> _replay.Validate:
    """The engine after the run under the rules of `row`; its rows go to `sink`.

    It loads the tape's own tables, or those of `begin`.
    """
    spans, rows = replay_span.spans(tape), tape.num_rows("event")
    if look is not None:
        spans = _first(spans, look.most)
        rows = min(rows, spans[-1][1])
    trace = look.trace if look else None
    engine = _replay.Validate(row, **topology(tape), spans=spans, nr_rows=rows, trace=trace)
    begin = begin or Begin(start_tables(tape, *INPUT))
    validate = EngineRun(engine, tape, begin.tables, sink)
    for batch in preview_batches(tape, rows):
        with naming(tape):
            engine.preview(batch)
    validate.play(_judged(tape, rows, engine, begin), rows, progress)
    if rows <= FIRST:
        begin.judge(engine.totals)
    return engine


def _judged(
    tape: Tape, rows: int, engine: _replay.Validate, begin: Begin
) -> Iterator[pa.RecordBatch]:
    """The batches with the first `rows` rows, for the engine; the judge is asked in between."""
    fed = 0
    for batch in event_batches(tape, rows):
        begin.seen(batch)
        yield batch
        fed += batch.num_rows
        if fed - batch.num_rows < FIRST <= fed < rows:
            begin.judge(engine.totals)
