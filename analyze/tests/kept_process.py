# SPDX-License-Identifier: Apache-2.0
"""The engine's process of sweeps, kept from test to test: its start takes most of a small sweep.

A process serves a later sweep in the same environment. One that has ended, or that raised an error,
is not kept. test_isolated.py shows how a process starts and ends.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pagetape.replaying.isolated import Process

# A start takes these from the test: directory, umask, CPUs and environment.
_Place = tuple[str, str, frozenset[int], frozenset[tuple[str, str]]]

_kept: dict[_Place, Process] = {}


def _place() -> _Place:
    with Path("/proc/self/status").open() as status:
        (umask,) = (line for line in status if line.startswith("Umask:"))
    known = {name: text for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    cpus = frozenset(os.sched_getaffinity(0))
    return str(Path.cwd()), umask, cpus, frozenset(known.items())


class KeptProcess(Process):
    """For tests, in place of Process: takes over the one of the test before, if it fits."""

    def __init__(self) -> None:
        super().__init__()
        self._place = _place()
        self._sound = True
        before = _kept.pop(self._place, None)
        if before is None or before._child is None:
            return
        if before._child.poll() is None:
            self._child, self._stderr = before._child, before._stderr
        else:  # somebody ended it
            Process.close(before)

    def call(self, *args: Any, **how: Any) -> Any:
        self._sound, sound = False, self._sound
        found = super().call(*args, **how)
        self._sound = sound
        return found

    def close(self) -> None:
        if self._child is None or not self._sound or self._place in _kept:
            super().close()
            return
        end_all()  # of another place: tests that change it are rare, and follow each other
        _kept[self._place] = self


def end_all() -> None:
    """End the kept process."""
    while _kept:
        _, process = _kept.popitem()
        Process.close(process)
