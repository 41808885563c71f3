# SPDX-License-Identifier: Apache-2.0
"""A sample is read as a value of the time at which its file was read, or not at all."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pyarrow as pa
import pytest

from pagetape.asking.database import Database
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

# A load that takes and frees memory, so that free pages change all the time.
_LOAD = """
import time
end = time.monotonic() + 4
while time.monotonic() < end:
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
"""


def ask(tape: Path, sql: str) -> list[tuple[Any, ...]]:
    with Database([Tape(tape)]) as db:
        return db.ask(sql, {}).rows


@pytest.fixture
def old(golden: Path, tmp_path: Path) -> Path:
    """The golden tape as a recorder wrote it that stamped a sample once: without `began`."""
    tape = Tape(golden)
    path = tmp_path / "old.tape"
    with Writer(path, tape.facts) as writer:
        for name in sorted(tape.tables - {"sample_gap"}):
            for batch in tape.batches(name):
                if "began" in batch.schema.names:
                    nulls = pa.nulls(batch.num_rows, pa.uint64())
                    place = batch.schema.get_field_index("began")
                    batch = batch.set_column(place, batch.schema.field(place), nulls)
                writer.write(name, batch)
    return path


@pytest.mark.parametrize("report", ["samples.rates", "samples.accuracy", "frag.over_time"])
def test_a_report_says_that_an_old_sample_has_no_time(
    report: str, old: Path, golden: Path, pagetape: Run
) -> None:
    assert pagetape("report", report, golden, "--json").json["rows"]
    said = pagetape("report", report, old)
    assert (
        f"{report} needs samples of /proc in which each file has its own time"
        in said.out + said.err
    )


def test_no_other_report_takes_an_old_sample_as_an_instant(old: Path, golden: Path) -> None:
    counts = (
        "SELECT count(*) FROM zone_free WHERE reading",
        "SELECT count(*) FROM frag_index WHERE snapshot IS NULL",
        "SELECT count(*) FROM vmstat_reading",
    )
    for sql in counts:
        ((new,),), ((without,),) = ask(golden, sql), ask(old, sql)
        assert new > without, sql


def test_a_rate_comes_from_the_times_of_its_own_file(tmp_path: Path, pagetape: Run) -> None:
    """The zones were read 5 s before the counters: that changes no rate."""
    second = 10**9
    rows = []
    for at, faults in ((10, 0), (11, 500), (13, 2500)):
        ts = at * second
        machine = {"node": None, "zone": None, "at": 0}
        rows += [
            {"ts": ts - 5 * second, "began": ts - 6 * second, "at": 0, "name": "free", "node": 0,
             "zone": "NORMAL", "value": at},
            {"ts": ts, "began": ts - 1000, "name": "pgfault", "value": faults} | machine,
        ]  # fmt: skip
        # Up to 4.7 by zone.
        for zone, share in (("dma32", 1), ("normal", 2)):
            scanned = {"name": f"pgscan_kswapd_{zone}", "value": share * faults}
            rows.append({"ts": ts, "began": ts - 1000} | machine | scanned)
    path = tmp_path / "t.tape"
    with Writer(path, {"clock": "mono"}) as tape:
        tape.rows("event", [{"ts": second, "cpu": 0, "pid": 1, "kind": "free", "flags": 0}])
        tape.rows("sample", sorted(rows, key=lambda row: row["ts"]))
    found = pagetape("report", "samples.rates", path, "--json").json["rows"]
    shown = ("at_s", "over_s", "faults", "scanned_kswapd")
    assert [tuple(row[name] for name in shown) for row in found] == [
        (10.0, 1.0, 500.0, 1500.0),
        (12.0, 2.0, 1000.0, 3000.0),
    ]


def test_free_memory_at_a_failure_is_counted_from_the_events(golden: Path, pagetape: Run) -> None:
    rows = pagetape("report", "alloc.failures", golden, "--json").json["rows"]
    (failed,) = [row for row in rows if row["failed"]]
    counted = (
        "SELECT sum(free_pages) FROM (SELECT arg_max(free_pages, ts) AS free_pages FROM zone_free"
        f" WHERE ts <= (SELECT start_ts FROM machine) + {round(failed['first_at_s'] * 1e9)}"
        " GROUP BY node, zone)"
    )
    assert (failed["free_pages"], failed["near_s"]) == (ask(golden, counted)[0][0], 0)
    assert failed["error_pages"] > 0


def reported_pages() -> int:
    """Pages that free page reporting of this machine may have off the free lists at an instant.

    No event shows them (mm/page_reporting.c, 5.7 to 7.3: at most 32 blocks of up to order 10).
    """
    return 32 << 10 if Path("/sys/module/page_reporting").exists() else 0


@livetest.recording
def test_samples_agree_with_the_events_of_a_recording(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    load = (sys.executable, "-c", _LOAD)
    assert pagetape("record", "-o", out, "--sample", "100ms", "--", *load).status == 0
    rows = pagetape("report", "samples.accuracy", out, "--json").json["rows"]
    gaps = ask(out, "SELECT coalesce(sum(samples), 0) FROM sample_gap")[0][0]
    assert len(rows) + gaps >= 30
    wrong = [r for r in rows if not r["agrees"] and abs(r["difference_pages"]) > reported_pages()]
    assert len(wrong) <= 0.01 * len(rows) + 1, wrong
    out.unlink()


@pytest.mark.parametrize("seen", [False, True])
def test_targets_without_an_event_take_pages_of_the_count(seen: bool, tmp_path: Path) -> None:
    """On kernels whose fast search for targets has no event; on others all targets have one."""
    base = {"cpu": 0, "pid": 1, "flags": 0, "at": 0}
    rows = [
        {"kind": "begin", "start_pfn": 0, "end_pfn": 4096},
        {"kind": "migratepages", "nr_migrated": 32, "nr_failed": 0},  # 32 unseen
        {"kind": "isolate_freepages", "start_pfn": 512, "end_pfn": 1024, "nr_taken": 48},
        {"kind": "migratepages", "nr_migrated": 40, "nr_failed": 0},  # 8 are left
        {"kind": "migratepages", "nr_migrated": 20, "nr_failed": 0},  # 12 unseen
        {"kind": "begin", "start_pfn": 0, "end_pfn": 4096},
        {"kind": "migratepages", "nr_migrated": 5, "nr_failed": 0},  # 5 unseen
    ]
    path = tmp_path / "t.tape"
    with Writer(path, {"kernel": "6.1.100-test", "pageblock_order": 9}) as tape:
        zone = {**dict.fromkeys(TABLES["zone"].arrow.names, 0), "zone": "NORMAL", "managed": 4096}
        taken = 48 if seen else 32 + 48 + 12 + 5
        for number, free in enumerate((1000, 1000 - taken)):
            state = {"snapshot": number, "ts": 10 + 80 * number, "free": free, "spanned": 4096}
            tape.rows("zone", [zone | state])
        tape.rows("event", [{"ts": 20, "cpu": 0, "pid": 1, "kind": "free", "flags": 0}])
        tape.rows("compaction", [base | row | {"ts": 30 + i} for i, row in enumerate(rows)])
        if seen:
            name = "mm_compaction_fast_isolate_freepages"
            tape.rows("tracepoint", [{"name": name, "system": "compaction", "events": 0}])
    assert ask(path, "SELECT DISTINCT error_pages FROM zone_free WHERE ts < 90") == [(0,)]


def test_fallbacks_and_compaction_take_pages_of_the_count(tmp_path: Path) -> None:
    """By the events of 6.12, whose fallback takes a page without mm_page_alloc_zone_locked."""
    zone = {
        **dict.fromkeys(TABLES["zone"].arrow.names),
        **{name: 0 for name in TABLES["zone"].arrow.names if name.startswith("lowmem_reserve_")},
    } | {
        "node": 0, "zone": "NORMAL", "start_pfn": 0, "spanned": 4096, "present": 4096,
        "managed": 4096, "wmark_min": 1, "wmark_low": 2, "wmark_high": 3,
    }  # fmt: skip
    events = [
        ("alloc_zone_locked", 7, 0),  # -1
        ("alloc_extfrag", 8, 2),  # alone: -4
        ("alloc_zone_locked", 64, 1),  # -2
        ("alloc_extfrag", 64, 1),  # of the page before
        ("pcpu_drain", 7, 0),  # +1
        ("alloc", 128, 4),  # captured: -16
        ("alloc_zone_locked", 256, 4),  # -16
        ("alloc", 256, 4),  # the page before
        ("alloc", 1024, 9),  # may have been on a per-CPU list: the start shows no lists
        ("pcpu_drain", 1024, 9),  # +512
        ("alloc", 1024, 9),  # captured: -512
    ]
    base = {"cpu": 0, "pid": 1, "flags": 0}
    isolated = {"kind": "isolate_freepages", "start_pfn": 512, "end_pfn": 1024, "nr_taken": 32}
    path = tmp_path / "t.tape"
    with Writer(path, {"kernel": "6.12.30-test", "pageblock_order": 9}) as tape:
        tape.rows("zone", [zone | {"snapshot": 0, "ts": 10, "free": 1000}])
        tape.rows(
            "zone", [zone | {"snapshot": 1, "ts": 90, "free": 1000 - 1 - 4 - 2 + 1 - 32 - 32}]
        )
        rows = [
            base | {"ts": 20 + i, "kind": kind, "pfn": pfn, "page_order": order}
            for i, (kind, pfn, order) in enumerate(events)
        ]
        tape.rows("event", rows)
        tape.rows("compaction", [base | isolated | {"ts": 30, "at": 5}])
    assert ask(path, "SELECT DISTINCT error_pages FROM zone_free WHERE ts < 90") == [(0,)]
