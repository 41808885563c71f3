# SPDX-License-Identifier: Apache-2.0
"""The rooms of `collector/` and `replay/`: which files and symbols of one room another one uses.

The table of rooms is the dict `rooms` in the part's meson.build. Each check returns one line for
each violation.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class Symbols(NamedTuple):
    """Global symbols that an object, or a whole archive, defines and leaves undefined."""

    defined: set[str]
    undefined: set[str]


Rooms = Mapping[str, list[str]]  # room -> the rooms that it may use

GENERATED = {"tables.h", "kernel_rows.h", "policies/policy_list.h"}
# The policies include the model's headers as a policy outside the tree does, without a room.
WITHOUT_PREFIX = {"policies": ["model"]}


def read_rooms(meson_build: Path) -> Rooms:
    """The table, lowest room first."""
    found = re.search(r"^rooms = (\{.*?^\})", meson_build.read_text(), re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"{meson_build} has no dict `rooms`")
    rooms: Rooms = ast.literal_eval(found[1])
    return rooms


def includes(path: Path) -> Iterator[str]:
    """Headers that a C or Cython file includes by a quoted name."""
    text = path.read_text()
    if path.suffix == ".pyx":
        yield from re.findall(r'^cdef extern from "([^<].*?)"', text, re.MULTILINE)
    else:
        yield from re.findall(r'^\s*#\s*include\s+"(.+?)"', text, re.MULTILINE)


def include_errors(part: Path, schemas: Path, rooms: Rooms) -> list[str]:
    """Includes that leave the allowed rooms, and C files that are in no room."""
    errors = []
    for path in sorted(part.rglob("*")):
        file = path.relative_to(part)
        if path.suffix not in (".c", ".h", ".pyx") or file.parts[0] in ("tests", "bench"):
            continue
        room = file.parts[0] if len(file.parts) > 1 else None
        if room not in rooms and path.suffix != ".pyx":
            errors.append(f"{file} is in no room")
            continue
        for name in includes(path):
            if error := _include_error(part, schemas, rooms, room, name):
                errors.append(f"{file} includes {name}: {error}")
    return errors


def _include_error(
    part: Path, schemas: Path, rooms: Rooms, room: str | None, name: str
) -> str | None:
    parts = Path(name).parts
    if ".." in parts:
        return "a path with .."
    allowed = list(rooms) if room is None else [room, *rooms[room]]
    if len(parts) > 1:
        if parts[0] not in allowed:
            return f"{room} may not use {parts[0]}"
        places = [part]
    else:
        own = [] if room is None else [room, *WITHOUT_PREFIX.get(room, [])]
        places = [schemas, *(part / place for place in own)]
    if name in GENERATED or any((place / name).is_file() for place in places):
        return None
    return "no such header in the room" if len(parts) == 1 else "no such header"


def objects_of(archive: Path) -> dict[str, Symbols]:
    """The symbols of each object of an archive. Static functions have none for the linker."""
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
            name = Path(line[line.rindex("[") + 1 : -2]).name.removesuffix(".o")
            objects[name] = Symbols(set(), set())
        elif len(fields) > 1 and len(fields[1]) == 1:
            side = "undefined" if fields[1] in "Uwv" else "defined"
            getattr(objects[name], side).add(fields[0])
    return objects


def symbol_errors(archives: Mapping[str, Path], rooms: Rooms) -> list[str]:
    """Symbols that a room's archive takes from rooms that it may not use."""
    defined: dict[str, set[str]] = {}
    undefined: dict[str, set[str]] = {}
    for room, archive in archives.items():
        objects = objects_of(archive).values()
        defined[room] = set().union(*(found.defined for found in objects))
        undefined[room] = set().union(*(found.undefined for found in objects)) - defined[room]
    errors = []
    for room in rooms:
        for symbol in sorted(undefined[room]):
            owners = [other for other in rooms if symbol in defined[other]]
            if owners and not set(owners) & set(rooms[room]):
                errors.append(f"{room} uses {symbol} of {', '.join(owners)}")
    return errors


STATE = "(?:model|zone|pcp|pageblock|frame)"  # the structs of the model's state
CHANGEABLE = re.compile(rf"^(?!.*\bconst\b).*\bstruct {STATE} \*")
CHANGE = re.compile(r"\bm->[^;=]*[])\w]\s*(?:[-+|&^]|<<|>>)?=(?!=)|\bm->[^;=]*(?:\+\+|--)")


def change_errors(folder: Path) -> list[str]:
    """Lines of a room that can change the model's state: its C files may only read that.

    Such a line has a pointer to it without `const`, or assigns by way of the model's pointers.
    """
    errors = []
    for path in sorted(folder.glob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            parts = re.split(r"[,(]", line)
            if any(CHANGEABLE.search(part) for part in parts) or CHANGE.search(line):
                errors.append(f"{path.name}:{number}: {line.strip()}")
    return errors


def changing_calls(used: Iterable[str], headers: Iterable[Path]) -> list[str]:
    """Functions, of those used, whose declaration takes the model's state without `const`."""
    text = "\n".join(path.read_text() for path in headers)
    declared = {name: re.search(rf"\b{name}\(([^;{{]*)\)", text) for name in used}
    return sorted(
        name
        for name, found in declared.items()
        if found and any(CHANGEABLE.search(" ".join(p.split())) for p in found[1].split(","))
    )


def circle_error(objects: Mapping[str, Symbols]) -> str | None:
    """A circle of files that use symbols of each other, if there is any.

    Without a circle, the files of a room have an order: each one uses only files before it.
    """
    owners = {symbol: name for name, found in objects.items() for symbol in found.defined}
    uses: dict[str, dict[str, list[str]]] = {name: {} for name in objects}
    for name, found in objects.items():
        for symbol in sorted(found.undefined & owners.keys()):
            uses[name].setdefault(owners[symbol], []).append(symbol)
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as e:
        way = pairwise(reversed(e.args[1]))
        return ", ".join(
            f"{file} uses {' and '.join(uses[file][used])} of {used}" for file, used in way
        )
    return None
