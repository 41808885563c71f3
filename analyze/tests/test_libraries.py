# SPDX-License-Identifier: Apache-2.0
"""A machine without the trace libraries: tapes are analysed, and a recorder says what it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pagetape import libraries
from pagetape.recording import eventsets

DAT = Path(__file__).parents[2] / "collector/tests/data/linux-6.12.dat"

# A process in which the dynamic linker finds no library of the collector's.
BARE = """
import sys

LACK = {"pagetape._collector": "libtracecmd.so.1", "pagetape._snapshot": "libbpf.so.1"}

class Linker:
    def find_spec(self, name, path=None, target=None):
        if name in LACK:
            said = "cannot open shared object file: No such file or directory"
            module = name.partition(".")[2]
            path = f"/usr/lib/python3/pagetape/{module}.abi3.so"
            raise ImportError(f"{LACK[name]}: {said}", name=module, path=path)

sys.meta_path.insert(0, Linker())
from pagetape.cli import run
sys.exit(run(sys.argv[1:]))
"""
NEEDED = (
    "pagetape: recording and importing: libtracecmd.so.1 is missing here; on Debian:"
    " apt install libtraceevent1 libtracefs1 libtracecmd1\n"
)


def bare(*args: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", BARE, *map(str, args)]
    return subprocess.run(line, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "line",
    [
        ("info", "TAPE"),
        ("report", "extfrag.by_task", "TAPE"),
        ("sql", "TAPE", "SELECT count(*) FROM event"),
        ("replay", "TAPE", "--policy", "nofragment"),
        ("kernels",),
        ("policies",),
        ("schema", "event"),
        ("record", "--help"),
        ("import", "--help"),
        ("top", "--help"),
        ("ab", "--help"),
        ("install-service", "--help"),
    ],
    ids=lambda line: " ".join(line[:2]),
)
def test_tapes_are_analysed(line: tuple[str, ...], small: Path) -> None:
    done = bare(*(small if word == "TAPE" else word for word in line))
    assert (done.returncode, "missing" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("line", [("record", "--duration", "1"), ("import", DAT), ("top",)])
def test_the_collector_says_what_is_missing(line: tuple[str, ...], tmp_path: Path) -> None:
    out = () if line == ("top",) else ("-o", tmp_path / "new.tape")
    done = bare(*line, *out)
    said = done.stderr.splitlines(keepends=True)
    assert (done.returncode, said[-1]) == (1, NEEDED)
    assert len(said) == 1 + (line[0] == "record")  # which has said that it prepares
    assert not list(tmp_path.iterdir())


def test_doctor_has_a_line_about_it() -> None:
    done = bare("doctor", "--json")
    answer = json.loads(done.stdout)
    found = {check["name"]: check for check in answer["checks"]}
    assert (done.returncode, answer["can_record"]) == (1, False)
    assert found["trace libraries"]["ok"] is False
    assert "apt install libtraceevent1" in found["trace libraries"]["found"]
    assert "libbpf.so.1 is missing" in found["exact snapshot"]["found"]
    assert f"--events {next(iter(eventsets.SETS))}" in found or "tracefs" in found
    assert bare("doctor").stdout.endswith("reports and replays of tapes do\n")


def test_another_module_that_is_missing_is_an_error_of_pagetape() -> None:
    assert libraries.missing(ImportError("no such thing", name="pagetape.asking")) is None
    found = libraries.missing(ImportError("undefined symbol: x", name="pagetape._collector"))
    other = ImportError(
        "libx.so: cannot open shared object file", name="_collector", path="/x/y.so"
    )
    assert libraries.missing(other) is None
    assert found == "recording and importing: undefined symbol: x"
