# SPDX-License-Identifier: Apache-2.0
"""The reports about nodes, on a machine of three nodes in a row: 10, 20 and 30 from the CPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Writer

Run = Callable[..., Any]

SECOND = 1_000_000_000
PAGES = 4 << 9  # of a node
NODES = [
    {"id": 0, "cpus": [0], "distance": [10, 20, 30]},
    {"id": 1, "cpus": [1], "distance": [20, 10, 20]},
    {"id": 2, "cpus": [2], "distance": [30, 20, 10]},
]
GFP = TABLES["event"].column("gfp_flags").bits


def gfp(*names: str) -> int:
    return sum(1 << GFP.index(name) for name in names)


def write(path: Path, events: list[dict[str, Any]], nodes: Any = NODES) -> Path:
    reserve = {c.name: 0 for c in TABLES["zone"].columns if c.name.startswith("lowmem_reserve")}
    marks = {"wmark_min": 4, "wmark_low": 5, "wmark_high": 6, "snapshot": 0, "ts": 0}
    size = {"spanned": PAGES, "present": PAGES, "managed": PAGES, "free": PAGES, "zone": "NORMAL"}
    facts = {"nodes": nodes, "pageblock_order": 9, "cpus": 3, "clock": [0, 10 * SECOND]}
    with Writer(path, facts) as tape:
        for node in nodes:
            place = {"node": node["id"], "start_pfn": PAGES * node["id"]}
            tape.rows("zone", [place | marks | size | reserve])
        row = {"cpu": 0, "pid": 1, "flags": 0}
        tape.rows("event", [row | event for event in events])
    return path


@pytest.fixture
def everywhere(tmp_path: Path) -> Path:
    """A single and a huge page of each node, all for a second, by CPU 0."""
    events: list[dict[str, Any]] = []
    for at in (0, 1):
        for node in range(3):
            for order in (0, 9):
                event = {"ts": at * SECOND, "pfn": PAGES * node + order, "page_order": order}
                alloc = {"kind": "alloc", "migratetype": "MOVABLE", "gfp_flags": 0}
                events.append(event | ({"kind": "free"} if at else alloc))
    return write(tmp_path / "everywhere.tape", events)


@pytest.mark.parametrize(
    ("cost", "percent", "relative"),
    [
        ("naples", [0, 43, 45, 106, 131, 224], 1.5879),
        ("guest", [0, 101, 58, 222, None, None], 1.2926),
        ("0,10,20,30,40,50.5", [0, 10, 20, 30, 40, 50.5], 1.2002),
    ],
)
def test_a_page_costs_by_its_size_and_the_class_of_its_distance(
    cost: str, percent: list[float], relative: float, everywhere: Path, pagetape: Run
) -> None:
    rows = pagetape("report", "numa.thp", everywhere, "--cost", cost, "--json").json["rows"]
    assert [(row["distance"], row["size"]) for row in rows] == [
        (distance, size) for distance in range(3) for size in ("huge", "single")
    ]
    assert [row["cost_percent"] for row in rows] == percent
    # Pages times seconds times costs, of those that have one: 512 of each huge page, 1 of others.
    known = [(512 if i % 2 == 0 else 1, p) for i, p in enumerate(percent) if p is not None]
    mean = sum(n * (1 + p / 100) for n, p in known) / sum(n for n, _ in known)
    assert rows[0]["relative_cost"] == round(mean, 4) == relative
    assert rows[0]["remote_huge"] == round(2 / 3, 6)


@pytest.mark.parametrize("cost", ["rome", "0,1,2", "0,43,45,106,131,", "0,43,45,106,131,-1", ""])
def test_a_table_of_costs_that_is_none_is_bad_usage(
    cost: str, everywhere: Path, pagetape: Run
) -> None:
    said = pagetape("report", "numa.thp", everywhere, "--cost", cost)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert f"cost '{cost}' is not naples, guest or six percentages" in said.err


def test_a_machine_of_one_node_gets_a_note(tmp_path: Path, pagetape: Run) -> None:
    one = write(tmp_path / "one.tape", [], [{"id": 0, "cpus": [0], "distance": [10]}])
    alloc = {"ts": 0, "kind": "alloc", "pfn": 1, "page_order": 0, "gfp_flags": 0}
    several = write(tmp_path / "three.tape", [alloc])
    note = "this machine has one node: there is nothing to compare"
    for name in ("numa.thp", "numa.preference"):
        assert note in pagetape("report", name, one).out.splitlines()
        assert pagetape("report", name, one, "--json").json["note"] == note
    for name in ("numa.thp", "numa.faults"):
        assert note not in pagetape("report", name, several).out
        assert pagetape("report", name, several, "--json").json.get("note") != note


def test_a_fault_is_local_or_remote_or_falls_back(tmp_path: Path, pagetape: Run) -> None:
    huge = ("HIGHMEM", "MOVABLE", "COMP", "NOMEMALLOC")
    first, second = gfp(*huge, "THISNODE", "NORETRY"), gfp(*huge, "DIRECT_RECLAIM")
    tries = [(first, 0), (first, None), (second, PAGES), (first, None), (second, None)]
    other = [(gfp(*huge, "THISNODE"), 512), (gfp("MOVABLE"), 1024)]
    alloc = {"kind": "alloc", "page_order": 9, "migratetype": "MOVABLE"}
    events = [
        alloc | {"ts": i, "gfp_flags": flags, "pfn": pfn}
        for i, (flags, pfn) in enumerate(tries + other)
    ]
    tape = write(tmp_path / "faults.tape", events)
    (row,) = pagetape("report", "numa.faults", tape, "--json").json["rows"]
    assert (row["faults"], row["local"], row["remote"], row["fallback"]) == (3, 1, 1, 1)
    assert row["success"] == 0.6667
