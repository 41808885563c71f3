# SPDX-License-Identifier: Apache-2.0
"""Chooses the reclaim mode of a run.

Some policies change what reclaim does, and through it the free memory. Under R0 reclaim is that of
the record, so such a policy shows its costs without its benefits: more free pages are asked for,
and nobody frees them. These policies run under R1, unless the caller chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagetape import _replay
from pagetape.schemas.tape import Tape

AUTO = "auto"
MODES = ("R0", "R1", "R2")

# Choices of the kernel (pagetape policies) that decide what kswapd and stalled requests reclaim.
_OF_RECLAIM = {
    "kswapd_blocks",
    "kswapd_rules",
    "refuse_fallback",
    "watermark_boost",
    "watermarks",
    "zone_reclaim_distance",
}


def through_reclaim(policies: Sequence[str], libs: Sequence[str] = ()) -> list[str]:
    """The policies among these SPECs that act through reclaim."""
    acting = {
        policy["name"]
        for policy in _replay.policies(libs)
        if policy["name"] != "mainline" and _OF_RECLAIM & set(policy["choices"])
    }
    names = (spec.partition(":")[0] for spec in policies)
    return [name for name in dict.fromkeys(names) if name in acting]


def chosen(given: str, policies: Sequence[str], tapes: Sequence[Tape], libs: Sequence[str]) -> str:
    """The mode for "auto": R1 for a policy that acts through reclaim, if the tapes recorded it."""
    if given != AUTO:
        return given
    recorded = all(tape.num_rows("reclaim") for tape in tapes)
    return "R1" if recorded and through_reclaim(policies, libs) else "R0"


def no_verdict(mode: str, policies: Sequence[str], libs: Sequence[str] = ()) -> str | None:
    """Why a run under R0 is no verdict on its policies; None if it is one."""
    acting = through_reclaim(policies, libs) if mode == "R0" else []
    if not acting:
        return None
    verb = "acts" if len(acting) == 1 else "act"
    return (
        f"no verdict on {' and '.join(acting)}: under R0 reclaim stays as recorded, and"
        f" {'it' if len(acting) == 1 else 'they'} {verb} through reclaim; use --reclaim R1 on a"
        " recording with --events all"
    )
