# SPDX-License-Identifier: Apache-2.0
"""How many models of a machine fit into memory at once."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pagetape.schemas.tape import Tape

_FRAME_BYTES = 16  # bytes of a model per page of the machine
_FEEDBACK_BYTES = 20  # the same of its own reclaim: reclaim_supply.h, ages.h, page_map.h
_RUN_BYTES = 24 << 20  # of a run beside its model: rows on their way to its tape
_MOST = 32  # runs at once: each has up to 30 files open, of the 1,024 that a process may have


def model_bytes(tape: Tape, modes: Iterable[str]) -> int:
    """Approximate memory of a model of the tape's machine, in bytes, under any of these modes of
    reclaim."""
    zones = [zone for zone in tape.rows("zone") if zone["snapshot"] == 0]
    of_frame = _FRAME_BYTES + (_FEEDBACK_BYTES if set(modes) - {"R0"} else 0)
    return of_frame * sum(int(zone["spanned"]) for zone in zones)


def most_models(model_bytes: int) -> int:
    """The number of runs at once, in half of the free memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(min(_MOST, free // 2 // (model_bytes + _RUN_BYTES)), 1)
