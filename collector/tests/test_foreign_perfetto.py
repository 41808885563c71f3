# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces: generated ones against the trace.dat that their events come from."""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from perfettotrace import Event, PerfettoTrace, described, message, number, perfetto_events
from test_foreign_text import MIGRATETYPES, TABLES, needs_trace_cmd

from conftest import DATA, Rows, read_all
from pagetape._collector import CollectorError
from pagetape.dat_file import DatFile
from pagetape.foreign_file import ForeignFile

NUMBERS = {
    name: (at, {field: n for n, field in fields.items()})
    for (at, name), fields in perfetto_events().items()
}
FREE = "mm_page_free"


def read(path: Path, data: bytes, kernel: str | None = None) -> tuple[Rows, ForeignFile]:
    path.write_bytes(data)
    source = ForeignFile(str(path), MIGRATETYPES, kernel)
    return read_all(source), source


def frees(times: list[int], pid: int = 1) -> list[Event]:
    return [(ts, pid, 0, FREE, {"pfn": 4096 + n, "order": 0}) for n, ts in enumerate(times)]


def raw_events(path: Path) -> Iterator[tuple[int, Event]]:
    """(CPU, event) of each record of a trace.dat, by trace-cmd."""
    text = subprocess.run(
        ["trace-cmd", "report", "-R", "-t", "-l", path], capture_output=True, text=True, check=True
    ).stdout
    for line in text.splitlines():
        match = re.match(r".*-(\d+) +(\d)-0x(\w+) +(\d+)\.(\d{9}): (\w+): +(.*)", line)
        if match:
            pid, cpu, context, s, ns, name, printed = match.groups()
            flags = int(context, 16)
            fields = {
                key: int(value, 0)
                for key, value in re.findall(r"(\w+)=(-?\w+)", printed)
                if re.fullmatch(r"-?\d+|0x[0-9a-f]+", value)
            }
            yield int(cpu), (int(s) * 10**9 + int(ns), int(pid), flags, name, fields)


def bundled(events: list[tuple[int, Event]], trace: PerfettoTrace, *, as_generic: bool) -> None:
    """The rings are read in turns, some events of a CPU at a time."""
    rng, queues = random.Random(1), {cpu: [e for c, e in events if c == cpu] for cpu, _ in events}
    while any(queues.values()):
        for cpu, queue in queues.items():
            nr = rng.randrange(1, 200)
            trace.bundle(cpu, queue[:nr], as_generic=as_generic)
            del queue[:nr]


def without(rows: list[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in columns} for row in rows]


def clocks(**ns: int) -> bytes:
    """A ClockSnapshot."""
    numbers = {"wall": 1, "mono": 3, "mono_raw": 5, "boot": 6}
    each = [message(1, number(1, numbers[name]) + number(2, ts)) for name, ts in ns.items()]
    return message(6, b"".join(each))


WALL = 1_764_590_400_000_000_000  # 2025-12-01T12:00:00, ns since 1970


@pytest.mark.parametrize(
    ("snapshots", "began"),
    [
        ([], None),
        ([clocks(wall=WALL, boot=4_000_000_000)], "2025-12-01T12:00:05+00:00"),  # events from 9 s
        ([clocks(mono=1), clocks(boot=8_000_000_000, wall=WALL)], "2025-12-01T12:00:01+00:00"),
        ([clocks(wall=WALL, mono=4_000_000_000)], None),  # not the clock of the events
        ([clocks(boot=4_000_000_000)], None),
    ],
)
def test_the_begin_is_told_by_a_clock_snapshot(
    snapshots: list[bytes], began: str | None, tmp_path: Path
) -> None:
    trace = PerfettoTrace(NUMBERS)
    trace.packets += snapshots
    trace.bundle(0, frees([9_000_000_000, 9_100_000_000]), as_generic=False)
    if began:  # the first one with both counts
        trace.packets.append(clocks(wall=WALL + 10**13, boot=9_000_000_000))
    _, source = read(tmp_path / "trace", trace.write())
    assert source.facts["recorded_at"] == began


@needs_trace_cmd
@pytest.mark.parametrize(
    ("name", "kernel"), [("linux-6.12", "6.12.0"), ("linux-6.1-zstd", "6.1.0")]
)
@pytest.mark.parametrize(
    ("as_generic", "form"),
    [
        (False, PerfettoTrace.write),
        (True, PerfettoTrace.write),
        (False, PerfettoTrace.compressed),
    ],
)
def test_the_rows_are_those_of_a_trace_dat(
    name: str,
    kernel: str,
    as_generic: bool,
    form: Callable[[PerfettoTrace], bytes],
    tmp_path: Path,
) -> None:
    path = DATA / f"{name}.dat"
    expected = read_all(DatFile(str(path), MIGRATETYPES))
    trace = PerfettoTrace(NUMBERS)
    trace.system(kernel, 4)
    bundled(list(raw_events(path)), trace, as_generic=as_generic)
    trace.stats(2, {})
    rows, source = read(tmp_path / "trace", form(trace))
    # Perfetto has neither the preempt count nor percpu_refill in its typed events.
    lacking = ["flags"] if as_generic else ["flags", "percpu_refill"]
    for table in TABLES:
        assert without(rows[table], *lacking) == without(expected[table], *lacking)
    for row, of_dat in zip(rows["event"], expected["event"], strict=True):
        assert row["flags"] == of_dat["flags"] & ~(1 << 5)  # preempt_off
    found = source.found
    assert (found.kind, found.kernel, found.counts_loss) == ("Perfetto", kernel, True)
    assert source.bad_records == 0 and source.lost() == []


def test_an_event_that_the_trace_describes(tmp_path: Path) -> None:
    trace = PerfettoTrace(NUMBERS)
    fields = ["pfn", "order", "migratetype", "percpu_refill"]
    body = number(1, 2) + described(65540, "mm_page_alloc_zone_locked", fields)
    values = b"".join(number(n + 1, value) for n, value in enumerate((4096, 3, 1, 1)))
    body += message(2, number(1, 100) + number(2, 7) + message(65540, values))
    trace.raw_bundle(body)
    rows, _ = read(tmp_path / "trace", trace.write())
    (row,) = rows["event"]
    assert (row["kind"], row["pfn"], row["page_order"]) == ("alloc_zone_locked", 4096, 3)
    assert (row["migratetype"], row["percpu_refill"], row["cpu"]) == ("MOVABLE", True, 2)


def test_lost_events_and_names(tmp_path: Path) -> None:
    trace = PerfettoTrace(NUMBERS)
    trace.stats(1, {0: 5, 1: 7, 2: 1})
    trace.names({1: "first", 2: "second"})
    trace.bundle(0, frees([100, 200]))
    trace.bundle(0, frees([300], pid=2), lost=True)
    trace.bundle(1, frees([150]))
    trace.stats(2, {0: 5, 1: 19, 2: 1})
    _, source = read(tmp_path / "trace", trace.write())
    assert source.lost() == [
        {"cpu": 0, "from_ts": 200, "to_ts": 300, "events": None},
        {"cpu": 1, "from_ts": None, "to_ts": None, "events": 12},
    ]
    assert {row["pid"]: row["comm"] for row in source.tasks()} == {1: "first", 2: "second"}
    assert source.found.counts_loss


def test_a_buffer_that_overwrote_its_begin(tmp_path: Path) -> None:
    trace = PerfettoTrace(NUMBERS)
    trace.bundle(0, frees([100, 200]))
    trace.stats(2, {0: 0})
    trace.buffer(12)
    _, source = read(tmp_path / "trace", trace.write())
    assert (source.found.counts_loss, source.found.dropped_chunks) == (False, 12)


def test_what_stands_before_the_damage_is_read(tmp_path: Path) -> None:
    trace = PerfettoTrace(NUMBERS)
    ends = []
    for n in range(20):
        trace.bundle(n % 2, frees([1000 * n + 1, 1000 * n + 5]))
        ends.append(len(trace.write()))
    whole = trace.write()
    for cut in range(200, len(whole), 61):
        rows, source = read(tmp_path / "cut", whole[:cut])
        assert len(rows["event"]) == 2 * sum(end <= cut for end in ends)
        assert source.bad_records == (cut not in ends)


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_one_error_or_other_rows(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    trace = PerfettoTrace(NUMBERS)
    for n in range(20):
        trace.bundle(n % 2, frees([1000 * n + 1, 1000 * n + 5]), as_generic=n % 3 == 0)
    data = bytearray(trace.compressed() if seed % 4 == 0 else trace.write())
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(2, len(data))] = rng.randrange(256)
    try:
        read(tmp_path / "trace", bytes(data))
    except CollectorError as e:
        assert str(e).count("\n") == 0 and str(tmp_path) in str(e)


def test_a_trace_without_ftrace(tmp_path: Path) -> None:
    trace = PerfettoTrace(NUMBERS)
    trace.system("6.1.0", 2)
    trace.names({1: "init"})
    with pytest.raises(CollectorError, match="without ftrace events: record with"):
        read(tmp_path / "trace", trace.write())


def test_the_numbers_are_those_of_perfetto() -> None:
    perfetto_trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    events = perfetto_trace_pb2.FtraceEvent.DESCRIPTOR.fields_by_name
    for (at, name), fields in perfetto_events().items():
        assert events[name].number == at
        known = events[name].message_type.fields_by_number
        assert {n: known[n].name for n in fields} == fields


def test_protobuf_reads_what_the_generator_writes(tmp_path: Path) -> None:
    perfetto_trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = PerfettoTrace(NUMBERS)
    trace.system("6.1.0", 2)
    trace.bundle(1, frees([100, 200]), lost=True)
    trace.bundle(0, frees([150]), as_generic=True)
    trace.stats(2, {1: 4})
    read_back = perfetto_trace_pb2.Trace.FromString(trace.write())
    packets = read_back.packet
    assert packets[0].system_info.utsname.release == "6.1.0"
    bundle = packets[1].ftrace_events
    assert bundle.cpu == 1 and bundle.lost_events
    assert [event.mm_page_free.pfn for event in bundle.event] == [4096, 4097]
    assert packets[2].ftrace_events.event[0].generic.event_name == FREE
    assert packets[3].ftrace_stats.cpu_stats[0].overrun == 4
    rows, _ = read(tmp_path / "trace", read_back.SerializeToString())
    assert Counter(row["kind"] for row in rows["event"]) == {"free": 3}
