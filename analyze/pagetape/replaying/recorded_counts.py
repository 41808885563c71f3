# SPDX-License-Identifier: Apache-2.0
"""The counts of a tape's events, made while a run reads or writes them: the report `metrics` needs
the fallbacks as rows, and of all other events only their numbers.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import recorder_pids

# The tables that replace those of the tape in the report.
SCHEMAS = {name: TABLES[name].arrow for name in ("event", "event_count", "huge_request")}

_EXTFRAG = pa.scalar(TABLES["event"].column("kind").labels.index("alloc_extfrag"), pa.uint8())


class RecordedCounts:
    """Counts of the events of a time span: feed() every batch of `event`."""

    def __init__(self, tape: Tape, span: tuple[int, int]) -> None:
        self._counts = _replay.RecordedCounts(*span, recorder_pids(tape))
        self._fallbacks: list[pa.RecordBatch] = []

    def feed(self, batch: pa.RecordBatch) -> None:
        if self._counts.feed(batch):
            self._fallbacks.append(batch.filter(pc.equal(batch["kind"].indices, _EXTFRAG)))

    def tables(self) -> dict[str, pa.Table]:
        """The tables of SCHEMAS; without rows if the report has to count the events itself."""
        found: dict[str, list[pa.RecordBatch]] = {name: [] for name in SCHEMAS}
        if self._counts.complete:
            found["event"] = self._fallbacks
            while (rows := self._counts.read()) is not None:
                found[rows[0]].append(pa.record_batch(rows[1]))
        return {name: pa.Table.from_batches(found[name], of) for name, of in SCHEMAS.items()}
