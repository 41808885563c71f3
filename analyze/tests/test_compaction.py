# SPDX-License-Identifier: Apache-2.0
"""Compaction by who asked for it, and requests for contiguous memory, on written tapes."""

import json
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.diagnosing.diagnosis import diagnose
from pagetape.diagnosing.finding import Finding
from pagetape.recording.eventsets import tracepoints
from pagetape.schemas.tape import Tape, Writer

MS = 1_000_000
AGENT, WORKER, KCOMPACTD = 50, 100, 39
Row = dict[str, Any]

FACTS: Row = {"cpus": 1, "pageblock_order": 9, "page_size": 4096, "kernel": "6.18.1"}
TASKS: list[Row] = [
    {"pid": AGENT, "comm": "agent", "cgroup": "/system.slice"},
    {"pid": WORKER, "comm": "worker"},
    {"pid": KCOMPACTD, "comm": "kcompactd0", "kthread": True},
]


def compaction(ms: float, kind: str, pid: int = WORKER, **more: Any) -> Row:
    return {"ts": int(ms * MS), "cpu": 0, "pid": pid, "flags": 0, "at": 0, "kind": kind} | more


def run(since: float, until: float, pid: int, order: int | None = None, **more: Any) -> list[Row]:
    """A run in a zone; with an order, its mm_compaction_finished is on the tape."""
    zone: Row = {"start_pfn": 4096, "end_pfn": 8192, "sync": True} | more
    rows = [compaction(since, "begin", pid, **zone)]
    if order is not None:
        rows.append(compaction(since, "finished", pid, page_order=order, status=4, node=0))
        moved = {"nr_migrated": 30, "nr_failed": 2}
        rows.append(compaction((since + until) / 2, "migratepages", pid, **moved))
    return [*rows, compaction(until, "end", pid, status=5 if order == -1 else 8, **zone)]


def asks(ms: float, pid: int = WORKER, priority: int = 1) -> Row:
    return compaction(ms, "try_to_compact_pages", pid, page_order=9, priority=priority)


def event(ms: float, kind: str = "alloc", pid: int = WORKER, **more: Any) -> Row:
    row = {"ts": int(ms * MS), "cpu": 0, "pid": pid, "kind": kind, "flags": 0, "pfn": 600}
    return row | {"page_order": 0, "migratetype": "MOVABLE"} | more


def made(path: Path, facts: Row | None = None, **tables: list[Row]) -> Tape:
    """A tape that recorded everything, unless `facts` say otherwise."""
    with Writer(path, FACTS | {"events": tracepoints("all")} | (facts or {})) as tape:
        for name, rows in ({"task": TASKS} | tables).items():
            ordered = name in ("event", "reclaim", "compaction")
            tape.rows(name, sorted(rows, key=lambda row: int(row["ts"])) if ordered else rows)
    return Tape(path)


def ask(tape: Tape, report: str, **values: Any) -> list[Row]:
    with Database([tape]) as db:
        return db.run(query.reports()[report], values).objects()


def select(tape: Tape, sql: str) -> list[tuple[Any, ...]]:
    with Database([tape]) as db:
        return db.ask(sql).rows


def who(tape: Tape) -> list[str]:
    return [row[0] for row in select(tape, "SELECT who FROM compaction_run ORDER BY from_ts")]


def finding(tape: Tape, name: str) -> Finding:
    (found,) = [f for f in diagnose(tape).examined if f.id == name]
    return found


@pytest.fixture
def agents(tmp_path: Path) -> Tape:
    """An idle machine: an agent writes to compact_memory, and allocates a page afterwards."""
    rows = [*run(10, 100, AGENT, -1, start_pfn=1, end_pfn=4096), *run(100, 790, AGENT, -1)]
    pages = [event(1), event(800, pid=AGENT), event(1000)]
    return made(tmp_path / "agents.tape", event=pages, compaction=rows)


def test_compaction_that_a_task_asked_for_is_no_wait_of_an_allocation(agents: Tape) -> None:
    assert who(agents) == ["explicit", "explicit"]
    assert ask(agents, "alloc.latency") == []
    assert ask(agents, "reclaim.stalls") == []
    assert finding(agents, "stalls").severity == "none"
    summary = {row["what"]: row for row in ask(agents, "reclaim.summary")}
    assert "direct_compaction" not in summary
    assert summary["explicit_compaction"]["nr"] == 2
    assert summary["explicit_compaction"]["total_ms"] == 780


def test_the_results_name_who_asked(agents: Tape) -> None:
    (row,) = ask(agents, "compaction.results", who="explicit")
    assert row == {
        "who": "explicit",
        "comm": "agent",
        "page_order": -1,
        "mode": "sync",
        "outcome": "complete",
        "runs": 2,
        "moved": 60,
        "failed": 4,
        "total_ms": 780.0,
        "p50_ms": 390.0,
        "max_ms": 690.0,
        "tape_percent": 78.08,
    }
    assert ask(agents, "compaction.results", who="direct") == []


def test_diagnose_names_the_task_and_not_the_allocator(agents: Tape) -> None:
    found = finding(agents, "explicit_compaction")
    assert found.severity == "low"  # a tape of one second says nothing about rates
    assert "Task agent (/system.slice)" in found.text
    assert "780 ms" in found.text
    assert "60 pages (0.2 MiB) moved" in found.text
    assert found.next.endswith("compaction.results " + str(agents.path) + " --who explicit")
    assert finding(agents, "kcompactd").severity == "none"


def test_the_timeline_names_who_asked(agents: Tape, tmp_path: Path, pagetape: Any) -> None:
    out = tmp_path / "t.json"
    assert pagetape("export", agents.path, "-o", out).status == 0
    names = {e["name"] for e in json.loads(out.read_text())["traceEvents"] if e["ph"] == "X"}
    assert names == {"explicit compaction"}


def test_the_compaction_of_a_request_is_its_wait(tmp_path: Path) -> None:
    rows = [asks(10), *run(11, 31, WORKER, 9)]
    tape = made(tmp_path / "t.tape", event=[event(1), event(32, page_order=9)], compaction=rows)
    (wait,) = ask(tape, "alloc.latency")
    assert (wait["page_order"], wait["compact_ms"]) == (9, 20)
    (row,) = ask(tape, "compaction.results")
    assert (row["who"], row["page_order"], row["mode"]) == ("direct", 9, "sync_light")
    assert row["outcome"] == "success"
    assert finding(tape, "stalls").severity != "none"


CHEAP = {"events": tracepoints("cheap")}
NOBODY_KNOWS = {"events": None}
DMA = {"start_pfn": 1, "end_pfn": 4096}
# Without mm_compaction_finished: facts, other events, rows of compaction, who of each run.
DOUBTFUL: dict[str, tuple[Row, list[Row], list[Row], list[str]]] = {
    "no request": (CHEAP, [], run(10, 20, AGENT), ["explicit"]),
    "a request": (CHEAP, [], [asks(9), *run(10, 20, WORKER)], ["direct"]),
    "a request in two zones": (
        CHEAP,
        [],
        [asks(9), *run(10, 20, WORKER), *run(21, 22, WORKER, **DMA)],
        ["direct", "direct"],
    ),
    "a zone comes once": (
        CHEAP,
        [],
        [asks(9), *run(10, 20, WORKER), *run(50, 60, WORKER, **DMA), *run(60, 80, WORKER)],
        ["direct", "direct", "explicit"],
    ),
    "the request was asynchronous": (
        CHEAP,
        [],
        [asks(9, priority=2), *run(10, 20, WORKER, sync=False), *run(50, 60, WORKER, **DMA)],
        ["direct", "explicit"],
    ),
    "the request got its page": (
        {"events": tracepoints("page") + tracepoints("cheap")},
        [event(21)],
        [asks(9), *run(10, 20, WORKER), *run(50, 60, WORKER, **DMA)],
        ["direct", "explicit"],
    ),
    "an interrupt got a page": (
        {"events": tracepoints("page") + tracepoints("cheap")},
        [event(9.5, flags=4)],
        [asks(9), *run(10, 20, WORKER)],
        ["direct"],
    ),
    "nobody knows what was recorded": (NOBODY_KNOWS, [], run(10, 20, AGENT), ["unknown"]),
    "only requests are asynchronous": (
        NOBODY_KNOWS,
        [],
        run(10, 20, WORKER, sync=False),
        ["direct"],
    ),
    "the tape has requests": (
        NOBODY_KNOWS,
        [],
        [asks(1), *run(2, 3, WORKER), *run(10, 20, AGENT)],
        ["direct", "explicit"],
    ),
    "without a begin": (CHEAP, [], run(10, 20, AGENT)[1:], ["unknown"]),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_requests_and_order_of_zones_show_who_asked(case: str, tmp_path: Path) -> None:
    facts, events, rows, expected = DOUBTFUL[case]
    tape = made(tmp_path / "t.tape", facts, event=events, compaction=rows)
    assert who(tape) == expected
    waits = {r[0] for r in select(tape, "SELECT who FROM reclaim_window WHERE waits")}
    assert waits == set(expected) & {"direct"}


def test_kcompactd_works_for_an_order_or_proactively(tmp_path: Path) -> None:
    wake = {"page_order": 9, "node": 0, "zone": "NORMAL"}
    rows = [
        compaction(1, "kcompactd_sleep", KCOMPACTD, node=0),
        *run(2, 3, KCOMPACTD),
        compaction(4, "kcompactd_wake", KCOMPACTD, **wake),
        *run(5, 105, KCOMPACTD),
        compaction(106, "kcompactd_sleep", KCOMPACTD, node=0),
        *run(200, 500, KCOMPACTD, -1),
    ]
    tape = made(tmp_path / "t.tape", event=[event(0), event(1000)], compaction=rows)
    assert who(tape) == ["proactive", "kcompactd", "proactive"]
    results = {(r["who"], r["page_order"]): r for r in ask(tape, "compaction.results")}
    assert results["kcompactd", 9]["total_ms"] == 100
    assert ask(tape, "reclaim.stalls") == []
    found = finding(tape, "kcompactd")
    assert found.severity == "high"
    assert found.evidence["busy_percent"] == pytest.approx(40.1)
    assert "proactive" in found.text and found.next.endswith("--who proactive")
    assert finding(tape, "explicit_compaction").severity == "none"


def test_the_models_pace_is_not_that_of_whole_zones(agents: Tape) -> None:
    with Database([agents]) as db:
        assert db.run(query.internal()["scan"]).rows == []


def test_only_a_request_captures_a_page(tmp_path: Path) -> None:
    taken = {"page_order": 9, "fallback_order": 9, "fallback_migratetype": "UNMOVABLE"}
    pages = [event(15, "alloc_extfrag", change_ownership=True, **taken)]
    for order, captures in ((9, 1), (-1, 0)):
        rows = [asks(9), *run(10, 20, WORKER, order)]
        tape = made(tmp_path / f"{order}.tape", event=pages, compaction=rows)
        assert len(ask(tape, "extfrag.captures")) == captures


@pytest.mark.parametrize(("kernel", "captures"), [("6.14.0", 0), ("6.15.0", 1), ("mine", 0)])
def test_a_capture_has_an_event_since_6_15(tmp_path: Path, kernel: str, captures: int) -> None:
    """compaction_capture, 6.15."""
    taken = {"page_order": 9, "fallback_order": 9, "fallback_migratetype": "UNMOVABLE"}
    pages = [event(15, "alloc_extfrag", change_ownership=True, **taken)]
    rows = [asks(9), *run(10, 20, WORKER, 9)]
    tape = made(tmp_path / "t.tape", {"kernel": kernel}, event=pages, compaction=rows)
    assert len(ask(tape, "extfrag.captures")) == captures


@pytest.mark.parametrize(("mode", "waits"), [("0", 0), ("1", 1), ("", 1)])
def test_node_reclaim_is_asked_for_where_the_mode_is_off(
    mode: str, waits: int, tmp_path: Path
) -> None:
    base = {"cpu": 0, "pid": AGENT, "flags": 0, "at": 0}
    rows = [
        base | {"ts": 10 * MS, "kind": "node_reclaim_begin", "node": 0, "page_order": 0},
        base | {"ts": 30 * MS, "kind": "node_reclaim_end", "nr_reclaimed": 7},
    ]
    facts = {"sysctls": {"vm.zone_reclaim_mode": mode} if mode else {}}
    tape = made(tmp_path / "t.tape", facts, event=[event(40, pid=AGENT)], reclaim=rows)
    assert len(ask(tape, "alloc.latency")) == waits
    assert len([r for r in ask(tape, "reclaim.stalls") if r["what"] == "node_reclaim"]) == waits


def test_reclaim_of_a_control_group_may_be_asked_for(tmp_path: Path) -> None:
    base = {"cpu": 0, "pid": AGENT, "flags": 0, "at": 0}
    rows = [
        base | {"ts": 10 * MS, "kind": "memcg_reclaim_begin", "page_order": 0},
        base | {"ts": 900 * MS, "kind": "memcg_reclaim_end", "nr_reclaimed": 7},
    ]
    tape = made(tmp_path / "t.tape", event=[event(1), event(1000)], reclaim=rows)
    text = finding(tape, "stalls").text
    assert "memory.reclaim" in text and "do not say" in text


# ---- contiguous memory

BLOCK = 512
CMA = 8 * BLOCK  # the first of four CMA pageblocks


def migrated(
    ms: float, reason: int, pid: int = AGENT, moved: int = 5, failed: int = 1
) -> list[Row]:
    result = {"nr_migrated": moved, "nr_failed": failed}
    return [
        compaction(ms, "migrate_pages_start", pid, reason=reason, mode=2),
        compaction(ms + 1, "migrate_pages", pid, reason=reason, mode=2, **result),
    ]


def checked(ms: float, start: int, end: int, fin: int, pid: int = AGENT) -> Row:
    return compaction(ms, "test_pages_isolated", pid, start_pfn=start, end_pfn=end, fin_pfn=fin)


def requests(tape: Tape) -> list[tuple[Any, ...]]:
    columns = '"by", outcome, pfn, nr_pages, retries, moved, failed, (until_ts - from_ts) / 1e6'
    return select(tape, f"SELECT {columns} FROM contiguous_request ORDER BY until_ts")


def test_a_request_of_cma_may_try_several_ranges(tmp_path: Path) -> None:
    rows = [
        compaction(10, "cma_alloc_start", AGENT, nr_pages=64),
        *migrated(11, 6),
        checked(13, CMA, CMA + 64, CMA + 9),
        compaction(14, "cma_alloc_busy_retry", AGENT, start_pfn=CMA, nr_pages=64),
        *migrated(15, 6, failed=0),
        checked(17, CMA + 64, CMA + 128, CMA + 128),
        compaction(
            20,
            "cma_alloc_finish",
            AGENT,
            start_pfn=CMA + 64,
            nr_pages=64,
            allocated=True,
            errorno=0,
        ),
        *migrated(30, 5, pid=WORKER, moved=1000),  # NUMA balancing is no compaction
    ]
    tape = made(tmp_path / "t.tape", compaction=rows)
    assert requests(tape) == [("cma", "success", CMA + 64, 64, 1, 10, 1, 10.0)]
    (row,) = ask(tape, "compaction.results")
    assert (row["who"], row["comm"], row["moved"], row["total_ms"]) == ("cma", "agent", 10, 10)


def test_requests_by_the_events_of_each_kernel(tmp_path: Path) -> None:
    failed = {"nr_pages": 64, "allocated": False}
    kernels: dict[str, tuple[list[Row], tuple[Any, ...]]] = {
        # no start, no errorno; the pfn is null where all is -1
        "5.10": (
            [*migrated(11, 6), compaction(20, "cma_alloc_finish", AGENT, **failed)],
            ("cma", "failed", None, 64, 0, 5, 1, 9.0),
        ),
        # the pfn is that of the last range, although it was not allocated
        "6.1": (
            [
                compaction(10, "cma_alloc_start", AGENT, nr_pages=64),
                compaction(15, "cma_alloc_busy_retry", AGENT, start_pfn=CMA, nr_pages=64),
                compaction(20, "cma_alloc_finish", AGENT, start_pfn=CMA, **failed),
            ],
            ("cma", "failed", None, 64, 1, 0, 0, 10.0),
        ),
        "7.3": (
            [
                compaction(10, "cma_alloc_start", AGENT, nr_pages=64),
                compaction(20, "cma_alloc_finish", AGENT, start_pfn=0, errorno=-16, **failed),
            ],
            ("cma", "failed", None, 64, 0, 0, 0, 10.0),
        ),
        "a gigantic page": (
            [*migrated(11, 6), checked(20, CMA, CMA + 1024, CMA + 1024)],
            ("contig", "success", CMA, 1024, 0, 5, 1, 9.0),
        ),
        "offline": (
            [*migrated(11, 2), checked(20, CMA, CMA + 1024, CMA + 7)],
            ("hotplug", "failed", CMA, 1024, 0, 5, 1, 9.0),
        ),
    }
    for name, (rows, expected) in kernels.items():
        tape = made(tmp_path / f"{name}.tape", compaction=rows)
        assert requests(tape) == [expected], name


@pytest.fixture
def area(tmp_path: Path) -> Tape:
    """Four CMA pageblocks: pages of two tasks, a buffer, and a range that could not be emptied."""
    page: list[Row] = [
        event(1, pfn=CMA + 2, page_order=1),  # worker: 2 pages, one of them busy
        event(2, pfn=CMA + 10, pid=AGENT),
        event(3, pfn=CMA + 11),
        event(4, "free", pfn=CMA + 11, migratetype=None),
        event(60, pfn=CMA + 20),  # after the failure
    ]
    rows = [
        compaction(10, "cma_alloc_start", AGENT, nr_pages=16),
        checked(12, CMA, CMA + 16, CMA + 3),
        compaction(13, "cma_alloc_busy_retry", AGENT, start_pfn=CMA, nr_pages=16),
        compaction(
            20, "cma_alloc_finish", AGENT, start_pfn=CMA + BLOCK, nr_pages=BLOCK, allocated=True
        ),
    ]
    place = {"node": 0, "zone": "NORMAL"}
    blocks = [
        place | {"snapshot": n, "ts": ts, "pfn": CMA + BLOCK * i, "migratetype": "CMA"}
        for n, ts in ((0, 0), (1, 100 * MS))
        for i in range(4)
    ]
    free = [
        place | {"snapshot": n, "ts": ts, "migratetype": "CMA", "page_order": 9}
        for n, ts in ((0, 0), (1, 100 * MS))
    ]
    free = [row | {"pfn": CMA + BLOCK * i} for row in free for i in (2, 3)]
    return made(
        tmp_path / "area.tape",
        event=page,
        compaction=rows,
        pageblock=[row | {"guessed": False} for row in blocks],
        free_block=free,
    )


def test_the_holders_of_a_range_that_failed(area: Tape) -> None:
    rows = [r for r in ask(area, "cma.failures") if r["kind"] == "test_pages_isolated"]
    found = [(r["holder"], r["migratetype"], r["pages"], r["holds_busy"]) for r in rows]
    # 16 pages: 2 of worker, 1 of agent, 1 freed, 12 without an event
    assert found == [
        ("worker", "MOVABLE", 2, True),
        ("[unknown]", None, 12, False),
        ("agent", "MOVABLE", 1, False),
    ]
    retries = [r for r in ask(area, "cma.failures") if r["kind"] == "cma_alloc_busy_retry"]
    assert {r["holds_busy"] for r in retries} == {None}
    assert {r["comm"] for r in retries} == {"agent"}
    assert len({r["at_s"] for r in ask(area, "cma.failures", top=1)}) == 1


def test_the_occupancy_of_cma_pageblocks(area: Tape) -> None:
    rows = {(r["snapshot"], r["holder"]): r["pages"] for r in ask(area, "cma.occupancy")}
    assert rows == {
        (0, "[free]"): 2 * BLOCK,
        (0, "[unknown]"): 2 * BLOCK,
        (1, "[free]"): 2 * BLOCK,
        (1, "[cma_alloc]"): BLOCK,
        (1, "worker"): 3,
        (1, "agent"): 1,
        (1, "[unknown]"): BLOCK - 4,
    }


def test_a_released_buffer_is_no_holder(area: Tape, tmp_path: Path) -> None:
    rows = [dict(row) for row in area.rows("compaction")]
    rows.append(compaction(50, "cma_release", AGENT, start_pfn=CMA + BLOCK, nr_pages=BLOCK))
    tables = {name: list(area.rows(name)) for name in ("event", "pageblock", "free_block")}
    tape = made(tmp_path / "t.tape", compaction=rows, **tables)
    assert "[cma_alloc]" not in {r["holder"] for r in ask(tape, "cma.occupancy")}


def test_the_set_all_has_the_events_of_contiguous_memory() -> None:
    wanted = {
        "cma:cma_alloc",
        "cma:cma_alloc_start",
        "cma:cma_alloc_finish",
        "cma:cma_alloc_busy_retry",
        "cma:cma_release",
        "page_isolation:test_pages_isolated",
        "kmem:mm_alloc_contig_migrate_range_info",
    }
    assert wanted <= set(tracepoints("all"))
    assert not wanted & set(tracepoints("cheap"))
