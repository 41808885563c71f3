# SPDX-License-Identifier: Apache-2.0
"""Circles of C files: files of a room that use symbols of each other, as the linker sees them.

Without a circle, the files of a room have an order: each one uses only files before it. Static
functions have no symbol for the linker, so they do not count.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class Symbols(NamedTuple):
    """Global symbols that an object, or a whole archive, defines and leaves undefined."""

    defined: set[str]
    undefined: set[str]


Uses = dict[str, dict[str, list[str]]]  # file -> the files that it uses -> their symbols


def symbols_by_object(archive: Path) -> dict[str, Symbols]:
    """The symbols of each object of an archive, by the object's name."""
    output = subprocess.run(
        ["nm", "--format=posix", "--extern-only", archive],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    objects: dict[str, Symbols] = {}
    for line in output.splitlines():
        fields = line.split()
        if line.endswith("]:"):
            name = Path(line[line.rindex("[") + 1 : -2]).name
            objects[name] = Symbols(set(), set())
        elif len(fields) > 1 and len(fields[1]) == 1:
            side = "undefined" if fields[1] in "Uwv" else "defined"
            getattr(objects[name], side).add(fields[0])
    return objects


def find_uses(objects: Mapping[str, Symbols]) -> Uses:
    """Which object uses which other ones, and by which symbols."""
    owners = {symbol: name for name, found in objects.items() for symbol in found.defined}
    uses: Uses = {name: {} for name in objects}
    for name, found in objects.items():
        for symbol in sorted(found.undefined & owners.keys()):
            if owners[symbol] != name:
                uses[name].setdefault(owners[symbol], []).append(symbol)
    return uses


def shortest_way(uses: Uses, start: str, end: str) -> list[str]:
    """The files from `start` to `end`, each of which uses the next; empty if there is no way."""
    ways = [[start]]
    seen = set()
    for way in ways:
        for used in sorted(uses[way[-1]]):
            if used == end:
                return [*way, used]
            if used not in seen:
                seen.add(used)
                ways.append([*way, used])
    return []


def circles(objects: Mapping[str, Symbols]) -> list[str]:
    """One line for each group of objects in circles: its shortest circle, with the symbols."""
    uses = find_uses(objects)
    left = sorted(uses)
    lines = []
    while left:
        first = left.pop(0)
        if not shortest_way(uses, first, first):
            continue
        group = [
            name
            for name in left
            if shortest_way(uses, first, name) and shortest_way(uses, name, first)
        ]
        left = [name for name in left if name not in group]
        circle = min((shortest_way(uses, name, name) for name in [first, *group]), key=len)
        line = ", ".join(
            f"{user} uses {', '.join(uses[user][used])} of {used}"
            for user, used in pairwise(circle)
        )
        others = [name for name in [first, *group] if name not in circle]
        lines.append(f"{line}; in circles with them: {', '.join(others)}" if others else line)
    return lines


def circle_errors(archives: Mapping[str, Path]) -> list[str]:
    """The circles of files in the archive of each room. Meson names objects ROOM_FILE.c.o."""
    errors = []
    for room, archive in archives.items():
        files = {
            name.removeprefix(f"{room}_").removesuffix(".o"): symbols
            for name, symbols in symbols_by_object(archive).items()
        }
        errors += [f"{room}: {circle}" for circle in circles(files)]
    return errors
