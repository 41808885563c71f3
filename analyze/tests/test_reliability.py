# SPDX-License-Identifier: Apache-2.0
"""Damaged inputs of every kind on every command, and the checks of analyze/lab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import archives
import commands
import faults
import fleet_trial
import fuzz
import fuzz_table
import kills
import livetest
import matrix
import mutate
import pytest
import trial


def tried(*options: object) -> dict[str, Any]:
    """The summary of a run of mutate.py."""
    words = [sys.executable, mutate.__file__, "--json", *map(str, options)]
    found: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True).stdout)
    return found


def check(found: dict[str, Any], count: int) -> None:
    wrong = [
        (one["failure"], one["kind"], one["seed"], one["line"], one["tail"])
        for one in found["failures"]
    ]
    assert wrong == []
    assert found["inputs"] == count


def in_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: Callable[[], int]) -> str:
    """The failure of a command that does `work`, with limits that a test can wait for."""
    monkeypatch.setattr(trial.cli, "run", lambda _line: work())
    if work in (sleep, work_hard):
        monkeypatch.setattr(trial, "SECONDS", 0.5)
        monkeypatch.setattr(trial, "WAITS", 2 if work is sleep else 100)
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


def work_hard() -> int:
    while True:
        pass


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
        (work_hard, "hang"),
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
    live = {
        "ab",
        "demo",
        "record",
        "top",
        "doctor",
        "install-service",
        "explain",  # fuzz_messages
        "load",
        "gfp",
        *("ship", "pull", "prune", "verify", "compact"),  # an archive: test_archive
    }  # they read no tape of others
    assert names == set(trial.cli.COMMANDS) - live - {"policies", "kernels"}


FUZZED = """\

== fuzz_dat
INFO: seed corpus: files: 12 min: 1b max: 4096b total: 9999b rss: 31Mb
#12 INITED cov: 400 ft: 900 corp: 9/8190b exec/s: 0 rss: 40Mb
#120034\tDONE   cov: 512 ft: 2048 corp: 77/120Kb lim: 4096 exec/s: 2000 rss: 60Mb
Done 120034 runs in 61 second(s)
stat::number_of_executed_units: 120034

== fuzz_spool
#7 INITED cov: 1 ft: 1 corp: 1/1b exec/s: 0 rss: 40Mb
==77==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1
"""


def test_the_figures_of_fuzz_targets_are_read() -> None:
    dat, spool = fuzz.parse(FUZZED)
    assert (dat["target"], dat["executions"]) == ("fuzz_dat", 120034)
    assert (dat["edges"], dat["features"], dat["corpus"], dat["finding"]) == (512, 2048, 77, None)
    assert spool["executions"] == 7
    assert "heap-buffer-overflow" in spool["finding"]


def test_a_fuzz_target_runs_until_it_had_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "== fuzz_dat\n#9\tDONE cov: 5 ft: 6 corp: 7/1b lim: 9 exec/s: 1 rss: 1Mb\n"
    asked = []

    def make(target: str, seconds: str) -> tuple[int, str, float]:
        asked.append((target, seconds))
        return 0, text, 20.0  # the machine is busy with other work

    monkeypatch.setattr(fuzz, "_make", make)
    row = fuzz._run("fuzz_dat", 50)
    assert asked == [("FUZZ_TARGETS=fuzz_dat", f"FUZZ_SECONDS={n}") for n in (50, 30, 10)]
    assert (row["executions"], row["cpu_seconds"], row["finding"]) == (27, 60.0, None)
    monkeypatch.setattr(fuzz, "_make", lambda *_: (2, "Traceback: at round 7", 1.0))
    assert "at round 7" in fuzz._run("fuzz_proc", 50)["finding"]


def test_damaged_tables_are_read_or_refused(tmp_path: Path) -> None:
    """In a process of its own, whose memory is limited."""
    command = [sys.executable, fuzz_table.__file__, "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (target,) = fuzz.parse(f"== fuzz_table\n{done.stdout}")
    assert target["executions"] > 20 and target["finding"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_breaks_its_reader_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fuzz_table.py", "60"])
    monkeypatch.setattr(fuzz_table.Tape, "batches", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        fuzz_table.main()
    assert (tmp_path / "fuzz_table-crash/event.arrow").exists()


def test_damaged_inputs_are_counted_by_kind_and_command() -> None:
    line = "pagetape info t.tape"
    reports = [
        mutate.Report("tape", 1, "flip", line, "", 0, 0.1, 1 << 26, ""),
        mutate.Report("tape", 2, "flip", line, "hang", None, 20.2, 1 << 27, ""),
        mutate.Report("dat", 1, "", "pagetape import t.dat", "", 1, 0.2, 1 << 26, "pagetape: x"),
    ]
    found = mutate.summary(reports)
    assert [list(row.values()) for row in found["kinds"]] == [
        ["dat", 1, 0, 1, 0],
        ["tape", 2, 1, 0, 1],
    ]
    assert [list(row.values()) for row in found["commands"]] == [
        ["import", 1, 0, 1, 0],
        ["info", 2, 1, 0, 1],
    ]
    assert (found["inputs"], found["failed"]) == (3, {"hang": 1})


def test_a_trial_of_a_fleet_compares_both_archives(
    tmp_path: Path, pagetape: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands run in this process. A kill that loses a tape changes the answers about it."""
    (tapes := tmp_path / "tapes").mkdir()
    for host in "ab":
        archives.made(tapes, host, "2026-11-29T10:00:00", 60, archives.fallbacks(2))

    def undisturbed(*words: object) -> fleet_trial.Command:
        assert pagetape(*words).status in (0, 1)  # 1: a run of sweep failed
        return fleet_trial.Command(str(words[0]), [], 1.0)

    def killed(_like: Any, words: list[str], *_: Any, **__: Any) -> bool:
        some = sorted(Path(words[1]).rglob("*.tape")) if words[0] == "compact" else []
        for path in some[:1]:
            path.unlink()
        return True

    monkeypatch.setattr(fleet_trial, "undisturbed", undisturbed)
    monkeypatch.setattr(fleet_trial, "_killed", killed)
    monkeypatch.setattr(fleet_trial, "_asked", lambda *words: pagetape(*words, "--json").json)
    found = fleet_trial.trial(tmp_path, tapes, fleet_trial.POLICY, 1, Random(1))
    kills = {step["step"]: step["kills"] for step in found["steps"] if "kills" in step}
    assert kills == {"ship": 1, "compact": 1, "sweep": 1}
    same = {step["step"]: step["same"] for step in found["steps"] if "same" in step}
    assert list(same.values()) == [False, True, False, True]  # no regression, and no run of sweep
    fleet = found["fleet"]
    assert (fleet["objects"], fleet["tapes in the index"]) == (2, 2)
    assert not fleet["objects are the same"]


def test_kills_are_counted_by_their_moment() -> None:
    good = kills.Kill("records", True, 0.1, 0.25, 0.5, True, True, 5, "")
    bad = kills.Kill("ends", False, 0.1, None, None, False, False, 0, "no tape")
    assert kills.moments([good, bad]) == [
        ["while it records", 1, 1, 1, 0.25, 0.5, ""],
        ["while it ends", 1, 0, 0, None, None, "no tape"],
    ]


def test_every_fault_names_tests_that_there_are() -> None:
    for fault in faults.FAULTS:
        assert fault["tests"]
        for test in fault["tests"]:
            file, _, name = test.partition("::")
            assert f"def {name}(" in (faults.ROOT / file).read_text(), test


def test_damaged_inputs_end_in_an_answer_or_one_line(tmp_path: Path) -> None:
    kinds = [word for kind in mutate.KINDS if kind != "spool" for word in ("--kind", kind)]
    nr = matrix.number(8, 20)
    check(tried(*kinds, "--count", nr, "--keep", tmp_path), nr)


@livetest.recording
def test_damaged_spools_end_in_an_answer_or_one_line(tmp_path: Path) -> None:
    check(tried("--kind", "spool", "--count", 4, "--keep", tmp_path), 4)
