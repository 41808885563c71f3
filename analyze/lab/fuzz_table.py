#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damage the tables of small tapes, and read every row of them: through the checks, and by DuckDB.

    fuzz_table.py [SECONDS] [SEED]

The first tape that ends in anything but rows or one TapeError is left in ./fuzz_table-crash, also
if this process ends by a signal. The output is like that of libFuzzer. mutate.py runs commands on
such tapes; this program only reads them, about 200 per second.
"""

import re
import shutil
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import inputs
import pyarrow as pa
from damage import damage_bytes
from damage_tape import damage_buffer, damage_table

from pagetape.asking.database import Database
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError

_ROWS = 300  # of each table
_ASKED = 0.02  # share of the tapes that DuckDB reads, too
_MOST = 2 << 30  # bytes of memory
_CRASH = Path("fuzz_table-crash")


def make_small(path: Path) -> None:
    """The first rows of each table of the bundled tape, without compression."""
    inputs.plain_copy(inputs.DEMO, path, events=_ROWS)
    for file in path.glob("*.arrow"):
        table = pa.ipc.open_file(file).read_all().slice(0, _ROWS)
        if TABLES[file.stem].group:
            table = inputs.in_groups(file.stem, table)
        inputs.store(file, table)


def times(tape: Path) -> dict[str, int]:
    """When each table's file was changed last."""
    return {file.stem: file.stat().st_mtime_ns for file in tape.glob("*.arrow")}


def damage(tape: Path, random: Random) -> None:
    """Values, labels, columns, types, buffers or bytes of one table or two."""
    for number in range(random.choice((1, 1, 2))):
        share = random.random()
        try:
            if share < 0.3:
                damage_table(tape, random)
            elif share < 0.5:
                damage_buffer(tape, random)
            else:
                damage_bytes(random.choice(sorted(tape.glob("*.arrow"))), random)
        except Exception:
            if not number:
                raise
            return  # the first damage left a file that the second cannot read


def read(path: Path, names: list[str], *, asked: bool) -> None:
    """All rows of some tables as Python values; TapeError for one that is refused."""
    tape = Tape(path)
    for name in names:
        for batch in tape.batches(name):
            batch.to_pydict()
    if asked:
        with Database([tape]) as database:
            for name in names:
                database.ask(f"SELECT count(*), max(columns(*)) FROM {name}")


def peak() -> int:
    """Most bytes of memory so far. getrusage() would count those of the parent before exec, too."""
    found = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) << 10


def main() -> None:
    """Damage and read until the time is over."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rounds = refused = 0
    shutil.rmtree(_CRASH, ignore_errors=True)
    with TemporaryDirectory() as directory:
        small = Path(directory) / "small.tape"
        make_small(small)
        shutil.copytree(small, _CRASH)
        end = time.process_time() + seconds
        while time.process_time() < end:
            random = Random(f"{seed} {rounds}")
            good = times(_CRASH)
            damage(_CRASH, random)
            changed = [name for name, at in times(_CRASH).items() if good.get(name) != at]
            before = time.process_time()
            try:
                read(_CRASH, changed, asked=random.random() < _ASKED)
            except TapeError:
                refused += 1
            except BaseException:
                print(f"ERROR: round {rounds} of seed {seed}", flush=True)
                raise
            if time.process_time() - before > 10:
                sys.exit(f"ERROR: round {rounds} of seed {seed} takes longer than 10 s")
            if peak() > _MOST:
                sys.exit(f"ERROR: round {rounds} of seed {seed} takes more than 2 GiB of memory")
            for name in changed:
                shutil.copyfile(small / f"{name}.arrow", _CRASH / f"{name}.arrow")
            rounds += 1
    shutil.rmtree(_CRASH)
    print(f"Done {rounds} runs in {seconds:.0f} second(s), {refused} refused")
    print(f"stat::number_of_executed_units: {rounds}")


if __name__ == "__main__":
    main()
