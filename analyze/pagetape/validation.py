# SPDX-License-Identifier: Apache-2.0
"""Validates the model on a tape: one step ahead of every decision the kernel took.

At every recorded decision the model says what it expects, is scored, and then takes over
what was recorded. So one wrong expectation is one miss, and not the end of all
agreement as it is in a free run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from pagetape import _replay, cut, output
from pagetape.playback import SNAPSHOT, ahead, kernel_row, snapshot_rows, topology
from pagetape.schemas.tape import Tape, Writer

# What a decision is called: how many were recorded, how many were exact.
DECISIONS = (
    ("allocated pages", "allocs", "alloc_exact"),
    ("pages taken under the zone lock", "zone_locked", "zone_locked_exact"),
    ("refill sizes", "refills", "refill_size_exact"),
    ("drained pages", "drained", "drained_exact"),
    ("drain sizes", "drains", "drain_size_exact"),
    ("fallbacks", "extfrag", "extfrag_exact"),
)

# Parts of the end state that are compared: how many the snapshot has, and the model too.
END_STATE = (
    ("free blocks", "free_blocks", "free_blocks_same"),
    ("free blocks with the same next", "free_blocks", "successor_same"),
    ("pages on per-CPU lists", "pcp_pages", "pcp_pages_same"),
    ("pageblock types", "pageblocks", "pageblocks_same"),
)

_END_TABLES = ("zone", "pageblock", "free_block", "pcp_page")


def _drain(engine: _replay.Validate, writer: Writer | None) -> None:
    while (row := engine.read()) is not None:
        if writer is not None:
            writer.write(row[0], pa.record_batch(row[1]))


def _compare_end(engine: _replay.Validate, tape: Tape) -> None:
    """Beside the exact snapshot at the end, if the recording has one."""
    if cut.exact(tape, 1) is None:
        return
    for name in _END_TABLES:
        for batch in snapshot_rows(tape, name, 1):
            engine.compare_end(name, batch)


def validate(
    tape: Tape,
    kernel: str,
    out: Path | None = None,
    *,
    replace: bool = False,
    progress: Callable[[float], None] = lambda _share: None,
) -> dict[str, Any]:
    """The JSON object of `pagetape validate`. With `out`, also a tape of what was found."""
    row = kernel_row(tape, kernel)
    engine = _replay.Validate(row, **topology(tape), spans=cut.spans(tape))
    for name in SNAPSHOT:
        for batch in snapshot_rows(tape, name, 0):
            engine.load(name, batch)
    for name in ("reclaim", "compaction"):
        for batch in tape.batches(name):
            engine.load(name, batch)
    rows = tape.num_rows("event")
    fed = 0
    with contextlib.ExitStack() as stack:
        writer = None
        if out is not None:
            facts = tape.facts | {"validate": {"kernel": row, "tape": tape.path.name}}
            writer = stack.enter_context(output.whole_tape(out, facts, replace=replace))
            for batch in tape.batches("lost"):
                writer.write("lost", batch)
        for batch in ahead(tape.batches("event")):
            engine.feed(batch)
            _drain(engine, writer)
            fed += batch.num_rows
            progress(fed / rows)
        engine.finish()
        _drain(engine, writer)
    _compare_end(engine, tape)
    totals = dict(engine.totals)
    seconds = totals.pop("loop_seconds")
    events = totals.pop("events")
    return {
        "tape": str(tape.path),
        "kernel": row,
        "events": events,
        "events_per_s": events / seconds if seconds else None,
        **totals,
        "first_divergence": engine.first_divergence,
        "end_state": engine.end_state,
        "anomalies": engine.anomalies,
    }
