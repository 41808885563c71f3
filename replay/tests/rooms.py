# SPDX-License-Identifier: Apache-2.0
"""The rooms of the engine: which files and symbols of one room another room uses.

The table of rooms is the dict `rooms` in replay/meson.build. Each check returns one line for
each violation.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

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
        yield from re.findall(r'^cdef extern from "(.+?)"', text, re.MULTILINE)
    else:
        yield from re.findall(r'^\s*#\s*include\s+"(.+?)"', text, re.MULTILINE)


def include_errors(replay: Path, schemas: Path, rooms: Rooms) -> list[str]:
    """Includes that leave the allowed rooms, and C files that are in no room."""
    errors = []
    for path in sorted(replay.rglob("*")):
        file = path.relative_to(replay)
        if path.suffix not in (".c", ".h", ".pyx") or file.parts[0] in ("tests", "bench"):
            continue
        room = file.parts[0] if len(file.parts) > 1 else None
        if room not in rooms and path.suffix != ".pyx":
            errors.append(f"{file} is in no room")
            continue
        for name in includes(path):
            if error := _include_error(replay, schemas, rooms, room, name):
                errors.append(f"{file} includes {name}: {error}")
    return errors


def _include_error(
    replay: Path, schemas: Path, rooms: Rooms, room: str | None, name: str
) -> str | None:
    parts = Path(name).parts
    if ".." in parts:
        return "a path with .."
    allowed = list(rooms) if room is None else [room, *rooms[room]]
    if len(parts) > 1:
        if parts[0] not in allowed:
            return f"{room} may not use {parts[0]}"
        places = [replay]
    else:
        own = [] if room is None else [room, *WITHOUT_PREFIX.get(room, [])]
        places = [schemas, *(replay / place for place in own)]
    if name in GENERATED or any((place / name).is_file() for place in places):
        return None
    return "no such header in the room" if len(parts) == 1 else "no such header"


def symbols(archive: Path) -> tuple[set[str], set[str]]:
    """Global symbols that an archive defines, and those that it leaves undefined."""
    output = subprocess.run(
        ["nm", "--format=posix", "--extern-only", archive],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    defined, undefined = set(), set()
    for line in output.splitlines():
        fields = line.split()
        if len(fields) < 2 or len(fields[1]) != 1:
            continue  # the name of a member
        (undefined if fields[1] in "Uwv" else defined).add(fields[0])
    return defined, undefined - defined


def symbol_errors(archives: Mapping[str, Path], rooms: Rooms) -> list[str]:
    """Symbols that a room's archive takes from rooms that it may not use."""
    found = {room: symbols(archives[room]) for room in rooms}
    errors = []
    for room, (_, undefined) in found.items():
        for symbol in sorted(undefined):
            owners = [other for other, (defined, _) in found.items() if symbol in defined]
            if owners and not set(owners) & set(rooms[room]):
                errors.append(f"{room} uses {symbol} of {', '.join(owners)}")
    return errors
