# SPDX-License-Identifier: Apache-2.0
"""`import pagetape` in a program: a few names, each imported when it is used."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import pagetape

STUB = Path(__file__).parents[1] / "pagetape/__init__.pyi"


def test_the_stub_lists_the_names_of_the_package() -> None:
    found = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module
            found |= {alias.name: node.module for alias in node.names}
    assert set(found) == set(pagetape.__all__) <= set(dir(pagetape))
    for name, module in found.items():
        assert getattr(pagetape, name) is getattr(import_module(module), name)


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tape'"):
        getattr(pagetape, "tape")  # noqa: B009


def test_the_import_alone_reads_no_library() -> None:
    code = "import sys, pagetape; assert not {'pyarrow', 'duckdb', 'click'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_program_asks_a_tape(golden: Path) -> None:
    with pagetape.Database([pagetape.Tape(golden)]) as db:
        assert db.run(pagetape.reports()["metrics"]).rows


def test_the_debian_package_has_the_version_of_the_wheel() -> None:
    changelog = (Path(__file__).parents[2] / ".ci/debian/changelog").read_text()
    assert changelog.startswith(f"pagetape ({version('pagetape')}-")
