# SPDX-License-Identifier: Apache-2.0
"""The time span of a tape that a replay covers.

It runs from the exact snapshot at the start to the one at the end, where they exist. Without the
first, it runs from the time when the events of every CPU are there: the first ones of a CPU, a
thousand or more, may be lost.
"""

from pagetape.schemas.tape import Tape
from pagetape.tapes.overwritten import complete_from

_EVER = (1 << 64) - 1  # ns
ALL = 0, _EVER


def of_tape(tape: Tape) -> tuple[int, int]:
    """The first and the last time, in ns, both included."""
    snapshots = tape.rows("snapshot")
    exact = [s for s in snapshots if s["how"] == "exact"]
    starts = [s["ts"] + 1 for s in exact if s["snapshot"] == 0]
    if starts:
        last = max(s["snapshot"] for s in snapshots)
        ends = [s["ts"] for s in exact if 0 < s["snapshot"] == last]
        return min(*starts, _EVER), min(ends, default=_EVER)
    return complete_from(tape) or 0, _EVER
