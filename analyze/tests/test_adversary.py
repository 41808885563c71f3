# SPDX-License-Identifier: Apache-2.0
"""Another user prepares the working directory, the places of outputs and the names on a tape.

docs/security.md says who is trusted with what. Each command runs here as it is installed, in a
directory in which another user has put files. Nothing of that may run, be followed or be printed.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.cli import COMMANDS

Run = Callable[..., Any]

NOBODY = 65534
SECRET = "passw0rd"  # in a file of mode 0600 that no command names
PROGRAM = Path(sys.executable).with_name("pagetape")

# What Python, DuckDB, Matplotlib, shells and libraries might take from a working directory.
MODULES = (
    *("json", "pickle", "site", "sitecustomize", "usercustomize", "duckdb", "pyarrow", "click"),
    *("pagetape", "rich", "random", "signal", "statistics", "encodings", "matplotlib", "dask"),
)
CONFIGURATIONS = {
    ".duckdbrc": "COPY (SELECT 1) TO '{ran}';",
    "matplotlibrc": "backend: planted",
    ".pagetape": "planted",
    "pyproject.toml": "[tool.pagetape]\nunsafe = true\n",
    "sh": "#!/bin/sh\ntouch {ran}\n",
    "python3": "#!/bin/sh\ntouch {ran}\n",
    "systemctl": "#!/bin/sh\ntouch {ran}\n",
    "libtraceevent.so.1": "planted",
    "libarrow.so": "planted",
}

# Each command line that reads a tape, and one for every other command. OUT is a new place.
LINES = {
    "info": ["info", "T"],
    "diagnose": ["diagnose", "T"],
    "replay": ["replay", "T", "--ensemble", "2", "-o", "OUT"],
    "validate": ["validate", "T"],
    "explain": ["explain", "T"],
    "gfp": ["gfp", "0x2084020"],
    "policies": ["policies"],
    "kernels": ["kernels"],
    "compare": ["compare", "T", "T", "--ensemble", "2"],
    "ab": ["ab", "--set", "watermark_boost_factor=1,2", "--dry-run", "-o", "OUT", "--", "true"],
    "sweep": ["sweep", "T", "--ensemble", "2", "-o", "OUT"],
    "report": ["report", "extfrag.by_migratetype", "T", "--csv"],
    "html": ["html", "T", "-o", "OUT.html"],
    "sql": ["sql", "T", "SELECT count(*) FROM event"],
    "archive": ["archive", "T", "-o", "OUT"],
    "ship": ["ship", ".", "OUT"],
    "pull": ["pull", "--ssh", "false", "web1:tapes", "OUT"],
    "prune": ["prune", "OUT"],
    "verify": ["verify", "."],
    "compact": ["compact", "OUT"],
    "paper": ["paper", "reserve", "T", "--ensemble", "2"],
    "load": ["load"],
    "export": ["export", "T", "-o", "OUT.json"],
    "schema": ["schema"],
    "demo": ["demo", "-o", "OUT"],
    "doctor": ["doctor"],
    "install-service": ["install-service", "--print"],
    "import": ["import", "T", "-o", "OUT", "--private", "hash"],
}
LIVE = {
    "record": ["record", "-o", "OUT", "--duration", "0.3", "--snapshot", "proc"],
    "top": ["top", "--count", "1", "--json"],
}


def test_every_command_is_tried() -> None:
    assert LINES.keys() | LIVE.keys() == COMMANDS.keys()


@pytest.fixture
def hostile(tmp_path: Path, small: Path) -> Path:
    """A working directory that another user has prepared; `ran` beside it must not appear."""
    place, ran = tmp_path / "work", tmp_path / "ran"
    place.mkdir()
    for name in MODULES:
        (place / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\n")
    for name, text in CONFIGURATIONS.items():
        (place / name).write_text(text.format(ran=ran))
        (place / name).chmod(0o755)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    for name in ("event.arrow", "zone.arrow", "tmp", ".tmp", "spool"):
        (place / name).symlink_to(secret)
    (place / "T").symlink_to(small)
    if not os.geteuid():
        for path in (place, *place.iterdir()):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return place


def run(hostile: Path, line: list[str]) -> subprocess.CompletedProcess[str]:
    argv = [str(PROGRAM), *(word.replace("OUT", str(hostile.parent / "out")) for word in line)]
    return subprocess.run(argv, cwd=hostile, capture_output=True, text=True, check=False)


def check(hostile: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert not (hostile.parent / "ran").exists()
    assert SECRET not in done.stdout + done.stderr
    assert (hostile.parent / "secret").read_text() == SECRET


@pytest.mark.parametrize("command", LINES)
def test_a_command_runs_and_follows_nothing_of_the_working_directory(
    command: str, hostile: Path
) -> None:
    before = {path.name: path.lstat().st_mtime_ns for path in hostile.iterdir()}
    check(hostile, run(hostile, LINES[command]))
    assert {path.name: path.lstat().st_mtime_ns for path in hostile.iterdir()} == before


@livetest.recording
@pytest.mark.parametrize("command", LIVE)
def test_a_live_command_does_neither(command: str, hostile: Path) -> None:
    done = run(hostile, LIVE[command])
    check(hostile, done)
    assert done.returncode == 0, done.stderr


# ---- the places of outputs

OUTPUTS = {
    "tape": ["replay", "T", "--ensemble", "0", "-o", "PLACE", "--force"],
    "page": ["html", "T", "-o", "PLACE"],
    "timeline": ["export", "T", "-o", "PLACE", "--force"],
    "private": ["import", "T", "-o", "PLACE", "--private", "drop", "--force"],
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["a link to a file", "a link to a directory", "a FIFO"])
def test_an_output_replaces_nothing_through_a_link(output: str, kind: str, hostile: Path) -> None:
    home = hostile.parent / "home"
    home.mkdir()
    (home / "file").write_text("mine")
    place = hostile / "place"
    if kind == "a FIFO":
        os.mkfifo(place)
    else:
        place.symlink_to(home / "file" if "file" in kind else home)
    line = [word.replace("PLACE", str(place)) for word in OUTPUTS[output]]
    if kind == "a FIFO" and output in ("page", "timeline"):
        pytest.skip("a FIFO may take a file: somebody reads it")
    done = run(hostile, line)
    check(hostile, done)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert [path.name for path in home.iterdir()] == ["file"]
    assert (home / "file").read_text() == "mine"


def test_new_files_are_as_private_as_the_tape(hostile: Path, small: Path) -> None:
    """A tape of root, 0600, does not become readable by what is made from it."""
    modes = {path: path.stat().st_mode for path in (small, *small.iterdir())}
    for path in modes:
        path.chmod(0o700 if path.is_dir() else 0o600)
    archive = ["archive", "T", "-o", "OUT.archive"]
    for line in (LINES["html"], LINES["export"], LINES["replay"], archive):
        check(hostile, run(hostile, line))
    made = [*hostile.parent.glob("out*")]
    assert {path.name for path in made} == {"out", "out.archive", "out.html", "out.json"}
    for path in made:
        for one in (path, *path.rglob("*")):
            assert not stat.S_IMODE(one.stat().st_mode) & 0o077, one


# ---- names that a tape brings

NAME = (
    "=cmd|' /C calc'!A0 <script>alert(1)</script> '); DROP TABLE event; -- $(touch ran)"
    " \x1b]0;owned\x07 \u202egnp.exe \r\n"
)
SHOWN = (
    ["info"],
    ["diagnose"],
    ["report", "extfrag.by_task"],
    ["report", "extfrag.by_task", "--csv"],
    ["report", "extfrag.by_task", "--json"],
    ["sql", "SELECT comm FROM task", "--csv"],
    ["html", "-o", "-"],
    ["export", "-o", "-"],
)


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_name_is_text_in_every_output(
    words: list[str], golden_with: Callable[[dict[str, Any]], Path], pagetape: Run
) -> None:
    facts = dict.fromkeys(("host", "boot_id", "kernel", "version"), NAME)
    said = pagetape(
        words[0],
        *([words[1]] if words[0] == "report" else []),
        golden_with(facts),
        *(words[2:] if words[0] == "report" else words[1:]),
    )
    assert said.status in (0, 1)
    for control in ("\x1b", "\x07", "\u202e"):
        assert control not in said.out + said.err
    assert "<script>alert" not in said.out or words[0] != "html"
