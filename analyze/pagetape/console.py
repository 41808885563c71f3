# SPDX-License-Identifier: Apache-2.0
"""Notes and progress bars on stderr while a command runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


def note(text: str | None) -> None:
    """Print `text` as one line on stderr, unless it is empty. It is not an error."""
    if text:
        print(f"pagetape: {text}", file=sys.stderr)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr, fed with a share from 0 to 1; silent unless on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
