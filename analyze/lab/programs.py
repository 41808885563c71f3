#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record real programs on this machine, in calm and under memory pressure.

    programs.py list                            print the recordings
    programs.py record [--half seen|unseen] [--seconds S] DIR [NAME]...

programs.toml has the programs. Half of them are *unseen*: no one looks at their recordings, or at
results about them, while the model is changed. programs.toml has the hash of the draw, as
corpus.toml of its own. `record` makes the tapes that DIR lacks; a program whose packages are
missing is named, with the command that installs them.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import program
from corpus import HALVES
from program import say

LIST = Path(__file__).with_name("programs.toml")
BUILD = program.ROOT / "build/release"
STATES = ("calm", "pressure")
SECONDS = 30  # of a recording


@dataclass(frozen=True)
class Program:
    """A real program, and the half of its recordings."""

    name: str
    half: str
    words: str
    run: str
    packages: Sequence[str] = ()
    prepare: str = ""
    end: str = ""

    @property
    def recordings(self) -> list[str]:
        return [f"{self.name}-{state}" for state in STATES]


def _declared() -> dict[str, Any]:
    return tomllib.loads(LIST.read_text())


def digest(programs: Sequence[Program]) -> str:
    """The hash of the programs, with their halves."""
    return hashlib.sha256("".join(f"{p.name} {p.half}\n" for p in programs).encode()).hexdigest()


def programs() -> list[Program]:
    """All programs. ValueError: the list gives other halves than were drawn."""
    declared = _declared()
    seed, drawn = declared.pop("seed"), declared.pop("drawn")
    del declared["left"]
    unseen = set(random.Random(seed).sample(sorted(declared), len(declared) // 2))
    found = [Program(name, HALVES[name in unseen], **keys) for name, keys in declared.items()]
    if digest(found) != drawn:
        raise ValueError(f"{LIST.name} gives other halves: what was seen may become unseen")
    return found


def missing(one: Program) -> list[str]:
    """The packages of a program that are not installed."""
    return [
        name
        for name in one.packages
        if subprocess.run(["dpkg", "-s", name], capture_output=True, check=False).returncode
    ]


def _hog() -> int | None:
    """A memory hog that runs on this machine."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if Path(os.fsdecode(words[0])).name == Path(program.LOAD).name and words[1] == b"hog":
                return int(file.parent.name)
    return None


@contextmanager
def hogging(left_mib: int, build: Path = BUILD) -> Iterator[None]:
    """Pin memory until `left_mib` MiB are free; 0 pins none. OSError while another hog runs."""
    if not left_mib:
        yield
        return
    if other := _hog():
        raise OSError(os.EX_TEMPFAIL, f"process {other} pins memory already: end it first")
    with program.running(build / program.LOAD, "hog", left_mib) as hog:
        assert hog.stdout
        if not hog.stdout.readline():
            raise OSError(os.EX_TEMPFAIL, "the memory hog did not start")
        yield


def _record(one: Program, left_mib: int, seconds: int, tape: Path) -> None:
    """Record a program. CalledProcessError if a step of it fails; what it made is gone after it."""
    with TemporaryDirectory(dir=tape.parent, prefix=f".{tape.stem}-") as files:
        own = {"SECONDS": str(seconds), "PYTHON": sys.executable, "LAB": str(LIST.parent)}
        place: dict[str, Any] = {"cwd": files, "env": os.environ | own | {"BUILD": str(BUILD)}}
        words = ["sh", "-ec"]
        subprocess.run([*words, one.prepare], check=True, stdout=sys.stderr, **place)
        try:
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("1")
            recorder = [program.BIN / "pagetape", "record", "-o", tape, "--force", "--"]
            with hogging(left_mib):
                subprocess.run([*recorder, *words, one.run], check=True, stdout=sys.stderr, **place)
        finally:
            subprocess.run([*words, one.end], check=True, stdout=sys.stderr, **place)


def record(
    directory: Path, half: str | None = None, seconds: int = SECONDS, names: Sequence[str] = ()
) -> int:
    """Record what the directory lacks; the number of recordings that failed."""
    known = programs()
    left = {"calm": 0, "pressure": _declared()["left"]}
    if unknown := set(names) - {name for one in known for name in one.recordings}:
        raise ValueError(f"no recording '{min(unknown)}'; see: programs.py list")
    directory.mkdir(parents=True, exist_ok=True)
    failed = 0
    for one in known:
        for name in one.recordings:
            tape = directory.absolute() / f"{name}.tape"
            if tape.exists() or (name not in names if names else half not in (None, one.half)):
                continue
            began = time.monotonic()
            if packages := missing(one):
                reason = f"apt-get install {' '.join(packages)}"
            else:
                reason = ""
                try:
                    _record(one, left[name.rpartition("-")[2]], seconds, tape)
                except subprocess.CalledProcessError as e:
                    reason = program.failed(e)
            failed += bool(reason)
            took = time.monotonic() - began
            say(f"{name} ({one.half}, {one.words}): {reason or 'recorded'} in {took:.0f} s")
    return failed


def main() -> int:
    parser = program.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    recorder = commands.add_parser("record")
    recorder.add_argument("directory", type=Path)
    recorder.add_argument("--half", choices=HALVES)
    recorder.add_argument("--seconds", type=int, default=SECONDS)
    recorder.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.command == "list":
        for one in programs():
            for name in one.recordings:
                print(f"{name}\t{one.half}\t{one.words}")
        return 0
    failed = record(arguments.directory, arguments.half, arguments.seconds, arguments.names)
    return 1 if failed else 0


if __name__ == "__main__":
    program.run(main)
