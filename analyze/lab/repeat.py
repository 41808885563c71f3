#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long tape, made of a recording that is repeated in time.

    repeat.py T.tape OUT.tape --events 100000000

The rows of `event`, `reclaim`, `compaction` and of every other table with `at` are repeated, each
time later by the length of the recording, until there are about as many events. The state at the
start stays, that at the end moves to the new end. Pages that the recording never freed are
allocated again: the reports call them unseen. Batches have 64 k rows, as those of a recorder.
"""

from collections.abc import Iterator
from pathlib import Path

import program
import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

_ROWS = 1 << 16  # of a batch
_PAUSE = 1_000_000  # ns between two turns


def _moved(batch: pa.Table, names: list[str], by: int) -> pa.Table:
    """The rows with some of their columns raised."""
    for name in set(names) & set(batch.column_names):
        place = batch.column_names.index(name)
        column = batch.column(name)
        raised = pc.add(column, pa.scalar(by, column.type))
        batch = batch.set_column(place, batch.schema.field(name), raised)
    return batch


def _of_end(rows: pa.Table, by: int) -> pa.Table:
    """The rows of a table of snapshots; those of the later snapshots are moved."""
    first = pc.min(rows["snapshot"])
    last = _moved(rows.filter(pc.greater(rows["snapshot"], first)), ["ts", "began", "flags_ts"], by)
    return pa.concat_tables([rows.filter(pc.equal(rows["snapshot"], first)), last])


def _turns(rows: pa.Table, turns: int, length: int, events: int) -> Iterator[pa.Table]:
    for turn in range(turns):
        later = _moved(rows, ["ts", "began", "from_ts", "to_ts", "event_ts"], turn * length)
        yield _moved(later, ["at"], turn * events)


def _multiplied(rows: pa.Table, turns: int) -> pa.Table:
    """The counts of the tracepoints of all turns."""
    place = rows.column_names.index("events")
    counts = pc.multiply(rows["events"], pa.scalar(turns, pa.uint64()))
    return rows.set_column(place, rows.schema.field(place), counts)


def repeat(tape: Tape, out: Path, events: int) -> int:
    """Write the long tape; the number of its events."""
    span, nr = tape.clock, tape.num_rows("event")
    if span is None or not nr:
        raise ValueError(f"{tape.path}: has no events")
    turns, length = max(round(events / nr), 1), span[1] - span[0] + _PAUSE
    with Writer(out, tape.facts) as writer:
        for name in sorted(tape.tables):
            columns = {column.name for column in TABLES[name].columns}
            rows = tape.table(name)
            parts: Iterator[pa.Table] = iter([rows])
            if name == "tracepoint":
                parts = iter([_multiplied(rows, turns)])
            elif "snapshot" in columns:
                parts = iter([_of_end(rows, (turns - 1) * length)])
            elif columns & {"at", "from_ts", "event_ts"} or name == "event":
                parts = _turns(rows, turns, length, nr)
            for part in parts:
                for batch in part.combine_chunks().to_batches(_ROWS):
                    writer.write(name, batch)
    return turns * nr


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("tape", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, default=100_000_000)
    given = parser.parse_args()
    program.say(f"{given.out}: {repeat(Tape(given.tape), given.out, given.events):,} events")
    return 0


if __name__ == "__main__":
    program.run(main)
