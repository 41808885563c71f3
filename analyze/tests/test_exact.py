# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots, and the tries that one takes."""

from typing import Any

import pytest

from pagetape.recording.capture import Snapshot
from pagetape.recording.exact import Exact, ExactSnapshots, Flags
from pagetape.schemas import TABLES

Rows = list[dict[str, Any]]


def zone(name: str, how: str = "precopied", **given: int) -> dict[str, Any]:
    names = ("walk_ns", "lock_ns", "free_blocks")
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
    return Exact(given, tables, why)


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
    given = facts(zone("DMA"), zone("NORMAL", lock_ns=8), exact=True)
    made = from_proc().made_exact(exact(given, None))
    (row,) = made.rows["snapshot"]
    assert (row["how"], row["lock_ns"], row["checks"], row["pfn"]) == ("exact", 8, 11, 77)
    assert "block_guess" not in made.blocks
    assert "free_area" not in made.rows and made.blocks["free_area"].num_rows == 2
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
    given = facts(zone("NORMAL"), exact=True)
    rows = {"snapshot": [{"snapshot": 0, "ts": 1, "how": "proc"}], "vmstat": [], "free_area": []}
    made = Snapshot(rows, flags, {}, Flags(flags, 9, 8)).made_exact(Exact(given, tables, None))
    read = made.blocks["pageblock"].to_pylist()
    assert [row["stable"] for row in read] == [1, 0, 1, 0, 0, None]
    assert [row["nr_movable"] for row in read] == [500] * 5 + [None]
    assert {row["flags_ts"] for row in read} == {8}


@pytest.mark.parametrize(
    "given",
    [
        facts(zone("DMA", "proc"), zone("NORMAL", "proc"), exact=False),
        facts(zone("DMA"), zone("NORMAL"), exact=False, mismatches={"list_sums": 1}),
    ],
)
def test_a_snapshot_without_any_truth_is_that_of_proc(given: dict[str, Any]) -> None:
    made = from_proc().made_exact(exact(given, "no"))
    assert made.rows["snapshot"] == [{"snapshot": 0, "ts": 1, "how": "proc", "why": "no"}]
    assert set(made.blocks) == {"block_guess", "pageblock"}
    assert {(z["how"], z["why"]) for z in made.rows["snapshot_zone"]} == {("proc", "no")}


def test_without_an_exact_snapshot_the_one_of_proc_says_why() -> None:
    made = from_proc().made_exact(Exact({}, {}, "no BPF"))
    assert made.rows["snapshot"][0]["why"] == "no BPF"
    assert "snapshot_zone" not in made.rows
    assert from_proc().made_exact(None).rows == from_proc().rows


# ---- tries, where the CPUs do not meet


class Programs:
    """The loaded programs; the CPUs meet if they have `enough_ms`. `tries` has each max_ms."""

    def __init__(self, enough_ms: float, **given: Any) -> None:
        self.tries: list[float] = []
        self._enough_ms = enough_ms
        few = {"cpus": 2, "held_cpus": 1, "meetings": 80, "hindered": {"apart": 70, "late": 10}}
        self._given = few | given
        self.apart = 0  # tries in which the CPUs do not meet at all

    def take(self, number: int, max_ms: float) -> tuple[dict[str, Any], list[Any]]:
        self.tries.append(max_ms)
        met = max_ms >= self._enough_ms and len(self.tries) > self.apart
        lock_ns = 70 // len(self.tries)
        at = zone("DMA", "precopied" if met else "proc", free_blocks=number, lock_ns=lock_ns)
        return facts(at, exact=met, **self._given), []


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take a snapshot with these programs, or several; `max_ms` is the user's. A pause takes a
    second."""
    now = 0.0

    def pause(_seconds: float) -> None:
        nonlocal now
        now += 1

    monkeypatch.setattr("pagetape.recording.exact.time.sleep", pause)
    monkeypatch.setattr("pagetape.recording.exact.time.monotonic", lambda: now)

    def take(programs: Programs, max_ms: float | None = None, nr: int = 1) -> Exact:
        monkeypatch.setattr("pagetape._snapshot.Snapshot", lambda: programs)
        snapshots = ExactSnapshots(max_ms)
        return [snapshots.take(number) for number in range(nr)][-1]

    return take


def test_a_snapshot_that_succeeds_takes_one_try(taken: Any) -> None:
    programs = Programs(0.2)
    assert taken(programs).why is None
    assert programs.tries == [0.2]


def test_where_the_cpus_do_not_meet_they_have_longer(taken: Any) -> None:
    programs = Programs(1)
    found = taken(programs)
    assert found.why is None
    assert programs.tries == [0.2, 10.0]
    assert found.facts["zones"][0]["lock_ns"] == 70, "the failed try held the lock for longer"


def test_a_limit_of_the_user_is_the_only_one(taken: Any) -> None:
    programs = Programs(1)
    why = "the CPUs did not meet at one instant of the lists: 240 attempts of at most 0.5 ms"
    why += " (a hypervisor or a real-time task had a CPU: 210, the lists changed too much: 30)"
    assert taken(programs, 0.5).why == why
    assert programs.tries == [0.5] * 3


def test_what_hinders_a_snapshot_for_a_while_is_waited_for(taken: Any) -> None:
    programs = Programs(1)
    programs.apart = 3
    assert taken(programs).why is None
    assert programs.tries == [0.2, 10.0, 10.0, 10.0]


def test_a_machine_that_never_allows_a_snapshot_is_waited_for_once(taken: Any) -> None:
    programs = Programs(100)
    taken(programs, nr=3)
    assert programs.tries == [0.2, 10.0, 10.0, 10.0] + [0.2, 10.0] * 2


def test_an_instant_without_an_event_is_its_time_alone() -> None:
    given = facts(zone("NORMAL"), exact=True, pfn=None, order=None)
    (row,) = from_proc().made_exact(exact(given, None)).rows["snapshot"]
    assert (row["how"], row["ts"]) == ("exact", 5)
    assert row.get("pfn") is row.get("cpu") is row.get("pid") is row["page_order"] is None


def test_without_realtime_priority_the_reason_says_so(taken: Any) -> None:
    found = taken(Programs(100, held_cpus=0))
    assert found.why.endswith("(without CAP_SYS_NICE the snapshot cannot hold the CPUs still)")


def test_lists_that_contradict_the_counters_are_not_tried_again(taken: Any) -> None:
    programs = Programs(1, mismatches={"list_sums": 1})
    assert taken(programs).why == "its checks failed: list_sums 1"
    assert programs.tries == [0.2]
