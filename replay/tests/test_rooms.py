# SPDX-License-Identifier: Apache-2.0
"""Each room of the engine uses only the rooms that replay/meson.build allows it.

Within a room, no two files use each other, not even by way of others.

analyze/tests/test_rooms.py checks the rooms of the whole tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from circles import Symbols, circle_errors, circles, symbols_by_object

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


def compiled(folder: Path, *codes: str) -> Path:
    """An archive of C files: made_0.c, made_1.c, ..."""
    archive, targets = folder / "libmade.a", []
    for number, code in enumerate(codes):
        source, target = folder / f"made_{number}.c", folder / f"made_{number}.c.o"
        source.write_text(code)
        subprocess.run(["cc", "-c", source, "-o", target], check=True)
        targets.append(target)
    subprocess.run(["ar", "rcs", archive, *targets], check=True)
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


def test_no_room_has_a_circle_of_files() -> None:
    assert circle_errors(archives()) == []


def test_two_files_that_call_each_other_are_reported(tmp_path: Path) -> None:
    """The same call within one file, or of a static function of that name, is no circle."""
    below = "int below(void)\n{\n\treturn 0;\n}\n"
    roof = "int below(void);\nint roof(void)\n{\n\treturn below();\n}\n"
    assert circle_errors({"made": compiled(tmp_path, below, roof)}) == []
    back = "int roof(void);\nint below(void)\n{\n\treturn roof();\n}\n"
    assert circle_errors({"made": compiled(tmp_path, back, roof)}) == [
        "made: 0.c uses roof of 1.c, 1.c uses below of 0.c"
    ]
    own = "static int roof(void)\n{\n\treturn 0;\n}\nint below(void)\n{\n\treturn roof();\n}\n"
    assert circle_errors({"made": compiled(tmp_path, own, roof)}) == []


def test_a_wrong_call_within_a_room_is_reported() -> None:
    """pcp_free.c of model uses pcp.c, so pcp.c may not call pcp_free()."""
    objects = symbols_by_object(archives()["model"])
    objects["model_pcp.c.o"].undefined.add("pcp_free")
    (error,) = circles(objects)
    assert "model_pcp.c.o uses pcp_free of model_pcp_free.c.o" in error


def test_each_group_of_circles_is_named_by_its_shortest() -> None:
    uses = {"a": "b", "b": "c", "c": "ad", "d": "c", "e": "fa", "f": "e", "g": "a"}
    objects = {
        name: Symbols({f"{name}()"}, {f"{used}()" for used in others} | {"malloc"})
        for name, others in uses.items()
    }
    assert circles(objects) == [
        "c uses d() of d, d uses c() of c; in circles with them: a, b",
        "e uses f() of f, f uses e() of e",
    ]
