# SPDX-License-Identifier: Apache-2.0
"""trace.dat files: real files against trace-cmd, generated files against their input."""

import itertools
import mmap
import os
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matrix
import pyarrow as pa
import pytest
from tracedat import CPUSTAT, OFFSET, TSC2NSEC, UNAME, Format, Lost, Machine, TraceDat, ring

from conftest import DATA, RECORDINGS, Rows, read_all
from pagetape._collector import CollectorError
from pagetape.dat_file import DatFile
from pagetape.schemas import GFP_BITS, TABLES

MIGRATETYPES = ["UNMOVABLE", "MOVABLE", "RECLAIMABLE", "HIGHATOMIC", "ISOLATE"]

needs_trace_cmd = pytest.mark.skipif(not shutil.which("trace-cmd"), reason="needs trace-cmd")


def free_format(machine: Machine) -> Format:
    size = machine.long_size
    fields = [("unsigned long pfn", size, False), ("unsigned int order", 4, False)]
    return Format("kmem", "mm_page_free", 10, fields)


def alloc_format(machine: Machine) -> Format:
    size = machine.long_size
    return Format(
        "kmem",
        "mm_page_alloc",
        11,
        [
            ("unsigned long pfn", size, False),
            ("unsigned int order", 4, False),
            ("unsigned long gfp_flags", size, False),
            ("int migratetype", 4, True),
        ],
        '"%s", __print_flags(REC->gfp_flags, "|", {0x40u, "__GFP_IO"}, {0x80u, "__GFP_FS"})',
    )


def frees(machine: Machine, times: list[int], pid: int = 1) -> list[tuple[int, bytes]]:
    """One free of pfn n at each n-th time."""
    free = free_format(machine)
    return [(ts, free.record(machine, pfn, 0, pid=pid)) for pfn, ts in enumerate(times)]


def merged(rows: Rows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of all tables in their one order, with the tracepoint's name."""
    others = sorted(
        [*rows["reclaim"], *rows["compaction"]], key=lambda row: (row["at"], row["ts"], row["cpu"])
    )
    queue = iter([*others, None])
    other = next(queue)
    for n, row in enumerate([*rows["event"], None]):
        while other is not None and other["at"] == n:
            table = "reclaim" if "victim_pid" in other else "compaction"
            yield table, other
            other = next(queue)
        if row is not None:
            yield "event", row


def trace_cmd(path: Path) -> Iterator[tuple[int, int, int, str, dict[str, str]]]:
    """(ts, cpu, pid, tracepoint, fields) of each record, as trace-cmd reads them."""
    text = subprocess.run(
        ["trace-cmd", "report", "-R", "-t", path], capture_output=True, text=True, check=True
    ).stdout
    for line in text.splitlines():
        match = re.match(r".*-(\d+) +\[(\d+)\] +(\d+)\.(\d{9}): (\w+): +(.*)", line)
        if match:
            pid, cpu, s, ns, name, fields = match.groups()
            pairs = re.findall(r"(\w+)=(\S+)", fields)
            yield int(s) * 10**9 + int(ns), int(cpu), int(pid), name, dict(pairs)


@pytest.mark.parametrize(("name", "matched"), [("linux-6.1", 16), ("linux-6.12", 200)])
def test_a_stack_belongs_to_the_event_before_it(name: str, matched: int) -> None:
    dat = DatFile(str(DATA / f"{name}-stacks.dat"), MIGRATETYPES)
    rows = read_all(dat)
    events = {(row["cpu"], row["ts"]): row for row in rows["event"]}
    assert len(rows["stack"]) == matched == len({row["event_ts"] for row in rows["stack"]})
    known = {int(line.split()[0], 16) for line in dat.kallsyms.splitlines()}
    assert known
    for row in rows["stack"]:
        event = events[row["cpu"], row["event_ts"]]
        assert (event["kind"], event["pid"]) == ("alloc_extfrag", row["pid"])
        assert row["ts"] - row["event_ts"] > 0
        frames = dat.stack(row["stack"])
        assert 8 < len(frames) < 40
        assert all(any(0 < at - start < 1 << 14 for start in known) for at in frames)
    with pytest.raises(IndexError):
        dat.stack(1000)
    dat.close()


def tracepoint_names(table: str, kind: str) -> set[str]:
    (found,) = [k for k in TABLES[table].kinds if k.name == kind]
    return {tracepoint.partition(":")[2] for tracepoint in found.tracepoints}


def check_page_event(row: dict[str, Any], fields: dict[str, str], gfp_bits: dict[str, int]) -> None:
    number = {name: int(value, 0) for name, value in fields.items()}
    pfn = number["pfn"]
    assert row["pfn"] == (None if pfn == 2**64 - 1 else pfn)
    assert row["page_order"] == number.get("order", number.get("alloc_order"))
    for column, *names in (
        ("migratetype", "migratetype", "alloc_migratetype"),
        ("fallback_migratetype", "fallback_migratetype"),
    ):
        value = next((number[name] for name in names if name in number), None)
        assert row[column] == (None if value is None else MIGRATETYPES[value])
    for column in ("percpu_refill", "fallback_order", "change_ownership"):
        assert row[column] == number.get(column)
    if "gfp_flags" in number:
        known = {
            name.split("GFP_")[1]
            for name, bit in gfp_bits.items()
            if number["gfp_flags"] >> bit & 1
        }
        assert {name for bit, name in enumerate(GFP_BITS) if row["gfp_flags"] >> bit & 1} == known
    else:
        assert row["gfp_flags"] is None


@needs_trace_cmd
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_row_equals_the_one_of_trace_cmd(path: Path) -> None:
    dat = DatFile(str(path), MIGRATETYPES)
    rows = merged(read_all(dat))
    # Of the first most is not vmstat_update; the second has a test of its own.
    ignored = {"workqueue_execute_start", "kernel_stack"}
    seen = [record for record in trace_cmd(path) if record[3] not in ignored]
    ours = [(table, row) for table, row in rows if row["kind"] != "vmstat_update"]
    assert len(ours) == len(seen)
    for (table, row), (ts, cpu, pid, name, fields) in zip(ours, seen, strict=True):
        assert (row["ts"], row["cpu"], row["pid"]) == (ts, cpu, pid)
        assert name in tracepoint_names(table, row["kind"])
        if table == "event":
            check_page_event(row, fields, dat.facts["gfp_bits"])
        elif "nid" in fields:
            assert row["node"] == int(fields["nid"], 0)
    assert dat.bad_records == 0


@needs_trace_cmd
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("version", [("6", "none"), ("7", "none"), ("7", "zstd")], ids="-".join)
def test_all_versions_of_a_file_read_the_same(
    path: Path, version: tuple[str, str], tmp_path: Path
) -> None:
    number, compression = version
    converted = tmp_path / "converted.dat"
    subprocess.run(
        ["trace-cmd", "convert", "-i", path, "-o", converted, "--file-version", number]
        + (["--compression", compression] if number == "7" else []),
        check=True,
        capture_output=True,
    )
    was, now = DatFile(str(path)), DatFile(str(converted))
    assert read_all(was) == read_all(now)
    assert was.lost() == now.lost()
    assert was.tracepoints() == now.tracepoints()


def test_the_sum_of_the_gaps_is_the_overrun() -> None:
    dat = DatFile(str(DATA / "linux-6.18-lost.dat"))
    rows = read_all(dat)
    lost = dat.lost()
    assert len(lost) == 7
    for ring_row in dat.rings():
        gaps = [gap for gap in lost if gap["cpu"] == ring_row["cpu"]]
        assert sum(gap["events"] for gap in gaps) == ring_row["overrun"]
        times = [row["ts"] for row in rows["event"] if row["cpu"] == ring_row["cpu"]]
        for gap in gaps:
            assert gap["to_ts"] in times
            assert not any((gap["from_ts"] or 0) < ts < gap["to_ts"] for ts in times)


def test_facts_tasks_and_tracepoints() -> None:
    dat = DatFile(str(DATA / "linux-6.18-lost.dat"))
    rows = read_all(dat)
    facts = dat.facts
    assert facts["kernel"].startswith("6.18.44")
    assert (facts["arch"], facts["clock"], facts["cpus"]) == ("x86_64", "mono", 2)
    assert (facts["page_size"], facts["instances"]) == (4096, [""])
    assert facts["gfp_bits"]["__GFP_KSWAPD_RECLAIM"] == 11
    counts = {row["name"]: row for row in dat.tracepoints()}
    assert counts["mm_page_free"]["events"] == sum(r["kind"] == "free" for r in rows["event"])
    assert counts["mm_page_free"]["stored"] == "event"
    assert counts["workqueue_execute_start"]["events"] == 13
    assert sum(row["kind"] == "vmstat_update" for row in rows["reclaim"]) < 13
    pids = {row["pid"] for row in itertools.chain(*rows.values())}
    assert pids == {task["pid"] for task in dat.tasks()}
    assert all(task["comm"] for task in dat.tasks())
    assert dat.progress == 1


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("long_size", [4, 8])
@pytest.mark.parametrize("version", [6, 7])
def test_any_byte_order_and_word_size(
    endian: str, long_size: int, version: int, dat_file: Callable[..., Path]
) -> None:
    machine = Machine(endian, long_size)
    alloc = alloc_format(machine)
    none = 2 ** (8 * long_size) - 1
    records = [
        (1000, alloc.record(machine, 0x1234, 3, 0xC0, 2, pid=77, flags=1, preempt=2)),
        (2**40, alloc.record(machine, none, 0, 0, 0)),
    ]
    rings = [b"", ring(machine, records)]
    path = dat_file(TraceDat(machine, [alloc], buffers={"": rings}), version)
    first, second = read_all(DatFile(str(path)))["event"]
    gfp = 1 << GFP_BITS.index("IO") | 1 << GFP_BITS.index("FS")
    assert {k: v for k, v in first.items() if v is not None} == {
        "ts": 1000,
        "cpu": 1,
        "pid": 77,
        "kind": "alloc",
        "flags": 0b100001,
        "pfn": 0x1234,
        "page_order": 3,
        "migratetype": "RECLAIMABLE",
        "gfp_flags": gfp,
    }
    assert (second["ts"], second["pfn"], second["migratetype"]) == (2**40, None, "UNMOVABLE")


@pytest.mark.parametrize("version", [6, 7])
def test_large_ring_pages_and_a_32_bit_trace_cmd(
    version: int, dat_file: Callable[..., Path]
) -> None:
    machine = Machine(page_size=65536)
    times = [1000 + 50 * n for n in range(20_000)]
    rings = [ring(machine, frees(machine, times))]
    dat = TraceDat(machine, [free_format(machine)], buffers={"": rings}, user_long=4)
    rows = read_all(DatFile(str(dat_file(dat, version))))["event"]
    assert [(row["pfn"], row["ts"]) for row in rows] == list(enumerate(times))


_LONG, _INT, _WORD = ("long", 8, True), ("int", 4, True), ("unsigned long", 8, False)


def _fields(**types: tuple[str, int, bool]) -> list[tuple[str, int, bool]]:
    return [(f"{kind} {name}", size, signed) for name, (kind, size, signed) in types.items()]


_MEMCG = ("u64", 8, False)
_FLAGS = '__print_flags(REC->gfp_flags, "|", {0x40u, "__GFP_IO"}, {0x80u, "__GFP_FS"})'
_IRQ = 'REC->ent.pid, REC->memcg_id, (REC->common_flags & 0x18) ? "(in-irq)" : ""'

# The vmscan events whose fields 7.1 reordered, each with the values of one record.
VMSCAN_6_18 = {
    "mm_vmscan_direct_reclaim_begin": (
        _fields(order=_INT, gfp_flags=_WORD),
        (3, 0x40),
        f'"%s", {_FLAGS}',
    ),
    "mm_vmscan_direct_reclaim_end": (
        _fields(nr_reclaimed=_WORD),
        (32,),
        '"%lu", REC->nr_reclaimed',
    ),
    "mm_shrink_slab_start": (
        _fields(shr=_WORD, shrink=_WORD, nid=_INT, nr_objects_to_shrink=_LONG, gfp_flags=_WORD)
        + _fields(cache_items=_WORD, delta=_WORD, total_scan=_WORD, priority=_INT),
        (1, 2, 1, 100, 0x80, 1000, 7, 128, 12),
        f'"%s", {_FLAGS}',
    ),
    "mm_shrink_slab_end": (
        _fields(shr=_WORD, nid=_INT, shrink=_WORD, unused_scan=_LONG, new_scan=_LONG)
        + _fields(retval=_INT, total_scan=_LONG),
        (1, 1, 2, 10, 20, 64, 128),
        '"%d", REC->retval',
    ),
}
VMSCAN_7_1 = {
    "mm_vmscan_direct_reclaim_begin": (
        _fields(gfp_flags=_WORD, memcg_id=_MEMCG, order=_INT),
        (0x40, 4711, 3),
        f'"%s %d %llu %s", {_FLAGS}, {_IRQ}',
    ),
    "mm_vmscan_direct_reclaim_end": (
        _fields(nr_reclaimed=_WORD, memcg_id=_MEMCG),
        (32, 4711),
        f'"%lu %d %llu %s", REC->nr_reclaimed, {_IRQ}',
    ),
    "mm_shrink_slab_start": (
        _fields(shr=_WORD, shrink=_WORD, nr_objects_to_shrink=_LONG, gfp_flags=_WORD)
        + _fields(cache_items=_WORD, delta=_WORD, total_scan=_WORD, priority=_INT, nid=_INT)
        + _fields(memcg_id=_MEMCG),
        (1, 2, 100, 0x80, 1000, 7, 128, 12, 1, 4711),
        f'"%s %d %llu %s", {_FLAGS}, {_IRQ}',
    ),
    "mm_shrink_slab_end": (
        _fields(shr=_WORD, shrink=_WORD, unused_scan=_LONG, new_scan=_LONG, total_scan=_LONG)
        + _fields(nid=_INT, retval=_INT, memcg_id=_MEMCG),
        (1, 2, 10, 20, 128, 1, 64, 4711),
        f'"%d %d %llu %s", REC->retval, {_IRQ}',
    ),
}
_ZONES = '__print_symbolic(REC->highest_zoneidx, {0, "DMA"}, {1, "DMA32"}, {2, "Normal"})'

# New in 7.0 and 7.2.
KSWAPD_7_2 = {
    "mm_vmscan_kswapd_reclaim_fail": (
        _fields(nid=_INT, failures=_INT),
        (1, 16),
        '"%d", REC->failures',
    ),
    "mm_vmscan_kswapd_clear_hopeless": (
        _fields(nid=_INT, reason=_INT),
        (1, 2),
        '"%s", __print_symbolic(REC->reason, {1, "KSWAPD"}, {2, "DIRECT"}, {0, "OTHER"})',
    ),
    "mm_vmscan_balance_pgdat_begin": (
        _fields(nid=_INT, order=_INT, highest_zoneidx=_INT),
        (1, 9, 2),
        f'"%s", {_ZONES}',
    ),
    "mm_vmscan_balance_pgdat_end": (
        _fields(nid=_INT, order=_INT, highest_zoneidx=_INT, nr_reclaimed=_WORD),
        (1, 0, 2, 640),
        f'"%s", {_ZONES}',
    ),
}


def vmscan_rows(events: dict[str, Any], dat_file: Callable[..., Path]) -> list[dict[str, Any]]:
    """What the table reclaim holds of one record of each event, without nulls."""
    machine = Machine()
    formats = [
        Format("vmscan", name, 20 + n, fields, print_fmt)
        for n, (name, (fields, _, print_fmt)) in enumerate(events.items())
    ]
    records = [
        (1000 + n, formats[n].record(machine, *values, pid=77))
        for n, (_, values, _) in enumerate(events.values())
    ]
    dat = DatFile(str(dat_file(TraceDat(machine, formats, buffers={"": [ring(machine, records)]}))))
    common = {"ts", "cpu", "pid", "flags", "at"}
    return [
        {name: value for name, value in row.items() if value is not None and name not in common}
        for row in read_all(dat)["reclaim"]
    ]


@pytest.mark.parametrize(
    ("events", "memcg"), [(VMSCAN_6_18, {}), (VMSCAN_7_1, {"memcg_id": 4711})], ids=["6.18", "7.1"]
)
def test_vmscan_events_of_both_layouts_read_the_same(
    events: dict[str, Any], memcg: dict[str, int], dat_file: Callable[..., Path]
) -> None:
    io, fs = (1 << GFP_BITS.index(name) for name in ("IO", "FS"))
    slab = {"node": 1, "nr_requested": 100, "nr_scanned": 128, "priority": 12, "gfp_flags": fs}
    assert vmscan_rows(events, dat_file) == [
        {"kind": "direct_reclaim_begin", "page_order": 3, "gfp_flags": io} | memcg,
        {"kind": "direct_reclaim_end", "nr_reclaimed": 32} | memcg,
        {"kind": "shrink_slab_start"} | slab | memcg,
        {"kind": "shrink_slab_end", "node": 1, "nr_scanned": 128, "nr_reclaimed": 64} | memcg,
    ]


def test_passes_and_failures_of_kswapd_become_rows(dat_file: Callable[..., Path]) -> None:
    place = {"node": 1, "zone": "NORMAL"}
    assert vmscan_rows(KSWAPD_7_2, dat_file) == [
        {"kind": "kswapd_reclaim_fail", "node": 1, "failures": 16},
        {"kind": "kswapd_clear_hopeless", "node": 1, "reason": 2},
        {"kind": "balance_pgdat_begin", "page_order": 9} | place,
        {"kind": "balance_pgdat_end", "page_order": 0, "nr_reclaimed": 640} | place,
    ]


@pytest.mark.parametrize("version", [6, 7])
def test_instances_merge_into_one_order(version: int, dat_file: Callable[..., Path]) -> None:
    machine = Machine()
    rng = random.Random(version)
    times = [sorted(rng.sample(range(100_000), 700)) for _ in range(6)]
    rings = [ring(machine, frees(machine, ts, pid)) for pid, ts in enumerate(times)]
    buffers = {"": rings[:2], "first": rings[2:4], "second": rings[4:]}
    stats = ["CPU: 1\noverrun: 3\n", "\nBuffer: second\n\n", "CPU: 1\ndropped events: 8\n"]
    options = [(CPUSTAT, text.encode() + b"\0") for text in stats]
    dat = DatFile(
        str(
            dat_file(
                TraceDat(machine, [free_format(machine)], buffers=buffers, options=options), version
            )
        )
    )
    rows = read_all(dat)["event"]
    # pid n is ring n: CPU n % 2 of instance n // 2
    expected = sorted((ts, n % 2, n // 2, pfn) for n in range(6) for pfn, ts in enumerate(times[n]))
    assert [(r["ts"], r["cpu"], r["pid"] // 2, r["pfn"]) for r in rows] == expected
    assert dat.facts["instances"] == ["", "first", "second"]
    found = {(r["instance"], r["cpu"]): r for r in dat.rings()}
    assert {key: row["read"] for key, row in found.items()} == {
        (name, cpu): 700 for name in buffers for cpu in (0, 1)
    }
    assert found["", 1]["overrun"] == 3
    assert found["second", 1]["dropped"] == 8
    assert found["second", 0]["dropped"] is None
    assert found["first", 0]["first_ts"] == times[2][0]
    assert found["first", 0]["last_ts"] == times[2][-1]


def test_gaps_have_all_known_columns(dat_file: Callable[..., Path]) -> None:
    machine = Machine()
    events = frees(machine, [100, 200, 300, 400])
    rings = [ring(machine, [Lost(7), *events[:2], Lost(), events[2], Lost(5), events[3]])]
    dat = DatFile(str(dat_file(TraceDat(machine, [free_format(machine)], buffers={"": rings}))))
    assert [row["ts"] for row in read_all(dat)["event"]] == [100, 200, 300, 400]
    assert dat.lost() == [
        {"cpu": 0, "from_ts": None, "to_ts": 100, "events": 7},
        {"cpu": 0, "from_ts": 200, "to_ts": 300, "events": None},
        {"cpu": 0, "from_ts": 300, "to_ts": 400, "events": 5},
    ]


@pytest.mark.parametrize("word", [0xFFFFFFFF, 0x40000800, 0])
def test_a_damaged_ring_page_is_a_gap(word: int, dat_file: Callable[..., Path]) -> None:
    """An entry within the page that is too long, or none: kbuffer would follow it."""
    machine = Machine()
    pages = bytearray(ring(machine, frees(machine, list(range(1000)))))
    second = 4096 + 16 + 24 * 20
    pages[second : second + 8] = machine.pack("II", 0, word)
    ok = DatFile(str(dat_file(TraceDat(machine, [free_format(machine)], buffers={"": [pages]}))))
    rows = read_all(ok)["event"]
    missing = set(range(1000)) - {row["pfn"] for row in rows}
    assert missing == set(range(min(missing), max(missing) + 1))
    assert ok.bad_records == 1
    assert ok.lost() == [
        {"cpu": 0, "from_ts": min(missing) - 1, "to_ts": max(missing) + 1, "events": None}
    ]


@pytest.mark.parametrize("version", [6, 7])
def test_pages_that_lead_libtracecmd_to_any_address_are_gaps(
    version: int, dat_file: Callable[..., Path]
) -> None:
    """The headers claim lost events, with their number up to 128 MiB behind the page."""
    machine = Machine()
    pages = bytearray(ring(machine, frees(machine, list(range(8000)))))
    damaged = range(2, 2 + 2 * 12, 2)
    for n, page in enumerate(damaged):
        commit = 3 << 30 | (((n + 1) * 10 << 20) - 1)
        pages[4096 * page + 8 : 4096 * page + 16] = machine.pack("Q", commit)
    whole = TraceDat(machine, [free_format(machine)], buffers={"": [b"", pages]})
    with mmap.mmap(-1, 1 << 30, prot=0):  # probably lies behind the pages of the file
        dat = DatFile(str(dat_file(whole, version)))
        rows = read_all(dat)["event"]
    assert dat.bad_records == len(damaged) == len(dat.lost())
    present = {row["pfn"] for row in rows}
    assert len(rows) == len(present)
    for gap in dat.lost():
        assert gap["cpu"] == 1
        assert not present & set(range(gap["from_ts"] + 1, gap["to_ts"]))
    assert sum(gap["to_ts"] - gap["from_ts"] - 1 for gap in dat.lost()) + len(present) == 8000


def die_at(dat: DatFile, cpu: int, offset: int) -> None:
    """End the process that reads the file, as if a page had led it astray."""
    assert dat._process
    pid = dat._process.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    dat._loading[:16] = struct.pack("iiQ", 0, cpu, offset)
    # After any other signal the thread that reads may run on for a moment, to another page.
    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    machine = Machine()
    path = tmp_path_factory.mktemp("long") / "long.dat"
    big = ring(machine, frees(machine, list(range(1_000_000))))
    path.write_bytes(TraceDat(machine, [free_format(machine)], buffers={"": [big]}).write(6))
    return path


def test_another_process_continues_without_the_page(long_file: Path) -> None:
    dat = DatFile(str(long_file))
    pfns = []

    def take() -> bool:
        if found := dat.read():
            pfns.extend(pa.record_batch(found[1])["pfn"].to_pylist())
        return bool(found)

    assert take() and take()
    last = long_file.stat().st_size - 4096
    for offset in (last - 8192, last - 40960):
        die_at(dat, 0, offset)
        assert take()
    while take():
        pass
    assert sorted(set(pfns)) == pfns
    assert dat.bad_records == 2 == len(dat.lost())
    missing = set(range(1_000_000)) - set(pfns)
    gaps = [set(range(gap["from_ts"] + 1, gap["to_ts"])) for gap in dat.lost()]
    assert missing == gaps[0] | gaps[1]
    assert dat.progress == 1


def test_a_page_that_ends_two_processes_ends_the_import(long_file: Path) -> None:
    dat = DatFile(str(long_file))
    said = f"{long_file}: damaged (libtracecmd: Killed)"
    assert dat.read()
    die_at(dat, 0, 1 << 40)
    assert dat.read()
    die_at(dat, 0, 1 << 40)
    with pytest.raises(CollectorError) as caught:
        dat.read()
    assert str(caught.value) == f"{said}, at CPU 0"
    with pytest.raises(ValueError, match="closed"):
        dat.tasks()
    dat = DatFile(str(long_file))
    die_at(dat, -1, 0)
    with pytest.raises(CollectorError) as caught:
        dat.read()
    assert str(caught.value) == said


def test_the_process_ends_with_its_file(long_file: Path) -> None:
    dat = DatFile(str(long_file))
    assert dat._process
    pid = dat._process.pid
    del dat
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    program = (
        "import sys; from pagetape.dat_file import DatFile; dat = DatFile(sys.argv[1]);"
        "print(dat._process.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, long_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        end = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        assert select.select([end], [], [], 60)[0]
        os.close(end)


@needs_trace_cmd
@pytest.mark.parametrize("version", [6, 7])
@pytest.mark.parametrize("convert", ["tsc", "offset"])
def test_timestamps_are_converted_as_trace_cmd_does(
    version: int, convert: str, dat_file: Callable[..., Path]
) -> None:
    machine = Machine()
    times = [10**10 + 12345 * n for n in range(1000)]
    mult = machine.pack("IIQ", 0x53E2D624, 31, 0)
    option = (TSC2NSEC, mult) if convert == "tsc" else (OFFSET, b"-9876543210\0")
    rings = [ring(machine, frees(machine, times)), ring(machine, frees(machine, times[::3]))]
    dat = TraceDat(machine, [free_format(machine)], buffers={"": rings}, options=[option])
    path = dat_file(dat, version)
    ours = [row["ts"] for row in read_all(DatFile(str(path)))["event"]]
    assert ours == [record[0] for record in trace_cmd(path)]
    assert ours[0] != times[0]


def test_the_name_of_the_machine(dat_file: Callable[..., Path]) -> None:
    machine = Machine()
    rings = [ring(machine, frees(machine, [1]))]
    dat = TraceDat(machine, [free_format(machine)], buffers={"": rings})
    assert DatFile(str(dat_file(dat))).facts["kernel"] is None
    dat.options = [(UNAME, b"Linux build7 5.10.0-9-arm64 aarch64\0")]
    facts = DatFile(str(dat_file(dat))).facts
    assert (facts["kernel"], facts["host"]) == ("5.10.0-9-arm64", "build7")
    assert facts["arch"] == "aarch64"


def test_a_trace_without_events_is_empty(dat_file: Callable[..., Path]) -> None:
    dat = DatFile(str(dat_file(TraceDat(formats=[free_format(Machine())]))))
    assert dat.read() is None
    assert (dat.lost(), dat.tasks(), dat.tracepoints()) == ([], [], [])


def test_a_reader_may_keep_all_batches_or_stop_early(dat_file: Callable[..., Path]) -> None:
    machine = Machine()
    big = ring(machine, frees(machine, list(range(150_000))))
    path = str(dat_file(TraceDat(machine, [free_format(machine)], buffers={"": [big] * 9})))
    dat = DatFile(path)
    batches = list(iter(dat.read, None))
    assert len(batches) == -(-1_350_000 // (1 << 17))
    dat.close()
    early = DatFile(path)
    assert early.read() is not None
    early.close()
    with pytest.raises(ValueError, match="closed"):
        early.read()


def refused(path: Path) -> str:
    with pytest.raises(CollectorError) as caught:
        DatFile(str(path))
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "PATH: empty"),
        (b"x", "PATH: not a trace.dat file"),
        (b"PERFILE2" * 100, "PATH: not a trace.dat file"),
        (b"\x17\x08Dtracing9\0" + bytes(100), "PATH: trace.dat version '9', not 6 or 7"),
        (b"\x17\x08Dtracing6\0" + bytes(100), "PATH: damaged or truncated"),
    ],
)
def test_foreign_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.dat"
    path.write_bytes(content)
    assert refused(path) == message


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.dat") == "PATH: No such file or directory"
    assert refused(tmp_path) == "PATH: not a regular file"


def test_a_format_without_a_pfn_matters_only_to_its_own_events(
    dat_file: Callable[..., Path],
) -> None:
    """Kernels before 4.1: a file lists all formats, also of events that it does not contain."""
    machine = Machine()
    old = Format("kmem", "mm_page_free", 10, [("struct page * page", 8, False)])
    alloc = alloc_format(machine)
    allocs = [(1000 + n, alloc.record(machine, n, 0, 0xC0, 1)) for n in range(5)]
    path = dat_file(TraceDat(machine, [old, alloc], buffers={"": [ring(machine, allocs)]}))
    dat = DatFile(str(path))
    assert len(read_all(dat)["event"]) == 5
    (row,) = dat.tracepoints()
    assert (row["name"], row["unreadable"]) == ("mm_page_alloc", None)
    frees = [(2000 + n, old.record(machine, n)) for n in range(3)]
    path = dat_file(TraceDat(machine, [old, alloc], buffers={"": [ring(machine, allocs + frees)]}))
    dat = DatFile(str(path))
    assert len(read_all(dat)["event"]) == 5
    rows = {row["name"]: row for row in dat.tracepoints()}
    assert rows["mm_page_free"] == {
        "name": "mm_page_free",
        "system": "kmem",
        "events": 3,
        "stored": None,
        "unreadable": "kmem:mm_page_free has no usable field 'pfn' (kernels before 4.1 have none)",
    }
    assert dat.bad_records == 0


def test_events_of_locks_are_counted_because_the_file_does_not_name_the_zones(
    dat_file: Callable[..., Path],
) -> None:
    machine = Machine()
    lock = Format("lock", "contention_begin", 99, [("void * lock_addr", 8, False)])
    alloc = alloc_format(machine)
    events = [
        (1000, alloc.record(machine, 0, 0, 0xC0, 1)),
        (1001, lock.record(machine, 0xFFFF88807FFDB900)),
    ]
    dat = DatFile(
        str(dat_file(TraceDat(machine, [alloc, lock], buffers={"": [ring(machine, events)]})))
    )
    assert len(read_all(dat)["event"]) == 1
    (row,) = (row for row in dat.tracepoints() if row["name"] == "contention_begin")
    assert (row["events"], row["stored"]) == (1, None)
    assert row["unreadable"] == "the addresses of the zones' locks are unknown"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_truncated_files_are_refused(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    cut = tmp_path / "cut.dat"
    for twentieth in matrix.some(range(20), 3):
        cut.write_bytes(whole[: len(whole) * twentieth // 20])
        assert re.match("PATH: (empty|not a trace.dat|damaged)", refused(cut))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_damaged_files_are_read_or_refused(path: Path, tmp_path: Path) -> None:
    """The process survives any result of libtracecmd."""
    whole = path.read_bytes()
    damaged = tmp_path / "damaged.dat"
    outcomes: Counter[str] = Counter()
    for seed in range(matrix.number(9, 25)):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.choice([1, 4, 32])):
            data[rng.randrange(rng.choice([100, 4000, len(data)]))] = rng.choice([0, 127, 128, 255])
        damaged.write_bytes(data)
        try:
            dat = DatFile(str(damaged))
            read_all(dat)
            assert dat.progress == 1
            outcomes["read"] += 1
        except CollectorError as e:
            assert "\n" not in str(e)
            outcomes["refused"] += 1
    assert len(outcomes) == 2
