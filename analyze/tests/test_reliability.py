# SPDX-License-Identifier: Apache-2.0
"""Damaged inputs of every kind on every command, and the checks of analyze/reliability."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import commands
import mutate
import pytest
import trial


def in_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: Callable[[], int]) -> str:
    """The failure of a command that does `work`, with limits that a test can wait for."""
    monkeypatch.setattr(trial.cli, "run", lambda _line: work())
    monkeypatch.setattr(trial, "SECONDS", 1.0 if work is sleep else 20.0)
    result = trial.run(["info"], tmp_path)
    return trial.failure(["info"], result, changed=False, left=[])


def say(text: str, fd: int = 2, status: int = 1) -> int:
    os.write(fd, text.encode())
    return status


def fail() -> int:
    raise ValueError("x")


def sleep() -> int:
    time.sleep(60)
    return 0


def kill() -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def fill_memory() -> int:
    return len(bytearray(b"x") * (trial.MEMORY + (64 << 20))) & 1


@pytest.mark.parametrize(
    ("work", "failure"),
    [
        (lambda: 0, ""),
        (lambda: say("pagetape: t.tape: not a tape\n"), ""),
        (lambda: say("pagetape: a note\n", status=0), ""),
        (lambda: 1, "stderr"),
        (lambda: say("decode.c:508: 3\n"), "stderr"),
        (lambda: say("pagetape: x\n" * 9), "stderr"),
        (lambda: say("pagetape: x\n", status=3), "status"),
        (lambda: say("\x1b[2J", fd=1, status=0), "control"),
        (lambda: say("pagetape: \x9b1m\n"), "control"),
        (fail, "traceback"),
        (sleep, "hang"),
        (kill, "crash"),
        (fill_memory, "memory"),
    ],
)
def test_a_wrong_result_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: Callable[[], int], failure: str
) -> None:
    assert in_child(monkeypatch, tmp_path, work) == failure


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"a": NaN}', b'{"a": 1}{}'])
def test_json_that_is_none_is_seen(text: bytes) -> None:
    result = trial.Result(0, 0, 0.1, 0, False, False, text, b"")
    assert trial.failure(["info", "--json"], result, changed=False, left=[]) == "json"
    assert trial.failure(["info"], result, changed=False, left=[]) == ""


def test_a_changed_input_and_a_piece_of_an_output_are_seen(tmp_path: Path) -> None:
    good = trial.Result(0, 0, 0.1, 0, False, False, b"", b"")
    refused = trial.Result(1, 0, 0.1, 0, False, False, b"", b"pagetape: no\n")
    assert trial.failure(["info"], good, changed=True, left=[]) == "modified"
    assert trial.failure(["replay"], refused, changed=False, left=["r.tape"]) == "leftover"
    assert trial.failure(["replay"], good, changed=False, left=["r.tape"]) == ""
    (tmp_path / "a").write_text("1")
    before = trial.state(tmp_path)
    assert trial.state(tmp_path) == before
    (tmp_path / "b").touch()
    assert trial.state(tmp_path) != before


def test_the_seed_decides_input_and_command() -> None:
    for kind in mutate.KINDS.values():
        lines = [kind.lines(Random("7")) for _ in range(2)]
        assert lines[0] == lines[1]
    planned = list(mutate.plan(1000, 0, list(mutate.KINDS)))
    assert len(set(planned)) == 1000
    share = sum(kind == "tape" for kind, _ in planned) / 10
    assert share == pytest.approx(mutate.SHARES["tape"], abs=1)


def test_every_reading_command_is_tried() -> None:
    random = Random(1)
    lines = [commands.of_tape("t.tape", random) for _ in range(2000)]
    lines += [commands.of_options("t.tape", random) for _ in range(500)]
    names = {line[0] for line in lines} | {"import"}
    live = {"record", "top", "doctor", "install-service"}  # they read no input
    assert names == set(trial.cli.COMMANDS) - live - {"policies"}
