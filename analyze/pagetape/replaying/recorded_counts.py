# SPDX-License-Identifier: Apache-2.0
"""The counts of a recording's events, made while a run reads them: the report `metrics` needs the
fallbacks as rows, and of all other events only their numbers.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay
from pagetape.asking.database import Database
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import recorder_pids

# The tables that replace those of the recording in the report.
SCHEMAS = {name: TABLES[name].arrow for name in ("event", "event_count", "huge_request")}


class RecordedCounts:
    """Counts of the events in the time span that a replay covers: feed() every batch of `event`."""

    def __init__(self, tape: Tape) -> None:
        with Database([tape], threads=1) as db:
            (span,) = db.ask("SELECT since, until FROM played").objects()
        pids = recorder_pids(tape)
        self._counts = _replay.RecordedCounts(span["since"], span["until"], pids)
        self._fallbacks: list[pa.RecordBatch] = []

    def feed(self, batch: pa.RecordBatch) -> None:
        if self._counts.feed(batch):
            self._fallbacks.append(batch.filter(pc.equal(batch["kind"], "alloc_extfrag")))

    def tables(self) -> dict[str, pa.Table]:
        """The tables of SCHEMAS; without rows if the report has to count the events itself."""
        found: dict[str, list[pa.RecordBatch]] = {name: [] for name in SCHEMAS}
        if self._counts.complete:
            found["event"] = self._fallbacks
            while (rows := self._counts.read()) is not None:
                found[rows[0]].append(pa.record_batch(rows[1]))
        return {name: pa.Table.from_batches(found[name], of) for name, of in SCHEMAS.items()}
