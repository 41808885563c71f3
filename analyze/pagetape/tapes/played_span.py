# SPDX-License-Identifier: Apache-2.0
"""The time span of a tape that a replay covers.

It runs from the exact snapshot at the start to the one at the end, where they exist. Without the
first, it runs from the time when the events of every CPU are there: the first ones of a CPU, a
thousand or more, may be lost.
"""

import pyarrow.compute as pc

from pagetape.schemas.tape import Tape

_EVER = (1 << 64) - 1  # ns
_MANY = 1000  # events lost, also if their number is unknown


def of_tape(tape: Tape) -> tuple[int, int]:
    """The first and the last time, in ns, both included."""
    snapshots = tape.rows("snapshot")
    exact = [s for s in snapshots if s["how"] == "exact"]
    starts = [s["ts"] + 1 for s in exact if s["snapshot"] == 0]
    if starts:
        last = max(s["snapshot"] for s in snapshots)
        ends = [s["ts"] for s in exact if 0 < s["snapshot"] == last]
        return min(*starts, _EVER), min(ends, default=_EVER)
    gaps = tape.table("lost")
    many = pc.greater_equal(pc.fill_null(gaps["events"], _MANY), _MANY)
    first = gaps.filter(pc.and_(pc.is_null(gaps["from_ts"]), many))
    return pc.max(first["to_ts"]).as_py() or 0, _EVER
