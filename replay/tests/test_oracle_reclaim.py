# SPDX-License-Identifier: Apache-2.0
"""The slow path with reclaim of the model's own (R1): the oracle against the C engine.

oracle/vectors.md names the vectors of each rule.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape import _replay
from pagetape.schemas import TABLES

from .feedback import build, engine_of, play_engine, play_oracle
from .generate import LARGE_REQUESTS, REQUESTS, Op, Shape, random_world, record
from .oracle import (
    HIGHATOMIC,
    KERNELS,
    MOVABLE,
    UNMOVABLE,
    ZONES,
    Event,
    Geometry,
    Machine,
    Marks,
    Settings,
    Zone,
    ZoneSpec,
)
from .oracle.compaction import Goal, reclaim_leaves, suits
from .oracle.feedback import Call, Feedback, Turns, near_reclaim
from .oracle.slow_path import ASYNC, LIGHT
from .oracle.watermark import Rights
from .outcome import Outcome, difference, feed
from .tapes import SECOND, Row
from .test_differential import OPS, PROFILE
from .world import World, ZoneState

TESTS = Path(__file__).parent
ROWS = [row["name"] for row in _replay.kernels()]
LATER = ROWS[ROWS.index("4.20") :]  # 2.6 wakes kswapd by other marks
DEFRAG = ROWS[ROWS.index("6.17") :]
SMALL = Shape(pageblock_orders=(4, 5), sizes=(2, 5, 16, 40), cma=(0, 0, 2))

Calls = dict[str, list[Call]]


def both(
    world: World, kernel: str, rows: list[Row], *, defrag_mode: bool = False
) -> tuple[Outcome, Calls]:
    """What oracle and engine agree on."""
    expected, calls = play_oracle(world, kernel, rows, defrag_mode=defrag_mode)
    got, called = play_engine(world, kernel, rows, defrag_mode=defrag_mode)
    assert called == calls
    if parting := difference(expected, got):
        pytest.fail(parting, pytrace=False)
    return expected, calls


def agree(kernel: str, seed: int, ops: list[Op], *, defrag_mode: bool = False) -> None:
    here = random_world(seed, SMALL)
    # Without kswapd on the tape, the engine takes a start without its work.
    here.zones = [replace(zone, boost=0, reclaim_active=False) for zone in here.zones]
    requests = REQUESTS + LARGE_REQUESTS
    rows = record(here, "6.18", ops, requests=requests, singles=True).rows
    both(here, kernel, rows, defrag_mode=defrag_mode)


@pytest.mark.parametrize("kernel", LATER)
@settings(PROFILE, max_examples=PROFILE.max_examples // 2)
@given(seed=st.integers(0, 10**6), ops=OPS)
def test_engine_and_oracle_agree_where_requests_reclaim(
    kernel: str, seed: int, ops: list[Op]
) -> None:
    agree(kernel, seed, ops)


@pytest.mark.parametrize("kernel", DEFRAG)
@settings(PROFILE, max_examples=PROFILE.max_examples // 2)
@given(seed=st.integers(0, 10**6), ops=OPS)
def test_engine_and_oracle_agree_under_defrag_mode(kernel: str, seed: int, ops: list[Op]) -> None:
    agree(kernel, seed, ops, defrag_mode=True)


# Small machines: pageblocks of 16 pages. Zone DMA has the pages that the record gave out; its
# lowmem reserve makes them useless to the model.

BLOCK = 16
SLEEPS = frozenset({"DIRECT_RECLAIM", "KSWAPD_RECLAIM", "IO", "FS"})
RESERVE = {name: 0 if name == "DMA" else 1000 for name in ZONES}
LISTS = Settings(1, 8, high_min=8, high_max=8)


def zone(
    start: int, blocks: list[str], free: list[tuple[str, int, int]], **given: Any
) -> ZoneState:
    """A zone whose used pages can move, unless something else is given."""
    facts: dict[str, Any] = {
        "name": "NORMAL",
        "lowmem_reserve": dict.fromkeys(ZONES, 0),
        "movable_blocks": frozenset(range(start, start + BLOCK * len(blocks), BLOCK)),
        "below_high": False,
        "reclaim_active": False,
    }
    return ZoneState(
        start=start,
        spanned=BLOCK * len(blocks),
        pcps=[LISTS],
        blocks=blocks,
        free=free,
        **facts | given,
    )


FIXED: frozenset[int] = frozenset()  # no used page can move


def small(*zones: ZoneState, nodes: int = 1) -> World:
    dma = zone(
        0, [MOVABLE] * 4, [(MOVABLE, 5, 0), (MOVABLE, 5, 32)], name="DMA", lowmem_reserve=RESERVE
    )
    distances = [[10 if i == j else 20 for j in range(nodes)] for i in range(nodes)]
    geometry = Geometry([0], distances, pageblock_order=4, max_order=5)
    return World(geometry, [dma, *zones])


def ask(number: int, order: int, migratetype: str, *gfp: str, bits: frozenset[str] = SLEEPS) -> Row:
    """A request; the record gave it the pages of zone DMA from 16 times its number on."""
    event = Event("alloc", 0, BLOCK * number, order, migratetype)
    kind = {"MOVABLE"} if migratetype == MOVABLE else set()
    return Row(SECOND + number, event, bits | kind | set(gfp))


def every_second_page(first: int, blocks: int, migratetype: str) -> list[tuple[str, int, int]]:
    return [(migratetype, 0, pfn) for pfn in range(first, first + BLOCK * blocks, 2)]


@pytest.mark.parametrize(
    ("kernel", "defrag_mode", "wake", "compactions"),
    [("6.18", False, 0, []), ("6.18", True, 4, []), ("7.2", False, 0, []), ("7.2", True, 4, [4])],
)
def test_defrag_mode_asks_for_whole_pageblocks(
    kernel: str, defrag_mode: bool, wake: int, compactions: list[int]
) -> None:
    world = small(zone(64, [UNMOVABLE] * 4, [], movable_blocks=FIXED))
    _, calls = both(world, kernel, [ask(0, 0, UNMOVABLE)], defrag_mode=defrag_mode)
    assert calls["reclaim"] == [Call("wakeup_kswapd", 0, "NORMAL", wake)]
    assert [call.page_order for call in calls["compaction"]] == compactions


@pytest.mark.parametrize(
    ("gfp", "reclaims", "compactions"),
    [((), 1, 2), (("NORETRY",), 0, 1), (("NORETRY", "THISNODE"), 0, 1), (("RETRY_MAYFAIL",), 1, 2)],
)
def test_a_costly_request_compacts_first_and_reclaims_once(
    gfp: tuple[str, ...], reclaims: int, compactions: int
) -> None:
    """No page is free: the first compaction is skipped."""
    world = small(zone(64, [MOVABLE] * 4, []))
    out, calls = both(world, "6.18", [ask(0, 4, MOVABLE, *gfp)])
    assert out.counters["direct_reclaims"] == reclaims
    assert [call.page_order for call in calls["compaction"]] == [4] * compactions


def test_a_costly_request_that_compaction_serves_does_not_reclaim() -> None:
    world = small(zone(64, [MOVABLE] * 8, every_second_page(64, 8, MOVABLE)))
    out, _ = both(world, "6.18", [ask(0, 4, MOVABLE)])
    assert out.counters["direct_reclaims"] == 0
    assert out.counters["direct_compactions"] == 1
    assert out.counters["compacted_pages"] == BLOCK // 2


@pytest.mark.parametrize(
    ("gfp", "ready", "blocks"),
    [(("NORETRY",), False, "MHHM"), (("NORETRY",), True, "MMHM"), ((), False, "MMMM")],
)
def test_reclaim_releases_one_reserved_block_and_its_end_releases_the_others(
    gfp: tuple[str, ...],
    ready: bool,
    blocks: str,
) -> None:
    """As the turns leave them: what a machine grants after them empties the reserve."""
    machine = Feedback(KERNELS["6.12.117"], Geometry(pageblock_order=4, max_order=5))
    here = machine.add_zone(
        ZoneSpec(
            start=0,
            spanned=64,
            reserved_highatomic=32,
            pcps=[LISTS],
            blocks=[MOVABLE, HIGHATOMIC, HIGHATOMIC, MOVABLE],
        )
    )
    for pfn in (16, 32):
        here.buddy.insert(pfn, 2, HIGHATOMIC, tail=True)
    request = machine._request(0, 3, MOVABLE, SLEEPS - {"IO"} | set(gfp), 0)
    turns = Turns(machine, request, Rights(), nofragment=False)
    if ready:
        turns.reclaim_leaves = lambda: True  # type: ignore[method-assign]
    turns.run()
    assert "".join(here.buddy.block_type(pfn)[0] for pfn in range(0, 64, 16)) == blocks


@pytest.mark.parametrize(("kernel", "pfn"), [("6.17", 64), ("6.18", 128), ("7.3", 128)])
def test_nodes_whose_kswapd_is_awake_are_tried_last(kernel: str, pfn: int) -> None:
    """A request for node 0 alone wakes its kswapd; then pages are freed there."""
    given = {"marks": Marks(0, 8, 8), "movable_blocks": FIXED}
    world = small(
        zone(64, [UNMOVABLE] * 4, [(UNMOVABLE, 2, 64)], **given),
        zone(128, [UNMOVABLE] * 4, [(UNMOVABLE, 5, 128)], **given, node=1),
        nodes=2,
    )
    rows = [
        ask(0, 1, UNMOVABLE, "THISNODE"),
        *(Row(SECOND + 10 + i, Event("free", 0, 80 + 4 * i, 2)) for i in range(8)),
        replace(ask(1, 2, UNMOVABLE), ts=2 * SECOND),
    ]
    out, calls = both(world, kernel, rows)
    assert calls["reclaim"] == [Call("wakeup_kswapd", 0, "NORMAL", 1)]
    served = [event.pfn for event in out.events if event.kind == "alloc"][-1]
    assert served is not None
    assert served // 64 == pfn // 64


@pytest.mark.parametrize(
    ("kernel", "wakes"), [("5.0", 1), ("5.10", 1), ("6.1.192", 1), ("6.5", 0), ("6.18", 0)]
)
def test_a_boost_wakes_kswapd_for_any_request_up_to_6_1(kernel: str, wakes: int) -> None:
    marks = Marks(0, 0, 100)
    world = small(
        zone(
            64,
            [UNMOVABLE] * 4,
            [(UNMOVABLE, 5, 64)],
            marks=marks,
            movable_blocks=FIXED,
            boosted=True,
        )
    )
    out, calls = both(world, kernel, [ask(0, 0, UNMOVABLE, bits=frozenset())])
    assert calls["reclaim"] == [Call("wakeup_kswapd", 0, "NORMAL", 0)] * wakes
    assert out.counters["slowpath_wake_calls"] == wakes


@pytest.mark.parametrize(("order", "gfp", "moved"), [(3, (), True), (4, ("NORETRY",), False)])
def test_only_synchronous_runs_take_sources_of_any_type(
    order: int, gfp: tuple[str, ...], moved: bool
) -> None:
    """MOVABLE pages in UNMOVABLE pageblocks, free ones at the end of the zone."""
    kinds = [UNMOVABLE] * 4 + [MOVABLE] * 4
    free = every_second_page(64, 4, UNMOVABLE) + every_second_page(128, 4, MOVABLE)
    world = small(zone(64, kinds, free))
    world.zones[1].movable_blocks = frozenset(range(64, 128, BLOCK))
    out, _ = both(world, "6.18", [ask(0, order, MOVABLE, *gfp)])
    assert out.counters["direct_compactions"] > 0
    assert (out.counters["compacted_pages"] > 0) == moved


@pytest.mark.parametrize(("kernel", "moved"), [("6.8", 0), ("6.12.117", 4)])
def test_blocks_below_the_order_move_since_6_9(kernel: str, moved: int) -> None:
    """A block of order 2 is all that its pageblock has in use."""
    free = [(MOVABLE, 2, 64), (MOVABLE, 2, 68), (MOVABLE, 3, 72)]
    free += [(MOVABLE, 2, pfn) for pfn in range(80, 192, 8)]
    world = small(zone(64, [MOVABLE] * 8, free[:1] + free[3:], movable_blocks=FIXED))
    rows = [
        ask(0, 2, MOVABLE),
        Row(SECOND + 5, Event("free", 0, 68, 2)),
        Row(SECOND + 6, Event("free", 0, 72, 3)),
        replace(ask(2, 4, MOVABLE), ts=SECOND + 9),
    ]
    out, _ = both(world, kernel, rows)
    assert out.counters["compacted_pages"] == moved


def test_2_6_32_has_no_direct_compaction() -> None:
    world = small(zone(64, [MOVABLE] * 8, every_second_page(64, 8, MOVABLE)))
    for play in (play_oracle, play_engine):
        out, calls = play(world, "2.6.32", [ask(0, 3, UNMOVABLE)])
        assert calls["compaction"] == []
        assert out.counters["direct_compactions"] == 0
        assert out.counters["direct_reclaims"] > 0


def test_calls_of_kswapd_and_its_wakeups_are_counted_apart() -> None:
    world = small(zone(64, [UNMOVABLE] * 4, [], movable_blocks=FIXED))
    out, calls = both(world, "6.18", [ask(0, 0, UNMOVABLE), ask(1, 0, UNMOVABLE)])
    assert out.counters["slowpath_wake_calls"] == 2
    assert out.counters["kswapd_wakeups"] == len(calls["reclaim"]) == 1


def test_one_zone_is_drained_alone() -> None:
    machine = Machine(KERNELS["6.18"], Geometry(pageblock_order=4, max_order=5))
    zones = [
        machine.add_zone(
            ZoneSpec(name=name, start=start, spanned=32, pcps=[LISTS], blocks=[MOVABLE] * 2)
        )
        for name, start in (("DMA", 0), ("NORMAL", 32))
    ]
    for pfn in (0, 32):
        machine.free(0, pfn, 0)
    machine.drain_all(zones[1])
    assert [zone.pcps[0].count for zone in zones] == [1, 0]


# The lists that the C tests read too

_VECTORS = (TESTS / "fixtures/reclaim_vectors.h").read_text()


def _vectors(name: str) -> list[tuple[str, ...]]:
    lines = _VECTORS.split(f"#define {name}(X)")[1].split("#define")[0]
    found = [tuple(part.strip(" \"'") for part in row.split(",")) for row in
             re.findall(r"X\(([^)]*)\)", lines)]  # fmt: skip
    assert found
    return found


def _zone_of_vectors(kernel: str, *, defrag_mode: bool) -> tuple[Feedback, Zone]:
    geometry = Geometry(pageblock_order=9, max_order=10)
    machine = build(World(geometry, []), kernel, defrag_mode=defrag_mode)
    spec = ZoneSpec(
        start=16384,
        spanned=32 * 512,
        marks=Marks(100, 200, 300),
        pcps=[LISTS],
        blocks=[MOVABLE] * 32,
    )
    return machine, machine.add_zone(spec)


@pytest.mark.parametrize("vector", _vectors("FOR_EACH_BALANCE"), ids=" ".join)
def test_zones_are_balanced_and_suit_compaction_by_the_vectors(vector: tuple[str, ...]) -> None:
    kernel, defrag_mode, order_text, singles, blocks, balanced, *answers, ready = vector
    order = int(order_text)
    machine, here = _zone_of_vectors(kernel, defrag_mode=defrag_mode == "1")
    for i in range(int(singles)):
        here.buddy.insert(here.buddy.start + 2 * i, 0, MOVABLE)
    for i in range(int(blocks)):
        here.buddy.insert(here.buddy.start + (28 + 2 * i) * 512, 9, MOVABLE)
    assert machine.balanced(0, order, "NORMAL") == (balanced == "1")
    goals = [Goal(order, whole_blocks=machine.defrag_mode)]
    goals += [Goal(order, priority=priority) for priority in (LIGHT, ASYNC)]
    letters = {"cannot": "K", "suits": "C", "serves": "S"}
    assert [letters[suits(here, goal, "NORMAL")] for goal in goals] == answers
    assert reclaim_leaves(here, order, "NORMAL") == (ready == "1")


@pytest.mark.parametrize("vector", _vectors("FOR_EACH_TIER"), ids=" ".join)
def test_memory_tiering_balances_at_the_promo_watermark(vector: tuple[str, ...]) -> None:
    tiers, promo, boost, singles, balanced = map(int, vector)
    machine, here = _zone_of_vectors("6.12.117", defrag_mode=False)
    machine.tiers = bool(tiers)
    here.marks = replace(here.marks, promo=promo)
    here.boost = boost
    for i in range(singles):
        here.buddy.insert(here.buddy.start + 2 * i, 0, MOVABLE)
    assert machine.balanced(0, 0, "NORMAL") == bool(balanced)


@pytest.mark.parametrize("vector", _vectors("FOR_EACH_NEAR"), ids=" ".join)
def test_a_try_on_a_near_node_frees_what_its_rights_and_the_record_allow(
    vector: tuple[str, ...],
) -> None:
    mode, recorded, freed, order, expected = map(int, vector)
    assert near_reclaim(mode, recorded, None if freed < 0 else freed, order) == expected


@pytest.mark.parametrize("vector", _vectors("FOR_EACH_STALL"), ids=" ".join)
def test_a_stall_boosts_by_7_pageblocks_up_to_the_limit(vector: tuple[str, ...]) -> None:
    before, most, after = map(int, vector)
    _, here = _zone_of_vectors("6.18", defrag_mode=False)
    here.boost = before
    here.stall(most)
    assert here.boost == after


@pytest.mark.parametrize(
    ("first", "checks"), [("kcompactd_sleep", 1), ("kcompactd_wake", 1), ("wakeup_kcompactd", 0)]
)
def test_a_recorded_run_without_a_wakeup_is_a_check_of_the_timer(first: str, checks: int) -> None:
    world = small(zone(64, [MOVABLE] * 4, every_second_page(64, 4, MOVABLE)))
    engine = engine_of(world, "6.18", proactiveness=20)
    ts = SECOND + SECOND // 10
    row = {"at": 0, "ts": ts, "kind": first, "cpu": 0, "pid": 1, "flags": 0, "node": 0}
    engine.load("compaction", TABLES["compaction"].batch([row]))
    rows = [replace(ask(i, 0, MOVABLE), ts=SECOND + i * SECOND // 5) for i in range(2)]
    seen = [(row["ts"], row["kind"]) for row in feed(engine, rows)["compaction"]]
    assert seen == [(ts, "kcompactd_sleep")] * checks


# The table of rules in the docs


def _rules() -> list[list[str]]:
    lines = (TESTS / "oracle/vectors.md").read_text().splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]


@pytest.mark.parametrize("rule", _rules(), ids=lambda rule: rule[0])
def test_each_rule_has_its_vectors(rule: list[str]) -> None:
    _, engine, oracle = rule
    for part in engine.split("; "):
        path, *names = re.findall(r"`([^`]+)`", part)
        source = (TESTS / path).read_text()
        assert names
        for name in names:
            assert f"\nTEST({name})\n" in source
    files = ("test_oracle_reclaim.py", "test_oracle.py")
    python = "".join((TESTS / name).read_text() for name in files)
    names = re.findall(r"`([^`]+)`", oracle)
    assert names or oracle.startswith("none: ")
    for name in names:
        assert f"def test_{name}(" in python
