# SPDX-License-Identifier: Apache-2.0
"""The start of a what-if on a machine that has had the other setting before.

A tape begins with per-CPU lists of the size that its own rules gave them. Under other limits the
kernel's tuning takes seconds and thousands of pages to reach the new size. A what-if of a switch at
the tape's begin has that cost. A run after a warm-up under the other setting, as those of
`pagetape ab` under the value that the machine had before, does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

_LIMITS = ("high_min", "high_max")
_TUNED = ("high", *_LIMITS, "alloc_factor")

List = tuple[int, int, str]  # CPU, node and zone of a per-CPU list


def _lists(rows: list[dict[str, Any]]) -> dict[List, dict[str, Any]]:
    return {(row["cpu"], row["node"], row["zone"]): row for row in rows}


def tuned(start: pa.Table, end: pa.Table) -> pa.Table:
    """The rows of `pcp` at a start, with the sizes of the same lists in `end`, where a list has
    other limits there."""
    after = _lists(end.to_pylist())
    rows = []
    for key, row in _lists(start.to_pylist()).items():
        later = after.get(key, row)
        changed = any(row[name] != later[name] for name in _LIMITS)
        rows.append(row | {name: later[name] for name in _TUNED if changed})
    return pa.Table.from_batches([TABLES["pcp"].batch(rows)])


def warmed(source: Source, run: Run, near: Path, progress: Progress = silent) -> Source:
    """The tape as a source whose per-CPU lists are tuned as a warm-up, the same requests under the
    rules of `run`, leaves them. Scratch files go beside `near`."""
    with output.scratch_dir(near) as directory:
        path = directory / "warm-up.tape"
        play(source, run, NewTape(path, counted=True), progress)
        rows = pa.Table.from_batches(Tape(path).batches("pcp"), TABLES["pcp"].arrow)
    last = rows.filter(pc.equal(rows["snapshot"], pc.max(rows["snapshot"])))
    return source.with_lists(tuned(source.lists, last))
