# SPDX-License-Identifier: Apache-2.0
"""Chooses the reclaim mode of a run, and says when the run gets no verdict.

Some policies act through reclaim or compaction (tier B), and through them on the free memory. Under
R0 reclaim is that of the record, so such a policy shows its costs without its benefits: more free
pages are asked for, and nobody frees them. One rule for every command: a run of tier B plays under
R1 where the tape recorded reclaim, which is what R1 goes by. Otherwise it plays under R0, and its
difference to the own rules is no verdict. The engine knows the tier: of a policy by its choices and
parameters, of a kernel row by its features.
"""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import _replay
from pagetape.replaying import RECLAIM_AUTO, kernels, reclaim_input
from pagetape.schemas.tape import Tape
from pagetape.tapes import machine, zone_events

# Rights of vm.zone_reclaim_mode to write dirty pages and to unmap, and the pages left without them.
_ONLY = {2: "clean", 4: "unmapped"}

_OF_RECLAIM = pa.array(["kswapd", "direct"])  # rows of scan; the others are of compaction


def acting(
    tape: Tape, kernel: str, policies: Sequence[str], libs: Sequence[str] = ()
) -> tuple[str, ...]:
    """What of a run acts through reclaim or compaction: names of policies, and its kernel row."""
    own = kernels.own(tape)
    row = kernels.row(tape, kernel)
    sysctls = machine.sysctls(tape)
    known = own.row if own else None
    return tuple(_replay.feedback(policies, libs, kernel=row, own=known, sysctls=sysctls))


@lru_cache(maxsize=16)
def recorded(tape: Tape) -> bool:
    """Whether the tape has reclaim that R1 can go by: pages that it freed, or its scans."""
    if zone_events.is_zone(tape):  # it shows no single page that reclaim freed
        return False
    found = reclaim_input.read(tape)
    if not found:
        return False
    scans = pc.is_in(found["scan"]["what"].cast(pa.string()), _OF_RECLAIM)
    frees = pc.not_equal(found["reclaimed"]["cause"].cast(pa.string()), "compact")
    return bool(pc.any(scans).as_py() or pc.any(frees).as_py())


def _near(tape: Tape, kernel: str, policies: Sequence[str], libs: Sequence[str] = ()) -> str | None:
    """Why the yield of vm.zone_reclaim_mode is unknown; None if it is known, or the mode is off.

    The recording's own tries show it, if it had the same mode. Without the rights to write and to
    unmap, the multi-generational LRU frees nothing (node_reclaim_whole).
    """
    sysctls = machine.sysctls(tape)
    mode = _replay.zone_reclaim_mode(policies, libs, sysctls)
    if mode in (0, sysctls.get("zone_reclaim_mode", 0)):
        return None
    lacks = [word for bit, word in _ONLY.items() if not mode & bit]
    row = kernels.row(tape, kernel)
    features = next(one for one in _replay.kernels() if one["name"] == row)
    whole = features["node_reclaim_whole"] == "yes"
    if lacks and whole and pc.max(reclaim_input.read(tape)["scan"]["generations"]).as_py():
        return None
    unknown = f"which pages are {' and '.join(lacks)}" if lacks else "how long a try takes"
    return (
        f"no verdict on zone_reclaim_mode: the tape was recorded without mode {mode}, and does not"
        f" show {unknown}; record with vm.zone_reclaim_mode={mode}"
    )


def chosen(
    given: str, tape: Tape, kernel: str, policies: Sequence[str], libs: Sequence[str] = ()
) -> str:
    """The mode of a run for "auto": R1 if it acts through reclaim and the tape recorded some."""
    if given != RECLAIM_AUTO:
        return given
    return "R1" if acting(tape, kernel, policies, libs) and recorded(tape) else "R0"


def no_verdict(
    mode: str, tape: Tape, kernel: str, policies: Sequence[str], libs: Sequence[str] = ()
) -> str | None:
    """Why a run in that mode is no verdict on its policies; None if it is one."""
    names = acting(tape, kernel, policies, libs)
    if not names:
        return None
    they, act = ("it", "acts") if len(names) == 1 else ("they", "act")
    if not recorded(tape):
        lacks = "does not show its pages" if zone_events.is_zone(tape) else "recorded none"
        why = f"{they} {act} through reclaim, and the tape {lacks}"
        todo = "record with --events all while memory is short"
    elif mode == "R0":
        why = f"under R0 reclaim stays as recorded, and {they} {act} through reclaim"
        todo = "use --reclaim R1"
    else:
        return _near(tape, kernel, policies, libs)
    return f"no verdict on {' and '.join(names)}: {why}; {todo}"
