# SPDX-License-Identifier: Apache-2.0
"""The engine through its binding: no tape makes it lose or invent a page."""

from __future__ import annotations

import errno
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape._replay import (
    EngineError,
    RecordedCounts,
    Replay,
    kernel_for_release,
    kernels,
    policies,
)
from pagetape.schemas import GFP_BITS, TABLES

PAGES = 8 * 512
KERNELS = [row["name"] for row in kernels()]

Rows = list[dict[str, Any]]


def zone_row(**given: Any) -> dict[str, Any]:
    row: dict[str, Any] = {c.name: 0 for c in TABLES["zone"].columns if not c.null}
    return (
        row
        | {"zone": "NORMAL", "wmark_min": 8, "wmark_low": 16, "wmark_high": 32}
        | dict.fromkeys(("spanned", "present", "managed"), PAGES)
        | given
    )


def engine(
    kernel: str = "6.18", specs: list[str] | None = None, active: bool = False, **given: Any
) -> Replay:
    """One node of 2 CPUs and 16 MB; the first pageblock is in use."""
    machine: dict[str, Any] = {
        "nr_cpus": 2,
        "cpu_nodes": [0, 0],
        "node_distances": [[10]],
        "pageblock_order": 9,
    }
    replay = Replay(kernel, specs or [], **machine | given)
    blocks = [
        {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "page_order": 9, "pfn": pfn}
        for pfn in range(512, PAGES, 512)
    ]
    replay.load("zone", TABLES["zone"].batch([zone_row(reclaim_active=active)]))
    replay.load("block_guess", TABLES["block_guess"].batch(blocks))
    return replay


def run(replay: Replay, events: Rows) -> dict[str, Rows]:
    """The rows of every table the run wrote."""
    out: dict[str, Rows] = {name: [] for name in TABLES}

    def drain() -> None:
        while (ready := replay.read()) is not None:
            out[ready[0]] += pa.record_batch(ready[1]).to_pylist()

    replay.feed(TABLES["event"].batch(events))
    drain()
    replay.finish()
    drain()
    return out


def event(
    ts: int, kind: str, pfn: int, order: int = 0, cpu: int = 0, mt: int = 1
) -> dict[str, Any]:
    alloc = kind == "alloc"
    return {
        "ts": ts,
        "cpu": cpu,
        "pid": 1,
        "kind": kind,
        "flags": 0,
        "pfn": pfn,
        "page_order": order,
        "migratetype": ("UNMOVABLE", "MOVABLE", "RECLAIMABLE")[mt] if alloc else None,
        "gfp_flags": 0x6C0 if alloc else None,
    }


events = st.lists(
    st.builds(
        event,
        st.integers(0, 3 * 10**9),
        st.sampled_from(["alloc", "alloc", "free", "free_batched"]),
        st.integers(0, PAGES + 10),
        st.sampled_from([0, 0, 0, 1, 3, 9]),
        st.integers(0, 1),
        st.integers(0, 2),
    ),
    max_size=300,
).map(lambda rows: sorted(rows, key=lambda row: row["ts"]))


@settings(max_examples=60, deadline=None)
@given(events, st.sampled_from(KERNELS), st.sampled_from(["off", "lowzone", "always"]))
def test_no_page_is_lost_or_made(rows: Rows, kernel: str, mode: str) -> None:
    out = run(engine(kernel, [f"nofragment:mode={mode}"]), rows)
    free = [(row["pfn"], 1 << row["page_order"]) for row in out["free_block"] + out["pcp_page"]]
    pages = Counter(pfn + i for pfn, size in free for i in range(size))
    assert not pages or max(pages.values()) == 1
    assert all(0 <= pfn < PAGES for pfn in pages)
    listed = Counter[tuple[str, int]]()
    for row in out["free_block"]:
        listed[row["migratetype"], row["page_order"]] += 1
    for row in out["free_area"]:
        assert listed[row["migratetype"], row["page_order"]] == row["nr_free"]
    assert sum(row["count"] for row in out["pcp"]) == sum(
        1 << row["page_order"] for row in out["pcp_page"]
    )
    assert out["zone"][0]["free"] == sum(1 << row["page_order"] for row in out["free_block"])


@settings(max_examples=20, deadline=None)
@given(events)
def test_the_same_tape_gives_the_same_rows(rows: Rows) -> None:
    assert run(engine("6.12.117"), rows) == run(engine("6.12.117"), rows)


def test_a_distance_that_is_no_byte_is_refused() -> None:
    machine: dict[str, Any] = {"nr_cpus": 1, "cpu_nodes": [0], "pageblock_order": 9}
    with pytest.raises(EngineError, match=r"a distance between nodes is not in 0\.\.255"):
        Replay("6.18", [], **machine, node_distances=[[256]])


def test_zones_that_span_more_than_the_tape_shows_are_refused() -> None:
    machine: dict[str, Any] = {
        "nr_cpus": 1,
        "cpu_nodes": [0],
        "node_distances": [[10]],
        "pageblock_order": 9,
    }
    pages = 1 << 28  # 1 TiB
    rows = TABLES["zone"].batch([zone_row(spanned=pages, present=pages, managed=pages)])
    none = TABLES["pageblock"].batch([])
    small = Replay("6.18", [], **machine, known_pages=pages // 16)
    small.load("zone", rows)
    with pytest.raises(EngineError, match="but the tape has pageblocks of only 16777216"):
        small.load("pageblock", none)
    large = Replay("6.18", [], **machine, known_pages=pages // 8)
    large.load("zone", rows)
    large.load("pageblock", none)


@pytest.mark.parametrize("nr_movable", [512, None], ids=["known", "unknown"])
def test_the_end_state_has_no_pageblocks_outside_the_zone(nr_movable: int | None) -> None:
    replay = Replay("6.18", [], nr_cpus=1, cpu_nodes=[0], node_distances=[[10]], pageblock_order=9)
    zone = zone_row(start_pfn=1537, spanned=1000, present=1000, managed=1000)
    block = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "page_order": 9, "pfn": 2048}
    replay.load("zone", TABLES["zone"].batch([zone]))
    known = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "migratetype": "MOVABLE"}
    given = [
        known | {"pfn": pfn, "guessed": True, "nr_movable": nr_movable} for pfn in (1536, 2048)
    ]
    replay.load("block_guess", TABLES["block_guess"].batch([block | {"page_order": 8}]))
    replay.load("pageblock", TABLES["pageblock"].batch(given))
    out = run(replay, [])
    assert [(row["pfn"], row["nr_movable"]) for row in out["pageblock"]] == [
        (1536, nr_movable and 511),
        (2048, nr_movable and 489 - 256),
    ]
    assert sum(row["nr_blocks"] for row in out["block_count"]) == 2


def test_memory_that_was_never_initialised_has_no_pageblocks() -> None:
    replay = engine()
    known = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "migratetype": "UNMOVABLE"}
    rows = [known | {"pfn": pfn, "guessed": False} for pfn in range(512, PAGES, 512)]
    replay.load("pageblock", TABLES["pageblock"].batch(rows))
    out = run(replay, [])
    assert [row["pfn"] for row in out["pageblock"]] == list(range(512, PAGES, 512))
    assert sum(row["nr_blocks"] for row in out["block_count"]) == PAGES // 512 - 1


@pytest.mark.parametrize(
    ("kernel", "recorded", "high"),
    [("6.5", "", 77), ("6.5", "6.1.192", 77), ("6.5", "4.20", 8), ("4.20", "4.20", 77)],
)
def test_a_recorded_high_is_that_of_kernels_of_its_kind(
    kernel: str, recorded: str, high: int
) -> None:
    replay = engine(kernel, recorded_kernel=recorded)
    pcp = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "cpu": 0}
    replay.load("pcp", TABLES["pcp"].batch([pcp | {"count": 0, "high": 77, "batch": 4}]))
    assert run(replay, [])["pcp"][0]["high"] == high


def test_counters_add_up_to_the_totals() -> None:
    rows = [event(10**9 * (n // 100) + n, "alloc", 1000 + n) for n in range(500)]
    replay = engine(interval_ns=10**9)
    out = run(replay, rows)
    totals = replay.totals
    assert totals["allocs"] == 500 == sum(row["allocs"] for row in out["counter"])
    assert totals["events"] == 500
    assert len({row["ts"] for row in out["counter"]}) == 5
    assert set(totals) - {"events", "loop_seconds"} == {
        column.name for column in TABLES["counter"].columns
    } - {"ts", "cpu", "node", "zone"}


def test_the_zones_are_sampled_at_the_start_after_each_interval_and_at_the_end() -> None:
    rows = [event(second * 10**9 + 5, "alloc", 1000 + second) for second in (1, 2, 4)]
    out = run(engine(interval_ns=10**9), rows)
    moments = [1 * 10**9 + 5, 2 * 10**9, 3 * 10**9, 4 * 10**9, 4 * 10**9 + 6]
    assert [row["ts"] for row in out["block_mix"]] == moments
    assert [row["movable_pages"] for row in out["block_mix"]] == [0, 1, 2, 2, 3]
    counts = {ts: [r["nr_free"] for r in out["free_count"] if r["ts"] == ts] for ts in moments}
    assert counts[moments[0]][9:] == [1, 3]
    free = [sum(nr << order for order, nr in enumerate(counts[ts])) for ts in moments]
    assert free[0] == 7 * 512
    assert free[-1] == sum(row["nr_free"] << row["page_order"] for row in out["free_area"])
    assert all(row["at"] is None for row in out["free_count"])


def test_intervals_begin_when_the_caller_says() -> None:
    rows = [event(second * 10**9 + 5, "alloc", 1000 + second) for second in (1, 2, 4)]
    out = run(engine(interval_ns=10**9, interval_ts=7_300_000_000), rows)
    moments = [10**9 + 5, *(second * 10**9 + 300_000_000 for second in (1, 2, 3)), 4 * 10**9 + 6]
    assert [row["ts"] for row in out["block_mix"]] == moments
    assert [row["movable_pages"] for row in out["block_mix"]] == [0, 1, 2, 2, 3]
    assert run(engine(interval_ts=7 * 10**9 + 4), rows[:1])["counter"][0]["ts"] == 10**9 + 4


@pytest.mark.parametrize(
    ("kind", "ms", "active"),
    [
        ("kswapd_sleep", 99, True),
        ("kswapd_sleep", 101, False),
        ("wakeup_kswapd", 199, False),  # no row shows that this recording has passes
    ],
)
def test_a_pass_at_the_start_ends_before_the_nap(kind: str, ms: int, active: bool) -> None:
    """kswapd naps for 100 ms, then it sleeps; the row is at 200 ms."""
    replay = engine(active=True)
    row = {"ts": 200_000_000, "cpu": 0, "pid": 45, "flags": 0, "at": 5, "kind": kind, "node": 0}
    replay.load("reclaim", TABLES["reclaim"].batch([row]))
    out = run(replay, [event(ms * 1_000_000, "alloc", 1000)])
    assert out["zone"][0]["reclaim_active"] == active


def test_a_run_can_do_without_its_own_events() -> None:
    out = run(engine(events=False), [event(1, "alloc", 1000)])
    assert out["event"] == []
    assert len(out["zone"]) == 1


def numbers(rows: Rows, recorder: bool | None = None) -> Rows:
    """The rows of event_count that the rows of `event` imply, marked with `recorder`."""
    found: dict[tuple[str, int | None], dict[str, Any]] = {}
    running: dict[tuple[str, int], bool] = {}
    ends = {"alloc": "alloc_zone_locked", "free": "pcpu_drain"}
    for row in rows:
        kind, order = row["kind"], row["page_order"]
        if kind == "alloc_extfrag":
            continue
        runs = 0 if kind in ends.values() else None
        new = {"kind": kind, "page_order": order, "events": 0, "without_page": 0, "runs": runs}
        new["recorder"] = recorder
        one = found.setdefault((kind, order), new)
        one["events"] += 1
        one["without_page"] += row["pfn"] is None
        if kind in ends:
            running[ends[kind], row["cpu"]] = False
        elif kind in ends.values():
            one["runs"] += not running.get((kind, row["cpu"]))
            running[kind, row["cpu"]] = True
    return list(found.values())


@settings(max_examples=60, deadline=None)
@given(events, st.sampled_from(KERNELS))
def test_a_run_can_count_its_events_instead(rows: Rows, kernel: str) -> None:
    whole, counted = run(engine(kernel), rows), run(engine(kernel, counted=True), rows)

    def key(row: dict[str, Any]) -> tuple[str, int]:
        return row["kind"], -1 if row["page_order"] is None else row["page_order"]

    assert sorted(counted.pop("event_count"), key=key) == sorted(numbers(whole["event"]), key=key)
    fallbacks = [row for row in whole.pop("event") if row["kind"] == "alloc_extfrag"]
    assert counted.pop("event") == fallbacks
    assert whole.pop("event_count") == []
    for name in ("pageblock", "free_block", "pcp_page"):
        whole.pop(name)
        assert counted.pop(name) == []
    assert counted == whole


@settings(max_examples=60, deadline=None)
@given(events, st.sampled_from(KERNELS))
def test_the_requests_of_the_recorder_are_counted_apart(rows: Rows, kernel: str) -> None:
    rows = [row | {"pid": i % 4} for i, row in enumerate(rows)]
    whole = run(engine(kernel), rows)["event"]
    counted = run(engine(kernel, counted=True, recorder_pids=[3, 1]), rows)["event_count"]

    def key(row: dict[str, Any]) -> tuple[bool, str, int]:
        order = row["page_order"]
        return row["recorder"], row["kind"], -1 if order is None else order

    others, own = ([row for row in whole if row["pid"] % 2 == odd] for odd in (0, 1))
    expected = numbers(others, False) + numbers(own, True)
    assert sorted(counted, key=key) == sorted(expected, key=key)


def recorded(rows: Rows, *about: Any) -> tuple[RecordedCounts, dict[str, Rows], int]:
    """The counts of these events, and the number of fallbacks that are not counted."""
    counts, out = RecordedCounts(*about), dict[str, Rows](event_count=[], huge_request=[])
    fallbacks = counts.feed(TABLES["event"].batch(rows))
    while (ready := counts.read()) is not None:
        out[ready[0]] += pa.record_batch(ready[1]).to_pylist()
    return counts, out, fallbacks


@settings(max_examples=60, deadline=None)
@given(events, st.sampled_from(KERNELS), st.integers(0, 10**9), st.integers(10**9, 2**64 - 1))
def test_the_events_of_a_recording_are_counted_in_its_span(
    rows: Rows, kernel: str, since: int, until: int
) -> None:
    rows = run(engine(kernel), [row | {"pid": i % 4} for i, row in enumerate(rows)])["event"]
    counts, found, fallbacks = recorded(rows, since, until, [1, 3])
    inside = [row for row in rows if since <= row["ts"] <= until]

    def key(row: dict[str, Any]) -> tuple[bool, str, int]:
        order = row["page_order"]
        return row["recorder"], row["kind"], -1 if order is None else order

    others, own = ([row for row in inside if row["pid"] % 2 == odd] for odd in (0, 1))
    expected = numbers(others, False) + numbers(own, True)
    assert sorted(found["event_count"], key=key) == sorted(expected, key=key)
    assert fallbacks == sum(row["kind"] == "alloc_extfrag" for row in rows)
    assert counts.complete


def test_the_requests_for_huge_pages_of_a_recording_are_counted() -> None:
    huge = sum(1 << GFP_BITS.index(bit) for bit in ("HIGHMEM", "COMP", "NOMEMALLOC"))
    less = 1 << GFP_BITS.index("COMP")
    own = sum(1 << GFP_BITS.index(bit) for bit in ("THISNODE", "NORETRY", "DIRECT_RECLAIM"))
    rows = [
        event(1, "alloc", 512, 9) | {"gfp_flags": huge},
        event(2, "alloc", 0, 9) | {"gfp_flags": huge, "pfn": None},
        event(3, "alloc", 0) | {"gfp_flags": huge},  # no huge page
        event(4, "alloc", 512, 9) | {"gfp_flags": less},
        event(5, "alloc", 512, 9, mt=0) | {"gfp_flags": huge},
        event(6, "alloc", 512, 3) | {"gfp_flags": huge},
        event(7, "alloc", 0, 9) | {"gfp_flags": huge | own, "pfn": None},  # event 8 is its second
        event(8, "alloc", 0, 9) | {"gfp_flags": huge, "pfn": None},
        event(9, "alloc", 512, 9) | {"gfp_flags": huge | own},
    ]
    found = recorded(rows, 0, 9, [])[1]["huge_request"]
    assert [tuple(row.values()) for row in found] == [(3, 1, 1), (9, 4, 2)]


def test_an_order_that_no_kernel_has_is_not_counted() -> None:
    rows = [event(1, "alloc", 512), event(2, "alloc", 512, 200)]
    counts, found, _ = recorded(rows, 0, 9, [])
    assert not counts.complete
    assert [row["events"] for row in found["event_count"]] == [1]


def test_rows_outside_the_spans_are_passed_over() -> None:
    rows = [event(n, "alloc", 1000 + n) for n in range(1, 8)]
    rows.append(event(9, "free", PAGES + 5))
    part = engine(spans=[(2, 4), (6, 8)])
    out = run(part, rows)
    expected = run(engine(), [rows[2], rows[3], rows[6], rows[7]])
    assert out["event"] == expected["event"]
    assert [row["ts"] for row in out["event"] if row["kind"] == "alloc"] == [3, 4, 7]
    assert [row["at"] for row in out["anomaly"]] == [7]
    assert (part.totals["events"], part.recorded["requests"]) == (8, 3)


def test_reclaim_before_the_first_span_is_over() -> None:
    rows = [event(n * 1000, "alloc", 1000 + n) for n in range(1, 5)]
    pcp = {"snapshot": 0, "ts": 0, "cpu": 0, "node": 0, "zone": "NORMAL", "batch": 63, "count": 0}
    pcp |= {"high": 1000, "high_min": 10, "high_max": 2000}
    ticks = [
        {"at": at, "ts": at * 1000, "cpu": 0, "pid": 1, "flags": 0, "kind": "vmstat_update"}
        for at in (1, 3)
    ]

    def high(ticks: Rows, spans: list[tuple[int, int]]) -> int:
        replay = engine(spans=spans)
        replay.load("pcp", TABLES["pcp"].batch([pcp]))
        replay.load("reclaim", TABLES["reclaim"].batch(ticks))
        return int(run(replay, rows)["pcp"][0]["high"])

    assert high(ticks, []) < high(ticks[1:], []) < 1000
    assert high(ticks, [(2, 4)]) == high(ticks[1:], [])


def test_a_replayed_end_state_starts_another_run() -> None:
    first = run(engine("6.18"), [event(n, "alloc", 1000 + n) for n in range(100)])
    second = Replay(
        "6.18", [], nr_cpus=2, cpu_nodes=[0, 0], node_distances=[[10]], pageblock_order=9
    )
    for name in ("zone", "pcp", "pageblock", "free_block", "pcp_page"):
        rows = [row | {"snapshot": 0} for row in first[name]]
        second.load(name, TABLES[name].batch(rows))
    again = run(second, [])
    for name in ("zone", "pcp", "pageblock", "free_block", "pcp_page"):
        assert [row | {"ts": 0} for row in again[name]] == [row | {"ts": 0} for row in first[name]]


def test_anomalies_name_the_row_that_showed_them() -> None:
    rows = [event(1, "alloc", 1000), event(2, "free", 1000), event(3, "free", 1000)]
    replay = engine()
    out = run(replay, rows)
    assert [(row["at"], row["kind"], row["pfn"]) for row in out["anomaly"]] == [
        (2, "free_of_free", 1000)
    ]
    assert replay.anomalies["free_of_free"] == 1
    assert replay.recorded == {"requests": 3, "failures": 0}


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"kernel": "6.7"}, errno.ENOENT, "kernel '6.7' has no row; there are: 2.6.31"),
        ({"specs": ["nofrag"]}, errno.ENOENT, "no policy named 'nofrag'"),
        ({"specs": ["nofragment", "nofragment"]}, errno.EBUSY, "both decide 'nofragment'"),
        ({"reclaim": "R3"}, errno.EINVAL, "there are R0, R1, R2"),
        ({"cpu_nodes": [0]}, errno.EINVAL, "nodes of 1 CPUs, not 2"),
        ({"pageblock_order": 20}, errno.EINVAL, "pageblock order 20 is not in 1..10"),
        ({"spans": [(5, 9), (8, 10)]}, errno.EINVAL, "span 1, 8 to 10, is not in order"),
        ({"interval_ns": 0}, errno.EINVAL, "an interval of 0 ns"),
    ],
)
def test_bad_settings_are_refused(given: dict[str, Any], code: int, words: str) -> None:
    with pytest.raises(EngineError) as refused:
        engine(**given)
    assert refused.value.errno == code
    assert words in str(refused.value.strerror)


def test_other_columns_are_refused() -> None:
    batch = pa.record_batch({"ts": pa.array([1], pa.uint64())})
    with pytest.raises(EngineError, match="table event has"):
        engine().feed(batch)
    with pytest.raises(EngineError, match="table pcp has"):
        engine().load("pcp", batch)


def test_rows_and_policies_describe_themselves() -> None:
    rows = {row["name"]: row for row in kernels()}
    assert rows["6.18"]["pcp_tuning"] == "auto"
    assert rows["5.0"]["nofragment"] == "tested but never set"
    assert rows["6.1.192"]["free_factor_max"] == 5
    assert kernel_for_release("6.1.192-2-amd64") == "6.1.192"
    by_name = {policy["name"]: policy for policy in policies()}
    assert by_name["nofragment"]["choices"] == ["nofragment"]
    assert by_name["nofragment"]["params"][0]["values"] == ["off", "lowzone", "always"]
    assert by_name["mainline"]["notices"] == []
