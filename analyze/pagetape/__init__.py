# SPDX-License-Identifier: Apache-2.0
"""pagetape: record, replay and question the Linux page allocator.

The names of __all__ are what a program needs: read a tape (Tape), ask it in SQL (Database,
reports), play it through the model (Run, play), check the model on it (validate), and hold
tapes against each other (compare). Each is imported when it is first used, and typed in
__init__.pyi.
"""

from importlib import import_module

_HOME = {
    "Database": "pagetape.asking.database",
    "Run": "pagetape.replaying.playback",
    "Tape": "pagetape.schemas.tape",
    "TapeError": "pagetape.schemas.tape",
    "compare": "pagetape.asking.comparison",
    "play": "pagetape.replaying.playback",
    "reports": "pagetape.asking.query",
    "validate": "pagetape.replaying.validation",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
