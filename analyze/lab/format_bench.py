#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the file of a tape costs: bytes, and CPU time to write and to read.

    format_bench.py [T.tape...]

Without a tape, it takes the bundled ones. Each tape is written anew, as it would be recorded today.
Its event tables are written and read in both forms, in turns: in groups, and as columns in the
order of time, the form of version 2. Times are the least of several, without threads.

`limits` has the floors of the same run: zstd alone on the stored buffers, as pyarrow calls it, of
which a part is paid per buffer, whatever its size; and a copy of the rows in memory. `windows` has
the CPU time to open a tape and to read 10 ms of it, at ten places.
"""

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import program
import pyarrow as pa

from pagetape.schemas import TABLES
from pagetape.schemas.form import BATCH_ROWS, WRITTEN, Form, form_of, in_batches_of, plain_form
from pagetape.schemas.table_file import Section, TableFile
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

_BATCH_ROWS = 1 << 17  # of a batch that the recorder decodes
_WINDOW_NS = 10_000_000
_TURNS = 5  # of what is measured, at least, ...
_ENOUGH = 3.0  # ... and CPU seconds: on a busy machine, few runs are undisturbed

_COLUMNS = {
    "tapes": ["tape", "events", "bytes", "bytes written anew", "bytes an event"],
    "forms": [
        *("tape", "table", "rows", "bytes, by time", "bytes, in groups"),
        *("write, by time, ns", "write, in groups, ns", "read, by time, ns", "read, in groups, ns"),
        *("write, times", "read, times", "same rows"),
    ],
    "limits": [
        *("tape", "table", "buffers a batch", "compress, ns", "compress, per buffer alone, ns"),
        *("decompress, ns", "decompress, per buffer alone, ns", "copy of the rows, ns"),
    ],
    "windows": ["tape", "events", "CPU of 10 ms, ms"],
}


def _took(*works: Callable[[], Any]) -> list[float]:
    """CPU seconds of each, the least of several runs, in turns."""
    least = [float("inf")] * len(works)
    started, turns = time.process_time(), 0
    while turns < _TURNS or time.process_time() < started + _ENOUGH:
        for i, work in enumerate(works):
            began = time.process_time()
            work()
            least[i] = min(least[i], time.process_time() - began)
        turns += 1
    return least


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
    written = _took(*(lambda f=form, p=path: _write(f, batches, p) for form, path in forms))
    read = _took(
        *(
            lambda p=path: list(map(len, TableFile(Section(p), TABLES[name]).batches()))
            for path in (plain, grouped)
        )
    )
    sizes = [path.stat().st_size / nr for path in (plain, grouped)]
    same = _rows(plain, name) == _rows(grouped, name)
    ns = [round(seconds / nr * 1e9, 1) for seconds in (*written, *read)]
    ratios = [round(after / before, 2) for before, after in (written, read)]
    return [tape.path.stem, name, nr, *(round(size, 2) for size in sizes), *ns, *ratios, same]


def _buffers(batch: pa.RecordBatch) -> list[pa.Buffer]:
    """The buffers that pyarrow compresses, each of its rows."""
    found = []
    for array in batch.columns:
        valid, values = (array.indices if pa.types.is_dictionary(array.type) else array).buffers()
        found += [valid.slice(0, (len(array) + 7) // 8)] if array.null_count else []
        found.append(values)
    return found


def _copy(buffer: pa.Buffer, room: bytearray) -> None:
    """Copy it into memory that is there."""
    room[: len(buffer)] = memoryview(buffer)


def _limits(tape: Tape, name: str) -> list[Any]:
    """A row about what no layout of the same columns can save."""
    form, codec = form_of(name), pa.Codec("zstd", 1)
    batches = list(in_batches_of(BATCH_ROWS, tape.batches(name)))
    nr = sum(batch.num_rows for batch in batches)
    stored = [one for batch in batches for one, _ in form.stored(batch, BATCH_ROWS)]
    raw = [buffer for batch in stored for buffer in _buffers(batch)]
    packed = [(codec.compress(buffer), len(buffer)) for buffer in raw]
    rows = [buffer for batch in batches for buffer in _buffers(batch)]
    room = bytearray(max(map(len, rows)))
    few = b"12345678"
    little = codec.compress(few)
    work: list[Callable[[], Any]] = [
        lambda: [codec.compress(buffer) for buffer in raw],
        lambda: [codec.compress(few) for _ in raw],
        lambda: [codec.decompress(data, size) for data, size in packed],
        lambda: [codec.decompress(little, len(few)) for _ in raw],
        lambda: [_copy(buffer, room) for buffer in rows],
    ]
    ns = [round(seconds / nr * 1e9, 1) for seconds in _took(*work)]
    return [tape.path.stem, name, round(len(raw) / len(stored)), *ns]


def _window(path: Path) -> list[Any]:
    """A row about the CPU time (ms) that a part of a tape takes."""
    first, last = Tape(path).span("event") or (0, 0)

    def read() -> None:
        for i in range(10):
            at = first + (last - first) * i // 10
            Tape(path).around("event", at, at + _WINDOW_NS)

    return [path.stem, Tape(path).num_rows("event"), round(_took(read)[0] * 1e3 / 10, 1)]


def _whole(tape: Tape, path: Path) -> list[Any]:
    """A row about the whole tape, which is written to `path`."""
    with output.whole_tape(path, tape.facts, replace=True, inputs=[]) as out:
        for name in sorted(tape.tables):
            for batch in tape.batches(name):
                out.write(name, batch)
    size, nr = Tape(path).bytes, tape.num_rows("event")
    return [tape.path.stem, nr, tape.bytes, size, round(size / nr, 2) if nr else None]


def _measured(tapes: list[Tape]) -> Iterator[tuple[list[Any], ...]]:
    with TemporaryDirectory() as name:
        for tape in tapes:
            program.say(str(tape.path))
            tables = [one for one in TABLES if TABLES[one].group and tape.num_rows(one) > 1000]
            path = Path(name, tape.path.name)
            yield (
                [_whole(tape, path)],
                [_table(tape, one, Path(name)) for one in tables],
                [_limits(tape, one) for one in tables],
                [_window(path)],
            )


def main() -> None:
    parser = program.parser(__doc__)
    parser.add_argument("tapes", nargs="*", type=Path, metavar="T.tape")
    bundled = sorted((program.ROOT / "analyze/demo").glob("*.tape"))
    found = _measured([Tape(path) for path in parser.parse_args().tapes or bundled])
    rows = [list(chain(*parts)) for parts in zip(*found, strict=True)]
    program.give(
        {
            name: program.table(_COLUMNS[name], part)
            for name, part in zip(_COLUMNS, rows, strict=True)
        }
    )


if __name__ == "__main__":
    program.run(main)
