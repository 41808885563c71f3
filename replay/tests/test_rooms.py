# SPDX-License-Identifier: Apache-2.0
"""Each room of the engine uses only the rooms that replay/meson.build allows it.

analyze/tests/test_rooms.py checks the rooms of the whole tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .rooms import include_errors, read_rooms, symbol_errors

ROOT = Path(__file__).parents[2]
REPLAY, SCHEMAS = ROOT / "replay", ROOT / "schemas"
ROOMS = read_rooms(REPLAY / "meson.build")
BUILD = ROOT / os.environ.get("PAGETAPE_BUILD", "build/release")


def archives() -> dict[str, Path]:
    """The static library of each room, in the build directory."""
    if not BUILD.is_dir():
        pytest.skip(f"ROOMS NOT CHECKED BY SYMBOL: {BUILD} does not exist; run `make setup`")
    return {room: BUILD / f"replay/libreplay_{room}.a" for room in ROOMS}


def compiled(folder: Path, code: str) -> Path:
    """An archive of one C file."""
    source, target, archive = folder / "made.c", folder / "made.o", folder / "libmade.a"
    source.write_text(code)
    subprocess.run(["cc", "-c", source, "-o", target], check=True)
    subprocess.run(["ar", "rcs", archive, target], check=True)
    return archive


def test_the_table_has_each_room_after_those_it_uses() -> None:
    assert ROOMS["model"] == []
    names = list(ROOMS)
    for number, (room, below) in enumerate(ROOMS.items()):
        assert set(below) <= set(names[:number]), room


def test_the_includes_of_every_file_stay_in_the_allowed_rooms() -> None:
    assert include_errors(REPLAY, SCHEMAS, ROOMS) == []


def test_the_symbols_of_every_archive_are_of_allowed_rooms() -> None:
    assert symbol_errors(archives(), ROOMS) == []


@pytest.mark.parametrize(
    ("include", "error"),
    [
        ("run/run.h", "tape may not use run"),
        ("policies/policies.h", "tape may not use policies"),
        ("buddy.h", "no such header in the room"),  # of model, without its room
        ("model/nowhere.h", "no such header"),
        ("../run/run.h", "a path with .."),
    ],
)
def test_a_wrong_include_is_reported(tmp_path: Path, include: str, error: str) -> None:
    copy = tmp_path / "replay"
    for room in ROOMS:
        shutil.copytree(REPLAY / room, copy / room)
    assert include_errors(copy, SCHEMAS, ROOMS) == []
    with (copy / "tape/requests.c").open("a") as file:
        file.write(f'#include "{include}"\n')
    assert include_errors(copy, SCHEMAS, ROOMS) == [f"tape/requests.c includes {include}: {error}"]


def test_a_file_outside_the_rooms_is_reported(tmp_path: Path) -> None:
    shutil.copy(REPLAY / "model/clock.h", tmp_path)
    assert include_errors(tmp_path, SCHEMAS, ROOMS) == ["clock.h is in no room"]


def test_a_wrong_call_is_reported(tmp_path: Path) -> None:
    """model calls run_init() of run; the same call from freerun is allowed."""
    code = "int run_init(void);\nint made(void);\nint made(void)\n{\n\treturn run_init();\n}\n"
    made = compiled(tmp_path, code)
    assert symbol_errors(archives() | {"freerun": made}, ROOMS) == []
    assert "model uses run_init of run" in symbol_errors(archives() | {"model": made}, ROOMS)
