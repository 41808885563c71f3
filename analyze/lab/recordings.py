# SPDX-License-Identifier: Apache-2.0
"""The recordings that a measurement is given, each as the source of its replays."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import program

from pagetape.replaying.playback import Source
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape, is_tape


def tapes(paths: Iterable[Path]) -> Iterator[Path]:
    """The tapes at the paths, and those in directories of tapes."""
    for path in paths:
        yield from [path] if is_tape(path) else sorted(filter(is_tape, path.iterdir()))


def source(tape: Tape) -> Source:
    """A tape with the inputs that no event of it has."""
    return Source(tape, inferred(tape), preferences(tape))


@contextmanager
def projected(path: Path, events: str | None) -> Iterator[Path]:
    """A tape projected to an event set, for as long as it is needed; without one, the tape."""
    if events is None:
        yield path
        return
    with TemporaryDirectory() as directory:
        made = Path(directory, path.name)
        program.run_pagetape("import", path, "--events", events, "-o", made)
        yield made
