# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of this machine; skipped where it refuses BPF: see livetest.py."""

from __future__ import annotations

import mmap
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

import livetest
import pyarrow as pa
import pytest

from pagetape import procfs
from pagetape._collector import CollectorError
from pagetape.schemas import TABLES

try:
    from pagetape import _snapshot
except ImportError as e:
    livetest.skip(str(e))

pytestmark = [pytest.mark.live, livetest.alone]

TRACING = Path("/sys/kernel/tracing")

Tables = dict[str, pa.RecordBatch]


@pytest.fixture(scope="module")
def snapshot() -> Iterator[Any]:
    try:
        loaded = _snapshot.Snapshot()
    except CollectorError as e:
        livetest.skip(f"no exact snapshot here: {e}")
    yield loaded
    loaded.close()


def take(snapshot: Any, nr: int = 0) -> tuple[dict[str, Any], Tables]:
    facts, batches = snapshot.take(nr)
    tables = {name: pa.record_batch(batch) for name, batch in batches}
    for name, table in tables.items():
        table.validate(full=True)
        assert table.schema.equals(TABLES[name].arrow, check_metadata=False), name
    return facts, tables


def _map_touch_unmap(stop: Event) -> None:
    while not stop.is_set():
        with mmap.mmap(-1, 4 << 20) as memory:
            for offset in range(0, len(memory), mmap.PAGESIZE):
                memory[offset] = 1


@contextmanager
def load() -> Iterator[None]:
    """One process per CPU maps, touches and unmaps memory."""
    context = get_context("fork")
    stop = context.Event()
    workers = [
        context.Process(target=_map_touch_unmap, args=(stop,)) for _ in range(os.cpu_count() or 1)
    ]
    for worker in workers:
        worker.start()
    sleep(0.2)
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def pages_of(rows: pa.RecordBatch, place: list[str]) -> dict[tuple[Any, ...], int]:
    """The pages of the entries of lists, by place."""
    entries = pa.table({name: rows[name] for name in [*place, "page_order"]})
    nr = entries.group_by([*place, "page_order"]).aggregate([([], "count_all")])
    found: Counter[tuple[Any, ...]] = Counter()
    for row in nr.to_pylist():
        found[tuple(row[name] for name in place)] += row["count_all"] << row["page_order"]
    return found


def assert_lists_have_what_is_counted(tables: Tables) -> None:
    """The lists have as many pages as NR_FREE_PAGES, with the CPUs' differences to it, and as
    pcp.count."""
    listed = pages_of(tables["free_block"], ["node", "zone"])
    on_pcp = pages_of(tables["pcp_page"], ["node", "zone", "cpu"])
    counted: Counter[tuple[int, str]] = Counter()
    for pcp in tables["pcp"].to_pylist():
        counted[pcp["node"], pcp["zone"]] += pcp["vm_stat_diff"]
    for zone in tables["zone"].to_pylist():
        place = (zone["node"], zone["zone"])
        assert listed.get(place, 0) == zone["free"] + counted[place], zone
    for pcp in tables["pcp"].to_pylist():
        on_cpu = on_pcp.get((pcp["node"], pcp["zone"], pcp["cpu"]), 0)
        assert on_cpu == pcp["count"], pcp


def test_twenty_snapshots_under_load_agree_with_the_counters(snapshot: Any) -> None:
    """Twenty exact ones. A hypervisor, or other processes, take the time of a CPU away: a snapshot
    that does not get all CPUs to stand still in time is not exact, and must say so: it has no
    rows."""
    exact = nr = 0
    with load():
        while exact < 20:
            assert nr < 400, f"{exact} of {nr} snapshots are exact"
            facts, tables = take(snapshot, nr)
            nr += 1
            assert facts["mismatches"] == {}
            hows = {zone["how"] for zone in facts["zones"]}
            assert hows == ({"precopied"} if facts["exact"] else {"proc"})
            if not facts["exact"]:
                assert not any(table.num_rows for table in tables.values())
                continue
            exact += 1
            assert facts["checks"]["free_counters"] == len(facts["zones"])
            assert facts["checks"]["list_sums"] > 0
            assert_lists_have_what_is_counted(tables)
            assert tables["zone"]["snapshot"].unique().to_pylist() == [nr - 1]


def test_pages_are_in_one_place_only(snapshot: Any) -> None:
    _, tables = take(snapshot)
    entries = tables["free_block"].to_pylist() + tables["pcp_page"].to_pylist()
    entries.sort(key=lambda entry: entry["pfn"])
    for entry, after in pairwise(entries):
        assert entry["pfn"] + (1 << entry["page_order"]) <= after["pfn"]
    free = sum(1 << entry["page_order"] for entry in tables["free_block"].to_pylist())
    assert free == sum(
        row["nr_free"] << row["page_order"] for row in tables["free_area"].to_pylist()
    )


def test_proc_shows_the_same_a_moment_later(snapshot: Any) -> None:
    _, tables = take(snapshot)
    shown_zones, shown_pcps = procfs.parse_zoneinfo(Path("/proc/zoneinfo").read_text())
    zones = {(row["node"], row["zone"]): row for row in tables["zone"].to_pylist()}
    pcps = {(row["node"], row["zone"], row["cpu"]): row for row in tables["pcp"].to_pylist()}

    assert len(zones) == len(shown_zones)
    for shown in shown_zones:
        zone = zones[shown["node"], shown["zone"]]
        moving = {"free", "boost", "nr_free_highatomic", "nr_free_cma"}
        for name in shown.keys() - moving:
            assert shown[name] in (zone[name], None), name
        # The machine changes between the two reads.
        assert abs(zone["free"] - shown["free"]) < max(20_000, zone["managed"] / 50)
    assert len(pcps) == len(shown_pcps)
    for shown in shown_pcps:
        pcp = pcps[shown["node"], shown["zone"], shown["cpu"]]
        for name in ("batch", "high_min", "high_max"):
            assert pcp[name] == shown[name], name


def test_proc_counts_the_same_pageblocks(snapshot: Any) -> None:
    try:
        text = Path("/proc/pagetypeinfo").read_text()
    except OSError as e:
        livetest.skip(f"/proc/pagetypeinfo: {e.strerror}")
    _, tables = take(snapshot)
    _, shown_counts = procfs.parse_pagetypeinfo(text)
    key = ("node", "zone", "migratetype")
    counts = {
        tuple(row[name] for name in key): row["nr_blocks"]
        for row in tables["block_count"].to_pylist()
    }
    for shown in shown_counts:
        assert abs(counts[tuple(shown[name] for name in key)] - shown["nr_blocks"]) <= 16, shown


@contextmanager
def tracing() -> Iterator[Path]:
    """An own instance that records alloc_zone_locked."""
    instance = TRACING / "instances" / f"pagetape-test-{os.getpid()}"
    try:
        instance.mkdir()
    except OSError as e:
        livetest.skip(f"no tracing here: {e}")
    try:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text("4096")
        (instance / "events/kmem/mm_page_alloc_zone_locked/enable").write_text("1")
        yield instance
    finally:
        instance.rmdir()


def test_the_cut_is_an_event_of_the_trace(snapshot: Any) -> None:
    with tracing() as instance:
        facts, _ = take(snapshot)
        (instance / "tracing_on").write_text("0")
        trace = (instance / "trace").read_text()
    if facts["pfn"] is None:
        livetest.skip("the cut could not be marked", by_chance=True)
    line = re.compile(
        rf"-{facts['pid']}\s.*?\[0*{facts['cpu']}\].*\s(\d+)\.(\d+): mm_page_alloc_zone_locked:"
        rf".*pfn={facts['pfn']:#x} order={facts['order']} "
    )
    stamps = [int(s) * 1_000_000 + int(us) for s, us in line.findall(trace)]
    before = [stamp for stamp in stamps if stamp * 1000 <= facts["ts"]]
    assert before
    assert facts["ts"] - before[-1] * 1000 < 1_000_000


def test_without_any_time_there_is_no_snapshot_but_its_cost(snapshot: Any) -> None:
    facts, tables = snapshot.take(0, 0)
    assert not facts["exact"] and facts["pfn"] is None
    assert sum(facts["hindered"].values()) == facts["meetings"] > 0
    assert facts["mismatches"] == {}
    assert {zone["how"] for zone in facts["zones"]} == {"proc"}
    assert not any(pa.record_batch(table).num_rows for _, table in tables)


@contextmanager
def fragmented(megabytes: int) -> Iterator[None]:
    """Free every other page of that much memory, so that no larger block is free in it."""
    populate = 23  # MADV_POPULATE_WRITE
    with mmap.mmap(-1, megabytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory.madvise(populate)
        for offset in range(0, len(memory), 2 * mmap.PAGESIZE):
            memory.madvise(mmap.MADV_DONTNEED, offset, mmap.PAGESIZE)
        yield


def to_fragment(most: int) -> int:
    """The megabytes that a test may fragment: a third of the available memory, up to `most`.

    Skips where that is less than 1,024: a small machine, or memory that others hold now.
    """
    text = Path("/proc/meminfo").read_text()
    total, available = (
        int(re.findall(rf"^{name}: +(\d+) kB", text, re.M)[0]) >> 10
        for name in ("MemTotal", "MemAvailable")
    )
    if available // 3 < 1024:
        livetest.skip(
            f"needs 3,072 MiB of available memory: {available:,} of {total:,} MiB are now",
            by_chance=total // 3 >= 1024,
        )
    return min(most, available // 3)


def test_long_lists_are_exact_although_nothing_is_held_for_long(snapshot: Any) -> None:
    megabytes = to_fragment(2048)
    locks, holds, longest = [], [], 0
    with fragmented(megabytes), load():
        for nr in range(3):
            facts, tables = take(snapshot, nr)
            assert facts["exact"], facts
            longest = max(longest, tables["free_block"].num_rows)
            locks += snapshot.locks
            holds += [ran for _, ran in snapshot.holds]
    assert median(locks) < 200_000
    assert median(holds) < 200_000
    if longest < 100_000:
        livetest.skip(f"other work took the free pages: {longest} blocks", by_chance=True)


def test_a_closed_snapshot_says_so(snapshot: Any) -> None:
    del snapshot
    closed = _snapshot.Snapshot()
    closed.close()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.take(0)


def test_without_capabilities_the_error_names_them(snapshot: Any) -> None:
    """In a child without root rights: the message must name the remedy."""
    del snapshot
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(65534)
        try:
            _snapshot.Snapshot()
            said = "loaded"
        except CollectorError as e:
            said = str(e)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    assert "CAP_BPF" in said
