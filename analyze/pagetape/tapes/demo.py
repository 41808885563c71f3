# SPDX-License-Identifier: Apache-2.0
"""The tapes that come with pagetape, to try it without a recording."""

import errno
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output

DEFAULT = "pressure"


def _directory() -> Path:
    return Path(str(files("pagetape"))) / "demo"


def demo_names() -> Sequence[str]:
    """The names of the tapes that come with pagetape."""
    return sorted(path.stem for path in _directory().glob("*.tape"))


def demo_tape(name: str = DEFAULT) -> Path:
    """The path of a tape that comes with pagetape; it is not to be changed."""
    path = _directory() / f"{name}.tape"
    if name not in demo_names():
        known = ", ".join(demo_names())
        raise TapeError(errno.ENOENT, f"no bundled tape '{name}' (there is: {known})")
    return path


def copy_demo(name: str, out: Path, *, replace: bool = False) -> Tape:
    """Copy a bundled tape to `out`; it appears there whole."""
    source = Tape(demo_tape(name))
    with output.whole_tape(out, source.facts, replace=replace, inputs=[source.path]) as tape:
        for table in source.tables:
            for batch in source.batches(table):
                tape.write(table, batch)
    return Tape(out)
