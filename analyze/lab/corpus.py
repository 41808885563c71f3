#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record a corpus: kernels x machines x loads in virtual machines.

    corpus.py list                              print the recordings
    corpus.py record [--half seen|unseen|calibration] DIR [NAME]...

corpus.toml has the matrix. A cover of all its pairs, drawn by a seed before the first recording
was made, is the corpus. Half of the recordings of each kernel are *unseen*: no one looks at these,
or at results about them, while the model is changed. A second cover by a seed of its own has the
recordings for the margins of intervals alone (`calibration`). corpus.toml has the hash of both
draws: a matrix that gives others is refused, because it would mix the halves.

`record` makes the tapes that DIR lacks, the seen half first, and stores in DIR/seconds.json how
long each took. A tape that lost events against its plan, or lost none though it should, or has
another snapshot than planned, does not stay.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import guest
import program
from cover import Row, cover

MATRIX = Path(__file__).with_name("corpus.toml")
HALVES = ("seen", "unseen")
CALIBRATION = "calibration"  # instead of a half: a recording for the margins of intervals alone

Runner = Callable[[guest.Guest, Path], None]  # makes the tape of a guest at the path


@dataclass(frozen=True)
class Recording:
    """One recording of the corpus."""

    name: str
    half: str  # of HALVES, or CALIBRATION
    values: Mapping[str, str]  # the value of each parameter of the matrix

    @property
    def words(self) -> str:
        return ", ".join(value for name, value in self.values.items() if name != "kernel")


@dataclass(frozen=True)
class Matrix:
    """What corpus.toml declares."""

    parameters: Mapping[str, Mapping[str, Mapping[str, Any]]]
    base: Mapping[str, Any]
    never: Sequence[Mapping[str, Sequence[str]]]
    usual: Mapping[str, str]
    seed: int
    calibration_seed: int
    most: int
    drawn: str  # the hash of the draws

    @classmethod
    def read(cls, path: Path) -> "Matrix":
        declared = tomllib.loads(path.read_text())
        names = ("seed", "calibration_seed", "most", "drawn")
        fixed = {name: declared.pop(name) for name in names}
        base, usual = declared.pop("base"), declared.pop("usual")
        rules = declared.pop("never")
        never = [{name: rule[name] for name in rule if name != "why"} for rule in rules]
        return cls(declared, base, never, usual, **fixed)

    def guest(self, recording: Recording) -> guest.Guest:
        """The guest with the changes of all its values; words and settings add up."""
        fields: dict[str, Any] = dict(self.base)
        for name, value in recording.values.items():
            for field, change in self.parameters[name][value].items():
                if field == "append":
                    change = f"{fields.get(field, '')} {change}".strip()
                elif field == "set":
                    change = (*fields.get(field, ()), *change)
                fields[field] = change
        return guest.Guest(**fields)


def _cover(matrix: Matrix, seed: int) -> list[Row]:
    values = {name: list(those) for name, those in matrix.parameters.items()}
    rows = cover(values, matrix.never, matrix.usual, seed)
    if len(rows) > matrix.most:
        raise ValueError(f"a pairwise cover takes {len(rows)} recordings, not {matrix.most}")
    return rows


def _name(nr: int, row: Row) -> str:
    return f"{nr + 1:02}-{row['kernel']}-{row['load'].replace('+', '-')}"


def draw(matrix: Matrix) -> list[Recording]:
    """The recordings; half of each kernel's are unseen."""
    rows = _cover(matrix, matrix.seed)
    order = random.Random(matrix.seed)
    unseen = set()
    for kernel in matrix.parameters["kernel"]:
        those = [nr for nr, row in enumerate(rows) if row["kernel"] == kernel]
        unseen.update(order.sample(those, len(those) // 2))
    return [Recording(_name(nr, row), HALVES[nr in unseen], row) for nr, row in enumerate(rows)]


def draw_calibration(matrix: Matrix) -> list[Recording]:
    """The recordings for the margins alone."""
    rows = _cover(matrix, matrix.calibration_seed)
    return [Recording(f"c{_name(nr, row)}", CALIBRATION, row) for nr, row in enumerate(rows)]


def digest(those: Sequence[Recording]) -> str:
    """The hash of recordings, with their halves."""
    lines = [f"{one.name} {one.half} {one.words}\n" for one in those]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def recordings() -> tuple[Recording, ...]:
    """All recordings, as they were drawn. ValueError: the matrix gives others."""
    matrix, key = Matrix.read(MATRIX), hashlib.sha256(MATRIX.read_bytes()).hexdigest()
    file = program.ROOT / f"build/lab/drawn-{key}.json"  # a draw takes some seconds
    if file.exists():
        found = [Recording(**one) for one in json.loads(file.read_text())]
    else:
        found = [*draw(matrix), *draw_calibration(matrix)]
    if digest(found) != matrix.drawn:
        raise ValueError(f"{MATRIX.name} gives other recordings: the halves would be mixed")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(one) for one in found]))
    return tuple(found)


def drawn() -> list[Recording]:
    """The recordings of both halves."""
    return [one for one in recordings() if one.half in HALVES]


def in_guest(root: Path) -> Runner:
    return lambda machine, tape: guest.record(machine, root, tape)


def _facts(tape: Path) -> dict[str, Any]:
    found = subprocess.run(
        [program.BIN / "pagetape", "info", "--json", tape], check=True, stdout=subprocess.PIPE
    )
    facts: dict[str, Any] = json.loads(found.stdout)
    return facts


def unplanned(recording: Recording, facts: Mapping[str, Any]) -> str | None:
    """What the tape has against the plan of the recording."""
    if facts["snapshot"] != recording.values["start"]:
        return f"snapshot {facts['snapshot']} instead of {recording.values['start']}"
    if recording.values["losses"] == "lossless" and facts["lost"] != 0:
        return f"{facts['lost'] or 'an unknown number of'} events lost"
    if recording.values["losses"] == "lossy" and facts["lost"] == 0:
        return "no events lost"
    return None


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def record_all(
    recordings: Sequence[Recording],
    matrix: Matrix,
    directory: Path,
    run: Runner,
    facts: Callable[[Path], Mapping[str, Any]] = _facts,
) -> int:
    """Make the tapes that the directory lacks; the number that failed."""
    stored = directory / "seconds.json"
    seconds: dict[str, float] = json.loads(stored.read_text()) if stored.exists() else {}
    tapes = {one.name: directory / f"{one.name}.tape" for one in recordings}
    todo = [one for one in recordings if not tapes[one.name].exists()]
    todo.sort(key=lambda one: one.half == "unseen")
    if len(todo) < len(recordings):
        print(f"{len(recordings) - len(todo)} of {len(recordings)} are there", flush=True)
    failed, began = 0, time.monotonic()
    for nr, one in enumerate(todo):
        start = time.monotonic()
        try:
            with TemporaryDirectory(dir=directory, prefix=".part-") as part:
                tape = Path(part) / f"{one.name}.tape"
                run(matrix.guest(one), tape)
                reason = unplanned(one, facts(tape))
                if not reason:
                    tape.rename(tapes[one.name])
        except subprocess.CalledProcessError as e:
            reason = program.failed(e)
        except subprocess.TimeoutExpired as e:
            reason = f"not finished in {e.timeout:.0f} s"
        except OSError as e:
            if e.errno != os.EX_SOFTWARE:
                raise
            reason = e.strerror
        took = time.monotonic() - start
        if reason:
            failed += 1
        else:
            seconds[one.name] = round(took, 1)
            stored.write_text(json.dumps(seconds, indent=1) + "\n")
        left = (time.monotonic() - began) / (nr + 1) * (len(todo) - nr - 1)
        print(
            f"{nr + 1} of {len(todo)}: {one.name} ({one.half}, {one.words}):"
            f" {reason or 'recorded'} in {took:.0f} s; {_duration(left)} left",
            flush=True,
        )
    total = sum(seconds.get(one.name, 0) for one in recordings)
    there = sum(tape.exists() for tape in tapes.values())
    print(f"{there} of {len(recordings)} recordings, made in {total / 3600:.2f} hours")
    return failed


def record(directory: Path, half: str | None, names: Sequence[str]) -> int:
    if unknown := set(names) - {one.name for one in recordings()}:
        raise ValueError(f"no recording '{min(unknown)}'; see: corpus.py list")
    halves = (half,) if half else tuple(HALVES)
    chosen = [one for one in recordings() if (one.name in names if names else one.half in halves)]
    guest.check_programs()
    directory.mkdir(parents=True, exist_ok=True)
    matrix = Matrix.read(MATRIX)
    for kernel in sorted({matrix.guest(one).kernel for one in chosen}):
        guest.unpacked(kernel)  # all downloads first
    with guest.root() as root:
        return 1 if record_all(chosen, matrix, directory, in_guest(root)) else 0


def main() -> int:
    parser = program.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    recorder = commands.add_parser("record")
    recorder.add_argument("directory", type=Path)
    recorder.add_argument("--half", choices=(*HALVES, CALIBRATION))
    recorder.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the guest, too
    if arguments.command == "list":
        for one in recordings():
            print(f"{one.name}\t{one.half}\t{one.words}")
        return 0
    return record(arguments.directory, arguments.half, arguments.names)


if __name__ == "__main__":
    program.run(main)
