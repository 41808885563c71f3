# SPDX-License-Identifier: Apache-2.0
"""Damages copies of /proc files as a text editor, a full disk or a foreign tool would.

    fuzz_proc.py DIR [SECONDS] [SEED]

DIR holds good copies. Each round damages some of them and reads all; the first that ends in
anything but rows that a tape can hold, or one OSError, is left in ./fuzz_proc-crash. The output is
like that of libFuzzer.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from pagetape import numa_maps, proc_agree, proc_copies, proc_series
from pagetape.recording.proc_tape import write_series
from pagetape.schemas import TABLES
from pagetape.schemas.facts import parse_facts

_NUMBERS = ("0", "-1", "9" * 20, str(1 << 31), str(1 << 32), str(1 << 63), str(1 << 64), "1e9", "٣")
_TOKENS = ("", "0", "-", ",", ":", "(", ")", "Node", "zone", "Normal", "cpu: 0", ">9", "\0", "\t")


def damage_text(path: Path, seed: int) -> None:
    """Change lines, words, figures and bytes of the file; the same seed gives the same damage."""
    random = Random(seed)
    if random.random() < 0.2:
        text = path.read_bytes().decode("utf-8", "replace")
        path.write_text(_damage_layout(text, random), "utf-8")
        return
    lines = path.read_bytes().decode("utf-8", "replace").splitlines(keepends=True)
    for _ in range(random.randint(1, 12)):
        _damage_line(lines, random)
    data = bytearray("".join(lines).encode())
    if random.random() < 0.2 and data:
        del data[random.randrange(len(data)) :]
    for _ in range(random.choice((0, 0, 1, 8)) if data else 0):
        data[random.randrange(len(data))] = random.randrange(256)
    path.write_bytes(data)


def _damage_line(lines: list[str], random: Random) -> None:
    if not lines:
        lines.append(random.choice(_TOKENS))
        return
    at = random.randrange(len(lines))
    words = lines[at].split(" ")
    word = random.randrange(len(words))
    numbers = [i for i, text in enumerate(words) if text.strip(",:()\n").isdecimal()]
    match random.randrange(9):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[random.randrange(len(lines))])
        case 2:
            lines[at] = lines[at] * random.choice((2, 100))
        case 3:
            lines[at] = "\n"
        case 4:
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 5:
            words[word] = random.choice(_TOKENS)
            lines[at] = " ".join(words)
        case 6:
            words.insert(word, words[random.randrange(len(words))])
            lines[at] = " ".join(words)
        case _ if numbers:
            number = random.choice(numbers)
            end = "\n" if words[number].endswith("\n") else ""
            words[number] = random.choice(_NUMBERS) + end
            lines[at] = " ".join(words)
        case _:
            lines[at] = lines[at].replace(" ", "")


def fold(text: str, width: int, *, at_blanks: bool, blanks_stay: bool = True) -> str:
    """The text with its long lines cut, as a mail program does at blanks, or a terminal anywhere.

    The blanks at a cut begin the next line, or are gone.
    """
    lines = []
    for line in text.splitlines():
        while len(line) > width:
            cut = line.rfind(" ", 1, width) if at_blanks else width
            if cut < 1:
                break
            lines.append(line[:cut])
            line = line[cut:] if blanks_stay else line[cut:].lstrip()
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _damage_layout(text: str, random: Random) -> str:
    """What a mail program, another system or a paste does to all lines."""
    match random.randrange(6):
        case 0:
            return fold(
                text, random.randint(20, 120), at_blanks=True, blanks_stay=random.random() < 0.5
            )
        case 1:
            return fold(text, random.randint(20, 120), at_blanks=False)
        case 2:
            return text.replace("\n", "\r\n")
        case 3:
            return "".join(f"> {line}\n" for line in text.splitlines())
        case 4:
            return "".join(f"{line.strip()}\n" for line in text.splitlines())
        case _:
            return re.sub(" +", " ", text)


def read_all_of(proc: proc_copies.Copies) -> None:
    """Read all rows, blocks and facts; their tables and the facts' checks must take them."""
    proc_agree.check(proc)
    places = proc_agree.placed(proc)
    assert all(0 <= start < end for start, end in places.zones.values())
    parse_facts(json.dumps(proc.facts).encode())
    for number, stage in enumerate(proc.stages):
        for name, rows in proc.rows(stage, number, ts=7).items():
            TABLES[name].batch(rows).validate(full=True)
        for batch in proc.blocks(stage, number, ts=7).values():
            batch.validate(full=True)
    TABLES["memory_policy"].batch(numa_maps.parse(proc.text("numa_maps") or ""))
    TABLES["ring"].batch([{"instance": "", "read": 0} | row for row in proc.rings()])


class _Checked:
    """Takes rows as a tape does."""

    def write(self, name: str, batch: pa.RecordBatch) -> None:  # noqa: ARG002
        batch.validate(full=True)

    def rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.write(name, TABLES[name].batch(rows))


def read_series_of(path: Path) -> None:
    """Read /proc over time in `path`; the tables must take the rows."""
    series = proc_series.read(path, 1.0)
    assert series.moments
    assert all("\n" not in line for line in series.limits)
    write_series(series, _Checked())


def main() -> None:
    """Damage and read until the time is over."""
    good, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    names = sorted(path.name for path in good.iterdir() if path.suffix != ".zst")
    end, rounds, refused = time.process_time() + seconds, 0, 0
    while time.process_time() < end:
        random = Random(f"{seed} {rounds}")
        with TemporaryDirectory() as directory:
            copy = Path(directory) / "proc"
            shutil.copytree(good, copy)
            if random.random() < 0.1:  # a file of another time, or of another kind
                other, name = random.sample(names, 2)
                shutil.copy(copy / other, copy / name)
            for name in random.sample(names, random.randint(1, 3)):
                damage_text(copy / name, random.randrange(1 << 32))
            before = time.process_time()
            try:
                try:
                    read_all_of(proc_copies.saved(copy))
                except OSError:
                    refused += 1
                with contextlib.suppress(OSError):
                    read_series_of(copy)
            except BaseException:
                shutil.rmtree("fuzz_proc-crash", ignore_errors=True)
                shutil.copytree(copy, "fuzz_proc-crash")
                print(f"ERROR: round {rounds} of seed {seed}", flush=True)
                raise
            if time.process_time() - before > 10:
                sys.exit(f"round {rounds} of seed {seed} takes longer than 10 s")
        rounds += 1
    print(f"Done {rounds} runs in {seconds:.0f} second(s), {refused} refused")
    print(f"stat::number_of_executed_units: {rounds}")


if __name__ == "__main__":
    main()
