# SPDX-License-Identifier: Apache-2.0
"""pagetape: record, replay and query the Linux page allocator.

__all__ is the interface for programs and notebooks. open() gives tapes with their tables, reports,
SQL and replays; compare() puts tapes side by side; Error is what both raise; demo_tape() is a tape
to try. Below it: read a tape (Tape), query it (Database, reports), play it through the model (Run,
play), validate the model (validate). Each name is imported at its first use; __version__ is the
version of the installed package. __init__.pyi has the types.
"""

from importlib import import_module

_HOME = {
    "Database": "pagetape.asking.database",
    "Error": "pagetape.api.error",
    "Run": "pagetape.replaying.playback",
    "Tape": "pagetape.schemas.tape",
    "TapeError": "pagetape.schemas.tape",
    "compare": "pagetape.api.tapes",
    "demo_tape": "pagetape.tapes.demo",
    "open": "pagetape.api.tapes",
    "play": "pagetape.replaying.playback",
    "reports": "pagetape.asking.query",
    "validate": "pagetape.replaying.validation",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name == "__version__":  # not from the start: it reads files
        from importlib.metadata import version

        return version("pagetape")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})
