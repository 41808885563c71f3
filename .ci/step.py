# SPDX-License-Identifier: Apache-2.0
"""step.py TITLE LOG COMMAND... - run one step of the setup, and show how far it is.

The whole output goes to the file LOG. Of it, step.py prints the counts: each tenth of the files
that ninja builds, and each tenth Python package that pip looks at. A terminal is not needed. If the
command fails, the end of the log follows, and step.py exits with the command's status. The steps of
two runs in one clone wait for each other.
"""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

TAIL = 40  # lines of the log of a failed command
_BUILT = re.compile(r"\s*\[(\d+)/(\d+)\]")
_PACKAGE = re.compile(r"\s*(?:Collecting|Requirement already satisfied:) +([A-Za-z0-9._-]+)")
_INSTALLING = re.compile(r"\s*(Installing collected packages|Preparing metadata)\b")


def counts(lines: Iterable[str]) -> Iterator[str]:
    """What `lines` of pip, meson and ninja say of the progress."""
    tenth, packages = -1, set[str]()
    for line in lines:
        if found := _BUILT.match(line):
            done, total = int(found[1]), int(found[2])
            if (now := 10 * done // max(total, 1)) > tenth:
                tenth = now
                yield f"{done} of {total} steps of the build"
        elif found := _PACKAGE.match(line):
            if found[1] not in packages:
                packages.add(found[1])
                if len(packages) % 10 == 0:
                    yield f"{len(packages)} packages looked at, the last one {found[1]}"
        elif found := _INSTALLING.match(line):
            yield found[1][:1].lower() + found[1][1:]


def main(title: str, log: Path, command: list[str]) -> int:
    """Run `command`; returns its exit status."""
    begin = time.monotonic()
    print(f"setup: {title}", flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(log.parent, os.O_RDONLY)  # until this process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("setup:   waiting for another run in this clone", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    with (
        log.open("w") as full,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None

        def lines() -> Iterator[str]:
            for line in process.stdout or ():
                full.write(line)
                full.flush()
                yield line

        for said in counts(lines()):
            print(f"setup:   {said} ({time.monotonic() - begin:.0f} s)", flush=True)
    if process.returncode:
        print("".join(log.read_text(errors="replace").splitlines(True)[-TAIL:]), file=sys.stderr)
        print(f"setup: {title}: failed, see {log}", file=sys.stderr)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
