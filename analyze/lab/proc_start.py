# SPDX-License-Identifier: Apache-2.0
"""A copy of a tape as if its start were known from /proc only: `proc_start.py TAPE OUT [--counts]`.

The copy lacks the exact tables of the first snapshot. It has what /proc would have shown at that
moment: free blocks as kpageflags shows them (`block_guess`), and pageblock types by the rule of
collector/proc/kpageflags.h; with `--counts` only the counts of zoneinfo and pagetypeinfo. Its
events are those that a replay from the exact snapshot plays. So the free run of one recording can
be measured from both starts.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.replaying import replay_span
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import output

Row = dict[str, Any]

_EXACT_ONLY = "Exact snapshots only."


def _start(tape: Tape, name: str) -> list[Row]:
    return [row for row in tape.rows(name) if row["snapshot"] == 0]


def _pages(rows: list[Row]) -> Iterator[tuple[int, int, tuple[int, str]]]:
    """The runs of pages of free blocks, as (first pfn, pfn after the last), with the zone."""
    for row in rows:
        yield row["pfn"], row["pfn"] + (1 << row["page_order"]), (row["node"], row["zone"])


def _guesses(tape: Tape) -> list[Row]:
    """The free blocks as runs of free pages show them, by pfn."""
    found, most = [], tape.facts.get("nr_orders", 11) - 1
    runs: list[list[Any]] = []
    for first, end, zone in sorted(_pages(_start(tape, "free_block"))):
        if runs and runs[-1][1] == first and runs[-1][2] == zone:
            runs[-1][1] = end
        else:
            runs.append([first, end, zone])
    for zone, same in groupby(sorted(runs, key=lambda run: (run[2], run[0])), lambda run: run[2]):
        for pfn, end, _ in same:
            while pfn < end:
                order = next(
                    o for o in range(most, -1, -1) if pfn % (1 << o) == 0 and pfn + (1 << o) <= end
                )
                place = {"node": zone[0], "zone": zone[1]}
                found.append({"snapshot": 0, "ts": 0, "page_order": order, "pfn": pfn, **place})
                pfn += 1 << order
    return found


def _pageblocks(tape: Tape) -> list[Row]:
    """The pageblocks of the start, with guessed types."""
    size = 1 << tape.facts["pageblock_order"]
    free: Counter[int] = Counter()
    for first, end, _ in _pages(_start(tape, "free_block")):
        for block in range(first // size, (end - 1) // size + 1):
            free[block] += min(end, (block + 1) * size) - max(first, block * size)
    found = []
    for row in _start(tape, "pageblock"):
        movable = row["nr_movable"] or 0
        unmovable = size - free[row["pfn"] // size] - movable
        kind = "UNMOVABLE" if unmovable > movable else "MOVABLE"
        guess = row["migratetype"] if row["migratetype"] == "CMA" else kind
        found.append(row | {"migratetype": guess, "guessed": True, "isolated": None})
    return found


def _without_exact(name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of zone or pcp without the columns that /proc does not have."""
    columns = {
        column.name: pa.nulls(batch.num_rows, field.type)
        if column.doc.endswith(_EXACT_ONLY)
        else batch[column.name]
        for column, field in zip(TABLES[name].columns, TABLES[name].arrow, strict=True)
    }
    return pa.record_batch(list(columns.values()), schema=TABLES[name].arrow)


def _played(tape: Tape, spans: list[replay_span.Span]) -> Iterator[pa.RecordBatch]:
    """The events of these spans."""
    base = 0
    for batch in tape.batches("event"):
        for first, end in spans:
            begin = max(first - base, 0)
            if min(end - base, batch.num_rows) > begin:
                yield batch.slice(begin, min(end - base, batch.num_rows) - begin)
        base += batch.num_rows


def _moved(batch: pa.RecordBatch, spans: list[replay_span.Span]) -> pa.RecordBatch:
    """The rows of a table with `at`, from the first played event on, among the played events."""
    batch = batch.filter(pc.greater_equal(batch["at"], spans[0][0]))
    at = pa.array(
        [
            sum(min(max(row - first, 0), end - first) for first, end in spans)
            for row in batch["at"].to_pylist()
        ],
        batch["at"].type,
    )
    return batch.set_column(batch.schema.get_field_index("at"), batch.schema.field("at"), at)


def without_exact_start(tape: Tape, out: Path, *, kpageflags: bool = True) -> None:
    """Write the copy of `tape` to `out`; without `kpageflags`, its start has only counts."""
    changed = {
        "snapshot": [
            {"snapshot": 0, "ts": row["ts"], "how": "proc"} if row["snapshot"] == 0 else row
            for row in tape.rows("snapshot")
        ],
        "pageblock": _pageblocks(tape) if kpageflags else [],
        "block_guess": _guesses(tape) if kpageflags else [],
    }
    # Those between the exact snapshots; all events of a tape without them.
    spans = replay_span.spans(tape) or [(0, tape.num_rows("event"))]
    with output.whole_tape(out, tape.facts, replace=True, inputs=[tape.path]) as writer:
        for name in sorted(tape.tables | changed.keys()):
            if name in changed:
                writer.rows(name, changed[name])
            if name in ("free_block", "pcp_page", "pageblock", "snapshot_zone", "snapshot_check"):
                rows = tape.table(name)
                for batch in rows.filter(pc.greater(rows["snapshot"], 0)).to_batches():
                    writer.write(name, batch)
            elif name in ("zone", "pcp"):
                for batch in tape.batches(name):
                    writer.write(name, _without_exact(name, batch))
            elif name == "event":
                for batch in _played(tape, spans):
                    writer.write(name, batch)
            elif name not in changed:
                for batch in tape.batches(name):
                    moves = "at" in batch.schema.names
                    writer.write(name, _moved(batch, spans) if moves else batch)


if __name__ == "__main__":
    whole, copy = (Path(name) for name in sys.argv[1:3])
    without_exact_start(Tape(whole), copy, kpageflags="--counts" not in sys.argv[3:])
