# SPDX-License-Identifier: Apache-2.0
"""The rows of `reclaim` that an engine plays. On a machine that swaps these are few of all.

An engine plays direct reclaim, the vmstat ticks, and the passes of kswapd. All further rows of a
kswapd's task say only that its pass goes on: the last one before a call, a pass or a sleep of any
kswapd is enough (replay/tape/reclaim_events.c).
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

_TABLE = TABLES["reclaim"]
_BEGINS = "kswapd_wake"  # a pass; it tells which task a kswapd is
_OF_KSWAPD = (_BEGINS, "kswapd_sleep", "wakeup_kswapd")
_PLAYED = (*_OF_KSWAPD, "vmstat_update", "direct_reclaim_begin", "direct_reclaim_end")
_READ = {c.name for c in _TABLE.columns if not c.null} | {
    *("node", "zone", "page_order", "gfp_flags", "nr_reclaimed")
}


def _numbers(*kinds: str) -> pa.Array:
    return pa.array([_TABLE.column("kind").labels.index(kind) for kind in kinds], pa.uint8())


def _is_played(rows: pa.RecordBatch, kswapds: set[int]) -> pa.Array:
    """Which rows an engine needs; `kswapds` are the tasks known so far."""
    kind, pid = rows["kind"].indices, rows["pid"]
    kswapds |= {*pid.filter(pc.is_in(kind, _numbers(_BEGINS))).to_pylist()}
    played = needed = pc.is_in(kind, _numbers(*_PLAYED))
    of_any = pc.is_in(kind, _numbers(*_OF_KSWAPD))
    for kswapd in kswapds:
        these = pc.or_(of_any, pc.equal(pid, pa.scalar(kswapd, pid.type)))
        of_these = played.filter(these)
        last = pa.concat_arrays([of_these[1:], pa.array([True][: len(of_these)], pa.bool_())])
        needed = pc.or_(needed, pc.replace_with_mask(these, these, last))
    return needed


def batches(tape: Tape) -> Iterator[pa.RecordBatch]:
    """The rows in their order, with the values that the engine reads; the others are null."""
    kswapds: set[int] = set()
    for rows in filter(len, tape.batches(_TABLE.name, _READ)):
        found = rows.filter(_is_played(rows, kswapds))
        columns = [
            found[column.name] if column.name in _READ else column.nulls(len(found))
            for column in _TABLE.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_TABLE.arrow)
