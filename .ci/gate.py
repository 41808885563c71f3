# SPDX-License-Identifier: Apache-2.0
"""gate.py BUILD CHECK - all of `make test`: each step runs, whatever another step finds.

A step is a command that counts its own tests: a check of the style, the C tests of one build, a run
of pytest. Steps of one group run beside each other; each line of theirs begins with the name of its
step. The end names every failed test and every reason of a skip, then says in a line of its own

    N passed, N failed, N skipped

A step that failed, but has no failed test on its list (a build that does not compile, a
pytest that died), counts as one failed test of the step's name. The exit status is 0 if nothing
failed. Without the setup there is nothing to test: its failure ends the run.

Two runs in one clone, and the live steps of two clones on one machine, wait for each other.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
TRACING = Path("/sys/kernel/tracing")
LINTS = ("lint-python", "lint-c", "lint-spelling", "lint-types", "lint-imports")
_LIVE = "live test: "


@dataclass
class Outcome:
    """The tests of one step, or of all."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # tests by the reason of their skip

    def __iadd__(self, other: "Outcome") -> "Outcome":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {self.skipped.total()} skipped"


@dataclass(frozen=True)
class Step:
    """One command; `read` finds its tests in `result`, the file that it leaves."""

    name: str
    command: Sequence[str]
    result: Path | None = None
    read: Callable[[Path], Outcome] | None = None
    live: bool = False  # it traces the machine

    def outcome(self, status: int) -> Outcome:
        """The tests of the step, which ended with this exit status."""
        if self.read is None or self.result is None:
            return Outcome(failed=[self.name]) if status else Outcome(passed=1)
        found = Outcome()
        with contextlib.suppress(OSError, ValueError, ElementTree.ParseError):
            found = self.read(self.result)
        if status and not found.failed:
            found.failed.append(f"{self.name}: exit status {status}, not all of its tests ran")
        elif not found.failed and not found.passed and not found.skipped:
            found.failed.append(f"{self.name}: no test ran")
        return found


def meson_tests(log: Path) -> Outcome:
    """The tests of a testlog.json of meson."""
    found = Outcome()
    for line in log.read_text().splitlines():
        test = json.loads(line)
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            found.passed += 1
        elif test["result"] == "SKIP":
            found.skipped[f"C test {test['name']}"] += 1
        else:
            found.failed.append(f"C test {test['name']}: {test['result']}")
    return found


def pytest_tests(xml: Path) -> Outcome:
    """The tests of a JUnit file of pytest; an error of a fixture or a file is a failed test."""
    found = Outcome()
    bad: dict[str, None] = {}  # a test that fails has another entry if its teardown fails too
    passed = set()
    for case in ElementTree.parse(xml).getroot().iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            bad[name] = None
        elif skip is not None:
            found.skipped[skip.get("message") or "no reason"] += 1
        else:
            passed.add(name)
    found.passed = len(passed - bad.keys())
    found.failed = list(bad)
    return found


def say(line: str = "") -> None:
    print(line, flush=True)


@dataclass(frozen=True)
class End:
    """How a step ended, and what it took."""

    status: int  # exit status
    seconds: float
    cpu: float  # seconds of CPU time, of all its processes

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s, {self.cpu:.0f} s of CPU time"


def _run(step: Step, alone: bool, done: dict[str, End]) -> None:
    """Run a step to its end, which goes into `done`."""
    begin = time.monotonic()
    if step.result is not None:
        step.result.parent.mkdir(parents=True, exist_ok=True)
        step.result.unlink(missing_ok=True)
    with subprocess.Popen(
        step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            say(line.rstrip("\n") if alone else f"{step.name} | {line.rstrip()}")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    done[step.name] = End(process.returncode, time.monotonic() - begin, cpu)


@contextlib.contextmanager
def turn(path: Path, what: str) -> Iterator[None]:
    """Wait until no other run holds `path`, a file or directory; no wait if it cannot be opened."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"gate: waiting for {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def run_group(steps: Sequence[Step], total: Outcome) -> None:
    """Run steps beside each other; add their tests to `total`."""
    done: dict[str, End] = {}
    say(f"\n== {', '.join(step.name for step in steps)}")
    live = any(step.live for step in steps)
    with contextlib.ExitStack() as stack:
        if live:
            stack.enter_context(turn(TRACING, "the live tests of another clone on this machine"))
        threads = [
            threading.Thread(target=_run, args=(step, len(steps) == 1, done)) for step in steps
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for step in steps:
        end = done.get(step.name, End(1, 0, 0))
        found = step.outcome(end.status)
        say(f"== {step.name}: {found}, {end}")
        total += found


def summary(total: Outcome) -> Iterator[str]:
    """The last lines: skips, failures, and the line for the readers of CI."""
    live = {why: nr for why, nr in total.skipped.items() if _LIVE in why}
    if live:
        yield f"NOT TESTED: {sum(live.values())} live tests were skipped on this machine:"
        yield from (f"{nr:6}  {why.partition(_LIVE)[2]}" for why, nr in sorted(live.items()))
        yield "PAGETAPE_LIVE=require makes these skips failures."
    for why, nr in sorted(total.skipped.items()):
        if why not in live:
            yield f"skipped: {nr}  {why}"
    yield from (f"FAILED: {name}" for name in total.failed)
    yield str(total)


def run_all(groups: Sequence[Sequence[Step]]) -> int:
    """Run the groups one after the other; returns the exit status of the whole."""
    total = Outcome()
    for steps in groups:
        run_group(steps, total)
    say()
    for line in summary(total):
        say(line)
    return 1 if total.failed else 0


def pytest_step(name: str, results: Path, *options: str, before: Sequence[str] = ()) -> Step:
    """A run of pytest; `before` stands before the command."""
    result = results / f"{name}.xml"
    command = [*before, sys.executable, "-m", "pytest"]
    command += ["--continue-on-collection-errors", f"--junitxml={result}", *options]
    return Step(name, command, result, pytest_tests, live=name.startswith("live"))


def live_files() -> list[str]:
    """The files that may have live tests: pytest reads no others for the live steps."""
    files = (path for room in ROOT.iterdir() for path in room.glob("tests/**/test_*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in files if "livetest" in path.read_text())


def gate(build: Path, check: Path) -> list[list[Step]]:
    """The steps of `make test`, group by group.

    Live tests run one by one, as they trace the machine. They leave most of two CPUs idle: the
    other tests run beside those live tests that do not need the machine for themselves.
    """
    results, live = build.parent / "test", live_files()
    make = ("make", "--no-print-directory")
    meson = [str(Path(sys.executable).with_name("meson")), "test", "-C", str(build)]
    return [
        [
            *(Step(name, (*make, name)) for name in LINTS),
            Step("sanitizers", (*make, "check"), check / "meson-logs/testlog.json", meson_tests),
        ],
        [
            Step(
                "plain",
                [*meson, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "5"],
                build / "meson-logs/testlog.json",
                meson_tests,
            )
        ],
        [pytest_step("live-alone", results, "-m", "live and alone", *live)],
        [
            pytest_step("live", results, "-m", "live and not alone", *live),
            pytest_step(
                "other",
                results,
                *("-m", "not live", "--numprocesses", "2"),
                *("--dist", "loadfile", "--no-loadscope-reorder"),
                *("--timeout", "300", "--timeout-method", "thread"),  # ends loops in C, too
                before=("nice", "-n", "19"),
            ),
        ],
    ]


def main(build: Path, check: Path) -> int:
    with turn(build, "another `make test` in this clone"):
        return run_all(gate(build, check))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
