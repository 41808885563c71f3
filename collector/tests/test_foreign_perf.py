# SPDX-License-Identifier: Apache-2.0
"""perf.data files: generated ones against a trace.dat, real ones against perf script."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from perfdata import KERNEL, USER, PerfData
from test_import import MIGRATETYPES, alloc_format, free_format
from tracedat import DATE, Format, Machine, TraceDat, ring

from conftest import Rows, read_all
from pagetape._collector import CollectorError
from pagetape.dat_file import DatFile
from pagetape.foreign_file import ForeignFile

MACHINE = Machine()
FREE, ALLOC = free_format(MACHINE), alloc_format(MACHINE)
SLEEP = Format("vmscan", "mm_vmscan_kswapd_sleep", 30, [("int nid", 4, True)])
SWITCH = Format("sched", "sched_switch", 31, [("int next_pid", 4, True)])
FORMATS = (FREE, ALLOC, SLEEP, SWITCH)

Record = tuple[int, Format, bytes]  # time, format, record


def recording(cpus: int = 3, nr: int = 200) -> list[list[Record]]:
    """Records of each CPU, many at the same time as those of others."""
    rng = random.Random(1)
    found: list[list[Record]] = []
    for cpu in range(cpus):
        ts, records = 1000, []
        for n in range(nr):
            ts += rng.choice((0, 1, 5, 1000))
            made = [
                (FREE, FREE.record(MACHINE, 4096 + n, 0, pid=cpu + 1, flags=8)),
                (ALLOC, ALLOC.record(MACHINE, 4096 + n, n % 4, 0x40, 1, pid=cpu + 1)),
                (SLEEP, SLEEP.record(MACHINE, 0, pid=50)),
                (SWITCH, SWITCH.record(MACHINE, n, pid=0)),
            ]
            records.append((ts, *made[rng.randrange(4)]))
        found.append(records)
    return found


def as_dat(cpus: list[list[Record]], path: Path) -> DatFile:
    rings = [ring(MACHINE, [(ts, raw) for ts, _, raw in records]) for records in cpus]
    path.write_bytes(TraceDat(MACHINE, FORMATS, buffers={"": rings}).write(6))
    return DatFile(str(path), MIGRATETYPES)


def as_perf(cpus: list[list[Record]], each: int = 30) -> PerfData:
    """The rings are read in turns, `each` records of a CPU at a time."""
    perf = PerfData(FORMATS, cpus=len(cpus), comms=[(1, "bash"), (50, "kswapd 0")])
    for at in range(0, max(map(len, cpus)), each):
        for cpu, records in enumerate(cpus):
            for ts, of, raw in records[at : at + each]:
                perf.sample(of, cpu, ts, raw)
        perf.round()
    return perf


def read(path: Path, data: bytes) -> tuple[Rows, ForeignFile]:
    path.write_bytes(data)
    source = ForeignFile(str(path), MIGRATETYPES)
    return read_all(source), source


def counts(source: Any) -> list[tuple[str, int]]:
    return [(row["name"], row["events"]) for row in source.tracepoints()]


@pytest.mark.parametrize("each", [1, 30, 1000])
@pytest.mark.parametrize("form", [PerfData.write, PerfData.pipe])
def test_the_rows_are_those_of_a_trace_dat(
    form: Callable[[PerfData], bytes], each: int, tmp_path: Path
) -> None:
    cpus = recording()
    dat = as_dat(cpus, tmp_path / "t.dat")
    expected = read_all(dat)
    rows, source = read(tmp_path / "perf.data", form(as_perf(cpus, each)))
    assert len(expected["event"]) > 200 and len(expected["reclaim"]) > 50
    assert rows == expected
    assert counts(source) == counts(dat)
    assert source.bad_records == 0
    found = source.found
    assert (found.kind, found.kernel, found.clock) == ("perf.data", "6.1.0-13-amd64", "mono")
    assert (found.cpus, found.counts_loss, found.is_sampled) == (3, True, False)
    assert {row["pid"]: row["comm"] for row in source.tasks()}[50] == "kswapd 0"


WALL = 1_764_590_400_000_000_000  # 2025-12-01T12:00:00, ns since 1970
MONO = 1


@pytest.mark.parametrize(
    ("clocks", "began"),
    [
        (None, None),
        ((MONO, WALL, 4_000_000_000), "2025-12-01T12:00:05+00:00"),  # an event at 9 s
        ((7, WALL, 4_000_000_000), None),  # of another clock than the events
        ((MONO, 12, 4_000_000_000), None),  # no wall clock
    ],
)
@pytest.mark.parametrize("form", [PerfData.write, PerfData.pipe])
def test_the_begin_is_told_by_two_clocks_at_one_moment(
    clocks: tuple[int, int, int] | None,
    began: str | None,
    form: Callable[[PerfData], bytes],
    tmp_path: Path,
) -> None:
    perf = PerfData(FORMATS, clocks=clocks)
    for ts in (9_000_000_000, 9_500_000_000):
        perf.sample(FREE, 0, ts, FREE.record(MACHINE, 1, 0, pid=9))
    _, source = read(tmp_path / "perf.data", form(perf))
    assert source.facts["recorded_at"] == began == source.found.began


@pytest.mark.parametrize("version", [6, 7])
def test_times_of_the_wall_clock_tell_the_begin(version: int, tmp_path: Path) -> None:
    """As trace-cmd record --date: an option with what is added to each time."""
    records = [(5_000_000_000, FREE.record(MACHINE, 1, 0, pid=9))]
    date = (DATE, hex(WALL // 1000).encode() + b"\0")  # microseconds
    for options, began in (([], None), ([date], "2025-12-01T12:00:05+00:00")):
        rings = [ring(MACHINE, records)]
        dat = TraceDat(MACHINE, FORMATS, buffers={"": rings}, options=options)
        path = tmp_path / f"{began}.dat"
        path.write_bytes(dat.write(version))
        with_date = DatFile(str(path), MIGRATETYPES)
        assert with_date.facts["recorded_at"] == began
        with_date.close()


def test_lost_events_names_and_a_period(tmp_path: Path) -> None:
    perf = PerfData(FORMATS, command=["perf", "record", "--filter", "order > 0"], period=7)
    perf.comm(9, "first")
    perf.sample(FREE, 1, 100, FREE.record(MACHINE, 1, 0, pid=9))
    perf.lost(1, 150, 12)
    perf.lost(1, 160, 3)
    perf.sample(FREE, 1, 200, FREE.record(MACHINE, 1, 0, pid=9))
    perf.lost(0, 250, 5)
    perf.comm(9, "second")
    _, source = read(tmp_path / "perf.data", perf.write())
    assert source.lost() == [
        {"cpu": 1, "from_ts": 100, "to_ts": 200, "events": 15},
        {"cpu": 0, "from_ts": None, "to_ts": None, "events": 5},
    ]
    assert source.tasks() == [{"pid": 9, "comm": "second"}]
    assert (source.found.is_sampled, source.found.sample_period) == (True, 7)
    assert source.found.command == "perf record --filter order > 0"


def test_what_stands_before_the_damage_is_read(tmp_path: Path) -> None:
    cpus = recording(2, 50)
    whole = as_perf(cpus).pipe()
    expected, _ = read(tmp_path / "whole", whole)
    before = 0
    for cut in range(len(whole) - 3000, len(whole), 97):
        rows, source = read(tmp_path / "cut", whole[:cut])
        kept = len(rows["event"])
        assert before <= kept <= len(expected["event"])
        before = kept
        assert source.bad_records <= 1


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_one_error_or_other_rows(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = bytearray(as_perf(recording(2, 20)).write())
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(8, len(data))] = rng.randrange(256)
    try:
        read(tmp_path / "perf.data", bytes(data))
    except CollectorError as e:
        assert str(e).count("\n") == 0 and str(tmp_path) in str(e)


def swapped(data: bytes) -> bytes:
    """The header of a file as a machine of the other byte order writes it."""
    head = 104
    words = [data[at : at + 8][::-1] for at in range(0, head, 8)]
    return b"".join(words) + data[head:]


def test_call_chains_are_the_stacks_of_their_events(tmp_path: Path) -> None:
    """What lies in the kernel, without perf's marks and the frames of the program."""
    at = 0xFFFFFFFF81000000
    chains = [
        [KERNEL, at + 0x10, at + 0x2010, USER, 0x7F0000001000],
        [KERNEL, at + 0x20, at + 0x2010],
        [USER, 0x7F0000001000],
        [],
        [KERNEL, at + 0x10, at + 0x2010],
    ]
    perf = PerfData(FORMATS, stacks=True, kallsyms=f"{at:x} T __alloc_pages\n")
    for n, chain in enumerate(chains):
        perf.sample(ALLOC, n % 2, 100 + n, ALLOC.record(MACHINE, 1 + n, 0, 0x40, 1, pid=9), chain)
    rows, source = read(tmp_path / "perf.data", perf.write())
    found = [(row["event_ts"], row["cpu"], row["pid"]) for row in rows["stack"]]
    assert found == [(100, 0, 9), (101, 1, 9), (104, 0, 9)]
    first, second, third = (row["stack"] for row in rows["stack"])
    assert first == third != second
    assert source.stack(first) == [at + 0x10, at + 0x2010]
    assert source.stack(second) == [at + 0x20, at + 0x2010]
    assert source.kallsyms == f"{at:x} T __alloc_pages\n" and source.found.has_symbols
    assert len(rows["event"]) == 5
    assert dict(counts(source))["kernel_stack"] == 3


def test_without_kallsyms_stacks_are_addresses(tmp_path: Path) -> None:
    perf = PerfData(FORMATS, stacks=True)
    raw = ALLOC.record(MACHINE, 1, 0, 0x40, 1, pid=9)
    perf.sample(ALLOC, 0, 100, raw, [KERNEL, 0xFFFFFFFF81000010])
    rows, source = read(tmp_path / "perf.data", perf.pipe())
    assert len(rows["stack"]) == 1
    assert (source.found.has_stacks, source.found.has_symbols) == (True, False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (swapped(as_perf(recording(1, 9)).write()), "of a machine of the other byte order: import"),
        (swapped(as_perf(recording(1, 9)).pipe()), "of a machine of the other byte order: import"),
        (b"PERFFILE" + bytes(96), "of before 2.6.33: import the text that perf script prints"),
        (b"PERFILE2" + bytes(96), "truncated, or of a perf record that was killed"),
        (b"PERFILE2" + bytes(20), "damaged or truncated"),
        (PerfData(FORMATS).pipe(), "without a sample of a tracepoint"),
        (as_perf(recording(1, 90)).write()[:4000], "truncated, or of a perf record"),
        (as_perf(recording(1, 9)).write()[:-400], "truncated: the formats of its events"),
    ],
)
def test_a_file_that_cannot_be_read(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match=message):
        read(tmp_path / "perf.data", data)


# Against perf.

needs_perf = pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")


@needs_perf
def test_perf_reads_what_the_generator_writes(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(as_perf(recording()).write())
    said = subprocess.run(
        ["perf", "script", "-i", path, "-F", "comm,tid,cpu,time,event"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in said.stdout.splitlines() if "kmem:" in line]
    rows, _ = read(path, path.read_bytes())
    assert len(lines) == len(rows["event"]), said.stderr


@needs_perf
@pytest.mark.parametrize("options", [[], ["-z"], ["-g", "-e", "cpu-clock"]])
def test_a_recording_of_perf_and_its_script(options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    words = ["perf", "record", "-q", "-a", "-o", str(path), "-e", "kmem:mm_page_*", *options]
    load = "open('/dev/null').close(); b'x' * (4 << 20)"
    done = subprocess.run([*words, "--", "python3", "-c", load], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"perf cannot record here: {done.stderr!r}")
    script = subprocess.run(
        ["perf", "script", "-i", path, "--ns"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "script").write_text(script)
    data = ForeignFile(str(path), MIGRATETYPES)
    kernel = data.found.kernel
    rows = read_all(data)
    of_script = read_all(ForeignFile(str(tmp_path / "script"), MIGRATETYPES, kernel))
    assert len(rows["event"]) > 100
    # perf script prints events of one time in the order in which it read them.
    printed = sorted(of_script["event"], key=lambda row: (row["ts"], row["cpu"]))
    # ... and -1 for a thread that had ended; perf.data has its number.
    of_data = [row | {"flags": 0} for row in rows["event"]]
    assert len(printed) == len(of_data)
    for row, other in zip(printed, of_data, strict=True):
        assert row == (other if row["pid"] >= 0 else other | {"pid": -1})
