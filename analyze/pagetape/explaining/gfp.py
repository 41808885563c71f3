# SPDX-License-Identifier: Apache-2.0
"""gfp masks: their flags and names by era of kernels.

A flag's name stands here without its leading __GFP_, except in lists of names for people.
"""

from __future__ import annotations

import re

from pagetape.gfp_names import Era, Flags, Release, era_of, eras, groups

__all__ = ["Era", "Flags", "era_of", "eras", "names", "of_names", "plausible"]

_PREFIX = "__GFP_"


def of_names(text: str, release: Release) -> Flags | None:
    """The flags of names as a kernel prints them; None if one of them is no name of a flag."""
    found: set[str] = set()
    for name in filter(None, text.split("|")):
        if name in (known := groups(release)):
            found |= known[name]
        elif re.fullmatch(r"__GFP_[A-Z0-9_]+", name):
            found.add(name.removeprefix(_PREFIX))
        elif not re.fullmatch(r"0x[0-9a-f]+", name):  # bits without a name
            return None
    return frozenset(found)


def names(flags: Flags, release: Release) -> list[str]:
    """Flags as a kernel prints them: names of several flags first, then single ones."""
    left, found = set(flags), []
    for name, several in groups(release).items():
        if several <= left:
            found.append(name)
            left -= several
    return found + sorted(_PREFIX + name for name in left)


def plausible(mask: int) -> list[Era]:
    """The eras in which a kernel may have printed a mask, oldest first.

    A request may wait with all that this needs, or it may not: a mask with one bit of a pair that
    goes together is of another era.
    """
    return [era for era in eras() if _is_usual(*era.flags(mask))]


def _is_usual(flags: Flags, unknown: int) -> bool:
    if unknown:
        return False
    can_wait = bool(flags & {"WAIT", "DIRECT_RECLAIM"})
    if flags & {"IO", "FS"} and not can_wait and not {"MOVABLE", "COMP", "NOMEMALLOC"} <= flags:
        return False  # only GFP_TRANSHUGE_LIGHT may write but not wait
    if {"MOVABLE", "RECLAIMABLE"} <= flags:
        return False
    if "FS" in flags and "IO" not in flags:
        return False
    if "ATOMIC" in flags and ("DIRECT_RECLAIM" in flags or not {"HIGH", "KSWAPD_RECLAIM"} <= flags):
        return False
    if flags & {"REPEAT", "RETRY_MAYFAIL", "NOFAIL", "NOLOCKDEP"} and not can_wait:
        return False
    if "MOVABLE" in flags and not flags & {"HIGHMEM", "WAIT", "DIRECT_RECLAIM"}:
        return False
    if "OTHER_NODE" in flags and "THISNODE" not in flags:
        return False
    return not {"NORETRY", "NOFAIL"} <= flags
