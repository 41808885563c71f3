# SPDX-License-Identifier: Apache-2.0
"""The state at the start of a tape that begins with /proc only, built from its later events.

A snapshot from /proc lacks the order of the free lists, the pages and the tuning of the per-CPU
lists, and most types of pageblocks. The events of the whole tape prove much of that: see
replay/hindsight/hindsight.h. A free run starts from it as from an exact snapshot. `pagetape
validate` does not: it predicts each event from the earlier ones only.

If events were lost before the first one, as by a ring that overwrites its oldest, the first
snapshot is older than the start. A page without an event is at the end as it was at the start, so
the last snapshot shows the pages instead.

Without kpageflags the snapshot has only the number of free blocks by zone, order and migratetype.
Blocks without an event are placed where no event shows use (replay/hindsight/place_counts.c).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from pagetape import _replay, answer
from pagetape.replaying import kernels, replay_span
from pagetape.replaying.engine_run import (
    EngineRun,
    Tables,
    event_batches,
    naming,
    preview_batches,
    start_tables,
    whole_tables,
)
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cache
from pagetape.tapes.machine import (
    SNAPSHOT,
    has_counts_only,
    last_pages,
    old_boosts,
    shows_zone_locked,
    snapshot_rows,
    topology,
)
from pagetape.tapes.overwritten import lost_before

# The tables of an exact snapshot that the events prove, and those that they replace.
_MADE = ("pageblock", "free_block", "pcp_page", "pcp")
_REPLACED = (*_MADE, "block_guess")

# The tables of a snapshot that show its pages.
_PAGES = ("free_area", "block_count", "pageblock", "block_guess")

_COVERAGE = pa.schema([("name", pa.utf8()), ("value", pa.int64())])
_FREE_COUNTS = pa.schema([("free_counts", pa.list_(pa.int64()))])

# Parts of the start in words, and their totals: all entries, and the proven ones.
PARTS = (
    ("free blocks", "free_blocks", "free_blocks_proven"),
    ("free pages", "free_pages", "free_pages_proven"),
    ("pages on per-CPU lists", "pcp_pages", "pcp_pages_proven"),
    ("pageblock types", "pageblocks", "pageblocks_proven"),
)


@dataclass(frozen=True)
class Start:
    """The tables of an exact snapshot 0, and the number of their entries that events prove."""

    tables: dict[str, pa.Table]
    coverage: dict[str, int]
    # By row of pcp: the likely values of free_count, the likeliest first; none if not known.
    free_counts: list[list[int]] = field(default_factory=list)


def tables(tape: Tape, begin: Start | None, *others: str) -> Tables:
    """The tables to load: those of the tape's start, or of `begin`, then all rows of `others`."""
    replaced = set(_REPLACED if begin else ())
    if begin and (boosts := old_boosts(tape)):  # before the others, which need the zones
        replaced.add("zone")
        yield from (("zone", batch) for batch in _boosted(tape, boosts).to_batches())
    for name, batch in start_tables(tape, *others):
        if name not in replaced:
            yield name, batch
    if begin:
        yield from made_tables(begin.tables)


def made_tables(made: dict[str, pa.Table]) -> Tables:
    """The tables of a start from hindsight."""
    for name, table in made.items():
        yield from ((name, batch) for batch in table.to_batches())


def _boosted(tape: Tape, boosts: Mapping[tuple[int, str], int]) -> pa.Table:
    """The rows of zone at the start, with these boosts (pages) by node and zone."""
    zones = pa.Table.from_batches(snapshot_rows(tape, "zone", 0), TABLES["zone"].arrow)
    place = zones.schema.get_field_index("boost")
    field = zones.schema.field(place)
    values = [boosts.get((row["node"], row["zone"]), row["boost"]) for row in zones.to_pylist()]
    return zones.set_column(place, field, pa.array(values, field.type))


def _from_end(tape: Tape) -> Tables:
    """The tables of the start, with the pages of the last snapshot."""
    last = last_pages(tape)
    for name in SNAPSHOT:
        for batch in snapshot_rows(tape, name, last if name in _PAGES else 0):
            place = batch.schema.get_field_index("snapshot")
            field = batch.schema.field(place)
            first = pa.array([0] * batch.num_rows, field.type)
            yield name, batch.set_column(place, field, first)
    # Without rows of compaction: the end does not show which free pages of the start it took.
    yield from whole_tables(tape, "reclaim")


def _build(tape: Tape, row: str) -> Start:
    """Run the engine over the tape, under the rules of the kernel row `row`."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in _MADE}

    def sink(name: str, batch: pa.RecordBatch) -> None:
        if name in found:
            found[name].append(batch)

    rows = tape.num_rows("event")
    spans = replay_span.spans(tape)
    engine = _replay.Hindsight(row, **topology(tape), spans=spans, nr_rows=rows)
    lost = lost_before(tape) if last_pages(tape) else 0
    begin = _from_end(tape) if lost else start_tables(tape, "compaction", "reclaim")
    run = EngineRun(engine, tape, begin, sink)
    for batch in preview_batches(tape, rows):
        with naming(tape):
            engine.preview(batch)
    run.play(event_batches(tape), rows)
    made = {
        name: pa.Table.from_batches(batches, TABLES[name].arrow) for name, batches in found.items()
    }
    return Start(
        made,
        engine.coverage | {"lost_before": lost, "counts_only": int(has_counts_only(tape))},
        engine.free_counts,
    )


def _needed(tape: Tape) -> bool:
    """Whether the tape has a start from /proc only, and the events that prove more."""
    return bool(
        "replay" not in tape.facts
        and replay_span.exact(tape, 0) is None
        and (tape.num_rows("block_guess") or has_counts_only(tape))
        and shows_zone_locked(tape)
        and kernels.own(tape)
    )


def start(tape: Tape) -> Start | None:
    """The start of the tape from hindsight; None if its own start is exact, or nothing proves it.

    It is built once and cached.
    """
    own = kernels.own(tape)
    if own is None or not _needed(tape):
        return None
    row = own.row
    made: list[Start] = []

    def make(name: str) -> pa.Table:
        if not made:
            made.append(_build(tape, row))
        if name in made[0].tables:
            return made[0].tables[name]
        if name == "free_count":
            return pa.table([made[0].free_counts], schema=_FREE_COUNTS)
        counts = made[0].coverage
        return pa.table([list(counts), list(counts.values())], schema=_COVERAGE)

    found = {
        name: cache.table(tape, f"start_{name}", TABLES[name].arrow, partial(make, name))
        for name in _MADE
    }
    counts = cache.table(tape, "start_coverage", _COVERAGE, partial(make, "coverage"))
    likely = cache.table(tape, "start_free_count", _FREE_COUNTS, partial(make, "free_count"))
    return Start(found, _counts(counts), likely["free_counts"].to_pylist())


def snapshot(tape: Tape) -> list[dict[str, Any]]:
    """The row of `snapshot` of the start, as the tape of a replay has it."""
    row = next((row for row in tape.rows("snapshot") if row["snapshot"] == 0), {"ts": 0})
    return [{"snapshot": 0, "ts": row["ts"], "how": "inferred"}]


def _counts(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))


def built(tape: Tape) -> dict[str, int] | None:
    """The coverage of the tape's start from hindsight, if it was built before."""
    if not _needed(tape) or (found := cache.stored(tape, "start_coverage", _COVERAGE)) is None:
        return None
    return _counts(found)


def words(coverage: dict[str, Any]) -> str:
    """'later events prove 12 of 20 free blocks, ...': the share of the start that they prove."""
    lost = coverage["lost_before"]
    old = (
        f"the first snapshot is {lost:,} lost events older, so the last one is used; "
        if lost
        else ""
    )
    guessed = answer.amount(coverage["free_blocks_guessed"], "free block")
    places = f"no kpageflags: a guess places {guessed}; " if coverage["counts_only"] else ""
    return f"{old}{places}later events prove " + ", ".join(
        f"{coverage[proven]:,} of {coverage[nr]:,} {part}" for part, nr, proven in PARTS
    )
