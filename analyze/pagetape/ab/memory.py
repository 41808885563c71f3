# SPDX-License-Identifier: Apache-2.0
"""Stops a run before the machine is out of memory, or after the OOM killer ended a process."""

import errno
import threading
from collections.abc import Callable

from pagetape import answer
from pagetape.ab.switch import Host
from pagetape.schemas.tape import TapeError

_EVERY_S = 0.25
_LEAST = 0.01  # of memory and swap, together available


def shortage(meminfo: dict[str, int]) -> str | None:
    """The figure, if available memory and free swap are below 1 % of all; None if they are not."""
    total = meminfo.get("MemTotal", 0) + meminfo.get("SwapTotal", 0)
    left = meminfo.get("MemAvailable", total) + meminfo.get("SwapFree", 0)
    if left >= total * _LEAST:
        return None
    return (
        f"{answer.size(left * 1024)} of memory and swap are available, less than 1 % of"
        f" {answer.size(total * 1024)}"
    )


class MemoryWatch:
    """Looks at the machine's memory in a context, and calls `stop` once if it runs out."""

    def __init__(self, host: Host, stop: Callable[[], None]) -> None:
        self._host = host
        self._stop = stop
        self._kills = host.oom_kills()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self.why: str | None = None

    def _look(self) -> str | None:
        kills = self._host.oom_kills() - self._kills
        if kills:
            return f"the OOM killer ended {answer.amount(kills, 'process', 'processes')}"
        return shortage(self._host.meminfo())

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.why = self._look()
            if self.why:
                self._stop()
                return

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self, run: str) -> None:
        """Raise TapeError if the machine ran out of memory."""
        why = self.why or self._look()
        if why:
            raise TapeError(
                errno.ENOMEM, f"{run}: stopped: {why}; use a command that needs less memory"
            )
