# SPDX-License-Identifier: Apache-2.0
"""Few events of a tape that many queries want: rows of `event`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import inf
from typing import TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking.sequence_dataset import Chooser, Events, KeptDataset, Pass
from pagetape.schemas import TABLES
from pagetape.schemas.form import GroupedRows
from pagetape.schemas.table_file import Glance
from pagetape.schemas.tape import Tape

Which: TypeAlias = Callable[[GroupedRows], pa.Array]

_EVENT = TABLES["event"]
# By number of a kind: 2 for fallbacks, 1 for allocations.
_WANTED = {"alloc": 1, "alloc_extfrag": 2}
_RARE = bytes(_WANTED.get(kind, 0) for kind in _EVENT.column("kind").labels).ljust(256, b"\0")


class FewEvents(KeptDataset):
    """Rows of `event` in few of its batches."""

    names = tuple(column.name for column in _EVENT.columns)
    schema = _EVENT.arrow

    def reads(self, columns: list[str]) -> Collection[str]:
        return {"ts", "kind", "pfn", *columns}

    def _begun(self, columns: list[str], most: int) -> Pass:  # noqa: ARG002
        return _Some(columns, self.which())

    def which(self) -> Which:
        """Gives the places of such rows in a batch."""
        raise NotImplementedError


class RareEvents(FewEvents):
    """Fallbacks, and allocations without a page."""

    def chooser(self) -> Chooser:
        return lambda glances: [g.has_null or "alloc_extfrag" in g.kinds for g in glances]

    def which(self) -> Which:
        return _rare


def _rare(events: GroupedRows) -> pa.Array:
    kinds = events.keys["kind"].indices.buffers()[1].to_pybytes()
    return events.of_groups(kinds[: len(events.keys)].translate(_RARE), "pfn")


class EventsNearSnapshots(FewEvents):
    """Events between the readings of the lists and of the page flags of a snapshot."""

    def chooser(self) -> Chooser:
        near = _near(self.tape)

        def choose(glances: list[Glance]) -> list[bool]:
            ends = [*(glance.first for glance in glances[1:]), inf]
            return [
                any(glance.first <= until and since <= end for since, until in near)
                for glance, end in zip(glances, ends, strict=True)
            ]

        return choose

    def which(self) -> Which:
        near = _near(self.tape)

        def is_near(events: GroupedRows) -> pa.Array:
            ts = events.rows["ts"]
            found = pa.repeat(pa.scalar(False), len(ts))
            for since, until in near:
                if ts[0].as_py() <= until and ts[-1].as_py() >= since:
                    within = pc.and_(pc.greater_equal(ts, since), pc.less_equal(ts, until))
                    found = pc.or_(found, within)
            return pc.indices_nonzero(found)

        return is_near


_spans: WeakKeyDictionary[Tape, list[tuple[int, int]]] = WeakKeyDictionary()


def _near(tape: Tape) -> list[tuple[int, int]]:
    """The first and the last time between the readings of each snapshot, found once a tape."""
    if tape not in _spans:
        rows = tape.table("pageblock").select(["ts", "flags_ts"])
        rows = rows.filter(pc.is_valid(rows["flags_ts"])).group_by(["ts", "flags_ts"]).aggregate([])
        times = zip(*rows.to_pydict().values(), strict=True)
        _spans[tape] = [(min(both), max(both)) for both in times]
    return _spans[tape]


class _Some:
    """A pass that finds some rows of `event`."""

    def __init__(self, columns: list[str], which: Which) -> None:
        self._columns, self._which = columns, which

    def read(self, events: Events) -> Iterator[pa.RecordBatch]:
        if len(wanted := self._which(events.groups)):
            yield events.groups.taken(self._columns, wanted)

    def end(self) -> Iterator[pa.RecordBatch]:
        return iter(())
