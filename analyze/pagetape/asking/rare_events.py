# SPDX-License-Identifier: Apache-2.0
"""The events of a tape that few events are: fallbacks and failed requests."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking.sequence_dataset import Events, KeptDataset, Pass
from pagetape.schemas import TABLES

_EVENT = TABLES["event"]
_ALLOC, _EXTFRAG = map(_EVENT.column("kind").labels.index, ("alloc", "alloc_extfrag"))


class RareEvents(KeptDataset):
    """Fallbacks, and allocations without a page: rows of `event`."""

    names = tuple(column.name for column in _EVENT.columns)
    schema = _EVENT.arrow

    def _begun(self, columns: list[str], most: int) -> Pass:  # noqa: ARG002
        return _Rare(columns)


class _Rare:
    def __init__(self, columns: list[str]) -> None:
        self._columns = columns

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        kind, pfn = events.rows["kind"].indices, events.rows["pfn"]
        rare = pc.equal(kind, _EXTFRAG)
        if pfn.null_count:
            rare = pc.or_(rare, pc.and_(pc.equal(kind, _ALLOC), pc.is_null(pfn)))
        if rare.true_count:
            yield events.rows.select(self._columns).filter(rare)

    def end(self) -> Iterator[pa.RecordBatch]:
        return iter(())
