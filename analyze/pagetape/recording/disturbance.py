# SPDX-License-Identifier: Apache-2.0
"""What happens to a recorder from outside: noticed, said on stderr, and stored in the tape.

A recorder looks about once a second. A change after which events would be missing ends the
recording: the tape is then whole up to the look before, and has a gap of unknown size after it.
"""

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from pagetape.tapes.disturbance import ENDINGS, GAPS, WORDS

if TYPE_CHECKING:
    from pagetape._collector import Look
    from pagetape.recording.status import Status
    from pagetape.schemas.tape import Writer

LOOK_S = 1.0  # between two looks

_LATE_S = 1.0  # least delay of a cut that is reported
_SLEPT_S = 0.05  # least time that the trace clock must have stood still


def _slept() -> float:
    """Time since the boot (s) in which the trace clock stood still."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class Disturbances:
    """The disturbances of one recording."""

    def __init__(self, status: "Status") -> None:
        self._status = status
        self._rows: deque[dict[str, Any]] = deque()
        self._since = time.monotonic_ns()
        self._slept = _slept()
        self._known: set[tuple[str, str]] = set()  # kinds and places that were reported
        self.ended: str | None = None  # the reason in words why the recording must end

    def start(self) -> None:
        """The recording begins now."""
        self._since = time.monotonic_ns()
        self._slept = _slept()

    def _report(self, kind: str, what: str | None = None, seconds: float | None = None) -> None:
        words = WORDS[kind].format(what=what, seconds=seconds)
        self._rows.append(
            {
                "ts": time.monotonic_ns(),
                "since_ts": self._since,
                "kind": kind,
                "length": None if seconds is None else int(seconds * 1e9),
                "detail": what or None,
            }
        )
        if kind in ENDINGS:
            self.ended = words
        else:
            self._status.warn(words)

    def see(self, look: "Look", tape: "Writer | None") -> None:
        """One look at the recorder and at the tape that it writes, if any."""
        if self.ended:
            return
        if look.disturbance is not None:
            self._once(look.disturbance, look.what)
        slept, self._slept = _slept() - self._slept, _slept()
        if slept > _SLEPT_S:
            self._report("suspended", seconds=slept)
        if tape is not None:
            with contextlib.suppress(OSError):  # it was closed at this moment
                where = tape.where()
                if where is None:
                    self._once("removed", "")
                elif where != tape.path:
                    self._once("moved", str(where))
        self._since = time.monotonic_ns()

    def _once(self, kind: str, what: str) -> None:
        if (kind, what) not in self._known:
            self._known.add((kind, what))
            self._report(kind, what)

    def late(self, seconds: float) -> None:
        """A cut was made so late."""
        if seconds > _LATE_S:
            self._report("late_cut", seconds=seconds)

    def take(self, cpus: list[int]) -> dict[str, list[dict[str, Any]]]:
        """Rows of `disturbance` and of `lost` that were not taken yet."""
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        gaps = [
            {"cpu": cpu, "from_ts": row["since_ts"], "to_ts": None, "events": None}
            for row in rows
            if row["kind"] in GAPS
            for cpu in cpus
        ]
        return {name: found for name, found in (("disturbance", rows), ("lost", gaps)) if found}
