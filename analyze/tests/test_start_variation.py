# SPDX-License-Identifier: Apache-2.0
"""The starts that the members of an ensemble have where a tape begins with /proc only."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import proc_start
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape.replaying import ensemble, hindsight, start_variation
from pagetape.replaying.playback import NewTape, Run, Source, play
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

_DEMO = Path(__file__).parent / "data/pressure.tape"
_LIST = ("node", "zone", "migratetype", "page_order")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """The demo tape as if its start were from /proc."""
    out = tmp_path_factory.mktemp("varied") / "proc.tape"
    proc_start.without_exact_start(Tape(_DEMO), out)
    return Tape(out)


class _Begun:
    """A tape as if it ended after its first events."""

    def __init__(self, tape: Tape, rows: int) -> None:
        self._tape = tape
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def batches(self, name: str) -> list[pa.RecordBatch]:
        return pa.Table.from_batches(self._tape.batches(name)).slice(0, self._rows).to_batches()


@pytest.fixture(scope="module")
def guesses(cut: Tape) -> start_variation.Guesses:
    start = hindsight.start(cut)
    assert start is not None
    return start_variation.guesses(_Begun(cut, 2000), start)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> start_variation.Guesses:
    """Of the demo tape as if its start had neither exact tables nor kpageflags."""
    out = tmp_path_factory.mktemp("counted") / "proc.tape"
    proc_start.without_exact_start(Tape(_DEMO), out, kpageflags=False)
    tape = Tape(out)
    start = hindsight.start(tape)
    assert start is not None
    return start_variation.guesses(_Begun(tape, 2000), start)  # type: ignore[arg-type]


def _counts(table: pa.Table, *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in columns) for row in table.to_pylist())


def _pages(tables: dict[str, pa.Table]) -> Counter[int]:
    return Counter(
        pfn
        for name in ("free_block", "pcp_page")
        for row in tables[name].to_pylist()
        for pfn in range(row["pfn"], row["pfn"] + (1 << row["page_order"]))
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(1, 1 << 40))
def test_a_varied_start_is_possible(guesses: start_variation.Guesses, seed: int) -> None:
    _check_possible(guesses, seed)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(1, 1 << 40))
def test_a_varied_start_from_counts_is_possible(
    counted: start_variation.Guesses, seed: int
) -> None:
    _check_possible(counted, seed)
    before, after = counted.start.tables["pageblock"], counted.varied(seed)["pageblock"]
    kinds = ("node", "zone", "migratetype")
    assert _counts(before, *kinds) == _counts(after, *kinds)


def test_seeds_place_counted_blocks_elsewhere(counted: start_variation.Guesses) -> None:
    places = [set(counted.varied(seed)["free_block"]["pfn"].to_pylist()) for seed in (1, 2, 1)]
    assert counted.places and places[0] == places[2] != places[1]


def _check_possible(guesses: start_variation.Guesses, seed: int) -> None:
    """Lists keep their lengths, no page is in two places, and no free buddies are apart."""
    before, after = guesses.start.tables, guesses.varied(seed)
    assert _counts(after["free_block"], *_LIST) == _counts(before["free_block"], *_LIST)
    assert _counts(after["pcp_page"], "cpu", *_LIST) == _counts(before["pcp_page"], "cpu", *_LIST)
    assert max(_pages(after).values()) == 1
    free = {(row["page_order"], row["pfn"]) for row in after["free_block"].to_pylist()}
    was = {(row["page_order"], row["pfn"]) for row in before["free_block"].to_pylist()}
    for order, pfn in free - was:
        assert (order, pfn ^ (1 << order)) not in free
    for name in ("free_block", "pcp_page"):
        rows = set(guesses.pcp if name == "pcp_page" else list(chain(*guesses.free.values())))
        pairs = zip(before[name]["pfn"].to_pylist(), after[name]["pfn"].to_pylist(), strict=True)
        assert all(one == other or row in rows for row, (one, other) in enumerate(pairs))


def test_seeds_differ_in_order_contents_and_types(guesses: start_variation.Guesses) -> None:
    starts = [guesses.varied(seed) for seed in range(1, 33)]
    assert guesses.varied(1) == starts[0]
    for name, column in (("free_block", "pfn"), ("pageblock", "migratetype")):
        assert len({tuple(tables[name][column].to_pylist()) for tables in starts}) > 1
    flipped = [
        sum(
            one != other
            for one, other in zip(
                guesses.start.tables["pageblock"]["migratetype"].to_pylist(),
                tables["pageblock"]["migratetype"].to_pylist(),
                strict=True,
            )
        )
        for tables in starts
    ]
    assert guesses.rate is not None
    expected = guesses.rate * len(guesses.blocks)
    assert expected / 2 < sum(flipped) / len(flipped) < 2 * expected


def test_the_rate_of_types_is_measured(cut: Tape) -> None:
    start = hindsight.start(cut)
    assert start is not None
    wrong, judged = start_variation.wrong_guesses(cut, start)
    assert 0 < judged == start.coverage["pageblocks_proven"] and 0 <= wrong < judged
    assert start_variation.guesses(cut, start).rate == (wrong + 1) / (judged + 2)


def test_pages_exchange_between_a_cpu_list_and_a_free_list(
    guesses: start_variation.Guesses,
) -> None:
    """With room for it: a free page and a page of a CPU's list that no event shows."""
    tables = guesses.start.tables
    free, pcp = tables["free_block"].to_pylist(), tables["pcp_page"].to_pylist()
    here = {"snapshot": 0, "ts": 0, "node": 9, "zone": "NORMAL", "migratetype": "MOVABLE"}
    block = tables["pageblock"].to_pylist()[0] | here | {"pfn": 1 << 40, "guessed": False}
    made = {
        "free_block": [*free, here | {"page_order": 0, "pfn": (1 << 40) + 4}],
        "pcp_page": [*pcp, here | {"cpu": 0, "page_order": 0, "pfn": (1 << 40) + 9}],
        "pageblock": [*tables["pageblock"].to_pylist(), block],
        "pcp": [],
    }
    made_tables = {
        name: pa.Table.from_batches([TABLES[name].batch(rows)]) for name, rows in made.items()
    }
    place = (9, "NORMAL", "MOVABLE", 0)
    other = start_variation.Guesses(
        hindsight.Start(made_tables, {}), {place: [len(free)]}, [len(pcp)], [], 0.5
    )
    found = {
        (
            other.varied(seed)["free_block"]["pfn"][-1].as_py() - (1 << 40),
            other.varied(seed)["pcp_page"]["pfn"][-1].as_py() - (1 << 40),
        )
        for seed in range(1, 20)
    }
    assert found == {(4, 9), (9, 4)}


def test_members_differ_in_a_free_count_that_events_leave_open(
    guesses: start_variation.Guesses,
) -> None:
    start = guesses.start
    rows = start.tables["pcp"].num_rows
    counts = [[4, 2], [7], *[[]] * (rows - 2)]
    shown = [likely[0] if likely else None for likely in counts]
    table = start.tables["pcp"]
    at = table.schema.get_field_index("free_count")
    table = table.set_column(
        at, table.schema.field(at), pa.array(shown, table.schema.field(at).type)
    )
    other = replace(guesses, start=replace(start, tables=start.tables | {"pcp": table}))
    other = replace(other, start=replace(other.start, free_counts=counts))
    found = [other.varied(seed)["pcp"]["free_count"].to_pylist() for seed in range(1, 20)]
    assert {row[0] for row in found} == {4, 2}
    assert {tuple(row[1:]) for row in found} == {(7, *[None] * (rows - 2))}


def test_a_plain_run_keeps_the_start(cut: Tape, tmp_path: Path) -> None:
    source = Source(cut, inferred(cut), preferences(cut))
    begin = source.begin
    assert begin is not None
    made = dict.fromkeys(begin.tables, 0)
    for name, batch in source.tables(Run("auto", ())):
        made[name] = made.get(name, 0) + batch.num_rows
    assert {name: made[name] for name in begin.tables} == {
        name: table.num_rows for name, table in begin.tables.items()
    }
    found = []
    for name in ("one", "two"):
        found.append(play(source, Run("auto", ()), NewTape(tmp_path / f"{name}.tape")))
        del found[-1]["events_per_s"]
        ensemble.play(source, {"own": Run("auto", ())}, 2)
    assert found[0] == found[1]
