# SPDX-License-Identifier: Apache-2.0
"""The rooms of the tree: schemas uses none, collector and replay use schemas, queries columns only.

import-linter checks the layers inside the Python package (pyproject.toml); this
checks what it does not see: C, Cython, the build files, and the queries.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {
    "schemas": {"pagetape.schemas"},
    "collector": {
        "pagetape.schemas",
        "pagetape._collector",
        "pagetape.cma",
        "pagetape.gfp_names",
        "pagetape.kpageflags",
        "pagetape.machine_id",
        "pagetape.proc_agree",
        "pagetape.proc_copies",
        "pagetape.proc_dates",
        "pagetape.proc_form",
        "pagetape.proc_log",
        "pagetape.proc_metrics",
        "pagetape.proc_sources",
        "pagetape._proc_reader",
        "pagetape.procfs",
        "pagetape.ring_stats",
        "pagetape.source_elsewhere",
    },
    "replay": {"pagetape.schemas", "pagetape._replay"},
}
OTHER_ROOMS = {
    "schemas": {"collector", "replay", "analyze", "queries"},
    "collector": {"replay", "analyze", "queries"},
    "replay": {"collector", "analyze", "queries"},
}


def sources(room: str, *endings: str) -> Iterator[Path]:
    """The room's own files; its tests and benchmarks may look further."""
    for path in sorted((ROOT / room).rglob("*")):
        inside = path.relative_to(ROOT / room).parts
        if path.suffix in endings and not {"tests", "bench", "__pycache__"} & set(inside):
            yield path


def imports(path: Path) -> set[str]:
    """Modules of pagetape that a Python or Cython file imports."""
    text = path.read_text()
    if path.suffix == ".pyx":
        found = re.findall(r"^\s*(?:from|c?import) +(pagetape[\w.]*)", text, re.MULTILINE)
        return set(found)
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module == "pagetape"
            names |= {f"pagetape.{a.name}" for a in node.names} if whole else {node.module}
    return {name for name in names if name.startswith("pagetape")}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_python_imports_stay_in_the_room_and_below(room: str) -> None:
    for path in sources(room, ".py", ".pyx", ".pyi"):
        for name in imports(path):
            allowed = any(name == a or name.startswith(a + ".") for a in MAY_IMPORT[room])
            assert allowed, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_c_includes_stay_in_the_room_and_below(room: str) -> None:
    """schemas/tests/test_c_rooms.py checks the rooms inside replay and collector."""
    generated = {"tables.h", "kernel_rows.h", "policies/policy_list.h"}
    headers = [path for r in {room, "schemas"} for path in sources(r, ".h")]
    for path in sources(room, ".c", ".h"):
        for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            known = name in generated or any(header.match(name) for header in headers)
            assert known, f"{path.relative_to(ROOT)} includes {name}"
            assert not OTHER_ROOMS[room] & set(Path(name).parts)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_build_files_name_no_other_room(room: str) -> None:
    words = set(re.findall(r"\w+", (ROOT / room / "meson.build").read_text()))
    for other in OTHER_ROOMS[room]:
        assert not {other, f"{other}_dep", f"{other}_lib"} & words


def test_queries_are_sql_and_name_no_file() -> None:
    for path in sources("queries", ".sql", ".py", ".c", ".txt", ".toml"):
        assert path.suffix == (".toml" if path.parent.name == "papers" else ".sql")
        assert not re.search(r"read_\w+\(|\.arrow|\.parquet", path.read_text())
