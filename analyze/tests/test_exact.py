# SPDX-License-Identifier: Apache-2.0
"""Snapshots that are exact in one zone and not in another."""

from typing import Any, ClassVar

import pytest

from pagetape.recording.capture import Snapshot
from pagetape.recording.exact import Exact, ExactSnapshots, Flags
from pagetape.schemas import TABLES

Rows = list[dict[str, Any]]


def zone(name: str, how: str, **given: int) -> dict[str, Any]:
    names = ("walk_ns", "lock_ns", "free_blocks", "lists_moved", "pcps_moved", "pcps_refused")
    return {"node": 0, "zone": name, "how": how, **dict.fromkeys(names, 0)} | given


def facts(*zones: dict[str, Any], **given: Any) -> dict[str, Any]:
    mark = {"ts": 5, "pfn": 77, "cpu": 0, "pid": 9, "order": 4, "held_ns": 3000}
    checks = {"list_sums": 11, "pcp_types": 4}
    found = {"checks": checks, "mismatches": {}, "pcp_types_differ": 1, "zones": list(zones)}
    return mark | found | given


def batch(name: str, *rows: dict[str, Any]) -> Any:
    required = {c.name: 0 for c in TABLES[name].columns if not c.null and not c.labels}
    return TABLES[name].batch([required | {"zone": "NORMAL"} | row for row in rows])


def exact(given: dict[str, Any], why: str | None) -> Exact:
    """One free block and one PCP page in each of the zones DMA and NORMAL."""
    both = ({"zone": "DMA", "pfn": 1}, {"zone": "NORMAL", "pfn": 600})
    places = tuple(row | {"migratetype": "MOVABLE"} for row in both)
    tables = {name: batch(name, *places) for name in ("free_block", "pcp_page", "pageblock")}
    tables["free_area"] = batch("free_area", *({"zone": row["zone"]} for row in both))
    return Exact(given, tables, why, 20)


def from_proc() -> Snapshot:
    rows: dict[str, Rows] = {
        "snapshot": [{"snapshot": 0, "ts": 1, "how": "proc"}],
        "vmstat": [{"name": "pgalloc", "value": 1}],
        "free_area": [{"node": 0, "zone": "DMA"}, {"node": 0, "zone": "NORMAL"}],
    }
    guess = batch("block_guess", {"zone": "DMA", "pfn": 2}, {"pfn": 512})
    flags = batch("pageblock", {"pfn": 600, "migratetype": "MOVABLE", "nr_movable": 12})
    blocks = {"block_guess": guess, "pageblock": flags}
    return Snapshot(rows, blocks, {"how": "proc"}, Flags(blocks, 9, 3))


def pfns(snapshot: Snapshot, table: str) -> list[int]:
    column: list[int] = snapshot.blocks[table]["pfn"].to_pylist()
    return column


def test_what_is_exact_everywhere_needs_no_guess() -> None:
    given = facts(zone("DMA", "still"), zone("NORMAL", "locked", lock_ns=8), exact=True)
    made = from_proc().made_exact(exact(given, None))
    (row,) = made.rows["snapshot"]
    assert (row["how"], row["lock_ns"], row["checks"], row["pfn"]) == ("exact", 8, 11, 77)
    assert "block_guess" not in made.blocks
    assert made.rows["free_area"] == []
    assert pfns(made, "free_block") == [1, 600]
    assert made.blocks["pageblock"]["nr_movable"].to_pylist() == [None, 12]
    assert made.rows["snapshot_check"][-1] == {
        "snapshot": 0,
        "name": "pcp_types",
        "compared": 4,
        "differing": 1,
    }


def test_a_block_whose_free_pages_changed_is_unknown() -> None:
    """Two blocks of 512 pages each, in the lists and in the flags that were read later."""

    def listed(name: str, *free: tuple[int, int]) -> Any:
        rows = ({"pfn": pfn, "page_order": order} for pfn, order in free)
        more = {} if name == "block_guess" else {"migratetype": "MOVABLE"}
        return batch(name, *(row | more for row in rows))

    pageblocks = tuple({"pfn": pfn, "migratetype": "MOVABLE"} for pfn in range(0, 3072, 512))
    lists = listed("free_block", (0, 3), (520, 0), (521, 0), (1024, 10), (2560, 2))
    flags = {
        # the same pages as one block or several; one page less; half of two blocks
        "block_guess": listed("block_guess", (0, 2), (4, 2), (520, 0), (1024, 9), (2048, 9)),
        "pageblock": batch("pageblock", *(row | {"nr_movable": 500} for row in pageblocks[:5])),
    }
    tables = {
        "free_block": lists,
        "pcp_page": batch("pcp_page"),
        "pageblock": batch("pageblock", *pageblocks),
        "free_area": batch("free_area"),
    }
    given = facts(zone("NORMAL", "still"), exact=True)
    rows = {"snapshot": [{"snapshot": 0, "ts": 1, "how": "proc"}], "vmstat": [], "free_area": []}
    made = Snapshot(rows, flags, {}, Flags(flags, 9, 8)).made_exact(Exact(given, tables, None))
    read = made.blocks["pageblock"].to_pylist()
    assert [row["stable"] for row in read] == [1, 0, 1, 0, 0, None]
    assert [row["nr_movable"] for row in read] == [500] * 5 + [None]
    assert {row["flags_ts"] for row in read} == {8}


@pytest.mark.parametrize(
    ("large", "why"),
    [
        (zone("NORMAL", "refused"), "has more free blocks than there is room for"),
        (
            zone("NORMAL", "pieces", lists_moved=2, free_blocks=7),
            "cannot be walked in 20 ms (7 free blocks), "
            "2 of its lists changed while they were read",
        ),
    ],
)
def test_a_zone_without_lists_has_those_of_kpageflags(large: dict[str, Any], why: str) -> None:
    given = facts(zone("DMA", "still"), large, exact=False)
    made = from_proc().made_exact(exact(given, "one is too large"))
    assert made.rows["snapshot"][0]["how"] == "mixed"
    assert made.rows["snapshot"][0]["why"] == "one is too large"
    assert pfns(made, "free_block") == [1]
    assert pfns(made, "pcp_page") == [1]
    assert pfns(made, "block_guess") == [512]
    assert [area["zone"] for area in made.rows["free_area"]] == ["NORMAL"]
    assert [(z["how"], z["why"]) for z in made.rows["snapshot_zone"]] == [
        ("still", None),
        ("proc", why),
    ]


def test_pieces_that_did_not_change_are_taken() -> None:
    given = facts(zone("DMA", "still"), zone("NORMAL", "pieces", pcps_refused=1), exact=False)
    made = from_proc().made_exact(exact(given, "it is too large"))
    assert made.rows["snapshot"][0]["how"] == "mixed"
    assert pfns(made, "free_block") == [1, 600]
    assert "block_guess" not in made.blocks
    assert [z["how"] for z in made.rows["snapshot_zone"]] == ["still", "pieces"]


@pytest.mark.parametrize(
    "given",
    [
        facts(zone("DMA", "refused"), zone("NORMAL", "refused"), exact=False),
        facts(zone("NORMAL", "locked"), exact=False, mismatches={"list_sums": 1}),
    ],
)
def test_a_snapshot_without_any_truth_is_that_of_proc(given: dict[str, Any]) -> None:
    made = from_proc().made_exact(exact(given, "no"))
    assert made.rows["snapshot"] == [{"snapshot": 0, "ts": 1, "how": "proc", "why": "no"}]
    assert set(made.blocks) == {"block_guess", "pageblock"}
    assert {z["how"] for z in made.rows["snapshot_zone"]} == {"proc"}


def test_without_an_exact_snapshot_the_one_of_proc_says_why() -> None:
    made = from_proc().made_exact(Exact({}, {}, "no BPF"))
    assert made.rows["snapshot"][0]["why"] == "no BPF"
    assert "snapshot_zone" not in made.rows
    assert from_proc().made_exact(None).rows == from_proc().rows


# ---- the way under the lock, where the short one fails


class Way:
    """The programs of one way, with results in a row; `made` has each (max_ms, locked)."""

    made: ClassVar[list[tuple[float, bool]]] = []
    short: ClassVar[str | None] = None  # why the short way fails
    under_lock: ClassVar[str | None] = None
    refused: str | None = None

    def __init__(self, max_ms: float, *, locked: bool) -> None:
        self.made.append((max_ms, locked))
        self._why = self.under_lock if locked else self.short

    def take(self, number: int) -> Exact:
        how = "pieces" if self._why else "locked"
        return exact(facts(zone("DMA", how, free_blocks=number)), self._why)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> type[Way]:
    class Ways(Way):
        made: ClassVar[list[tuple[float, bool]]] = []

    monkeypatch.setattr("pagetape.recording.exact._Loaded", Ways)
    return Ways


def test_a_snapshot_that_succeeds_loads_one_way(ways: type[Way]) -> None:
    assert ExactSnapshots().take(0).why is None
    assert ways.made == [(0.2, False)]


def test_where_the_cpus_do_not_meet_the_lists_are_walked_under_the_lock(ways: type[Way]) -> None:
    ways.short = "the CPUs did not meet"
    snapshots = ExactSnapshots()
    assert [snapshots.take(0).why, snapshots.take(1).why] == [None, None]
    assert ways.made == [(0.2, False), (2.0, True)]


def test_a_limit_of_the_user_holds_for_both_ways(ways: type[Way]) -> None:
    ways.short = "the CPUs did not meet"
    assert ExactSnapshots(0.5).take(0).why is None
    assert ways.made == [(0.5, False), (0.5, True)]


def test_if_both_fail_the_reason_is_that_of_the_first(ways: type[Way]) -> None:
    ways.short, ways.under_lock = "the CPUs did not meet", "its lists are too long"
    assert ExactSnapshots().take(0).why == "the CPUs did not meet"


def test_a_user_who_wants_the_lock_gets_no_second_way(ways: type[Way]) -> None:
    ways.under_lock = "its lists are too long"
    assert ExactSnapshots(locked=True).take(0).why == "its lists are too long"
    assert ways.made == [(20.0, True)]
