# SPDX-License-Identifier: Apache-2.0
"""Few events of a tape that many queries want: rows of `event`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking.sequence_dataset import Events, KeptDataset, Pass
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

_EVENT = TABLES["event"]
# Of the type of the indices: pyarrow would convert these otherwise.
_ALLOC, _EXTFRAG = (
    pa.scalar(_EVENT.column("kind").labels.index(label), pa.uint8())
    for label in ("alloc", "alloc_extfrag")
)


class RareEvents(KeptDataset):
    """Fallbacks, allocations without a page, and events near snapshots.

    An event is near a snapshot if it lies between the readings of the lists and of the page flags.
    """

    names = tuple(column.name for column in _EVENT.columns)
    schema = _EVENT.arrow

    def reads(self, columns: list[str]) -> Collection[str]:
        return {"ts", "kind", "pfn", *columns}

    def _begun(self, columns: list[str], most: int) -> Pass:  # noqa: ARG002
        return _Rare(columns, _near(self.tape))


def _near(tape: Tape) -> list[tuple[int, int]]:
    """The first and the last time between the readings of each snapshot."""
    rows = tape.table("pageblock").select(["ts", "flags_ts"])
    rows = rows.filter(pc.is_valid(rows["flags_ts"])).group_by(["ts", "flags_ts"]).aggregate([])
    return [(min(times), max(times)) for times in zip(*rows.to_pydict().values(), strict=True)]


class _Rare:
    def __init__(self, columns: list[str], near: list[tuple[int, int]]) -> None:
        self._columns, self._near = columns, near

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        kind, pfn = events.rows["kind"].indices, events.rows["pfn"]
        rare = pc.equal(kind, _EXTFRAG)
        if pfn.null_count:
            rare = pc.or_(rare, pc.and_(pc.is_null(pfn), pc.equal(kind, _ALLOC)))
        ts = events.rows["ts"]
        for since, until in self._near:
            if ts[0].as_py() <= until and ts[-1].as_py() >= since:
                rare = pc.or_(rare, pc.and_(pc.greater_equal(ts, since), pc.less_equal(ts, until)))
        if rare.true_count:
            yield events.rows.select(self._columns).filter(rare)

    def end(self) -> Iterator[pa.RecordBatch]:
        return iter(())
