# SPDX-License-Identifier: Apache-2.0
"""The manual pages: one for each command, with its options, and groff accepts them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pagetape.cli import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("man") / "man1"
    subprocess.run([ROOT / ".ci/man", out], check=True)
    return out


def test_each_command_has_a_page(pages: Path) -> None:
    found = {path.name for path in pages.iterdir()}
    assert found == {"pagetape.1", *(f"pagetape-{name}.1" for name in COMMANDS)}


def test_a_page_has_the_options_of_the_help(pages: Path) -> None:
    text = (pages / "pagetape-compare.1").read_text().replace("\\-", "-")
    assert "--ensemble" in text and "--json" in text and "--wide" in text
    assert "pagetape compare base.tape whatif.tape" in text.split(".SH EXAMPLE")[1]


def test_the_page_of_a_group_lists_its_commands(pages: Path) -> None:
    text = (pages / "pagetape.1").read_text()
    for name in COMMANDS:
        assert f"\\fB{name.replace('-', chr(92) + '-')}\\fR" in text
    assert "extfrag.by_migratetype" in (pages / "pagetape-report.1").read_text()


def test_no_page_has_a_control_character_or_an_unknown_request(pages: Path) -> None:
    for path in pages.iterdir():
        text = path.read_text()
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", text), path.name
        requests = set(re.findall(r"^[.']\S*", text, re.MULTILINE))
        assert requests <= {".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}, path.name


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_man_shows_each_page_without_a_warning(pages: Path) -> None:
    for path in pages.iterdir():
        said = subprocess.run(
            ["man", "--warnings=all", "-l", path],
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stderr == "", path.name
        assert "SYNOPSIS" in said.stdout
