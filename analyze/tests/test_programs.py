# SPDX-License-Identifier: Apache-2.0
"""analyze/lab/programs.py: the draw, and what a recording of a program leaves."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Any

import livetest
import programs
import pytest

from pagetape.schemas.tape import Tape


def _program(**keys: Any) -> programs.Program:
    return programs.Program(**{"name": "own", "half": "seen", "words": "a test", **keys})


def test_at_least_ten_programs_and_half_of_them_unseen() -> None:
    found = programs.programs()
    assert len(found) >= 10
    assert sum(one.half == "unseen" for one in found) == len(found) // 2
    for one in found:
        for step in (one.prepare, one.run, one.end):
            subprocess.run(["sh", "-n", "-c", step], check=True)


def test_a_changed_list_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = programs.LIST.read_text()
    monkeypatch.setattr(programs, "LIST", tmp_path / "programs.toml")
    programs.LIST.write_text(text + '[new]\nwords = "new"\nrun = "true"\n')
    with pytest.raises(ValueError, match="other halves"):
        programs.programs()


def test_a_program_without_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = _program(run="true", packages=["no-such-package"])
    monkeypatch.setattr(programs, "programs", lambda: [absent])
    assert programs.record(tmp_path / "programs") == 2
    assert "own-pressure (seen, a test): apt-get install no-such-package" in capsys.readouterr().err


@livetest.recording
@pytest.mark.parametrize("fails", [False, True])
def test_a_recording_ends_what_its_program_began(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = "test -e begun && sleep $SECONDS" + (" && false" if fails else "")
    one = _program(prepare="touch begun", run=run, end=f"rm begun && touch {tmp_path}/ended")
    monkeypatch.setattr(programs, "programs", lambda: [one])
    assert programs.record(tmp_path / "programs", seconds=1, names=["own-calm"]) == fails
    assert (tmp_path / "ended").exists()
    (tape,) = (tmp_path / "programs").iterdir()
    assert tape.name == "own-calm.tape" and Tape(tape).num_rows("event") > 0


def test_one_memory_hog_runs_at_a_time() -> None:
    with contextlib.ExitStack() as stack:
        if not programs._hog():
            stack.enter_context(programs.hogging(10**7))  # pins nothing: less is available
        with pytest.raises(OSError, match=r"process \d+ pins memory already"):
            stack.enter_context(programs.hogging(10**7))
