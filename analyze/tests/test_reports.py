# SPDX-License-Identifier: Apache-2.0
"""Reports on tapes with known answers: who pollutes, what lives long, what fails and waits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

DEMO = Path(__file__).parents[1] / "demo"
SECOND = 1_000_000_000
FACTS = {"cpus": 2, "pageblock_order": 9, "page_size": 4096, "nodes": [{"id": 0, "cpus": [0, 1]}]}
CHEAP = ["kmem:mm_page_alloc_extfrag", "vmscan:mm_vmscan_kswapd_wake"]
TASKS = [{"pid": pid, "comm": comm} for pid, comm in ((1, "web"), (2, "db"), (9, "kswapd0"))]


def make(path: Path, facts: dict[str, Any] | None = None, **tables: list[dict[str, Any]]) -> Tape:
    with Writer(path, FACTS | (facts or {})) as tape:
        for name, rows in ({"task": TASKS} | tables).items():
            tape.rows(name, rows)
    return Tape(path)


def ask(report: str, *tapes: Tape | Path, **values: Any) -> list[dict[str, Any]]:
    opened = [one if isinstance(one, Tape) else Tape(one) for one in tapes]
    with Database(opened) as db:
        return db.run(query.reports()[report], values).objects()


def event(ts: float, kind: str, pfn: int | None, **columns: Any) -> dict[str, Any]:
    """An event of task web on CPU 0, of order 0; `ts` in seconds."""
    row = {"ts": round(ts * SECOND), "cpu": 0, "pid": 1, "kind": kind, "flags": 0, "pfn": pfn}
    return row | {"page_order": 0} | columns


def alloc(ts: float, pfn: int | None, migratetype: str = "MOVABLE", **more: Any) -> dict[str, Any]:
    return event(ts, "alloc", pfn, migratetype=migratetype, **({"gfp_flags": GFP_KERNEL} | more))


def free(ts: float, pfn: int, **more: Any) -> dict[str, Any]:
    return event(ts, "free", pfn, **more)


def fallback(ts: float, pfn: int, wanted: str, got: str, order: int, **more: Any) -> dict[str, Any]:
    columns = {"fallback_order": order, "fallback_migratetype": got, "change_ownership": False}
    return event(ts, "alloc_extfrag", pfn, migratetype=wanted, **(columns | more))


GFP_KERNEL = 0x6C0  # IO, FS, DIRECT_RECLAIM, KSWAPD_RECLAIM
GFP_ATOMIC = 0x420  # HIGH, KSWAPD_RECLAIM


# ---- a tape without the events


def cheap(path: Path) -> Tape:
    """A recording of rare events in which nothing happened."""
    return make(path, {"events": CHEAP, "kernel": "6.1.0"})


LACKS = {
    "extfrag.matrix": None,
    "block.polluters": None,
    "pages.lifetimes": "events of every allocation",
    "pages.long_lived": "events of every allocation",
}


@pytest.mark.parametrize("name", LACKS)
def test_an_empty_report_says_why(name: str, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("report", name, cheap(tmp_path / "cheap.tape").path)
    if lack := LACKS[name]:
        assert said.status == 1 and f"{name} needs {lack}" in said.err
        assert "pagetape record" in said.err
    else:
        assert said.status == 0 and "nothing of the kind is on this tape" in said.out


@pytest.mark.parametrize("name", LACKS)
@pytest.mark.parametrize("tape", ["pressure.tape", "server.tape"])
def test_a_report_of_a_bundled_tape_has_rows(name: str, tape: str) -> None:
    assert ask(name, DEMO / tape) or (name, tape) in NONE_THERE


NONE_THERE: set[tuple[str, str]] = set()


# ---- extfrag.matrix


def test_the_matrix_counts_each_kind_once(tmp_path: Path) -> None:
    tape = make(
        tmp_path / "t.tape",
        {"kernel": "6.1.0"},
        event=[
            fallback(1, 512, "UNMOVABLE", "MOVABLE", 9, change_ownership=True),
            fallback(2, 1024, "UNMOVABLE", "MOVABLE", 8, change_ownership=True),
            fallback(3, 1536, "UNMOVABLE", "MOVABLE", 3),
            fallback(4, 1544, "UNMOVABLE", "MOVABLE", 2),
            fallback(5, 2048, "MOVABLE", "UNMOVABLE", 0),
        ],
    )
    to_movable, to_unmovable = ask("extfrag.matrix", tape)
    assert [to_unmovable[k] for k in ("claim_whole", "claim_part", "pollute")] == [1, 1, 2]
    assert to_unmovable["polluted_pages"] == 8 + 4  # of whole blocks: kernels up to 6.8
    assert to_unmovable["polluted_blocks"] == 1
    assert to_unmovable["unit"] == "block" and to_unmovable["seconds"] == 4
    assert to_movable["pollute"] == 1


def test_the_matrix_compares_events_of_one_unit_only(tmp_path: Path) -> None:
    def tape(kernel: str, times: int) -> Tape:
        events = [fallback(i, 512 + i, "UNMOVABLE", "MOVABLE", 3) for i in range(times)]
        return make(tmp_path / f"{kernel}-{times}.tape", {"kernel": kernel}, event=events)

    rows = ask("extfrag.matrix", tape("6.1.0", 2), tape("6.8.0", 1), tape("6.18.0", 3))
    assert [row["pollute_ratio"] for row in rows] == [100, 50, None]
    assert [row["blocks_ratio"] for row in rows] == [100, 100, 100]
    assert [row["polluted_pages"] for row in rows] == [16, 8, 3]


def test_a_pair_that_is_gone_has_a_row(tmp_path: Path) -> None:
    before = make(tmp_path / "a.tape", event=[fallback(1, 512, "UNMOVABLE", "MOVABLE", 3)])
    after = make(tmp_path / "b.tape", event=[alloc(1, 5)])
    rows = ask("extfrag.matrix", before, after)
    assert [row["pollute"] for row in rows] == [1, 0]


# ---- block.polluters


def test_the_first_polluter_and_the_holder_may_differ(tmp_path: Path) -> None:
    tape = make(
        tmp_path / "t.tape",
        event=[
            alloc(0, 600),
            fallback(1, 520, "UNMOVABLE", "MOVABLE", 3),
            alloc(1.1, 520, "UNMOVABLE"),
            fallback(2, 521, "UNMOVABLE", "MOVABLE", 0, pid=2),
            alloc(2.1, 521, "UNMOVABLE", pid=2),
            free(3, 520),
        ],
        stack=[{"at": 1, "ts": SECOND + 1, "cpu": 0, "pid": 1, "event_ts": SECOND, "stack": 7}],
        frame=[
            {"stack": 7, "depth": depth, "function": name, "offset": 0}
            for depth, name in enumerate(("__rmqueue_pcplist", "allocate_slab", "d_alloc", "open"))
        ],
    )
    (row,) = ask("block.polluters", tape)
    assert row["block_pfn"] == 512 and row["migratetype"] == "MOVABLE"
    assert (row["first_comm"], row["first_at_s"], row["first_kind"]) == ("web", 1, "pollute")
    assert row["first_callers"] == "d_alloc < open"
    assert (row["holder"], row["foreign_pages"], row["held_since_s"]) == ("db", 1, 2.1)
    assert row["fallbacks"] == 2


def test_a_claim_makes_the_older_pages_foreign(tmp_path: Path) -> None:
    claim = fallback(1, 520, "UNMOVABLE", "MOVABLE", 8, change_ownership=True)
    events = [alloc(0, 600, pid=2), alloc(0, 601, pid=2), claim, alloc(1.1, 520, "UNMOVABLE")]
    (row,) = ask("block.polluters", make(tmp_path / "t.tape", event=events))
    assert (row["migratetype"], row["first_kind"]) == ("UNMOVABLE", "claim")
    assert (row["holder"], row["foreign_pages"]) == ("db", 2)


# ---- pages.lifetimes, pages.long_lived


def test_lifetimes_of_freed_and_of_living_pages(tmp_path: Path) -> None:
    events = [
        *(alloc(i / 10, i) for i in range(4)),
        alloc(0.5, 4, "UNMOVABLE", pid=2),
        *(free(1 + i / 10, i) for i in range(3)),
        alloc(2, 9),
    ]
    rows = ask("pages.lifetimes", make(tmp_path / "t.tape", event=events))
    movable = next(row for row in rows if row["migratetype"] == "MOVABLE")
    assert [movable[k] for k in ("allocs", "freed", "in_use", "unseen")] == [5, 3, 2, 0]
    assert movable["p50_ms"] == movable["max_ms"] == 1000
    assert movable["least_p50_ms"] == 1000 and movable["in_use_percent"] == 40
    assert movable["outcome"].startswith("40.0 % in use at the end")
    unmovable = next(row for row in rows if row["migratetype"] == "UNMOVABLE")
    assert unmovable["p50_ms"] is None and unmovable["outcome"] == "none freed on the tape"
    by_task = ask("pages.lifetimes", make(tmp_path / "u.tape", event=events), by="task")
    assert {row["comm"] for row in by_task} == {"[all]", "web", "db"}


def test_a_page_without_its_free_is_unseen(tmp_path: Path) -> None:
    events = [alloc(0, 1), alloc(1, 1), free(2, 1)]
    (row,) = ask("pages.lifetimes", make(tmp_path / "t.tape", event=events))
    assert [row[k] for k in ("allocs", "freed", "in_use", "unseen")] == [2, 1, 0, 1]


PLACE = {"node": 0, "zone": "NORMAL"}
RESERVE = {f"lowmem_reserve_{z}": 0 for z in ("dma", "dma32", "normal", "highmem", "movable")}


def zone(snapshot: int, ts: float, free_pages: int, **more: Any) -> dict[str, Any]:
    pages = {"start_pfn": 0, "spanned": 1 << 20, "present": 1 << 20, "managed": 1 << 20}
    marks = {"wmark_min": 100, "wmark_low": 125, "wmark_high": 150, "lowmem_reserve_device": 0}
    at = {"snapshot": snapshot, "ts": round(ts * SECOND), "free": free_pages}
    return PLACE | pages | marks | RESERVE | at | more


def free_block(snapshot: int, pfn: int, order: int) -> dict[str, Any]:
    kind = {"migratetype": "MOVABLE", "page_order": order, "pfn": pfn}
    return PLACE | kind | {"snapshot": snapshot, "ts": 0}


def test_old_pages_pin_mostly_free_blocks(tmp_path: Path) -> None:
    tape = make(
        tmp_path / "t.tape",
        zone=[zone(0, 0, 1), zone(1, 11, 1)],
        free_block=[
            *(free_block(1, 512 + (1 << i), i) for i in range(9)),  # all but 512
            *(free_block(1, 1024 + (1 << i), i) for i in range(9)),  # all but 1024
            free_block(1, 1536, 8),  # half free
            free_block(1, 2048, 9),  # all free
        ],
        event=[
            alloc(1, 512, "UNMOVABLE"),
            alloc(1, 1800, "UNMOVABLE"),
            alloc(10.5, 1024, "UNMOVABLE", pid=2),
            free(11, 9999),
        ],
    )
    (row,) = ask("pages.long_lived", tape)
    assert (row["comm"], row["pages"], row["pinned_blocks"]) == ("web", 1, 1)
    assert row["pinned_mib"] == 2.0 and row["max_age_s"] == 10
    young = ask("pages.long_lived", tape, age_s=0)
    assert [r["comm"] for r in young] == ["db", "web"]
    half = ask("pages.long_lived", tape, age_s=0, free_percent=50)
    assert sum(r["pages"] for r in half if r["comm"] == "web") == 2
    assert sum(r["pages"] for r in half if r["comm"] == "[unknown]") == 255
