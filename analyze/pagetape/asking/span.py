# SPDX-License-Identifier: Apache-2.0
"""A part of the time of tapes."""

from typing import NamedTuple

NEVER = (1 << 63) - 1  # ns


class Span(NamedTuple):
    """A part of each tape: seconds from its first event, or before its end if negative; None for
    the tape's own begin or end. The end is not included."""

    begin: float | None = None
    end: float | None = None
    outer: "Span | None" = None  # the part of which this is a part

    def limits(self, start: int, end: int) -> tuple[int, int]:
        """The first time and the time after the last one, in ns, of a tape whose first and last
        events are at `start` and `end`. Without a begin or end, rows beyond these belong to it."""
        least, most = self.outer.limits(start, end) if self.outer else (0, NEVER)
        start, end = max(start, least), min(end, most - 1)

        def time(seconds: float) -> int:
            return min(max(round(seconds * 1e9) + (start if seconds >= 0 else end), start), end + 1)

        first = least if self.begin is None else time(self.begin)
        return first, max(most if self.end is None else time(self.end), first)
