# SPDX-License-Identifier: Apache-2.0
"""The run of validate over a recording before a free run: what it infers, and what it counts."""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.replaying import preference, recorded_counts, validate_run
from pagetape.replaying.engine_run import Tables, start_tables
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache, played_span

_INFERRED = TABLES["inferred"].arrow
_MADE = {name: TABLES[name].arrow for name in ("block_mix", "recorded_use", "exactness")}

COUNTS = "recorded_"  # before the names of recorded_counts.SCHEMAS

# The tables by their names in the cache.
SCHEMAS = {
    "inferred": _INFERRED,
    "preference": preference.SCHEMA,
    **_MADE,
    **{COUNTS + name: schema for name, schema in recorded_counts.SCHEMAS.items()},
}


class Ahead(NamedTuple):
    """Tables of SCHEMAS, and the totals of the engine."""

    tables: dict[str, pa.Table]
    totals: dict[str, Any]


def _without_refuted(rows: pa.Table) -> pa.Table:
    """Drop allocs of pages that were not on a PCP, as a later row about their free shows."""
    number = pa.arange(0, rows.num_rows)
    found = pa.table({"number": number, "at": rows["at"], "pfn": rows["pfn"]})
    kind = rows["kind"].cast(pa.utf8())
    allocs = found.filter(pc.equal(kind, "alloc"))
    frees = found.filter(pc.equal(kind, "direct_free"))
    pairs = allocs.join(frees, "pfn", join_type="inner", right_suffix="_free")
    found_later = pc.greater(pairs["number_free"], pairs["number"])
    refuted = pairs.filter(pc.and_(found_later, pc.less(pairs["at_free"], pairs["at"])))
    return rows.filter(pc.invert(pc.is_in(number, value_set=refuted["number"])))


def by_row(batches: list[pa.RecordBatch]) -> pa.Table:
    """The rows of inferred, sorted by the row of event that each precedes."""
    rows = _without_refuted(pa.Table.from_batches(batches, _INFERRED))
    return rows.take(pc.sort_indices(rows, [("at", "ascending")]))


def run(
    tape: Tape, row: str, tables: Tables, judge: validate_run.Judge = validate_run.accept
) -> Ahead:
    """The run from a start with these tables, under the rules of `row`, whose tables are cached.

    `judge` is that of Begin.
    """
    made: dict[str, list[pa.RecordBatch]] = {
        name: [] for name in ("inferred", "preference", *_MADE)
    }

    def sink(name: str, batch: pa.RecordBatch) -> None:
        if name in made:
            made[name].append(batch)

    counts = recorded_counts.RecordedCounts(tape, played_span.of_tape(tape))
    begin = validate_run.Begin(tables, counts.feed, judge)
    engine = validate_run.run(tape, row, sink, begin=begin)
    found = {
        "inferred": by_row(made.pop("inferred")),
        **{name: pa.Table.from_batches(rows, SCHEMAS[name]) for name, rows in made.items()},
        **{COUNTS + name: rows for name, rows in counts.tables().items()},
    }
    for name, table in found.items():
        cache.store(tape, name, table)
    return Ahead(found, engine.totals)


def proves(tape: Tape) -> bool:
    """Whether a recording has the events of the free lists, which the inference needs."""
    stored = {
        point["name"] for point in tape.rows("tracepoint") if point["stored"] and point["events"]
    }
    return "replay" not in tape.facts and "mm_page_alloc_zone_locked" in stored


_latest: dict[tuple[Tape, str], Ahead] = {}  # at most one run


def from_own_start(tape: Tape, row: str, judge: validate_run.Judge = validate_run.accept) -> Ahead:
    """The run from the tape's own start. The latest one is played once."""
    if (tape, row) not in _latest:
        _latest.clear()
        _latest[tape, row] = run(tape, row, start_tables(tape, *validate_run.INPUT), judge)
    return _latest[tape, row]
