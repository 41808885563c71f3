# SPDX-License-Identifier: Apache-2.0
"""The lines that a recorder prints on stderr while it runs.

Each line stands alone, for a journal. On a terminal one more line is overwritten in place: the
rate of events, the lost events, and the bytes that wait for decoding.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pagetape import answer

if TYPE_CHECKING:
    from pagetape.recording.watch import Firing

_ERASE = "\r\x1b[K"


@dataclass(frozen=True)
class Look:
    """The recorder's counts at one time."""

    at: float  # seconds, on any clock
    events: int  # recorded, or still in a ring
    lost: int
    waiting: int  # bytes that are not decoded yet


class Status:
    """Prints on stderr. A terminal that has gone away does not disturb the recording."""

    def __init__(self, out: str = "", *, quiet: bool = False, live: bool = True) -> None:
        """`out`: the place of the tape."""
        self._out = out
        self.memory = ""  # what the recorder takes
        self.armed: Sequence[str] = ()  # triggers
        self._quiet = quiet
        self._live = live and not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._shown = False
        self._before: Look | None = None

    def _print(self, text: str) -> None:
        erase, self._shown = _ERASE if self._shown else "", False
        # After a hangup the terminal is gone (EIO); a closed stderr raises ValueError, or is None.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(erase + text)
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """Print one line, unless the recorder is quiet."""
        if not self._quiet:
            self._print(f"{answer.visible(text)}\n")

    def warn(self, text: str) -> None:
        """Print one line about something that disturbed the recording."""
        self._print(f"pagetape: {answer.visible(text)}\n")

    def preparing(self, events: str) -> None:
        """The first words. Until the events are switched on, none is recorded."""
        self.say(
            f"pagetape: Linux {os.uname().release}: preparing to record the events {events};"
            " nothing is recorded yet"
        )

    def recording(self, until: str) -> None:
        """The events are switched on."""
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        memory = f"; {self.memory}" if self.memory else ""
        self.say(f"pagetape: recording since {since} into {self._out}, until {until}{memory}")
        if self.armed:
            self.say(f"pagetape: armed: {', '.join(self.armed)}")

    def started(self, how: str, why: str | None) -> None:
        """The snapshot of the start is taken; `why` it is not exact, if an exact one was wanted."""
        if how == "exact" or why:
            kind = "exact" if how == "exact" else f"from /proc: {why}"
            self.say(f"pagetape: start snapshot: {kind}")

    def fired(self, firing: Firing) -> None:
        """A trigger has fired; its tape follows."""
        value = "" if firing.value is None else f" with {firing.value:.4g}{firing.unit}"
        self.say(f"pagetape: fired: {firing.trigger}{value}; writing a tape")

    def look(self, look: Look) -> None:
        """On a terminal, show the counts in place of the last ones."""
        before, self._before = self._before, look
        if not self._live or before is None or look.at <= before.at:
            return
        rate = (look.events - before.events) / (look.at - before.at)
        self._show(
            f"{rate:,.0f} events/s, {answer.amount(look.lost, 'lost event')},"
            f" spool {answer.size(look.waiting)}"
        )

    def _show(self, text: str) -> None:
        self._print(_ERASE + text)
        self._shown = True

    def ending(self, waiting: int) -> None:
        """The recording has ended, with so many bytes to decode."""
        if self._live:
            self._show(f"closing the tape, {answer.size(waiting)} to decode")

    def close(self) -> None:
        """Remove the line in place."""
        if self._shown:
            self._print("")


SILENT = Status(quiet=True)
