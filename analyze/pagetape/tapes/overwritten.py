# SPDX-License-Identifier: Apache-2.0
"""What a tape lacks at its beginning: a ring that overwrites its oldest events loses those."""

from typing import Any

from pagetape.schemas.tape import Tape

# Fewer lost events are a gap like any other: the events of the other CPUs count for more.
_MANY = 1000


def _overwritten(tape: Tape) -> list[dict[str, Any]]:
    """The rows of `lost` before the first event of a CPU, without those of few events."""
    rows = (row for row in tape.rows("lost") if row["from_ts"] is None)
    return [row for row in rows if row["events"] is None or row["events"] >= _MANY]


def lost_before(tape: Tape) -> int:
    """Events of all CPUs lost before the first one there; an unknown number counts as 1."""
    return sum(1 if row["events"] is None else row["events"] for row in _overwritten(tape))


def complete_from(tape: Tape) -> int | None:
    """Time (ns) from which on the events of every CPU are there, if the first ones of some CPU
    were lost."""
    ends = (row["to_ts"] for row in _overwritten(tape))
    return max((ts for ts in ends if ts is not None), default=None)
