# SPDX-License-Identifier: Apache-2.0
"""The gfp flags of each era of kernels, and the reader of what schemas/*.toml says of releases.

A flag's name stands here without its leading __GFP_, except in gfp_names(): a trace file without
the kernel's formats has only numbers or printed names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

Release = tuple[int, ...]  # three numbers
Flags = frozenset[str]

OLDEST: Release = (2, 6, 0)
NEWEST: Release = (99, 0, 0)  # after every release


@dataclass(frozen=True)
class Era:
    """Releases with the same bits, from `first` until before `last`."""

    first: Release
    last: Release
    bits: tuple[str, ...]  # of bit 0, 1, 2 ...; "" for none
    sure: bool

    @property
    def since(self) -> str:
        return ".".join(map(str, self.first if self.first[0] == 2 else self.first[:2]))

    def flags(self, mask: int) -> tuple[Flags, int]:
        """The flags of a mask, and the bits that the era has no name for."""
        found = {name for bit, name in enumerate(self.bits) if name and mask >> bit & 1}
        known = sum(1 << bit for bit, name in enumerate(self.bits) if name)
        return frozenset(found), mask & ~known


class GfpNames(NamedTuple):
    """Names with their __GFP_ before them."""

    groups: tuple[tuple[str, str], ...]  # ("GFP_NOIO", "__GFP_DIRECT_RECLAIM|...")
    bits: tuple[str, ...]


@cache
def facts(name: str) -> dict[str, Any]:
    """The contents of schemas/NAME.toml, without the import of the package `schemas`."""
    import tomllib

    return tomllib.loads((Path(__file__).parent / f"schemas/{name}.toml").read_text("utf-8"))


def number(text: str) -> Release | None:
    """6.12.117-amd64 as (6, 12, 117), 6.1-rc7 as (6, 1, 0); None for any other text."""
    found = re.match(r"(\d{1,5})\.(\d{1,5})(?!\d)(?:\.(\d{1,5})(?!\d))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else None


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
def groups(release: Release) -> dict[str, Flags]:
    """The names of several flags at a release, those of most flags first."""
    found: dict[str, Flags] = {}
    own = False
    for group in facts("gfp")["group"]:
        if (number(group["since"]) or OLDEST) <= release:
            if "DIRECT_RECLAIM" in str(group["names"]) and not own:
                found, own = {}, True  # the names of another way to say "may wait"
            found |= {name: frozenset(flags) for name, flags in group["names"].items()}
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def gfp_names(release: str | None) -> GfpNames:
    """The names at a release, as uname -r prints it; those of the newest era for None."""
    wanted = (number(release) if release else None) or NEWEST
    joined = [
        (name, "|".join(f"__GFP_{flag}" for flag in sorted(flags)))
        for name, flags in groups(wanted).items()
    ]
    bits = [flag and f"__GFP_{flag}" for flag in era_of(wanted).bits]
    return GfpNames(tuple(joined), tuple(bits))
