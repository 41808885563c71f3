# SPDX-License-Identifier: Apache-2.0
"""How many models of a machine fit into memory at once."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from pagetape.schemas.tape import Tape

_FRAME_BYTES = 16  # bytes of a model per page of the machine
_FEEDBACK_BYTES = 20  # the same of its own reclaim: reclaim_supply.h, ages.h, page_map.h
_RUN_BYTES = 24 << 20  # of a run beside its model: rows on their way to its tape
_PER_CPU = 4  # runs at once: more of them save a few decodes, and cost their memory
_MOST = 32  # the same on any machine: a run has up to 30 of the 1,024 files that may be open


def model_bytes(tape: Tape, modes: Iterable[str]) -> int:
    """Approximate memory of a model of the tape's machine, in bytes, under any of these modes of
    reclaim."""
    zones = [zone for zone in tape.rows("zone") if zone["snapshot"] == 0]
    of_frame = _FRAME_BYTES + (_FEEDBACK_BYTES if set(modes) - {"R0"} else 0)
    return of_frame * sum(int(zone["spanned"]) for zone in zones)


def _free() -> int:
    """The memory that the kernel could give, in bytes: file pages count, too."""
    with contextlib.suppress(OSError):  # a machine that hides /proc
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def most_models(model_bytes: int) -> int:
    """The number of runs at once, in half of the free memory."""
    free = _free()
    most = min(_MOST, _PER_CPU * len(os.sched_getaffinity(0)))
    return max(min(most, free // 2 // (model_bytes + _RUN_BYTES)), 1)
