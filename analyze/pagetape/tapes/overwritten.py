# SPDX-License-Identifier: Apache-2.0
"""What a tape lacks at its beginning: a ring that overwrites its oldest events loses those."""

from __future__ import annotations

from pagetape.schemas.tape import Tape


def lost_before(tape: Tape) -> int:
    """Events of all CPUs lost before the first one there; 1 if their number is unknown."""
    lost = (row["events"] for row in tape.rows("lost") if row["from_ts"] is None)
    return sum(1 if nr is None else nr for nr in lost)


def complete_from(tape: Tape) -> int | None:
    """Time (ns) from which on the events of every CPU are there, if some CPU's first ones were
    lost. A ring that overwrites its oldest events loses those."""
    ends = [row["to_ts"] for row in tape.rows("lost") if row["from_ts"] is None]
    return max((ts for ts in ends if ts is not None), default=None)
