# SPDX-License-Identifier: Apache-2.0
"""Each room of `collector/` and `replay/` uses only the rooms that its meson.build allows.

Within a room, no two files use each other, not even by way of others. analyze/tests/test_rooms.py
checks the rooms of the whole tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import rooms
from rooms import Symbols

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "schemas"
BUILD = ROOT / os.environ.get("PAGETAPE_BUILD", "build/release")
PARTS = ("collector", "replay")
ROOMS = {part: rooms.read_rooms(ROOT / part / "meson.build") for part in PARTS}
each_part = pytest.mark.parametrize("part", PARTS)


def archives(part: str) -> dict[str, Path]:
    """The static library of each room, in the build directory."""
    found = {room: BUILD / f"{part}/lib{part}_{room}.a" for room in ROOMS[part]}
    if absent := [room for room, archive in found.items() if not archive.exists()]:
        pytest.skip(f"ROOMS NOT CHECKED BY SYMBOL: {absent} not built; run `make setup`")
    return found


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


@each_part
def test_the_table_has_each_room_after_those_it_uses(part: str) -> None:
    names = list(ROOMS[part])
    for number, (room, below) in enumerate(ROOMS[part].items()):
        assert set(below) <= set(names[:number]), room


@each_part
def test_the_includes_of_every_file_stay_in_the_allowed_rooms(part: str) -> None:
    assert rooms.include_errors(ROOT / part, SCHEMAS, ROOMS[part]) == []


@each_part
def test_the_symbols_of_every_archive_are_of_allowed_rooms(part: str) -> None:
    assert rooms.symbol_errors(archives(part), ROOMS[part]) == []


def test_whereabouts_changes_no_state_of_the_model() -> None:
    """It answers what predict asks; predict moves the pages."""
    used = rooms.objects_of(archives("replay")["whereabouts"]).values()
    calls = set().union(*(found.undefined for found in used))
    headers = [*(ROOT / "replay/model").glob("*.h"), *(ROOT / "replay/tape").glob("*.h")]
    assert rooms.change_errors(ROOT / "replay/whereabouts") == []
    assert rooms.changing_calls(calls, headers) == []
    assert rooms.changing_calls(calls | {"pcp_remove", "pcp_fold"}, headers) == [
        "pcp_fold",
        "pcp_remove",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "struct frame *f = &m->frames[entry];",
        "static void take(const struct model *m, struct pcp *pcp)",
        "where->m->frames[entry].state = FRAME_USED;",
        "m->pcps[0].count -= 1;",
        "m->zones[0].nr_free++;",
    ],
)
def test_a_line_that_can_change_the_state_is_reported(tmp_path: Path, line: str) -> None:
    """The line after it only reads."""
    reads = "for (frame_nr e = m->frames[list].next; e != list && left--; e = m->frames[e].next)"
    (tmp_path / "made.c").write_text(f"{line}\n{reads}\n")
    assert rooms.change_errors(tmp_path) == [f"made.c:1: {line}"]


@pytest.mark.parametrize(("part", "room"), [(part, room) for part in PARTS for room in ROOMS[part]])
def test_the_files_of_a_room_form_no_circle(part: str, room: str) -> None:
    objects = rooms.objects_of(archives(part)[room])
    assert {f"{room}_{path.name}" for path in (ROOT / part / room).glob("*.c")} & set(objects)
    assert rooms.circle_error(objects) is None


@pytest.mark.parametrize(
    ("file", "include", "error"),
    [
        ("replay/tape/requests.c", "run/run.h", "tape may not use run"),
        ("replay/tape/requests.c", "policies/policies.h", "tape may not use policies"),
        ("replay/score/findings.c", "predict/predict.h", "score may not use predict"),
        ("replay/whereabouts/infer_pcp.c", "predict/predict.h", "whereabouts may not use predict"),
        ("replay/tape/requests.c", "buddy.h", "no such header in the room"),  # of model
        ("replay/tape/requests.c", "model/nowhere.h", "no such header"),
        ("replay/tape/requests.c", "../run/run.h", "a path with .."),
        ("collector/spool/writer.c", "decode/decode.h", "spool may not use decode"),
        ("collector/spool/writer.c", "subbuf.h", "no such header in the room"),  # of ring
    ],
)
def test_a_wrong_include_is_reported(tmp_path: Path, file: str, include: str, error: str) -> None:
    part, inside = file.split("/", 1)
    for room in ROOMS[part]:
        shutil.copytree(ROOT / part / room, tmp_path / room)
    with (tmp_path / inside).open("a") as opened:
        opened.write(f'#include "{include}"\n')
    found = rooms.include_errors(tmp_path, SCHEMAS, ROOMS[part])
    assert found == [f"{inside} includes {include}: {error}"]


def test_a_file_outside_the_rooms_is_reported(tmp_path: Path) -> None:
    shutil.copy(ROOT / "replay/model/clock.h", tmp_path)
    found = rooms.include_errors(tmp_path, SCHEMAS, ROOMS["replay"])
    assert found == ["clock.h is in no room"]


@pytest.mark.parametrize(
    ("part", "symbol", "owner", "below", "above"),
    [
        ("replay", "run_init", "run", "model", "freerun"),
        ("collector", "decoder_new", "decode", "spool", "record"),
    ],
)
def test_a_wrong_call_is_reported(
    tmp_path: Path, part: str, symbol: str, owner: str, below: str, above: str
) -> None:
    code = f"int {symbol}(void);\nint made(void);\nint made(void)\n{{\n\treturn {symbol}();\n}}\n"
    made = compiled(tmp_path, code)
    built = archives(part)
    assert rooms.symbol_errors(built | {above: made}, ROOMS[part]) == []
    wrong = rooms.symbol_errors(built | {below: made}, ROOMS[part])
    assert f"{below} uses {symbol} of {owner}" in wrong


def test_two_files_that_call_each_other_are_reported(tmp_path: Path) -> None:
    """The same call within one file, or of a static function of that name, is no circle."""
    below = "int below(void)\n{\n\treturn 0;\n}\n"
    roof = "int below(void);\nint roof(void)\n{\n\treturn below();\n}\n"
    back = "int roof(void);\nint below(void)\n{\n\treturn roof();\n}\n"
    own = "static int roof(void)\n{\n\treturn 0;\n}\nint below(void)\n{\n\treturn roof();\n}\n"

    def error(*codes: str) -> str | None:
        return rooms.circle_error(rooms.objects_of(compiled(tmp_path, *codes)))

    assert error(below, roof) is None
    assert error(own, roof) is None
    found = error(back, roof)
    assert found is not None
    assert "made_0.c uses roof of made_1.c" in found
    assert "made_1.c uses below of made_0.c" in found


def test_a_wrong_call_within_a_room_is_reported() -> None:
    """pcp_free.c of model uses pcp.c, so pcp.c may not call pcp_free()."""
    objects = rooms.objects_of(archives("replay")["model"])
    objects["model_pcp.c"].undefined.add("pcp_free")
    assert "model_pcp.c uses pcp_free of model_pcp_free.c" in (rooms.circle_error(objects) or "")


def test_a_circle_by_way_of_others_is_named() -> None:
    uses = {"a": "b", "b": "c", "c": "a", "d": "a"}
    objects = {
        name: Symbols({f"{name}()"}, {f"{used}()" for used in others} | {"malloc"})
        for name, others in uses.items()
    }
    found = rooms.circle_error(objects) or ""
    assert all(f"{name} uses {uses[name]}() of {uses[name]}" in found for name in "abc")
    assert "d uses" not in found
