# SPDX-License-Identifier: Apache-2.0
"""`make test` and `make setup`: the steps all run and are counted, and their progress is shown."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

CI = Path(__file__).parents[2] / ".ci"
MAKEFILE = CI.parent / "Makefile"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, CI / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


gate, step = load("gate"), load("step")


@pytest.fixture(autouse=True)
def plain_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of pytest in these tests load no plugins: they start faster."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def last_line(said: str) -> str:
    return said.rstrip("\n").rpartition("\n")[2]


def suite(tmp_path: Path, name: str, text: str) -> object:
    """A step that runs pytest on one file."""
    file = tmp_path / f"test_{name}.py"
    file.write_text(text)
    options = ("-c", os.devnull, f"--rootdir={tmp_path}", "-p", "no:cacheprovider", str(file))
    return gate.pytest_step(name, tmp_path / "results", *options)


MIXED = """
import pytest
def test_good(): pass
def test_bad(): assert False
@pytest.mark.skip(reason="live test: no tracefs")
def test_live(): pass
@pytest.mark.skip(reason="live test: no tracefs")
def test_other(): pass
@pytest.mark.skip(reason="too small")
def test_small(): pass
"""


def test_all_steps_run_and_one_line_is_the_sum(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    groups = [
        [gate.Step("style", [sys.executable, "-c", "raise SystemExit(3)"])],
        [suite(tmp_path, "mixed", MIXED)],
        [suite(tmp_path, "after", "def test_after(): pass\n")],
    ]
    assert gate.run_all(groups) == 1
    said = capfd.readouterr().out
    assert last_line(said) == "2 passed, 2 failed, 3 skipped"
    assert "FAILED: style" in said and "FAILED: test_mixed::test_bad" in said
    assert "NOT TESTED: 2 live tests were skipped" in said and "2  no tracefs" in said
    assert "skipped: 1  too small" in said
    assert re.findall(r"^\d+ passed, .*", said, re.M) == ["2 passed, 2 failed, 3 skipped"]


def test_a_run_without_failure_ends_with_status_0(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    groups = [[suite(tmp_path, "one", "def test(): pass\n"), gate.Step("style", ["true"])]]
    assert gate.run_all(groups) == 0
    assert last_line(capfd.readouterr().out) == "2 passed, 0 failed, 0 skipped"


def test_each_step_has_its_own_time(capfd: pytest.CaptureFixture[str]) -> None:
    busy = "import time\nwhile time.process_time() < 0.6: pass"
    steps = [gate.Step("busy", [sys.executable, "-c", busy]), gate.Step("idle", ["true"])]
    assert gate.run_all([steps]) == 0
    found = re.findall(
        r"^== (\w+): .*, (\d+) s, (\d+) s of CPU time$", capfd.readouterr().out, re.M
    )
    (_, took, _), _ = found
    assert [(name, cpu != "0") for name, _, cpu in found] == [("busy", True), ("idle", False)]
    assert int(took) >= 1


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("import os\ndef test_a(): pass\ndef test_dies(): os._exit(7)\n", "exit status 7"),
        ("", "no test ran|exit status 5"),
        ("def test_a(): pass\nimport no_such_module\n", "test_dying"),
        (
            "import pytest\n@pytest.fixture\ndef bad():\n    yield\n    1 / 0\n"
            "def test(bad): pass\n",
            "::",
        ),
    ],
)
def test_a_pytest_that_dies_or_finds_nothing_is_a_failure(
    tmp_path: Path, text: str, failed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert gate.run_all([[suite(tmp_path, "dying", text)]]) == 1
    said = capfd.readouterr().out
    assert last_line(said).endswith(" 1 failed, 0 skipped")
    assert re.search(f"FAILED: .*({failed})", said)


def test_a_result_of_an_earlier_run_does_not_count(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good = suite(tmp_path, "step", "def test(): pass\n")
    assert gate.run_all([[good]]) == 0
    dead = gate.Step("step", ["false"], good.result, gate.pytest_tests)  # type: ignore[attr-defined]
    assert gate.run_all([[dead]]) == 1
    assert last_line(capfd.readouterr().out) == "0 passed, 1 failed, 0 skipped"


def test_the_tests_of_meson_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "testlog.json"
    results = ["OK", "FAIL", "SKIP", "TIMEOUT", "EXPECTEDFAIL", "ERROR"]
    log.write_text("".join(f'{{"name": "{r.lower()}", "result": "{r}"}}\n' for r in results))
    found = gate.meson_tests(log)
    assert (found.passed, found.skipped.total()) == (2, 1)
    assert [name.split()[2] for name in found.failed] == ["fail:", "timeout:", "error:"]


def test_the_gate_has_every_check_of_lint_and_every_test_of_python() -> None:
    makefile = MAKEFILE.read_text()
    (lints,) = re.findall(r"^LINTS +:= (.*)$", makefile, re.M)
    steps = [
        one for group in gate.gate(Path("build/release"), Path("build/check")) for one in group
    ]
    assert {one.name for one in steps} >= {*lints.split(), "sanitizers", "plain"}
    marks = [
        one.command[one.command.index("-m", one.command.index("pytest")) + 1]
        for one in steps
        if "pytest" in one.command
    ]
    for live in (True, False):
        for alone in (True, False):
            chosen = [eval(mark, {"live": live, "alone": alone}) for mark in marks]
            assert sum(chosen) == 1, (live, alone)


def test_a_live_test_stands_in_a_file_of_the_live_steps() -> None:
    """The mark is written nowhere but in livetest.py, and those files name it."""
    files = set(gate.live_files())
    assert {"analyze/tests/test_spool.py", "collector/tests/test_record.py"} <= files
    for path in gate.ROOT.glob("*/tests/**/*.py"):
        name = str(path.relative_to(gate.ROOT))
        marked = re.search(r"mark\.(live|alone)\b", path.read_text())
        assert not marked or name in files | {"collector/tests/livetest.py"}, name


def test_two_runs_wait_for_each_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    entered = threading.Event()

    def enter() -> None:
        with gate.turn(tmp_path, "the other run"):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    said = ""
    while "waiting for the other run" not in said:
        said += capfd.readouterr().out
    assert not entered.is_set()
    os.close(held)
    thread.join()
    assert entered.is_set()
    with gate.turn(tmp_path / "missing", "nothing"):
        pass


# ---- setup


def test_the_setup_counts_its_steps() -> None:
    lines = [f"[{n}/40] Compiling C object x.c.o" for n in range(1, 41)]
    said = list(step.counts(lines))
    assert said[0] == "1 of 40 steps of the build" and said[-1] == "40 of 40 steps of the build"
    assert len(said) == 11
    packages = [f"Collecting name{n}==1.{n} (from x)" for n in range(25)]
    assert list(step.counts(packages)) == [
        "10 packages looked at, the last one name9",
        "20 packages looked at, the last one name19",
    ]


def test_a_failed_step_of_the_setup_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "build/log"
    code = "for n in range(100): print('line', n)\nraise SystemExit(3)"
    argv = [sys.executable, CI / "step.py", "compile", log, sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "setup: compile\n")
    assert "line 99" in done.stderr and "line 1\n" not in done.stderr
    assert f"setup: compile: failed, see {log}" in done.stderr
    assert log.read_text().startswith("line 0\n")
