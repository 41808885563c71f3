#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the file of a tape costs: bytes, and CPU time to write and to read.

    format_bench.py [T.tape...]

Without a tape, it takes the bundled ones. Each tape is written anew, as it would be recorded today.
Its event tables are written and read in both forms, in turns: in groups, and as columns in the
order of time, the form of version 2. Times are the least of three, without threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import program
import pyarrow as pa

from pagetape.schemas import TABLES
from pagetape.schemas.form import WRITTEN, Form, form_of, in_batches_of, plain_form
from pagetape.schemas.table_file import Section, TableFile
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

_BATCH_ROWS = 1 << 17  # of a batch that the recorder decodes


def _took(work: Callable[[], Any]) -> float:
    """CPU seconds, the least of three runs."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _write(form: Form, batches: list[pa.RecordBatch], path: Path) -> None:
    with pa.ipc.new_file(str(path), form.file_schema({}), options=WRITTEN) as file:
        for batch in batches:
            for stored, about in form.stored(batch, _BATCH_ROWS):
                file.write_batch(stored, about)


def _rows(path: Path, name: str) -> str:
    """A hash of the rows in their order."""
    found = blake2b(digest_size=8)
    for batch in in_batches_of(1 << 16, TableFile(Section(path), TABLES[name]).batches()):
        found.update(batch.serialize())
    return found.hexdigest()


def _table(tape: Tape, name: str, where: Path) -> list[Any]:
    """A row about one table: its forms side by side."""
    batches = list(in_batches_of(_BATCH_ROWS, tape.batches(name)))
    nr = sum(batch.num_rows for batch in batches)
    plain, grouped = where / "plain.arrow", where / "grouped.arrow"
    forms = ((plain_form(name), plain), (form_of(name), grouped))
    written = [_took(lambda f=form, p=path: _write(f, batches, p)) for form, path in forms]
    read = [
        _took(lambda p=path: list(map(len, TableFile(Section(p), TABLES[name]).batches())))
        for path in (plain, grouped)
    ]
    sizes = [path.stat().st_size / nr for path in (plain, grouped)]
    same = _rows(plain, name) == _rows(grouped, name)
    ns = [round(seconds / nr * 1e9, 1) for seconds in (*written, *read)]
    return [tape.path.stem, name, nr, *(round(size, 2) for size in sizes), *ns, same]


def _whole(tape: Tape, where: Path) -> list[Any]:
    """A row about the whole tape."""
    with output.whole_tape(where / "t.tape", tape.facts, replace=True, inputs=[]) as out:
        for name in sorted(tape.tables):
            for batch in tape.batches(name):
                out.write(name, batch)
    size, nr = Tape(where / "t.tape").bytes, tape.num_rows("event")
    return [tape.path.stem, nr, tape.bytes, size, round(size / nr, 2) if nr else None]


def _measured(tapes: list[Tape]) -> Iterator[tuple[list[Any], list[list[Any]]]]:
    with TemporaryDirectory() as name:
        for tape in tapes:
            program.say(str(tape.path))
            tables = [one for one in TABLES if TABLES[one].group and tape.num_rows(one) > 1000]
            yield _whole(tape, Path(name)), [_table(tape, one, Path(name)) for one in tables]


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("tapes", nargs="*", type=Path, metavar="T.tape")
    bundled = sorted((program.ROOT / "analyze/demo").glob("*.tape"))
    found = list(_measured([Tape(path) for path in parser.parse_args().tapes or bundled]))
    forms = ["bytes, by time", "bytes, in groups", "write, by time, ns", "write, in groups, ns"]
    forms += ["read, by time, ns", "read, in groups, ns", "same rows"]
    program.give(
        {
            "tapes": program.table(
                ["tape", "events", "bytes", "bytes written anew", "bytes an event"],
                [whole for whole, _ in found],
            ),
            "forms": program.table(
                ["tape", "table", "rows", *forms], [row for _, rows in found for row in rows]
            ),
        }
    )


if __name__ == "__main__":
    program.run(main)
