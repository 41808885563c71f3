#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record a corpus: kernels x machines x loads in virtual machines.

    corpus.py draw                              write corpus-recordings.toml
    corpus.py list                              print the recordings
    corpus.py record [--half seen|unseen] [--calibration] DIR [NAME]...

corpus.toml has the matrix. `draw` covers all its pairs and draws half of the recordings of each
kernel as unseen, by a seed. `record` makes the tapes that DIR lacks, the seen half first, and
stores in DIR/seconds.json how long each took. A tape that lost events against its plan, or lost
none though it should, or has another snapshot than planned, does not stay.

A second cover of the same matrix, by a seed of its own, has the recordings for the margins of
intervals alone (`--calibration`, calibration-recordings.toml).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import guest
from cover import Row, cover

HERE = Path(__file__).parent
MATRIX = HERE / "corpus.toml"
DRAWN = HERE / "corpus-recordings.toml"
EXTRA = HERE / "calibration-recordings.toml"
HALVES = ("seen", "unseen")
CALIBRATION = "calibration"  # instead of a half: a recording for the margins of intervals alone

_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# The recordings of the corpus, drawn by `corpus.py draw` from corpus.toml before the first of
# them was made. Do not edit.
#
# unseen: no one looks at these recordings, or at results about them, while the model is changed.
# They are measured at the end. An import that lost nothing is all that is checked before.
"""

_HEAD_EXTRA = """\
# SPDX-License-Identifier: Apache-2.0
# Recordings for the margins of intervals alone: a second cover of corpus.toml, drawn by
# `corpus.py draw` before the first of them was made. Do not edit.
"""

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

    @classmethod
    def read(cls, path: Path) -> Matrix:
        declared = tomllib.loads(path.read_text())
        seed, most = declared.pop("seed"), declared.pop("most")
        calibration_seed = declared.pop("calibration_seed")
        base, usual = declared.pop("base"), declared.pop("usual")
        rules = declared.pop("never")
        never = [{name: rule[name] for name in rule if name != "why"} for rule in rules]
        return cls(declared, base, never, usual, seed, calibration_seed, most)

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


def written(recordings: Iterable[Recording], head: str = _HEAD) -> str:
    """The text of corpus-recordings.toml, or of calibration-recordings.toml."""
    parts = [head]
    for one in recordings:
        lines = [f'name = "{one.name}"', f'half = "{one.half}"']
        lines += [f'{name} = "{value}"' for name, value in one.values.items()]
        parts.append("\n[[recording]]\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def drawn(listing: Path = DRAWN) -> list[Recording]:
    """The recordings that corpus-recordings.toml lists, or calibration-recordings.toml."""
    listed = tomllib.loads(listing.read_text())["recording"]
    return [Recording(one.pop("name"), one.pop("half"), one) for one in listed]


def in_guest(root: Path) -> Runner:
    return lambda machine, tape: guest.record(machine, root, tape)


def _facts(tape: Path) -> dict[str, Any]:
    found = subprocess.run(
        [guest.BIN / "pagetape", "info", "--json", tape], check=True, stdout=subprocess.PIPE
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
            reason = guest.failed(e)
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


def record(directory: Path, half: str | None, names: Sequence[str], listing: Path = DRAWN) -> int:
    recordings = drawn(listing)
    if unknown := set(names) - {one.name for one in recordings}:
        raise ValueError(f"no recording '{min(unknown)}'; see: corpus.py list")
    recordings = [
        one for one in recordings if half in (None, one.half) and (not names or one.name in names)
    ]
    guest.check_programs()
    directory.mkdir(parents=True, exist_ok=True)
    matrix = Matrix.read(MATRIX)
    for kernel in sorted({matrix.guest(one).kernel for one in recordings}):
        guest.unpacked(kernel)  # all downloads first
    with TemporaryDirectory(prefix="guest-root-") as work:
        root = guest.make_root(Path(work))
        return 1 if record_all(recordings, matrix, directory, in_guest(root)) else 0


def main() -> int:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("draw")
    commands.add_parser("list")
    recorder = commands.add_parser("record")
    recorder.add_argument("directory", type=Path)
    recorder.add_argument("--half", choices=HALVES)
    recorder.add_argument("--calibration", action="store_true", help="those for margins alone")
    recorder.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the guest, too
    if arguments.command == "draw":
        matrix = Matrix.read(MATRIX)
        if DRAWN.exists() and EXTRA.exists():
            raise FileExistsError(0, f"{DRAWN.name} is there: a second draw would mix the halves")
        if not DRAWN.exists():
            DRAWN.write_text(written(draw(matrix)))
        EXTRA.write_text(written(draw_calibration(matrix), _HEAD_EXTRA))
    elif arguments.command == "list":
        for one in (*drawn(), *drawn(EXTRA)):
            print(f"{one.name}\t{one.half}\t{one.words}")
    else:
        listing = EXTRA if arguments.calibration else DRAWN
        return record(arguments.directory, arguments.half, arguments.names, listing)
    return 0


if __name__ == "__main__":
    guest.run("corpus", main)
