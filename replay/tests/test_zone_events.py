# SPDX-License-Identifier: Apache-2.0
"""Free runs of tapes of the event set zone, through the binding: refills and drains as requests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pagetape._replay import EngineError, Replay, Validate, check_policies, kernels, policies
from pagetape.schemas import TABLES

from .test_binding import PAGES, Rows, engine, run, zone_row

KERNELS = [row["name"] for row in kernels()]


def event(ts: int, cpu: int, kind: str, pfn: int, **more: Any) -> dict[str, Any]:
    row = {"ts": ts, "cpu": cpu, "pid": 7 + cpu, "kind": kind, "flags": 0, "pfn": pfn}
    return row | {"page_order": 0, "migratetype": "MOVABLE"} | more


def taken(ts: int, cpu: int, pfn: int, **more: Any) -> dict[str, Any]:
    return event(ts, cpu, "alloc_zone_locked", pfn, **more)


def drained(ts: int, cpu: int, pfn: int, **more: Any) -> dict[str, Any]:
    return event(ts, cpu, "pcpu_drain", pfn, **more)


def played(events: Rows, kernel: str = "6.18", **given: Any) -> tuple[dict[str, Rows], Any]:
    replay = engine(kernel, zone_events=True, **given)
    return run(replay, events), replay.totals


def test_the_pages_of_a_hold_are_one_refill_and_of_two_holds_two() -> None:
    rows = [taken(10 + n, 0, 600 + n) for n in range(4)]
    out, totals = played(rows)
    assert totals["refills"] == 1
    assert totals["refill_pages"] == 4
    # CPU 1 takes the zone's lock in between.
    rows[2:2] = [taken(12, 1, 700)]
    rows = [row | {"ts": 10 + n} for n, row in enumerate(rows)]
    out, totals = played(rows)
    assert totals["refills"] == 3
    assert totals["refill_pages"] == 5
    assert [row["kind"] for row in out["event"]] == ["alloc_zone_locked"] * 5


@pytest.mark.parametrize("kernel", KERNELS)
def test_pages_come_back_and_none_is_lost(kernel: str) -> None:
    rows: Rows = []
    for turn in range(6):
        base = 600 + 97 * turn
        rows += [taken(0, turn % 2, base + n) for n in range(40)]
        rows += [drained(0, 1, base + n) for n in range(0, 40, 1 + turn % 2)]
    rows += [taken(0, 0, 2048, page_order=5), event(0, 1, "free", 2048, page_order=5)]
    rows = [row | {"ts": 100 + n} for n, row in enumerate(rows)]
    out, totals = played(rows, kernel)
    # Of 6 turns, every second one leaves half of its 40 pages outside.
    (free,) = (row["free"] for row in out["zone"] if row["snapshot"] == 1)
    assert free == PAGES - 512 - 3 * 20
    assert totals["refill_pages"] == 6 * 40
    assert totals["drain_pages"] == 3 * 40 + 3 * 20
    assert not out["pcp_page"]
    assert not out["anomaly"]


def test_a_page_whose_list_was_locked_is_free_at_once() -> None:
    rows = [taken(10, 0, 600), event(11, 1, "free", 600), taken(12, 1, 601)]
    out, totals = played(rows)
    assert totals["buddy_frees"] == 1
    first, _, again = (row["pfn"] for row in out["event"])
    assert again == first
    assert not out["anomaly"]


def two_zones(free: dict[str, int], batch: dict[str, int]) -> Any:
    """A machine of 6.18 with DMA32 below NORMAL, and whole pageblocks free in each."""
    replay = Replay(
        "6.18",
        [],
        nr_cpus=2,
        cpu_nodes=[0, 0],
        node_distances=[[10]],
        pageblock_order=9,
        zone_events=True,
    )
    where = {"snapshot": 0, "ts": 0, "node": 0}
    zones, pcps, blocks = [], [], []
    for start, name in ((0, "DMA32"), (PAGES, "NORMAL")):
        zones.append(zone_row(zone=name, start_pfn=start))
        lists = {"count": 0, "high": 0, "high_min": 0, "high_max": 60, "alloc_factor": 0}
        lists |= {"free_count": 0, "free_factor": 0, "flags": 0, "expire": 0}
        pcps += [
            where | lists | {"zone": name, "cpu": cpu, "batch": batch[name]} for cpu in range(2)
        ]
        blocks += [
            where | {"zone": name, "page_order": 9, "pfn": start + 512 * n}
            for n in range(free[name])
        ]
    replay.load("zone", TABLES["zone"].batch(zones))
    replay.load("pcp", TABLES["pcp"].batch(pcps))
    replay.load("block_guess", TABLES["block_guess"].batch(blocks))
    return replay


def test_a_refill_in_another_zone_has_the_size_of_that_zone() -> None:
    rows = [taken(10 + n, 0, PAGES + 600 + n) for n in range(40)]
    replay = two_zones({"DMA32": 7, "NORMAL": 7}, {"DMA32": 1, "NORMAL": 40})
    run(replay, rows)
    assert (replay.totals["refills"], replay.totals["refill_pages"]) == (1, 40)
    # Without a free page in NORMAL, the small lists of DMA32 take one page, then two, then four.
    replay = two_zones({"DMA32": 7, "NORMAL": 0}, {"DMA32": 1, "NORMAL": 40})
    run(replay, rows)
    assert replay.totals["refill_pages"] == 40
    assert replay.totals["refills"] > 3


def test_refills_that_look_like_one_are_several() -> None:
    """Nobody else took the zone's lock between them, as on a machine with one CPU."""
    replay = two_zones({"DMA32": 7, "NORMAL": 7}, {"DMA32": 1, "NORMAL": 1})
    run(replay, [taken(10 + n, 0, PAGES + 600 + n) for n in range(100)])
    assert replay.totals["refill_pages"] == 100
    assert replay.totals["refills"] == 4  # of at most 1 << 5 pages


def test_a_fallback_without_a_page_of_its_own_stands_for_one() -> None:
    fallback = {"fallback_order": 9, "fallback_migratetype": "MOVABLE", "change_ownership": True}
    asked = {"migratetype": "UNMOVABLE"} | fallback
    claimed = event(10, 0, "alloc_extfrag", 1024, **asked)
    back = drained(20, 0, 1024, migratetype="UNMOVABLE")
    out, totals = played([claimed, back], "6.12.117")
    assert totals["refill_pages"] == totals["drain_pages"] == 1
    assert not out["anomaly"]
    # Before it, the event of its page: one page in all, asked for as the fallback says.
    out, totals = played([taken(9, 0, 1024), claimed, back], "6.12.117")
    assert totals["refill_pages"] == 1
    assert {row["migratetype"] for row in out["event"] if row["kind"] == "alloc_extfrag"} == {
        "UNMOVABLE"
    }
    # Up to 6.8 the fallback comes first.
    moved = taken(11, 0, 1024, migratetype="UNMOVABLE")
    out, totals = played([claimed, moved, back], "6.1.192")
    assert totals["refill_pages"] == 1


def test_pages_of_the_lists_at_the_start_are_outside() -> None:
    replay = engine(zone_events=True)
    page = {"snapshot": 0, "ts": 0, "cpu": 0, "node": 0, "zone": "NORMAL", "page_order": 0}
    at_start = TABLES["pcp_page"].batch([page | {"migratetype": "MOVABLE", "pfn": 5}])
    replay.load("pcp_page", at_start)
    out = run(replay, [drained(10, 1, 5)])
    assert replay.totals["drain_pages"] == 1
    assert not out["anomaly"]
    (free,) = (row["free"] for row in out["zone"] if row["snapshot"] == 1)
    assert free == PAGES - 512 + 1


_OF_LISTS = {"pcp_tuning", "pcp_limits", "tick_ns", "alloc_batch", "huge_plan"}


@pytest.mark.parametrize("policy", policies()[1:], ids=lambda policy: policy["name"])
def test_a_policy_of_the_lists_is_refused_and_any_other_plays(policy: dict[str, Any]) -> None:
    check_policies([policy["name"]])
    specs = [policy["name"]]
    if _OF_LISTS.isdisjoint(policy["choices"]):
        engine(specs=specs, zone_events=True)
        return
    with pytest.raises(EngineError, match=f"policy {policy['name']} .*--events page"):
        engine(specs=specs, zone_events=True)
    engine(specs=specs)


def test_reclaim_of_the_models_own_is_refused() -> None:
    with pytest.raises(EngineError, match="--reclaim R0"):
        engine(zone_events=True, reclaim="R1")


def test_validate_predicts_the_page_and_takes_over_the_record() -> None:
    machine = {"nr_cpus": 2, "cpu_nodes": [0, 0], "node_distances": [[10]], "pageblock_order": 9}
    validate = Validate("6.18", zone_events=True, checks="full", **machine)
    zone = {c.name: 0 for c in TABLES["zone"].columns if not c.null}
    zone |= {"zone": "NORMAL", "wmark_min": 8, "wmark_low": 16, "wmark_high": 32}
    zone |= dict.fromkeys(("spanned", "present", "managed"), PAGES)
    types = [
        {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "pfn": pfn, "migratetype": "MOVABLE"}
        | {"guessed": False}
        for pfn in range(0, PAGES, 512)
    ]
    free = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "migratetype": "MOVABLE"}
    validate.load("zone", TABLES["zone"].batch([zone]))
    validate.load("pageblock", TABLES["pageblock"].batch(types))
    chunks = [free | {"page_order": 9, "pfn": 1024}, free | {"page_order": 9, "pfn": 2048}]
    validate.load("free_block", TABLES["free_block"].batch(chunks))
    # The first two pages are those of the list; the third is not; the drained one is next again.
    events = [taken(10, 0, 1024), taken(11, 0, 1025), taken(12, 1, 2048), drained(13, 1, 2048)]
    events.append(taken(14, 0, 2048))
    validate.feed(TABLES["event"].batch(events))
    validate.finish()
    while (ready := validate.read()) is not None:
        pa.record_batch(ready[1])
    assert validate.totals["zone_locked"] == 4
    assert validate.totals["zone_locked_exact"] == 3
    assert validate.totals["drained"] == validate.totals["allocs"] == 0
