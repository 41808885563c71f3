# SPDX-License-Identifier: Apache-2.0
"""The shared libraries that the collector needs, and how to get one that is missing.

Only recording and importing load them: all other commands work without. The wheels of pagetape
carry them. A build of one's own takes those of the machine, and an ImportError of
pagetape._collector or pagetape._snapshot then names the first one that is missing.
"""

import errno
import os
import re
import resource
from pathlib import Path

# Module: its purpose, and Debian's packages with its libraries.
_MODULES = {
    "_collector": (
        "recording and importing",
        ("libtraceevent1", "libtracefs1", "libtracecmd1"),
    ),
    "_snapshot": ("exact snapshots", ("libbpf1",)),
}
_NO_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


def missing(error: ImportError) -> str | None:
    """What is missing and how to get it, in one line; None if pagetape itself is broken."""
    # The loader of shared objects names the module without its package.
    package, _, name = (error.name or "").rpartition(".")
    of_pagetape = package == "pagetape" or Path(error.path or "").parent.name == "pagetape"
    if name not in _MODULES or not of_pagetape:
        return None
    purpose, packages = _MODULES[name]
    if os.strerror(errno.EMFILE) in error.msg:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{purpose}: too many open files: the limit is {limit}: raise it with ulimit -n 1024"
    library = _NO_LIBRARY.match(error.msg)
    if library is None:
        return f"{purpose}: {error.msg}"
    return f"{purpose}: {library[1]} is missing here; on Debian: apt install {' '.join(packages)}"
