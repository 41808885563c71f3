# SPDX-License-Identifier: Apache-2.0
"""The shared libraries that the collector needs, and how to get one that is missing.

Only recording and importing load them: all other commands work without. The wheels of pagetape
carry them. A build of one's own takes those of the machine, and an ImportError of
pagetape._collector or pagetape._snapshot then names the first one that is missing.
"""

from __future__ import annotations

import re

# Module: its purpose, and Debian's packages with its libraries.
_MODULES = {
    "pagetape._collector": (
        "recording and importing",
        ("libtraceevent1", "libtracefs1", "libtracecmd1"),
    ),
    "pagetape._snapshot": ("exact snapshots", ("libbpf1",)),
}
_NO_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


def missing(error: ImportError) -> str | None:
    """What is missing and how to get it, in one line; None if pagetape itself is broken."""
    if error.name not in _MODULES:
        return None
    purpose, packages = _MODULES[error.name]
    library = _NO_LIBRARY.match(error.msg)
    if library is None:
        return f"{purpose}: {error.msg}"
    return f"{purpose}: {library[1]} is missing here; on Debian: apt install {' '.join(packages)}"
