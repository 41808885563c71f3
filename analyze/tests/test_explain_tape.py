# SPDX-License-Identifier: Apache-2.0
"""explain on a tape: its failed requests, by the state at their moments, or cannot_tell."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking.database import Database
from pagetape.explaining.verdict import CLASSES
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]
Row = dict[str, Any]

DEMO = Path(__file__).parents[1] / "demo"
MS = 1_000_000
READ_AT = 10_000 * MS  # of the second snapshot
KERNEL = "6.1.192"
GFP = {
    "GFP_KERNEL": ("IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM"),
    "GFP_NOWAIT": ("KSWAPD_RECLAIM",),
    "GFP_ATOMIC": ("HIGH", "KSWAPD_RECLAIM"),
    "MOVABLE": ("IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM", "HIGHMEM", "MOVABLE"),
}


def bits(*names: str) -> int:
    known = TABLES["event"].column("gfp_flags").bits
    return sum(1 << known.index(name) for name in names)


def zone(snapshot: int, ts: int, free: int, **changed: Any) -> Row:
    reserve = {c.name: 0 for c in TABLES["zone"].columns if c.name.startswith("lowmem_reserve")}
    found = {"snapshot": snapshot, "ts": ts, "node": 0, "zone": "NORMAL", "free": free, "boost": 0}
    pages = {"start_pfn": 1 << 16, "spanned": 20000, "present": 20000, "managed": 20000}
    marks = {"wmark_min": 100, "wmark_low": 125, "wmark_high": 150}
    counts = {"nr_reserved_highatomic": 0, "nr_free_highatomic": 0, "nr_free_cma": 0}
    return found | pages | marks | reserve | counts | changed


def area(snapshot: int, ts: int, blocks: dict[str, list[int]]) -> list[Row]:
    place = {"snapshot": snapshot, "ts": ts, "node": 0, "zone": "NORMAL", "capped": False}
    return [
        place | {"migratetype": kind, "page_order": order, "nr_free": nr}
        for kind, numbers in blocks.items()
        for order, nr in enumerate(numbers)
    ]


def failing(ts: int, order: int, mask: str, migratetype: str = "UNMOVABLE") -> Row:
    found = {"ts": ts, "cpu": 0, "pid": 7, "flags": 0, "kind": "alloc", "pfn": None}
    request = {"page_order": order, "migratetype": migratetype, "gfp_flags": bits(*GFP[mask])}
    return found | request


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """A tape of one zone that is read at READ_AT, with failed requests and no other event."""

    def make(
        events: list[Row], blocks: dict[str, list[int]], zones: dict[str, Any] | None = None
    ) -> Path:
        free = sum(nr << order for numbers in blocks.values() for order, nr in enumerate(numbers))
        facts = {"kernel": KERNEL, "page_size": 4096, "pageblock_order": 9, "nr_orders": 11}
        path = tmp_path / "made.tape"
        with Writer(path, facts | {"events": ["kmem:mm_page_alloc"], "event_set": "page"}) as tape:
            tape.rows("event", events)
            tape.rows("task", [{"pid": 7, "tgid": 7, "comm": "db", "kthread": False}])
            tape.rows("zone", [zone(0, MS, 5000), zone(1, READ_AT, free, **(zones or {}))])
            tape.rows("free_area", [*area(0, MS, {"UNMOVABLE": [5000]}), *area(1, READ_AT, blocks)])
        return path

    return make


def reports(pagetape: Run, path: Path, *args: str) -> list[Row]:
    said = pagetape("explain", path, "--json", *args)
    assert said.status == 0, said.err
    found: list[Row] = said.json["reports"]
    return found


def test_a_reading_near_the_failure_gives_the_sum(made: Run, pagetape: Run) -> None:
    path = made([failing(READ_AT + MS, 0, "GFP_KERNEL")], {"UNMOVABLE": [60]})
    (one,) = reports(pagetape, path)
    (normal,) = one["zones"]
    assert (one["class"], one["task"], one["gfp"]) == ("below_min", "db", ["GFP_KERNEL"])
    assert (normal["free"], normal["mark"], normal["short"]) == (60, 100, 41)
    assert (one["state"]["free"], one["state"]["how"]) == ("read", "snapshot")
    assert one["state"]["distance_s"] == pytest.approx(-0.001)
    assert not one["sure"], "a millisecond may change the count"


def test_an_old_reading_is_no_state_of_the_failure(made: Run, pagetape: Run) -> None:
    path = made([failing(READ_AT + 50 * MS, 0, "GFP_KERNEL")], {"UNMOVABLE": [60]})
    (one,) = reports(pagetape, path)
    assert one["class"] == "cannot_tell" and one["deciding"] is None
    assert "the nearest reading is 50.0 ms before it" in " ".join(one["missing"])
    assert one["zones"][0]["free"] == 60, "the figures stay, with their time"


@pytest.mark.parametrize(
    ("blocks", "mask", "migratetype", "name"),
    [
        ({"UNMOVABLE": [900, 0, 0, 0]}, "GFP_KERNEL", "UNMOVABLE", "no_block_of_order"),
        ({"UNMOVABLE": [900], "CMA": [0, 0, 0, 2]}, "GFP_KERNEL", "UNMOVABLE", "cma_only"),
        ({"UNMOVABLE": [900], "CMA": [0, 0, 0, 2]}, "MOVABLE", "MOVABLE", "cannot_tell"),
        ({"UNMOVABLE": [900, 0, 0, 2]}, "GFP_KERNEL", "UNMOVABLE", "cannot_tell"),
    ],
)
def test_blocks_by_type(
    blocks: dict[str, list[int]],
    mask: str,
    migratetype: str,
    name: str,
    made: Run,
    pagetape: Run,
) -> None:
    cma = sum(nr << order for order, nr in enumerate(blocks.get("CMA", [])))
    path = made([failing(READ_AT + MS, 3, mask, migratetype)], blocks, {"nr_free_cma": cma})
    (one,) = reports(pagetape, path)
    assert one["class"] == name
    assert one["state_passes"] == (name == "cannot_tell")


def test_the_rights_are_those_of_the_kernel(made: Run, pagetape: Run) -> None:
    """In 6.1 GFP_ATOMIC may use half of min and a quarter of the rest, NOWAIT alone nothing."""
    path = made(
        [failing(READ_AT - MS, 0, "GFP_NOWAIT"), failing(READ_AT + MS, 0, "GFP_ATOMIC")],
        {"UNMOVABLE": [100]},
    )
    nowait, atomic = reports(pagetape, path)
    assert (nowait["class"], nowait["zones"][0]["mark"]) == ("below_min", 100)
    assert (atomic["state_passes"], atomic["zones"][0]["mark"]) == (True, 38)
    assert nowait["state"]["distance_s"] > 0 > atomic["state"]["distance_s"]
    older = reports(pagetape, path, "--kernel", "2.6.32")
    assert older[0]["zones"][0]["mark"] == 75, "NOWAIT was a right of its own"


@pytest.mark.parametrize("name", ["server", "pressure"])
def test_the_demo_tapes_agree_with_the_judgement_of_failed_alloc(name: str, pagetape: Run) -> None:
    """The view judges by the most and the least that is possible; a sure class keeps within it."""
    path = DEMO / f"{name}.tape"
    found = reports(pagetape, path)
    with Database([Tape(path)]) as db:
        judged = db.ask("SELECT lacks FROM failed_alloc ORDER BY ts, cpu, pid, page_order DESC")
        counts = db.ask("SELECT ts, node, zone, free_pages FROM free_at_failure").rows
    lacks = [row[0] for row in judged.rows]
    assert len(lacks) == len(found)
    begin = (Tape(path).clock or (0, 0))[0]
    counted = {(round(ts - begin), node, kind): free for ts, node, kind, free in counts}
    classes = Counter(one["class"] for one in found)
    assert set(classes) <= set(CLASSES) and len(classes) > 1
    for one, lack in zip(found, lacks, strict=True):
        if one["class"] == "below_min" and one["sure"]:
            assert lack != "block"
        if one["class"] == "no_block_of_order":
            assert lack != "memory"
        assert one["state"]["free"] == "counted"
        for each in one["zones"]:
            key = (round(one["at_s"] * 1e9), each["node"], each["zone"].upper())
            assert each["free"] == counted[key]
            assert each["passes"] is None or each["passes"] == (
                each["free"] - sum(each["subtracted"].values())
                > each["mark"] + each["lowmem_reserve"]
                and each["cause"] is None
            )


def test_for_a_person_like_failures_are_one(pagetape: Run) -> None:
    said = pagetape("explain", DEMO / "server.tape").out
    assert len(said.split("\n\n")) < 60  # of 189 failures
    assert "alike" in said and "free pages are counted to the failure" in said


def test_input_that_cannot_be_explained(
    made: Run, pagetape: Run, tmp_path: Path, empty: Path
) -> None:
    said = pagetape("explain", empty)
    assert (said.status, said.out) == (1, "")
    assert "explain needs events of every allocation" in said.err and "record" in said.err
    said = pagetape("explain", empty, tmp_path / "log")
    assert said.status == 2 and "give one tape, or logs" in said.err
    path = made([], {"UNMOVABLE": [60]})
    said = pagetape("explain", path)
    assert said.status == 0 and "no request failed" in said.out
    assert json.loads(pagetape("explain", path, "--json").out)["reports"] == []
