# SPDX-License-Identifier: Apache-2.0
"""Reports on tapes with known answers: who pollutes, what lives long, what fails and waits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
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
    "thp.over_time": "events of every allocation",
    "thp.failures": "events of every allocation",
    "alloc.failures": "events of every allocation",
    "alloc.by_order": "events of every allocation",
    "reclaim.causes": "events of every free",
    "alloc.usable": "a snapshot of the zones",
    "reclaim.min_free": "a snapshot of the zones",
    "frag.threshold": "the free lists of a snapshot",
    "pcp.over_time": "events of the per-CPU lists",
    "extfrag.zones_over_time": None,
    "kswapd.overshoot": "events of every free",
    "alloc.latency": "events of every allocation",
    "frag.gigabytes": "the type of each pageblock",
}


@pytest.mark.parametrize("name", LACKS)
def test_an_empty_report_says_why(name: str, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("report", name, cheap(tmp_path / "cheap.tape").path)
    if lack := LACKS[name]:
        assert said.status == 1 and f"{name} needs {lack}" in said.err
        assert "pagetape record" in said.err
    else:
        assert said.status == 0 and "nothing of the kind is on this tape" in said.out


def test_what_was_not_recorded_has_no_count(tmp_path: Path, pagetape: Run) -> None:
    points = ["kmem:mm_page_alloc", "kmem:mm_page_free"]
    page = make(tmp_path / "page.tape", {"events": points}, event=[free(1, 7)]).path
    said = pagetape("report", "reclaim.causes", page)
    assert said.status == 1 and "needs events of reclaim" in said.err
    rare = {row["metric"]: row["value"] for row in ask("metrics", cheap(tmp_path / "rare.tape"))}
    assert (rare["fallbacks"], rare["kswapd passes"]) == (0, 0) and "allocs" not in rare
    assert "fallbacks" not in {row["metric"] for row in ask("metrics", page)}


@pytest.mark.parametrize("tape", ["pressure", "server"])
def test_a_report_of_a_bundled_tape_has_rows(tape: str) -> None:
    reports = [query.reports()[name] for name in LACKS]
    with KeepingDatabase([Tape(DEMO / f"{tape}.tape")], reports) as db:
        without = {q.name for q in reports if not db.run(q).rows}
    assert without == NONE_THERE[tape]


NONE_THERE = {"pressure": {"thp.over_time", "thp.failures"}, "server": set[str]()}  # no huge page


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
    known = {"nr_free_cma": 0, "nr_free_highatomic": 0, "nr_reserved_highatomic": 0}
    return PLACE | pages | marks | RESERVE | at | known | more


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


# ---- thp.over_time, alloc.failures


def test_huge_pages_decay_from_tape_to_tape(tmp_path: Path) -> None:
    def tape(name: str, served: int) -> Tape:
        events = [
            alloc(i, 512 * i if i < served else None, page_order=9, gfp_flags=0) for i in range(4)
        ]
        return make(tmp_path / name, event=[*events, alloc(4, 1)])

    rows = ask("thp.over_time", tape("1.tape", 4), tape("2.tape", 1), interval_ms=2000)
    assert [row["success_percent"] for row in rows] == [100, 100, 50, 0]
    assert [row["change_points"] for row in rows] == [0, 0, -75, -75]
    assert [row["at_s"] for row in rows] == [0, 2, 0, 2]
    assert sum(row["failed"] for row in rows) == 3


def test_failures_have_their_context(tmp_path: Path) -> None:
    events = [
        alloc(1, None, "UNMOVABLE", gfp_flags=GFP_ATOMIC, flags=4, page_order=2),
        alloc(2, 7, "UNMOVABLE", gfp_flags=GFP_ATOMIC, flags=4, page_order=2),
        alloc(3, 8, "UNMOVABLE"),  # waits, and succeeds: no row
        alloc(4, None, "MOVABLE", gfp_flags=GFP_KERNEL | NOWARN | NORETRY, page_order=9, pid=2),
    ]
    rows = {r["context"]: r for r in ask("alloc.failures", make(tmp_path / "t.tape", event=events))}
    assert set(rows) == {"atomic", "optional"}
    atomic, optional = rows["atomic"], rows["optional"]
    assert (atomic["allocs"], atomic["failed"], atomic["logged"]) == (2, 1, 1)
    assert atomic["failed_percent"] == 50 and atomic["in_interrupt"] is True
    assert (optional["comm"], optional["page_order"], optional["logged"]) == ("db", 9, 0)
    assert optional["gfp_flags"].split("|")[-2:] == ["NOWARN", "NORETRY"]


def test_a_failure_has_the_memory_that_it_could_use(tmp_path: Path) -> None:
    """1,000 pages are free, 900 of them CMA: a kernel request may use 100, a user page all."""
    tape = make(
        tmp_path / "t.tape",
        {"kernel": "6.18.1"},
        event=[
            alloc(1, None, "UNMOVABLE", gfp_flags=GFP_ATOMIC),
            alloc(1.1, None, "MOVABLE", gfp_flags=GFP_KERNEL | USER, pid=2),
        ],
        zone=[zone(0, 0.9, 1000, nr_free_cma=900, nr_reserved_highatomic=0)],
    )
    rows = {row["comm"]: row for row in ask("alloc.failures", tape)}
    assert rows["web"]["free_pages"] == rows["db"]["free_pages"] == 1000
    assert rows["web"]["usable_pages"] == 100 and rows["db"]["usable_pages"] == 1000
    assert not rows["web"]["at_most"]


NOWARN, NORETRY = 1 << 12, 1 << 15
USER = 0b1010  # HIGHMEM, MOVABLE


# ---- reclaim.min_free, kswapd.overshoot and the view zone_free


def taken(ts: float, pages: int) -> dict[str, Any]:
    """The buddy gives away so many pages, a power of 2."""
    order = pages.bit_length() - 1
    return event(ts, "alloc_zone_locked", 0, page_order=order, migratetype="MOVABLE")


def given(ts: float, pages: int) -> dict[str, Any]:
    order = pages.bit_length() - 1
    return event(ts, "pcpu_drain", 0, page_order=order, migratetype="MOVABLE")


def test_free_memory_between_readings(tmp_path: Path) -> None:
    tape = make(
        tmp_path / "t.tape",
        event=[taken(1, 64), given(2, 16), event(3, "free", 16, page_order=4), taken(6, 8)],
        zone=[zone(0, 0.5, 200), zone(1, 5, 210)],
    )
    with Database([tape]) as db:
        found = db.ask("SELECT free_pages, reading, error_pages FROM zone_free ORDER BY ts").rows
    assert found == [
        (200, True, -42),
        (136, False, -42),
        (152, False, -42),
        (168, False, -42),
        (210, True, None),
        (202, False, None),
    ]


@pytest.mark.parametrize(
    ("depth", "advice", "factor"),
    [(64, "enough: never below low", None), (128, "near miss: 2 pages above min", 5)],
)
def test_advice_on_min_free_kbytes(
    depth: int, advice: str, factor: int | None, tmp_path: Path
) -> None:
    free_pages = 230 if depth > 64 else 200
    tape = make(
        tmp_path / "t.tape",
        {"sysctls": {"vm.min_free_kbytes": "400"}},
        event=[taken(1, depth), given(3, depth)],
        zone=[zone(0, 0.5, free_pages, managed=1000)],
    )
    (row,) = ask("reclaim.min_free", tape)
    assert row["advice"].startswith(advice) and row["min_free_kbytes"] == 400
    assert row["lowest_free"] == free_pages - depth and row["below_min"] == 0
    if factor:
        assert (row["falls"], row["below_low_s"], row["near_misses"]) == (1, 2, 1)
        room = 29  # 23 pages below low, and a quarter more
        assert row["suggested_kbytes"] == 400 * 4 * room / 100
        assert row["suggested_scale"] == 10000 * room / 1000
    else:
        assert row["falls"] == 0 and row["suggested_kbytes"] is None


@pytest.mark.parametrize(
    ("cma", "advice"),
    [
        (0, "enough: never below low"),
        (20, "enough: never below low"),
        (150, "unclear: lowest at 156 pages, and up to 150 of them may be CMA or HIGHATOMIC"),
        (None, "unclear: lowest at 156 pages, and an unknown number of them may be CMA"),
    ],
)
def test_memory_that_kswapd_does_not_count_is_not_enough(
    cma: int | None, advice: str, tmp_path: Path
) -> None:
    tape = make(
        tmp_path / "t.tape",
        event=[taken(1, 64), given(3, 64)],
        zone=[zone(0, 0.5, 220, managed=1000, nr_free_cma=cma)],
    )
    (row,) = ask("reclaim.min_free", tape)
    assert row["advice"].startswith(advice) and row["unusable_pages"] == cma


def wake(ts: float, kind: str = "kswapd_wake", order: int = 0) -> dict[str, Any]:
    at = {"ts": round(ts * SECOND), "at": 0, "cpu": 0, "pid": 9, "flags": 0, "node": 0}
    return at | {"kind": kind, "page_order": order}


def test_overshoot_is_what_kswapd_freed_above_high(tmp_path: Path) -> None:
    def pages(ts: float, count: int) -> list[dict[str, Any]]:
        freed = [free(ts + i / 1e6, 5000 + i, pid=9) for i in range(count)]
        return [*freed, given(ts + 0.1, count)]

    tape = make(
        tmp_path / "t.tape",
        event=[alloc(0, 1), *pages(1.1, 64), *pages(3.1, 16)],
        reclaim=[wake(1), wake(2, "kswapd_sleep"), wake(3), wake(4, "kswapd_sleep"), wake(5)],
        zone=[zone(0, 0.5, 120)],
    )
    (row,) = ask("kswapd.overshoot", tape)
    assert (row["passes"], row["freed_pages"], row["high_pages"]) == (2, 80, 150)
    assert row["begun_above"] == 1 and row["ended_above"] == 2
    assert row["over_pages"] == (120 + 64 - 150) + 16
    assert row["over_percent"] == 62.5 and row["worst_at_s"] == 1


# ---- frag.threshold, pcp.over_time, extfrag.zones_over_time


def area(snapshot: int, ts: float, order: int, number: int) -> dict[str, Any]:
    at = {"snapshot": snapshot, "ts": round(ts * SECOND), "migratetype": "MOVABLE"}
    return PLACE | at | {"page_order": order, "nr_free": number, "capped": False}


def compact(ts: float, kind: str, status: int) -> dict[str, Any]:
    at = {"ts": round(ts * SECOND), "at": 0, "cpu": 0, "pid": 1, "flags": 0}
    return at | PLACE | {"kind": kind, "page_order": 9, "status": status}


@pytest.mark.parametrize(
    ("free_pages", "events", "advice"),
    [
        (4096, [compact(2, "suitable", 4), compact(3, "finished", 5)], "998 or higher"),
        (4096, [compact(2, "suitable", 4), compact(3, "finished", 8)], "keep: compaction succ"),
        (4096, [], "keep: fragmented at 1 of 1"),
        (2, [compact(2, "suitable", 0)], "lower than 499 lets compaction try"),
        (2, [], "no effect: memory was short"),
    ],
)
def test_advice_on_extfrag_threshold(
    free_pages: int, events: list[dict[str, Any]], advice: str, tmp_path: Path
) -> None:
    areas = [area(0, 1, order, free_pages if order == 0 else 0) for order in range(11)]
    tape = make(tmp_path / "t.tape", event=[alloc(1, 1)], free_area=areas, compaction=events)
    row = next(r for r in ask("frag.threshold", tape) if r["page_order"] == 9)
    assert row["advice"].startswith(advice), row["advice"]
    assert row["threshold"] == 500 and row["moments"] == 1


def test_advice_on_refusals_is_below_the_threshold(tmp_path: Path) -> None:
    """At two of three moments the index is 998, above it: only the refused one gives advice."""
    areas = [
        area(number, ts, order, free_pages if order == 0 else 0)
        for number, ts, free_pages in ((0, 1, 2), (1, 3, 4096), (2, 4, 4096))
        for order in range(11)
    ]
    events = [compact(2, "suitable", 0)]
    tape = make(tmp_path / "t.tape", event=[alloc(1, 1)], free_area=areas, compaction=events)
    row = next(r for r in ask("frag.threshold", tape) if r["page_order"] == 9)
    assert (row["p50_index"], row["reclaims"], row["compacts"]) == (998, 1, 2)
    assert row["advice"].startswith("lower than 499 lets compaction try"), row["advice"]


@pytest.mark.parametrize(("kernel", "checks"), [("4.7.10", None), ("4.8.0", 1), ("mine", 1)])
def test_results_of_compaction_have_their_numbers_since_4_8(
    kernel: str, checks: int | None, tmp_path: Path
) -> None:
    """enum compact_result, 4.8."""
    areas = [area(0, 1, order, 4096 if order == 0 else 0) for order in range(11)]
    events = [compact(2, "suitable", 4)]
    tape = make(
        tmp_path / "t.tape",
        {"kernel": kernel},
        event=[alloc(1, 1)],
        free_area=areas,
        compaction=events,
    )
    row = next(r for r in ask("frag.threshold", tape) if r["page_order"] == 9)
    assert row["checks"] == checks


def test_traffic_of_the_lists_by_cpu_and_second(tmp_path: Path) -> None:
    events = [taken(0, 1), taken(0.1, 1), given(0.2, 1), taken(1.5, 1) | {"cpu": 1}]
    events = [e | {"pfn": 3} for e in events]
    rows = ask("pcp.over_time", make(tmp_path / "t.tape", event=events))
    assert [(r["at_s"], r["cpu"], r["taken"], r["drained"]) for r in rows] == [
        (0, 0, 2, 1),
        (1, 1, 1, 0),
    ]
    assert [r["churn_percent"] for r in rows] == [50, 0]
    assert [r["imbalance_percent"] for r in rows] == [50, 50]  # all traffic on one of two CPUs


def test_free_memory_and_fallbacks_of_a_zone_over_time(tmp_path: Path) -> None:
    tape = make(
        tmp_path / "t.tape",
        event=[
            taken(1, 64),
            fallback(1.5, 512, "UNMOVABLE", "MOVABLE", 3),
            fallback(2.5, 1024, "MOVABLE", "UNMOVABLE", 9),
        ],
        zone=[zone(0, 1.2, 200, managed=1000)],
        free_area=[area(0, 1.2, 0, 200)],
    )
    first, second = ask("extfrag.zones_over_time", tape)
    assert (first["free_pages"], first["free_percent"], first["free_movable"]) == (200, 20, 200)
    assert (first["to_unmovable"], first["whole"]) == (1, 0)
    assert (second["to_movable"], second["whole"], second["free_pages"]) == (0, 1, None)


# ---- alloc.latency, frag.gigabytes


def stall(begin: float, end: float, order: int = 0, pid: int = 1) -> list[dict[str, Any]]:
    at = {"at": 0, "cpu": 0, "pid": pid, "flags": 0}
    return [
        at | {"ts": round(begin * SECOND), "kind": "direct_reclaim_begin", "page_order": order},
        at | {"ts": round(end * SECOND), "kind": "direct_reclaim_end", "nr_reclaimed": 32},
    ]


def test_a_wait_is_all_reclaim_and_compaction_before_the_allocation(tmp_path: Path) -> None:
    edges = [("begin", 1.5, None), ("end", 1.6, 8)]
    compaction = [compact(ts, kind, 8) | {"status": status} for kind, ts, status in edges]
    compaction.insert(0, compact(1.5, "try_to_compact_pages", 8) | {"page_order": 3})
    tape = make(
        tmp_path / "t.tape",
        event=[
            alloc(0.5, 1, page_order=3),
            alloc(1.7, 8, page_order=3, flags=4),  # of an interrupt
            alloc(2, 16, page_order=3),
            alloc(3, None, page_order=0, pid=2),
            alloc(4, 5),
        ],
        reclaim=[*stall(1, 1.4, 3), *stall(2.5, 2.9, 0, pid=2), *stall(3.1, 3.2, 2)],
        compaction=compaction,
    )
    first, second = ask("alloc.latency", tape)
    assert (first["page_order"], first["allocs"], first["waited"]) == (3, 2, 1)
    assert [first[k] for k in ("total_ms", "reclaim_ms", "compact_ms")] == [500, 400, 100]
    assert first["max_us"] == 500_000 and first["worst_at_s"] == 1.5
    assert (second["comm"], second["failed"], second["waited_percent"]) == ("db", 1, 100)


def region(snapshot: int, gib: int, tainted: int, movable: int | None) -> list[dict[str, Any]]:
    """The pageblocks of 1 GiB; the first ones are UNMOVABLE."""
    at = PLACE | {"snapshot": snapshot, "ts": 0, "isolated": None, "guessed": False}
    return [
        at
        | {"pfn": (gib << 18) + 512 * i, "nr_movable": movable}
        | {"migratetype": "UNMOVABLE" if i < tainted else "MOVABLE"}
        for i in range(512)
    ]


def test_regions_of_a_gigabyte(tmp_path: Path) -> None:
    tape = make(
        tmp_path / "t.tape",
        event=[alloc(1, 3 << 18, "UNMOVABLE", pid=2), alloc(2, (3 << 18) + 1, "UNMOVABLE")],
        pageblock=[
            *region(0, 1, 0, 0),  # free: see below
            *region(0, 2, 0, 512),  # full of movable pages
            *region(0, 3, 1, 0),  # full of others
            *region(0, 4, 0, 512)[:100],  # the end of memory
        ],
        free_block=[free_block(0, (1 << 18) + 1024 * i, 10) for i in range(256)],
    )
    rows = ask("frag.gigabytes", tape)
    assert [row["at_gib"] for row in rows] == [1, 2, 3, 4]
    assert [row["verdict"] for row in rows] == [
        "free",
        "after compaction",
        "tainted: 512 of 512 pageblocks",
        "no whole region: 100 of 512 pageblocks",
    ]
    assert {row["possible"] for row in rows} == {2}
    assert (rows[2]["task"], rows[2]["task_pages"], rows[2]["unmovable"]) == ("db", 1, 1)


def test_without_page_flags_the_types_of_blocks_judge(tmp_path: Path) -> None:
    blocks = [*region(0, 1, 0, None), *region(0, 2, 3, None)]
    rows = ask("frag.gigabytes", make(tmp_path / "t.tape", pageblock=blocks))
    assert [row["verdict"] for row in rows] == ["untainted by type", "tainted by type"]
    assert rows[0]["possible"] == 1 and rows[0]["fixed_blocks"] is None
