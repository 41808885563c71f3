# SPDX-License-Identifier: Apache-2.0
"""Each room of the collector uses only the rooms that collector/meson.build allows it.

replay/tests/rooms.py has the checks of includes and symbols. analyze/tests/test_rooms.py checks
the rooms of the whole tree.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COLLECTOR, SCHEMAS = ROOT / "collector", ROOT / "schemas"
BUILD = ROOT / os.environ.get("PAGETAPE_BUILD", "build/release")


def load(path: Path) -> Any:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rooms = load(ROOT / "replay/tests/rooms.py")
ROOMS = rooms.read_rooms(COLLECTOR / "meson.build")


def archives() -> dict[str, Path]:
    """The static library of each room, in the build directory."""
    found = {room: BUILD / f"collector/libcollector_{room}.a" for room in ROOMS}
    if absent := [room for room, archive in found.items() if not archive.exists()]:
        pytest.skip(f"ROOMS NOT CHECKED BY SYMBOL: {absent} not built; run `make setup`")
    return found


def file_arrows(archive: Path) -> dict[str, set[str]]:
    """Each file of an archive, and the other files whose symbols it takes."""
    output = subprocess.run(
        ["nm", "--format=posix", "--extern-only", archive],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    owner: dict[str, str] = {}
    wanted: dict[str, set[str]] = {}
    file = ""
    for line in output.splitlines():
        if line.endswith("]:"):
            file = Path(line[line.index("[") + 1 : -2]).name.removesuffix(".o")
            wanted[file] = set()
            continue
        symbol, kind, *_ = line.split()
        if kind in "Uwv":
            wanted[file].add(symbol)
        else:
            owner[symbol] = file
    return {
        file: {owner[symbol] for symbol in symbols if symbol in owner} - {file}
        for file, symbols in wanted.items()
    }


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """One circle of files, if there is any: each takes a symbol of the next."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_the_table_has_each_room_after_those_it_uses() -> None:
    names = list(ROOMS)
    for number, (room, below) in enumerate(ROOMS.items()):
        assert set(below) <= set(names[:number]), room


def test_the_includes_of_every_file_stay_in_the_allowed_rooms() -> None:
    assert rooms.include_errors(COLLECTOR, SCHEMAS, ROOMS) == []


def test_the_symbols_of_every_archive_are_of_allowed_rooms() -> None:
    assert rooms.symbol_errors(archives(), ROOMS) == []


@pytest.mark.parametrize("room", ROOMS)
def test_the_files_of_a_room_form_no_circle(room: str) -> None:
    arrows = file_arrows(archives()[room])
    assert {f"{room}_{path.name}" for path in (COLLECTOR / room).glob("*.c")} & set(arrows)
    assert circle(arrows) == []


def test_a_circle_is_named() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    found = circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    assert sorted(set(found)) == ["b", "c"]
    assert found[0] == found[-1]


@pytest.mark.parametrize(
    ("include", "error"),
    [
        ("decode/decode.h", "spool may not use decode"),
        ("subbuf.h", "no such header in the room"),  # of ring, without its room
        ("ring/nowhere.h", "no such header"),
    ],
)
def test_a_wrong_include_is_reported(tmp_path: Path, include: str, error: str) -> None:
    for room in ROOMS:
        shutil.copytree(COLLECTOR / room, tmp_path / room)
    with (tmp_path / "spool/writer.c").open("a") as file:
        file.write(f'#include "{include}"\n')
    found = rooms.include_errors(tmp_path, SCHEMAS, ROOMS)
    assert found == [f"spool/writer.c includes {include}: {error}"]
