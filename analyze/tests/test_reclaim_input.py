# SPDX-License-Identifier: Apache-2.0
"""What a replay with feedback takes from a recording's reclaim, and the wakes of kswapd."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking.database import Database
from pagetape.replaying import reclaim_input
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

from .conftest import write_reclaim

Run = Callable[..., Any]

MS = 1_000_000
PRESSURE = Path(__file__).parents[1] / "demo/pressure.tape"
UINT64_MAX = 2**64 - 1
GFP = ("WRITE", "ZERO", "IO")


def _scan(reclaimed: int) -> dict[str, Any]:
    return {
        "kind": "lru_shrink_inactive",
        "nr_scanned": 64,
        "nr_reclaimed": reclaimed,
        "priority": 12,
    }


def _wakeup(zone: str = "NORMAL") -> dict[str, Any]:
    return {"kind": "wakeup_kswapd", "zone": zone, "page_order": 0, "pid": 9}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """One pass of kswapd with two scans; five calls of it."""
    rows = [
        (0, _wakeup()),
        (1, _wakeup()),
        (1, {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}),
        (3, _scan(2) | {"cpu": 1}),
        (5, _scan(1)),
        (6, _wakeup()),
        (8, {"kind": "kswapd_sleep"}),
        (9, _wakeup("DMA")),
        (10, _wakeup()),
    ]
    return write_reclaim(tmp_path / "reclaim.tape", rows)


def test_the_scans_are_those_of_kswapd(tape: Path) -> None:
    rows = reclaim_input.read(Tape(tape))["scan"].to_pylist()
    columns = ("what", "scanned", "freed", "cpu")
    assert [(row["ts"] // MS, *(row[name] for name in columns)) for row in rows] == [
        (3, "kswapd", 64, 2, 1),
        (5, "kswapd", 64, 1, 0),
    ]


def _isolation(taken: int, **more: int) -> dict[str, Any]:
    requested = {"nr_requested": 4096, "nr_scanned": 64, "nr_skipped": 0, "lru": 2}
    return {"kind": "lru_isolate", "nr_taken": taken, **requested, **more}


def _shrinkers(priority: int) -> dict[str, Any]:
    return {"kind": "shrink_slab_start", "node": 0, "priority": priority}


def _scans(path: Path, rows: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    scans = reclaim_input.read(Tape(write_reclaim(path, rows)))["scan"].to_pylist()
    return [{**row, "ms": row["ts"] // MS} for row in scans]


def test_an_isolation_that_took_no_page_is_a_scan(tmp_path: Path) -> None:
    """An empty isolation has no lru_shrink_inactive: its pages and its time were lost."""
    rows = [
        (1, {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}),
        (2, _isolation(64)),
        (3, _scan(60)),
        (5, _isolation(0, nr_scanned=4096)),
        (6, _shrinkers(5)),
        (7, _isolation(0, nr_skipped=64)),
        (8, _isolation(0, lru=3)),
        (9, {"kind": "kswapd_sleep"}),
    ]
    scans = _scans(tmp_path / "t.tape", rows)
    found = [(s["ms"], s["scanned"], s["freed"], s["ns"] // MS, s["lru_pages"]) for s in scans]
    assert found == [(3, 64, 60, 2, 64 << 12), (5, 4096, 0, 2, 64 << 12)]


@pytest.mark.parametrize(
    ("priorities", "isolations", "found"),
    [
        ([12, 6, 1], [], [(0, 0, 0)]),
        ([12, 6, 2], [], []),
        ([12, 6, 1], [_isolation(0, nr_scanned=8)], [(8, 0, 8 << 1)]),
    ],
)
def test_a_pass_without_isolations_down_to_the_last_priority_found_the_lists_empty(
    tmp_path: Path,
    priorities: list[int],
    isolations: list[dict[str, Any]],
    found: list[tuple[int, int, int]],
) -> None:
    wake = {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}
    steps = [*isolations, *(_shrinkers(priority) for priority in priorities)]
    if isolations:
        steps = [*steps[1:-1], steps[0], steps[-1]]
    rows = [(1, wake), *enumerate(steps, 2), (19, wake), (20, _isolation(64)), (21, _scan(64))]
    scans = _scans(tmp_path / "t.tape", rows)
    assert [(s["scanned"], s["freed"], s["lru_pages"]) for s in scans[:-1]] == found
    assert scans[-1]["ms"] == 21


def test_scans_have_the_number_of_their_pass(tmp_path: Path) -> None:
    """The second pass had nothing to scan at priority 1: a shrinker shows it."""
    wake = {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}
    rows = [
        (1, wake),
        (2, _scan(64)),
        (3, _shrinkers(12)),
        (4, wake),
        (5, _scan(64)),
        (6, _scan(64)),
        (7, _shrinkers(1)),
        (8, wake),
        (9, _scan(64)),
    ]
    scans = _scans(tmp_path / "t.tape", rows)
    found = [(s["ms"], s["pass"], s["spent"]) for s in scans]
    assert found == [(2, 1, False), (5, 2, True), (6, 2, True), (9, 3, False)]


@pytest.mark.parametrize("scanned", [False, True])
def test_a_record_without_isolations_shows_empty_lists_unless_it_has_scans(
    tmp_path: Path, scanned: bool
) -> None:
    """All pages of a pass may come from shrinkers, as on a machine without page cache or swap."""
    wake = {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}
    rows = [(1, wake), (2, _shrinkers(12)), (9, _shrinkers(1)), (19, wake)]
    if scanned:
        rows.append((21, _scan(64)))
    found = _scans(tmp_path / "t.tape", rows)
    assert [(s["ms"], s["scanned"]) for s in found] == ([(21, 64)] if scanned else [(9, 0)])


@pytest.mark.parametrize(("requested", "generations"), [(32, 0), (33, 1), (4096, 1)])
def test_only_lists_with_generations_are_asked_for_more_than_32_pages(
    tmp_path: Path, requested: int, generations: int
) -> None:
    """A kernel of 5.10 with short lists was taken for one with generations."""
    rows = [
        (1, {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}),
        (2, _isolation(16, nr_requested=requested)),
        (3, {**_scan(16), "priority": 6}),
    ]
    assert [scan["generations"] for scan in _scans(tmp_path / "t.tape", rows)] == [generations]


def test_only_the_first_call_since_a_pass_or_a_sleep_is_a_wake(tape: Path, pagetape: Run) -> None:
    rows = pagetape("report", "metrics", tape, "--json").json["rows"]
    found = {row["metric"]: row["value"] for row in rows}
    assert (found["kswapd wakeups"], found["kswapd passes"], found["kswapd sleeps"]) == (3, 1, 1)


def test_a_tape_without_a_check_of_kcompactd_still_shows_that_compaction_is_recorded(
    tmp_path: Path,
) -> None:
    suitable = {"kind": "suitable", "zone": "DMA", "page_order": 9}
    quiet = write_reclaim(tmp_path / "quiet.tape", [(n, suitable) for n in range(3)], "compaction")
    looks = reclaim_input.read(Tape(quiet))["compaction"]
    assert looks["kind"].to_pylist() == ["suitable"]


def _window(tape: Path) -> list[tuple[Any, ...]]:
    columns = "from_ts // 1000000, until_ts // 1000000, ended"
    with Database([Tape(tape)]) as db:
        found = db.ask(f"SELECT {columns} FROM reclaim_window WHERE pid = 7 ORDER BY from_ts")
    return [tuple(row.values()) for row in found.objects()]


def _task_tape(path: Path, edges: list[tuple[int, str]], events: list[tuple[int, str]]) -> Path:
    """A tape of task 7: begins and ends of direct reclaim, allocs and frees, each at its ms."""
    return write_reclaim(
        path,
        [(ms, {"pid": 7, "kind": f"direct_reclaim_{kind}"}) for ms, kind in edges],
        pages=[(ms, {"pid": 7, "kind": kind, "pfn": ms, "page_order": 0}) for ms, kind in events],
    )


@pytest.mark.parametrize(
    ("edges", "windows"),
    [
        ([(10, "begin"), (20, "end")], [(10, 20, True)]),
        ([(10, "begin")], [(10, 30, False)]),
        ([(10, "begin"), (15, "begin"), (20, "end")], [(10, 15, False), (15, 20, True)]),
        ([(20, "end")], [(5, 20, False)]),
        ([(4, "begin"), (20, "end"), (25, "end")], [(4, 20, True), (20, 25, False)]),
        ([(50, "begin")], [(50, UINT64_MAX // MS, False)]),
        ([(3, "end")], [(0, 3, False)]),
    ],
)
def test_a_reclaim_with_a_lost_edge_lasts_to_the_tasks_next_page(
    tmp_path: Path, edges: list[tuple[int, str]], windows: list[tuple[int, int, bool]]
) -> None:
    events = [(5, "alloc"), (12, "free"), (30, "alloc"), (40, "free")]
    assert _window(_task_tape(tmp_path / "t.tape", edges, events)) == windows


def test_frees_after_a_reclaim_whose_end_was_lost_are_not_reclaimed(tmp_path: Path) -> None:
    """Without an end, every later free of the task looked like one of reclaim."""
    events = [(5, "alloc"), (12, "free"), (30, "alloc"), (40, "free"), (45, "free")]
    tape = _task_tape(tmp_path / "t.tape", [(10, "begin")], events)
    rows = reclaim_input.read(Tape(tape))["reclaimed"].to_pylist()
    assert [(row["pfn"], row["cause"]) for row in rows] == [(12, "direct")]


def test_movable_requests_whose_pages_reclaim_freed_are_reclaimable(tmp_path: Path) -> None:
    """When the model's reclaim had taken all recorded pages, it found none, and the requests
    reclaimed in vain. Pages of the same kinds of request were in use."""
    kinds = {1: ("MOVABLE", "WRITE"), 2: ("MOVABLE", "ZERO"), 3: ("UNMOVABLE", "IO")}
    gfp = {name: 1 << TABLES["event"].column("gfp_flags").bits.index(name) for name in GFP}
    allocs = [
        (
            pfn,
            {
                "pid": 9,
                "kind": "alloc",
                "pfn": pfn,
                "page_order": 0,
                "migratetype": migratetype,
                "gfp_flags": gfp[name],
            },
        )
        for pfn, (migratetype, name) in kinds.items()
    ]
    frees = [
        (10 + pfn, {"pid": 9 if pfn == 2 else 50, "kind": "free", "pfn": pfn, "page_order": 0})
        for pfn in kinds
    ]
    rows = [
        (5, {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}),
        (20, {"kind": "kswapd_sleep"}),
    ]
    tape = write_reclaim(tmp_path / "t.tape", rows, pages=allocs + frees)
    found = reclaim_input.read(Tape(tape))
    assert found["reclaimed"]["pfn"].to_pylist() == [1, 3]
    assert found["reclaimable"]["gfp_flags"].drop_null().to_pylist() == [gfp["WRITE"]]


def test_frees_of_a_shrinker_that_kswapd_called_are_its_own(tmp_path: Path) -> None:
    """They are of any zone and of slab: no scan of a list finds them."""
    rows = [
        (1, {"kind": "kswapd_wake", "zone": "NORMAL", "page_order": 0}),
        (2, _shrinkers(12)),
        (4, {"kind": "shrink_slab_end"}),
        (6, _scan(1)),
        (7, {**_shrinkers(12), "pid": 9}),
    ]
    frees = [(ms, {"kind": "free", "pfn": ms, "page_order": 0, "pid": 50}) for ms in (3, 5, 8)]
    tape = write_reclaim(tmp_path / "t.tape", rows, pages=frees)
    found = reclaim_input.read(Tape(tape))["reclaimed"].to_pylist()
    assert [(row["pfn"], row["cause"]) for row in found] == [
        (3, "shrinker"),
        (5, "kswapd"),
        (8, "kswapd"),
    ]


def test_pages_of_files_at_the_start_can_be_reclaimed() -> None:
    rows = reclaim_input.read(Tape(PRESSURE))["reclaimable"].to_pylist()
    assert [row["pages"] for row in rows if row["gfp_flags"] is None] == [23_737 + 892]
    assert any(row["gfp_flags"] for row in rows)
