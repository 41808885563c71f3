# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

class ProcReader:
    """Reads files of /proc on a thread of its own: see proc_reader.h.

    Each file is (fd, size, sysctl): the caller's open file, the bytes that its text may have, and
    whether it is a sysctl, whose whole text one read() returns. OSError if the thread or its memory
    is missing.
    """

    def __init__(self, files: Sequence[tuple[int, int, bool]], slots: int) -> None: ...
    @property
    def guards(self) -> list[str]:
        """The rights that the thread has: `locked` memory, `realtime` priority, `noio`."""
    def start(self, period_s: float, share: float) -> None:
        """Read at each period, for at most this share of a CPU."""
    def charge(self, ns: int) -> None:
        """CPU time spent on a reading after it was taken."""
    def hold(self, held: bool) -> None:
        """While held, read only when asked."""
    def ask(self) -> None:
        """Read now, and return when that is done. OSError if the queue is full."""
    def wait(self, seconds: float) -> None:
        """Wait for a reading, for at most so long, or until nudge()."""
    def nudge(self) -> None: ...
    def take(self) -> tuple[dict[str, int], list[tuple[int, int, bytes | None] | None]] | None:
        """The oldest reading: numbers of missing ones before it, by cause (`late`, `full`,
        `thinned`), and for each file its stamps before and after (ns) and its text.

        A text is None if the file could not be read. A file is None if the reading has only the
        sysctls: after a write to one, or in place of a thinned one. None if there is no reading.
        """
    @property
    def busy_since(self) -> int | None:
        """When the reading in progress began, ns; None if none is in progress."""
    def close(self) -> None: ...
