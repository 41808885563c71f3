# SPDX-License-Identifier: Apache-2.0
"""gfp masks: their flags by era of kernels. schemas/gfp.toml has the bits.

A flag's name stands here without its leading __GFP_, except in lists of names for people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from pagetape.explaining.release import NEWEST, OLDEST, Release, facts, number

Flags = frozenset[str]

_PREFIX = "__GFP_"


@dataclass(frozen=True)
class Era:
    """Releases with the same bits, from `first` until before `last`."""

    first: Release
    last: Release
    bits: tuple[str, ...]
    sure: bool

    @property
    def since(self) -> str:
        return ".".join(map(str, self.first if self.first[0] == 2 else self.first[:2]))

    def flags(self, mask: int) -> tuple[Flags, int]:
        """The flags of a mask, and the bits that the era has no name for."""
        found = {name for bit, name in enumerate(self.bits) if name and mask >> bit & 1}
        known = sum(1 << bit for bit, name in enumerate(self.bits) if name)
        return frozenset(found), mask & ~known


@cache
def eras() -> tuple[Era, ...]:
    """The eras, oldest first."""
    found = facts("gfp")["era"]
    starts = [number(one["since"]) or OLDEST for one in found]
    return tuple(
        Era(first, last, tuple(one["bits"]), one["sure"] == "source")
        for one, first, last in zip(found, starts, [*starts[1:], NEWEST], strict=True)
    )


def era_of(release: Release) -> Era:
    """The era of a release; the oldest for an older one."""
    return next((era for era in reversed(eras()) if era.first <= release), eras()[0])


@cache
def _groups(release: Release) -> dict[str, Flags]:
    """The names of several flags at a release, those of most flags first."""
    found: dict[str, Flags] = {}
    own = False
    for group in facts("gfp")["group"]:
        if (number(group["since"]) or OLDEST) <= release:
            if "DIRECT_RECLAIM" in str(group["names"]) and not own:
                found, own = {}, True  # the names of another way to say "may wait"
            found |= {name: frozenset(flags) for name, flags in group["names"].items()}
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def of_names(text: str, release: Release) -> Flags | None:
    """The flags of names as a kernel prints them; None if one of them is no name of a flag."""
    found: set[str] = set()
    for name in filter(None, text.split("|")):
        if name in (groups := _groups(release)):
            found |= groups[name]
        elif re.fullmatch(r"__GFP_[A-Z0-9_]+", name):
            found.add(name.removeprefix(_PREFIX))
        elif not re.fullmatch(r"0x[0-9a-f]+", name):  # bits without a name
            return None
    return frozenset(found)


def names(flags: Flags, release: Release) -> list[str]:
    """Flags as a kernel prints them: names of several flags first, then single ones."""
    left, found = set(flags), []
    for name, several in _groups(release).items():
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
