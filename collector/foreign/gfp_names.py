# SPDX-License-Identifier: Apache-2.0
"""The names of gfp flags at a release of the kernel, from schemas/gfp.toml.

A file without the kernel's formats has only numbers or printed names.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

_NEWEST = (99,)


class GfpNames(NamedTuple):
    """Names with their __GFP_ before them."""

    groups: tuple[tuple[str, str], ...]  # ("GFP_NOIO", "__GFP_DIRECT_RECLAIM|...")
    bits: tuple[str, ...]  # of bit 0, 1, 2 ...; "" for none


@cache
def _eras() -> dict[str, Any]:
    return tomllib.loads((files("pagetape") / "schemas/gfp.toml").read_text("utf-8"))


def _number(release: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", release)
    return tuple(map(int, found[0].split("."))) if found else _NEWEST


def gfp_names(release: str | None) -> GfpNames:
    """The names at a release, as uname -r prints it; those of the newest era for None."""
    wanted = _number(release) if release else _NEWEST
    bits: list[str] = []
    for era in _eras()["era"]:
        if not bits or _number(era["since"]) <= wanted:
            bits = [flag and f"__GFP_{flag}" for flag in era["bits"]]
    groups: dict[str, list[str]] = {}
    for group in _eras()["group"]:
        if groups and _number(group["since"]) > wanted:
            break
        groups |= group["names"]
    joined = [(name, "|".join(f"__GFP_{flag}" for flag in of)) for name, of in groups.items()]
    return GfpNames(tuple(joined), tuple(bits))
