# SPDX-License-Identifier: Apache-2.0
"""From a source of events to a tape: what recording and importing share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pagetape._collector import Source
from pagetape.procfs import Proc
from pagetape.schemas.tape import Writer


@dataclass(frozen=True)
class Snapshot:
    """One look at /proc: rows and batches by table."""

    rows: dict[str, list[dict[str, Any]]]
    blocks: dict[str, pa.RecordBatch]

    @classmethod
    def take(cls, proc: Proc, stage: str, number: int, ts: int = 0) -> Snapshot:
        """Look now; the slow part, kpageflags, first."""
        blocks = proc.blocks(stage, number, ts)
        return cls(proc.rows(stage, number, ts), blocks)

    def write(self, tape: Writer) -> None:
        for name, rows in self.rows.items():
            tape.rows(name, rows)
        for name, batch in self.blocks.items():
            tape.write(name, batch)


def known(*facts: dict[str, Any]) -> dict[str, Any]:
    """All facts together; a later one wins, but not by being unknown."""
    return {key: value for some in facts for key, value in some.items() if value is not None}


def write_events(
    source: Source, tape: Writer, progress: Callable[[float], None] = lambda _share: None
) -> None:
    """Everything the source reads, until its end, and what is known only then."""
    while (found := source.read()) is not None:
        tape.write(found[0], pa.record_batch(found[1]))
        progress(source.progress)
    tape.rows("tracepoint", source.tracepoints())
    tape.rows("ring", source.rings())
    tape.rows("lost", source.lost())
    tape.rows("task", source.tasks())
