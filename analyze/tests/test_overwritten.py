# SPDX-License-Identifier: Apache-2.0
"""A recording whose rings have overwritten their oldest events: what its start is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proc_start
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape.asking.comparison import metrics
from pagetape.replaying import hindsight, replay_span
from pagetape.replaying.model_error import recorded_metrics
from pagetape.replaying.validation import block_mix, recorded_counts, recorded_use
from pagetape.schemas.memory_tape import TapeWith
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import machine, overwritten

_DEMO = Path(__file__).parent / "data/pressure.tape"
_BUNDLED = Path(__file__).parents[1] / "demo"
_SLOW = 0  # the CPU whose ring holds the least
Ask = Callable[..., Any]


def _end(tape: Tape) -> list[dict[str, Any]]:
    """The free pages at the end, as /proc/kpageflags shows them."""
    names = ("snapshot", "ts", "node", "zone", "page_order", "pfn")
    rows = (row for row in tape.rows("free_block") if row["snapshot"])
    return [{name: row[name] for name in names} for row in rows]


def overwrite(tape: Tape, out: Path, first: int, later: int, boost: int = 0) -> None:
    """A copy whose rings hold the events from row `first` on, that of _SLOW those from `later`."""
    event = tape.table("event")
    place = pa.array(range(len(event)))
    from_row = pc.if_else(pc.equal(event["cpu"], _SLOW), later, first)
    remaining = pc.greater_equal(place, from_row).combine_chunks()
    before = [0, *pc.cumulative_sum(remaining.cast(pa.int64())).to_pylist()]
    rows = event.filter(remaining)
    lost = []
    for cpu in pc.unique(rows["cpu"]).to_pylist():
        mine = rows.filter(pc.equal(rows["cpu"], cpu))
        number = pc.sum(pc.equal(event["cpu"], cpu)).as_py() - len(mine)
        lost.append({"cpu": cpu, "from_ts": None, "to_ts": mine["ts"][0].as_py(), "events": number})
    with Writer(out, tape.facts) as writer:
        for name in sorted(tape.tables - {"event", "lost", "free_block", "pcp_page"}):
            for batch in tape.batches(name):
                if "at" in batch.schema.names:
                    number = batch.schema.get_field_index("at")
                    field = batch.schema.field(number)
                    moved = [before[at] for at in batch["at"].to_pylist()]
                    batch = batch.set_column(number, field, pa.array(moved, field.type))
                if name == "zone" and boost:
                    number = batch.schema.get_field_index("boost")
                    field = batch.schema.field(number)
                    raised = [boost * (nr > 0) for nr in batch["snapshot"].to_pylist()]
                    batch = batch.set_column(number, field, pa.array(raised, field.type))
                if name == "reclaim" and boost:
                    batch = batch.filter(pc.not_equal(batch["kind"], "kswapd_wake"))
                writer.write(name, batch)
        writer.rows("block_guess", _end(tape))
        writer.rows("lost", lost)
        for batch in rows.to_batches():
            writer.write("event", batch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """The demo tape as if its start were from /proc."""
    out = tmp_path_factory.mktemp("whole") / "proc.tape"
    proc_start.without_exact_start(Tape(_DEMO), out)
    return Tape(out)


@pytest.fixture(scope="module")
def rest(whole: Tape, tmp_path_factory: pytest.TempPathFactory) -> Tape:
    out = tmp_path_factory.mktemp("rest") / "rest.tape"
    overwrite(whole, out, 150_000, 200_000)
    return Tape(out)


def _free(tables: dict[str, pa.Table]) -> int:
    return sum(
        1 << row["page_order"]
        for name in ("free_block", "pcp_page")
        for row in tables[name].to_pylist()
    )


def _net(events: pa.Table) -> int:
    """Pages that events free, less those that they allocate."""
    pages: Counter[str] = Counter()
    for row in events.select(["kind", "pfn", "page_order"]).to_pylist():
        if row["pfn"] is not None and row["kind"] in ("alloc", "free"):
            pages[row["kind"]] += 1 << row["page_order"]
    return pages["free"] - pages["alloc"]


def test_it_is_played_from_the_time_when_every_cpu_has_its_events(rest: Tape) -> None:
    since = overwritten.complete_from(rest)
    ((first, end),) = replay_span.spans(rest)
    times = rest.table("event")["ts"].to_pylist()
    assert end == len(times) and times[first - 1] < since <= times[first]
    assert overwritten.lost_before(rest) == sum(row["events"] for row in rest.rows("lost"))


@pytest.mark.parametrize(
    ("events", "to_ts", "spans"),
    [(999, 7, []), (1000, 7, [(1, 4)]), (None, 7, [(1, 4)]), (1000, 2**64 - 1, [(4, 4)])],
)
def test_few_events_lost_before_the_first_are_a_gap(
    tmp_path: Path, events: int | None, to_ts: int, spans: list[tuple[int, int]]
) -> None:
    page = {"pid": 1, "kind": "alloc", "flags": 0, "pfn": 5, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as writer:
        writer.rows("event", [{"ts": ts, "cpu": ts % 2, **page} for ts in (4, 7, 8, 9)])
        writer.rows("lost", [{"cpu": 1, "from_ts": None, "to_ts": to_ts, "events": events}])
    found = Tape(tmp_path / "t.tape")
    assert replay_span.spans(found) == spans
    assert machine.old_boosts(found) == {}


def test_the_recorded_metrics_are_of_the_same_span(rest: Tape) -> None:
    ((first, end),) = replay_span.spans(rest)
    played = rest.table("event").slice(first, end - first)
    served = pc.and_(pc.equal(played["kind"], "alloc"), pc.is_valid(played["pfn"]))
    assert recorded_metrics(rest)["allocs"]["value"] == pc.sum(served).as_py()


@pytest.mark.parametrize("name", ["pressure", "server", "rest"])
def test_the_recorded_metrics_are_those_of_the_report(name: str, rest: Tape) -> None:
    """The run ahead counts the events; the report by itself reads them all."""
    tape = rest if name == "rest" else Tape(_BUNDLED / f"{name}.tape")
    own = {"block_mix": block_mix(tape), "recorded_use": recorded_use(tape)}
    assert recorded_counts(tape)["event_count"].num_rows
    assert recorded_metrics(tape) == metrics(TapeWith(tape, own))


def test_its_pages_at_the_start_are_those_that_events_and_the_end_show(
    whole: Tape, rest: Tape
) -> None:
    """Compaction allocates without events, so the sums differ a little: by less than a twentieth
    of what the first snapshot is off."""
    events = whole.table("event")
    begin = hindsight.start(whole)
    assert begin is not None
    since = overwritten.complete_from(rest)
    until = pc.sum(pc.less(events["ts"], since)).as_py()
    expected = _free(begin.tables) + _net(events.slice(0, until))
    start = hindsight.start(rest)
    assert start is not None
    off = abs(_free(start.tables) - expected)
    assert 20 * off < abs(_free(begin.tables) - expected)


def test_old_boosts_are_those_of_a_hopeless_kswapd(whole: Tape, rest: Tape, tmp_path: Path) -> None:
    assert machine.old_boosts(whole) == {} and machine.topology(whole)["hopeless_nodes"] == 0
    assert machine.topology(rest)["hopeless_nodes"] == 0  # its kswapd has passes
    overwrite(whole, tmp_path / "boosted.tape", 150_000, 200_000, boost=512)
    boosted = Tape(tmp_path / "boosted.tape")
    assert set(machine.old_boosts(boosted).values()) == {512}
    assert machine.topology(boosted)["hopeless_nodes"] == 0b11
    start = hindsight.start(boosted)
    assert start is not None
    batches = [rows for name, rows in hindsight.tables(boosted, start) if name == "zone"]
    zones = pa.Table.from_batches(batches)
    assert {row["boost"] for row in zones.to_pylist() if row["managed"]} == {512}


def test_a_replay_says_that_its_start_is_that_of_the_end(rest: Tape, pagetape: Ask) -> None:
    said = pagetape("replay", rest.path, "--ensemble", "0").out
    assert "of the events were lost" not in said  # no interval is shown
    assert f"the first snapshot is {overwritten.lost_before(rest):,} lost events older" in said
    assert "of the events were lost" in pagetape("replay", rest.path, "--ensemble", "2").out
