# SPDX-License-Identifier: Apache-2.0
"""Notes and progress bars on stderr while a command runs."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from pagetape import answer


def report(note: str | None) -> None:
    """Print a note (one line, not an error) on stderr; None prints nothing."""
    if note:
        answer.say_line(f"pagetape: {note}", err=True)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr if it is a terminal; yields the function that sets the share, 0 to 1."""
    if not sys.stderr.isatty():
        yield lambda _share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
