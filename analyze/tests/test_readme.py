# SPDX-License-Identifier: Apache-2.0
"""Every command of the README, run in the order in which it stands there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import livetest
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent

# What only a machine that can be recorded has: words of its commands.
LIVE = {"web1.tape", "tar.tape", "doctor", "tapes", "stacks.tape", "raw.tape", "whole.tape", "top"}


def commands() -> list[str]:
    """The lines after `$ ` in console blocks, without sudo and comments."""
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    said = [line.removeprefix("$ ").removeprefix("sudo ") for line in lines if line[:2] == "$ "]
    return [line.split("    #")[0] for line in said]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader of the README stands: a clone, and files brought from a host."""
    desk = tmp_path_factory.mktemp("readme")
    for room in ("analyze", "collector"):
        (desk / room).symlink_to(ROOT / room)
    shutil.copy(ROOT / "collector/tests/data/linux-6.12.dat", desk / "trace.dat")
    (desk / "proc").mkdir()
    for name in ("zoneinfo", "buddyinfo", "vmstat"):
        for when in ("before", "after"):
            (desk / "proc" / f"{name}.{when}").write_bytes(Path("/proc", name).read_bytes())
    return desk


@pytest.mark.parametrize("command", commands())
def test_the_command_works(desk: Path, command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
        return
    assert words[0] == "pagetape"
    if LIVE & set(words) and livetest.why_not():
        livetest.skip(livetest.why_not())
    env = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=desk, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_has_commands() -> None:
    assert len(commands()) > 10
