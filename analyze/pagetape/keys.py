# SPDX-License-Identifier: Apache-2.0
"""Keys that are pressed on the terminal, one by one, without Enter."""

import contextlib
import os
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator

# What a terminal sends for an arrow, or another key with a name and no letter.
_NAMED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)


@contextlib.contextmanager
def watched(press: Callable[[str], None]) -> Iterator[bool]:
    """In this context, a thread calls `press` with each key that is pressed.

    The terminal does not print the keys. It has its own settings again at the end, whatever ends
    the context. Ctrl-C and Ctrl-Z stay signals. Yields whether keys are watched: not if stdin is no
    terminal, or the terminal of another job.
    """
    terminal = _terminal()
    if terminal is None:
        yield False
        return
    before = termios.tcgetattr(terminal)
    ended, end = os.pipe()
    thread = threading.Thread(
        target=_watch, args=(terminal, ended, press), name="keys", daemon=True
    )
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        thread.start()
        yield True
    finally:
        with contextlib.suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(terminal, termios.TCSANOW, before)
        os.close(end)
        if thread.ident is not None:
            thread.join()
        os.close(ended)


def _terminal() -> int | None:
    """The terminal on stdin, if this process may change it: the kernel stops a job in the
    background that does."""
    try:
        terminal = sys.stdin.fileno()
        return terminal if os.tcgetpgrp(terminal) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):  # closed, a file, or not our terminal
        return None


def _watch(terminal: int, ended: int, press: Callable[[str], None]) -> None:
    """Pass on keys until the other end of `ended` is closed, or the terminal has gone."""
    while True:
        ready, _, _ = select.select([terminal, ended], [], [])
        if ended in ready:
            return
        try:
            typed = os.read(terminal, 64)
        except OSError:
            return
        if not typed:
            return
        for key in _NAMED.sub(b"", typed).decode("ascii", "ignore"):
            press(key)
