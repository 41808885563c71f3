# SPDX-License-Identifier: Apache-2.0
"""Functions in a process of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kept_process import KeptProcess

from pagetape.replaying.isolated import Crash, Failure, Process


def test_results_and_errors_come_back() -> None:
    with Process() as process:
        assert process.call(os.getpid) != os.getpid()
        assert process.call(os.getpid) == process.call(os.getpid)
        with pytest.raises(FileNotFoundError):
            process.call(os.stat, "/none")
        with pytest.raises(Failure, match="ValueError: invalid literal"):
            process.call(int, "x")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda process: process.call(os.abort), "signal SIGABRT"),
        (lambda process: process.call(os._exit, 3), "exit status 3"),
        (lambda process: process.call(os.kill, process.call(os.getpid), 9), "signal SIGKILL"),
    ],
)
def test_an_end_is_an_error_and_the_next_call_starts_anew(end: object, words: str) -> None:
    assert callable(end)
    with Process() as process:
        with pytest.raises(Crash, match=words):
            end(process)
        assert process.call(int, "1") == 1


def test_what_the_process_prints_is_no_answer() -> None:
    with Process() as process:
        assert process.call(print, "hello") is None
        assert process.call(os.system, "echo hello") == 0


@pytest.mark.parametrize("named", ["", ".", "plain"])
def test_it_runs_no_file_of_the_working_directory(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor of a relative place in PYTHONPATH."""
    there = tmp_path / named
    there.mkdir(exist_ok=True)
    for name in ("json", "pickle", "pagetape", "pyarrow", "sitecustomize", "signal"):
        (there / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", named)
    with Process() as process:
        assert process.call(json.loads, "[1]") == [1]
    assert not (tmp_path / "ran").exists()


HOLDER = """
import os, sys, time
from pagetape.replaying.isolated import Process
with Process() as process:
    print(process.call(os.getpid), flush=True)
    time.sleep(600)
"""


def lives(pid: int) -> bool:
    """Whether the process runs; an orphan that has ended may wait long for the init to reap it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_process_ends_with_the_one_that_started_it(number: int) -> None:
    argv = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        assert lives(child)
        holder.send_signal(number)
    end = time.monotonic() + 60
    while lives(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not lives(child)


def test_a_kept_process_serves_the_next_sweep_of_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kept_process.py: not after an error, in another environment, or when somebody ended it."""

    def served() -> int:
        with KeptProcess() as process:
            return int(process.call(os.getpid))

    first = served()
    assert served() == first
    with pytest.raises(FileNotFoundError), KeptProcess() as process:
        process.call(os.stat, "/none")
    second = served()
    assert second != first and not lives(first)
    monkeypatch.setenv("PAGETAPE_ENSEMBLE", "3")
    third = served()
    assert third != second and not lives(second)
    monkeypatch.chdir(tmp_path)
    fourth = served()
    assert fourth != third
    os.kill(fourth, signal.SIGKILL)
    os.waitid(os.P_PID, fourth, os.WEXITED | os.WNOWAIT)  # the end of its last thread
    assert served() != fourth
