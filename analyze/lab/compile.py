# SPDX-License-Identifier: Apache-2.0
"""compile.py SECONDS BUILD - compile the C files of a meson build again and again.

Runs short-lived compilers on every CPU, as a kernel build does. Leaves no files behind.
"""

import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_WITH_VALUE = ("-o", "-MQ", "-MF")


def commands(build: Path) -> list[list[str]]:
    """The compiler's command lines of the build, without their outputs."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if not entry["file"].endswith(".c") or entry["file"].endswith(".pyx.c"):
            continue
        words = iter(shlex.split(entry["command"]))
        command = []
        for word in words:
            if word in _WITH_VALUE:
                next(words)
            elif word != "-MD":
                command.append(word)
        found.append(command)
    return found


def main(seconds: float, build: Path) -> None:
    end = time.monotonic() + seconds
    todo = commands(build)
    cpus = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as out, ThreadPoolExecutor(cpus) as pool:

        def compile_some(cpu: int) -> None:
            for command in itertools.cycle(todo[cpu::cpus]):
                if time.monotonic() >= end:
                    return
                subprocess.run([*command, "-o", f"{out}/{cpu}.o"], cwd=build, check=True)

        list(pool.map(compile_some, range(cpus)))


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]))
