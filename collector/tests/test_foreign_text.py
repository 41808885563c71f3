# SPDX-License-Identifier: Apache-2.0
"""Texts of traces: the same rows as from the trace.dat that they are printed from."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matrix
import pytest

from conftest import DATA, Rows, read_all
from pagetape._collector import CollectorError
from pagetape.dat_file import DatFile
from pagetape.foreign_file import ForeignFile
from pagetape.recording.stacks import Symbols
from pagetape.schemas import GFP_BITS

MIGRATETYPES = ["UNMOVABLE", "MOVABLE", "RECLAIMABLE", "HIGHATOMIC", "ISOLATE"]
TABLES = ("event", "reclaim", "compaction")
RECORDINGS = {"linux-6.12.dat": "6.12", "linux-6.1-zstd.dat": "6.1", "linux-6.18-lost.dat": "6.18"}

needs_trace_cmd = pytest.mark.skipif(not shutil.which("trace-cmd"), reason="needs trace-cmd")

ALLOC = "mm_page_alloc: page=00000000ea63dfde pfn=0x5e4454 order=1 migratetype=1 gfp_flags="


def read(tmp_path: Path, text: str, kernel: str | None = None) -> tuple[Rows, ForeignFile]:
    path = tmp_path / "text"
    path.write_text(text)
    source = ForeignFile(str(path), MIGRATETYPES, kernel)
    return read_all(source), source


def flags(row: dict[str, Any]) -> set[str]:
    return {name for bit, name in enumerate(GFP_BITS) if row["gfp_flags"] >> bit & 1}


def report(name: str, *options: str) -> str:
    words = ["trace-cmd", "report", "-t", *options, str(DATA / name)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def without_flags(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"flags": 0} for row in rows]


@needs_trace_cmd
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("latency", [False, True])
def test_a_report_of_trace_cmd_has_the_rows_of_its_trace_dat(
    name: str, latency: bool, tmp_path: Path
) -> None:
    dat = DatFile(str(DATA / name), MIGRATETYPES)
    expected = read_all(dat)
    found, text = read(tmp_path, report(name, *["-l"] * latency), RECORDINGS[name])
    for table in TABLES:
        if latency:
            assert found[table] == expected[table]
        else:  # the layout has no flags
            assert found[table] == without_flags(expected[table])
    assert text.lost() == dat.lost()
    counts = Counter({row["name"]: row["events"] for row in dat.tracepoints()})
    assert Counter({row["name"]: row["events"] for row in text.tracepoints()}) == counts
    assert text.found.kind == "trace-cmd report" and text.found.counts_loss
    assert text.bad_records == 0


def of_ftrace(row: str, ts: int, cpu: int, task: str) -> str:
    return f"{task:>24} [{cpu:03}] d.h2. {ts // 10**9:5}.{ts // 1000 % 10**6:06}: {row}"


def of_ftrace_with_tgid(row: str, ts: int, cpu: int, task: str) -> str:
    task = f"{task:>24}   (  24665)"
    return of_ftrace(row, ts, cpu, task)


def of_latency(row: str, ts: int, cpu: int, task: str) -> str:
    return f"{task:>24} {cpu:3}d.h2. {ts // 1000:4}us+: {row}"


def of_instance(row: str, ts: int, cpu: int, task: str) -> str:
    return f"imptest:  {of_ftrace(row, ts, cpu, task)}"


def of_perf(row: str, ts: int, cpu: int, task: str) -> str:
    comm, _, pid = task.rpartition("-")
    head = f"{comm:>16} {pid:>5} [{cpu:03}]"
    return f"{head} {ts // 10**9:5}.{ts // 1000 % 10**6:06}:          kmem:{row}"


def of_perf_with_more(row: str, ts: int, cpu: int, task: str) -> str:
    comm, _, pid = task.rpartition("-")
    head = f"{comm:>16} {pid:>5}/{pid:<5} [{cpu:03}]"
    return f"{head} {ts // 10**9:5}.{ts % 10**9:09}:          1 kmem:{row}"


def of_dump(row: str, ts: int, cpu: int, task: str) -> str:
    return f"[ 5001.123456] {of_latency(row, ts, cpu, task)}"


def of_terminal(row: str, ts: int, cpu: int, task: str) -> str:
    return f"[2026-11-21 06:15:00.123] {of_ftrace(row, ts, cpu, task)}"


def of_differences(row: str, ts: int, cpu: int, task: str) -> str:
    return of_ftrace(f"(+50)  {row}", ts, cpu, task)


def of_graph_perf(row: str, ts: int, cpu: int, task: str) -> str:  # without flags, as perf script
    head = f" {ts // 10**9}.{ts // 1000 % 10**6:06} |  {cpu:2}) {task:>16}   |"
    return f"{head}               |  /* {row} */"


LAYOUTS = [
    of_ftrace, of_ftrace_with_tgid, of_latency, of_instance, of_perf, of_perf_with_more,
    of_dump, of_terminal, of_differences, of_graph_perf,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("task", ["cc1-5972", "kworker/0:1H-12", "a [b] c-7", "x 1 y-8"])
def test_each_layout_of_a_line(layout: Callable[..., str], task: str, tmp_path: Path) -> None:
    lines = [
        layout(f"{ALLOC}GFP_KERNEL|__GFP_COMP", 3_000_001_000, 1, task),
        layout("mm_page_free: page=000000006f0c760f pfn=1202 order=0", 3_000_002_000, 0, task),
    ]
    rows, source = read(tmp_path, "\n".join(lines) + "\n")
    alloc, free = rows["event"]
    assert (alloc["ts"], alloc["cpu"], alloc["pfn"]) == (3_000_001_000, 1, 0x5E4454)
    assert (alloc["page_order"], alloc["migratetype"]) == (1, "MOVABLE")
    assert flags(alloc) == {"DIRECT_RECLAIM", "KSWAPD_RECLAIM", "IO", "FS", "COMP"}
    assert (free["kind"], free["pfn"], free["cpu"]) == ("free", 1202, 0)
    comm, _, pid = task.rpartition("-")
    assert {alloc["pid"], free["pid"]} == {int(pid)}
    assert [row["comm"] for row in source.tasks()] == [comm]
    assert (alloc["flags"] != 0) == ("perf" not in layout.__name__)
    assert source.bad_records == 0


@pytest.mark.parametrize(
    ("head", "cpu", "pid", "comm"),
    [
        ("ls  3879 ", 0, 3879, "ls"),
        ("[001] ", 1, 0, None),
        ("", 0, 0, None),
        ("a b 3879 [002] ", 2, 3879, "a b"),
        ("             :-1      -1 [002] ", 2, -1, None),
        ("             :-1      -1/-1 ", 0, -1, None),
    ],
)
def test_a_perf_script_of_few_columns(
    head: str, cpu: int, pid: int, comm: str | None, tmp_path: Path
) -> None:
    line = f"{head}37708.007430:    kmem:mm_page_free: page=0x56e735 pfn=0x56e735 order=2\n"
    rows, source = read(tmp_path, f"# os release : 6.1.0-13-amd64\n{line}")
    (row,) = rows["event"]
    assert (row["cpu"], row["pid"], row["pfn"], row["page_order"]) == (cpu, pid, 0x56E735, 2)
    assert (source.found.without_cpu, source.found.without_pid) == ("[" not in head, not pid)
    assert (source.found.kind, source.found.kernel) == ("perf script", "6.1.0-13-amd64")
    if comm:
        assert [task["comm"] for task in source.tasks()] == [comm]


def test_parts_out_of_order_are_merged(tmp_path: Path) -> None:
    line = "mm_page_free: page=0000000000000001 pfn=0x{:x} order=0"
    parts = [
        [of_ftrace(line.format(n), ts, cpu, "a-1") for n, ts in enumerate(range(cpu, 90_000, 7000))]
        for cpu in range(3)
    ]
    text = "\n".join(line for part in parts for line in part) + "\n"
    rows, _ = read(tmp_path, text)
    times = [(row["ts"], row["cpu"]) for row in rows["event"]]
    assert times == sorted(times) and len(times) == 39


def test_lost_events_and_the_count_of_the_header(tmp_path: Path) -> None:
    line = "mm_page_free: page=0000000000000001 pfn=0x12 order=0"
    lines = [
        "# tracer: nop",
        "# entries-in-buffer/entries-written: 2/12   #P:2",
        of_ftrace(line, 5_000_000, 1, "a-1"),
        "CPU:1 [LOST 7 EVENTS]",
        of_ftrace(line, 6_000_000, 1, "a-1"),
        "         CPU:1 [EVENTS DROPPED]",
    ]
    _, source = read(tmp_path, "\n".join(lines) + "\n")
    assert source.lost() == [
        {"cpu": 1, "from_ts": None, "to_ts": 5_000_000, "events": 10},
        {"cpu": 1, "from_ts": 5_000_000, "to_ts": 6_000_000, "events": 7},
        {"cpu": 1, "from_ts": 6_000_000, "to_ts": None, "events": None},
    ]
    assert source.found.counts_loss and source.found.overwritten == 10


def test_damaged_lines_cost_themselves_only(tmp_path: Path) -> None:
    good = of_ftrace("mm_page_free: page=0000000000000001 pfn=0x12 order=0", 5_000_000, 1, "a-1")
    lines = [
        good,
        good[:60],  # ends in the time
        of_ftrace("", 5_000_000, 1, "a-1"),
        of_ftrace("mm_page_free: page=1 pfn=zz order=0", 5_000_000, 1, "a-1"),
        of_ftrace("mm_page_free: pfn=0x5 order=99999999999999999999", 5_000_000, 1, "a-1"),
        of_ftrace("mm_page_free: pfn=0x5 order=0", 5_000_000, 99999, "a-1"),
        "\0\1\2 garbage",
        good.replace("\n", "") + "\r",
        good[:-3],  # the end of the file, without a newline
    ]
    rows, source = read(tmp_path, "\n".join(lines))
    assert [row["pfn"] for row in rows["event"]] == [0x12, 0x12]
    stored = {row["stored"]: row["events"] for row in source.tracepoints()}
    assert stored["event"] == 2
    assert source.bad_records >= 2


def test_a_text_without_an_event(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="a text without an event of a trace"):
        read(tmp_path, "# tracer: nop\n#\nhello\n")


@pytest.mark.parametrize(
    ("kernel", "printed", "names"),
    [
        ("6.1.0", "GFP_ATOMIC", {"HIGH", "ATOMIC", "KSWAPD_RECLAIM"}),
        ("6.12.3", "GFP_ATOMIC", {"HIGH", "KSWAPD_RECLAIM"}),
        ("6.12.3", "GFP_NOWAIT|__GFP_COMP", {"KSWAPD_RECLAIM", "NOWARN", "COMP"}),
        ("6.1.0", "GFP_NOWAIT", {"KSWAPD_RECLAIM"}),
        ("4.3.0", "GFP_NOFS", {"DIRECT_RECLAIM", "IO"}),
        ("6.12.3", "0x440", {"IO", "DIRECT_RECLAIM"}),
        ("4.19.1", "GFP_NOIO|0x200", {"DIRECT_RECLAIM", "KSWAPD_RECLAIM", "NOWARN"}),
        ("6.12.3", "none", set()),
    ],
)
def test_names_of_gfp_flags_by_release(
    kernel: str, printed: str, names: set[str], tmp_path: Path
) -> None:
    text = of_ftrace(ALLOC + printed, 1000, 0, "a-1") + "\n"
    rows, source = read(tmp_path, text, kernel)
    assert flags(rows["event"][0]) == names
    assert source.found.unknown_flag is None


def test_an_unknown_flag_is_named(tmp_path: Path) -> None:
    text = of_ftrace(f"{ALLOC}GFP_KERNEL|__GFP_NEWEST", 1000, 0, "a-1") + "\n"
    _, source = read(tmp_path, text)
    assert source.found.unknown_flag == "__GFP_NEWEST"


def test_a_failed_allocation_has_no_page(tmp_path: Path) -> None:
    line = "mm_page_alloc: page={} pfn=0x0 order=9 migratetype=1 gfp_flags=GFP_KERNEL"
    nulls = ["(null)", "0000000000000000", "(nil)", "0x0"]
    lines = [of_ftrace(line.format(null), 1000, 0, "a-1") for null in [*nulls, "00000000ea63dfde"]]
    rows, _ = read(tmp_path, "\n".join(lines) + "\n")
    assert [row["pfn"] for row in rows["event"]] == [None] * 4 + [0]


def test_tracepoints_that_print_words(tmp_path: Path) -> None:
    lines = [
        "mm_shrink_slab_start: super_cache_scan+0x0/0x1a0 0000000012345678: nid: 1 objects to"
        " shrink 12 gfp_flags GFP_KERNEL cache items 1234 delta 1 total_scan 10 priority 12",
        "mm_shrink_slab_end: super_cache_scan+0x0/0x1a0 0000000012345678: nid: 1 unused scan count"
        " 5 new scan count 6 total_scan 9 last shrinker return val 3",
        "mm_compaction_isolate_freepages: range=(0x100 ~ 0x180) nr_scanned=128 nr_taken=64",
        "mm_setup_per_zone_lowmem_reserve: node_id=0 zone name=DMA32 upper_zone name=Normal"
        " lowmem_reserve_pages=4711",
        "mm_vmscan_throttled: nid=0 usec_timeout=20000 usect_delayed=1000"
        " reason=VMSCAN_THROTTLE_NOPROGRESS",
        "workqueue_execute_start: work struct 00000000a7d1b3b1: function vmstat_update",
        "workqueue_execute_start: work struct 00000000a7d1b3b1: function vmstat_update_soon",
    ]
    text = "\n".join(of_ftrace(line, 1000, 0, "a-1") for line in lines) + "\n"
    rows, _ = read(tmp_path, text)
    start, end, reserve, throttled, tick = rows["reclaim"]
    assert (start["node"], start["nr_requested"], start["nr_scanned"]) == (1, 12, 10)
    assert (start["priority"], start["gfp_flags"] != 0) == (12, True)
    assert (end["node"], end["nr_scanned"], end["nr_reclaimed"]) == (1, 9, 3)
    assert (reserve["zone"], reserve["upper_zone"]) == ("DMA32", "NORMAL")
    assert reserve["lowmem_reserve"] == 4711
    assert (throttled["usec_delayed"], throttled["reason"]) == (1000, 4)
    assert tick["kind"] == "vmstat_update"
    (isolate,) = rows["compaction"]
    assert (isolate["start_pfn"], isolate["end_pfn"], isolate["nr_taken"]) == (0x100, 0x180, 64)


# Stacks

OF_PERF = """\
bash  24665 [001]     1.000001: kmem:mm_page_alloc: page=0x1 pfn=0x1 order=0 migratetype=0 \
gfp_flags=GFP_KERNEL
\tffffffff8128b2e4 __alloc_pages+0x144 ([kernel.kallsyms])
\tffffffffc0a01000 e1000_clean+0x20 ([e1000])
\tffffffff81299999 [unknown] ([kernel.kallsyms])
\t    7f0000001000 malloc+0x10 (/usr/lib/libc.so.6)

bash  24665 [001]     1.000002: kmem:mm_page_free: page=0x1 pfn=0x1 order=0
\t    7f0000001000 free+0x10 (/usr/lib/libc.so.6)

bash  24665 [001]     1.000003: kmem:mm_page_alloc: page=0x2 pfn=0x2 order=0 migratetype=0 \
gfp_flags=GFP_KERNEL
\tffffffff8128b2e4 __alloc_pages+0x144 ([kernel.kallsyms])
\tffffffffc0a01000 e1000_clean+0x20 ([e1000])
\tffffffff81299999 [unknown] ([kernel.kallsyms])

"""
OF_FTRACE = """\
# tracer: nop
#
            bash-24665   [001] .....     1.000001: mm_page_alloc: page=1 pfn=0x1 order=0 \
migratetype=0 gfp_flags=GFP_KERNEL
            bash-24665   [001] .....     1.000001: <stack trace>
 => __alloc_pages+0x144/0x300
 => e1000_clean+0x20/0x40 [e1000]
          python-7       [000] .....     1.000002: mm_page_alloc: page=3 pfn=0x3 order=0 \
migratetype=0 gfp_flags=GFP_KERNEL
            bash-24665   [001] .....     1.000003: mm_page_alloc: page=2 pfn=0x2 order=0 \
migratetype=0 gfp_flags=GFP_KERNEL
          python-7       [000] .....     1.000004: <stack trace>
 => __alloc_pages
          python-7       [000] .....     1.000004: <user stack trace>
 =>  <00007f0000001000>
            bash-24665   [001] .....     1.000005: <stack trace>
 => __alloc_pages+0x144/0x300
 => e1000_clean+0x20/0x40 [e1000]
"""
OF_TRACE_CMD = """\
cpus=2
            bash-24665 [001]     1.000001: mm_page_alloc:        page=1 pfn=0x1 order=0 \
migratetype=0 gfp_flags=GFP_KERNEL
            bash-24665 [001]     1.000001: kernel_stack:         <stack trace >
=> __alloc_pages (ffffffff8128b2e4)
=> e1000_clean (ffffffffc0a01000)
"""


def stacks_of(rows: Rows, source: ForeignFile) -> list[tuple[int, int, list[str]]]:
    """Pfn of the event, thread, and the functions of each stack."""
    symbols = Symbols(source.kallsyms)
    pfns = {(row["ts"], row["cpu"], row["pid"]): row["pfn"] for row in rows["event"]}
    found = []
    for row in rows["stack"]:
        places = [symbols.find(address) for address in source.stack(row["stack"])]
        names = [f"{one.function}+{one.offset} {one.module}" if one else "?" for one in places]
        found.append((pfns[row["event_ts"], row["cpu"], row["pid"]], row["pid"], names))
    return found


def test_stacks_of_perf_script(tmp_path: Path) -> None:
    rows, source = read(tmp_path, OF_PERF)
    names = ["__alloc_pages+324 None", "e1000_clean+32 e1000", "?"]
    assert stacks_of(rows, source) == [(1, 24665, names), (2, 24665, names)]
    assert len({row["stack"] for row in rows["stack"]}) == 1
    assert source.stack(0)[2] == 0xFFFFFFFF81299999, "an address without a name stays"
    assert (source.bad_records, len(rows["event"])) == (0, 3)


def test_stacks_of_ftrace_belong_to_the_event_before_on_their_cpu(tmp_path: Path) -> None:
    rows, source = read(tmp_path, OF_FTRACE)
    whole = ["__alloc_pages+324 None", "e1000_clean+32 e1000"]
    assert stacks_of(rows, source) == [
        (1, 24665, whole),
        (3, 7, ["__alloc_pages+1 None"]),
        (2, 24665, whole),
    ]
    assert len(rows["event"]) == 3


def test_stacks_of_trace_cmd_report(tmp_path: Path) -> None:
    rows, source = read(tmp_path, OF_TRACE_CMD)
    assert stacks_of(rows, source) == [(1, 24665, ["__alloc_pages+1 None", "e1000_clean+1 None"])]


@pytest.mark.parametrize("text", [OF_PERF, OF_FTRACE, OF_TRACE_CMD])
def test_a_text_with_stacks_may_end_anywhere(text: str, tmp_path: Path) -> None:
    whole, _ = read(tmp_path, text)
    for end in range(text.index("\n", 200), len(text), matrix.number(29, 7)):
        try:
            rows, _ = read(tmp_path, text[:end])
        except CollectorError:
            continue
        assert rows["event"] == whole["event"][: len(rows["event"])]
        assert len(rows["stack"]) <= len(whole["stack"])
