# SPDX-License-Identifier: Apache-2.0
"""Live tests: tests that trace the machine they run on, and the report of their skips.

A live test that this machine cannot run is skipped, and the end of the pytest run names
every reason with its count. With PAGETAPE_LIVE=require such a skip is a failure.
"""

import functools
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pagetape import _collector

_PREFIX = "live test: "
NOBODY = 65534


@functools.cache
def why_not() -> str:
    """Why this machine cannot be recorded; empty if it can."""
    try:
        _collector.Recorder(["kmem:mm_page_alloc"], _collector.SpoolConfig("/tmp")).close()
    except OSError as e:
        return f"this machine cannot be recorded: {e.strerror} (see `pagetape doctor`)"
    return ""


def why_not_nobody() -> str:
    """Why a test cannot run a command as another user; empty if it can."""
    return "" if os.geteuid() == 0 and shutil.which("setpriv") else "needs root and setpriv"


def as_nobody(*capabilities: str) -> list[str]:
    """The start of a command that the user nobody runs, with these capabilities besides the one to
    read: the clone may stand in root's home, where nobody else may look for the guard."""
    held = ",".join(f"+{name}" for name in ("dac_read_search", *capabilities))
    return [
        *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
        *(f"--inh-caps=-all,{held}", f"--ambient-caps=-all,{held}"),
    ]


def required() -> bool:
    """Whether the user asked for failures in place of skips."""
    return os.environ.get("PAGETAPE_LIVE") == "require"


def skip(reason: str, *, by_chance: bool = False) -> NoReturn:
    """Skip a live test from within, or fail it if live tests are required.

    `by_chance`: the machine can run the test but was in the wrong state; never a failure.
    """
    if required() and not by_chance:
        pytest.fail(f"{_PREFIX}{reason} (PAGETAPE_LIVE=require)", pytrace=False)
    pytest.skip(_PREFIX + reason, allow_module_level=True)


def needs(*missing: str | Callable[[], str]) -> pytest.MarkDecorator:
    """A mark for a live test: `missing` are reasons to skip it; empty ones are ignored."""
    return pytest.mark.live.with_args(*missing)


recording = needs(why_not)

# Besides `recording`: what the test proves needs a machine that does little else.
alone = pytest.mark.alone


class LiveTests:
    """The pytest plugin: applies the marks, and reports the skips at the end."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for mark in item.iter_markers("live"):
            for missing in mark.args:
                if reason := missing() if callable(missing) else missing:
                    skip(reason)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        yield
        reasons: dict[str, list[str]] = {}
        for report in terminalreporter.stats.get("skipped", ()):
            if isinstance(report.longrepr, tuple) and _PREFIX in report.longrepr[2]:
                reason = report.longrepr[2].partition(_PREFIX)[2]
                reasons.setdefault(reason, []).append(report.nodeid.partition("::")[0])
        if not reasons:
            return
        red = {"red": True, "bold": True}
        total = sum(map(len, reasons.values()))
        terminalreporter.write_sep(
            "!", f"{total} live test{'s' * (total > 1)} skipped: not tested", **red
        )
        for reason, files in reasons.items():
            where = ", ".join(sorted({Path(file).name for file in files}))
            terminalreporter.write_line(f"{len(files):5}  {reason} ({where})", red=True)
        terminalreporter.write_line("PAGETAPE_LIVE=require makes these skips failures.")


def register(config: pytest.Config) -> None:
    """Call from pytest_configure() of every conftest.py whose tests are live."""
    if not config.pluginmanager.has_plugin("livetest"):
        config.addinivalue_line("markers", "live(*missing): traces this machine, see livetest.py")
        config.addinivalue_line("markers", "alone: a live test beside which no other test runs")
        config.pluginmanager.register(LiveTests(), "livetest")


def guard_of(pid: int) -> int:
    """The guard of a recorder, which survives it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (guard,) = [n for n in map(int, children) if "guard" in Path(f"/proc/{n}/comm").read_text()]
    return guard
