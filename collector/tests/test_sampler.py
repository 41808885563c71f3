# SPDX-License-Identifier: Apache-2.0
"""Samples of /proc: changed values only."""

import os
import resource
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pagetape.sampler import COUNTERS, SYSCTLS, Sample, Sampler

ZONEINFO = """\
Node 0, zone   Normal
  pages free     {free}
        boost    {boost}
        min      {min}
        low      25
        high     30
        spanned  4096
        present  4096
        managed  4000
        protection: (0, 0, 64)
  pagesets
    cpu: 0
              count:    5
              high:     {high}
              batch:    63
              high_min: 10
              high_max: 90
  vm stats threshold: 4
  start_pfn:           4096
"""
VMSTAT = "nr_free_pages {free}\nnr_dirty 7\npgalloc_normal {allocs}\npgfree 12\n"
BUDDYINFO = "Node 0, zone   Normal      3      0      1 \n"
STATE = {"free": 1000, "boost": 0, "min": 20, "high": 70, "allocs": 5}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of one zone and three sysctls."""
    (tmp_path / "sys" / "vm").mkdir(parents=True)
    (tmp_path / "sys" / "kernel").mkdir()
    (tmp_path / "sys" / "kernel" / "numa_balancing").write_text("1\n")
    (tmp_path / "sys" / "vm" / "swappiness").write_text("60\n")
    (tmp_path / "sys" / "vm" / "min_free_kbytes").write_text("67584\n")
    (tmp_path / "buddyinfo").write_text(BUDDYINFO)
    show(tmp_path)
    return tmp_path


def show(proc: Path, **changes: int) -> None:
    for name, text in (("zoneinfo", ZONEINFO), ("vmstat", VMSTAT)):
        (proc / name).write_text(text.format(**(STATE | changes)))


def take(sampler: Sampler) -> Sample:
    (*_, sample) = sampler.ask()
    return sample


def plain(sample: Sample, table: str) -> list[dict[str, object]]:
    """The rows of a table without their stamps."""
    stamps = {"began", "ts", "since_ts"}
    return [{k: v for k, v in row.items() if k not in stamps} for row in sample.rows(table)]


def test_a_sample_has_only_changes(proc: Path) -> None:
    sampler = Sampler(proc)
    sample = take(sampler)
    assert (sample.rows("parameter"), sample.rows("sample")) == ([], [])
    assert sample.vmstat == {"nr_free_pages": 1000, "pgalloc_normal": 5, "pgfree": 12}
    sampler.close()


def test_parameters_that_change_are_rows(proc: Path) -> None:
    sampler = Sampler(proc)
    show(proc, min=26, boost=4, high=80)
    (proc / "sys" / "vm" / "swappiness").write_text("10\n")
    (proc / "sys" / "kernel" / "numa_balancing").write_text("2\n")
    sample = take(sampler)
    machine = {"node": None, "zone": None, "cpu": None, "text": None}
    zone = machine | {"node": 0, "zone": "NORMAL"}
    assert sorted(plain(sample, "parameter"), key=lambda row: row["name"]) == [
        machine | {"name": "kernel.numa_balancing", "value": 2},
        zone | {"name": "pcp_high", "cpu": 0, "value": 80},
        machine | {"name": "vm.swappiness", "value": 10},
        zone | {"name": "wmark_high", "cpu": None, "value": 26},  # /proc adds the boost
        zone | {"name": "wmark_low", "cpu": None, "value": 21},
        zone | {"name": "wmark_min", "cpu": None, "value": 22},
    ]
    assert [(row["name"], row["value"]) for row in sample.rows("sample")] == [("boost", 4)]
    assert take(sampler).rows("parameter") == []
    sampler.close()


def test_counters_that_change_are_rows_and_after_a_restart_all_are(proc: Path) -> None:
    sampler = Sampler(proc)
    show(proc, allocs=9, free=990)
    found = {(row["name"], row["zone"]): row["value"] for row in take(sampler).rows("sample")}
    assert found == {
        ("free", "NORMAL"): 990,
        ("nr_free_pages", None): 990,
        ("pgalloc_normal", None): 9,
    }
    sampler.restart()
    found = {(row["name"], row["zone"]): row["value"] for row in take(sampler).rows("sample")}
    assert found == {
        ("boost", "NORMAL"): 0,
        ("free", "NORMAL"): 990,
        ("nr_free_pages", None): 990,
        ("pcp_count", "NORMAL"): 5,
        ("pgalloc_normal", None): 9,
        ("pgfree", None): 12,
    }
    sampler.close()


def test_the_pages_on_a_list_are_a_row_of_its_cpu(proc: Path) -> None:
    sampler = Sampler(proc)
    text = ZONEINFO.format(**STATE).replace("count:    5", "count:    44")
    (proc / "zoneinfo").write_text(text)
    (row,) = take(sampler).rows("sample")
    assert (row["name"], row["cpu"], row["node"], row["zone"]) == ("pcp_count", 0, 0, "NORMAL")
    assert row["value"] == 44
    sampler.close()


def test_settings_of_huge_pages_are_read_as_sysctls(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    place = tmp_path / "sys/kernel/mm/transparent_hugepage"
    (place / "khugepaged").mkdir(parents=True)
    (place / "enabled").write_text("always [madvise] never\n")
    (place / "defrag").write_text("always defer defer+madvise [madvise] never\n")
    (place / "khugepaged/defrag").write_text("1\n")
    sampler = Sampler(tmp_path / "proc")
    (place / "enabled").write_text("[always] madvise never\n")
    (place / "defrag").write_text("always defer [defer+madvise] madvise never\n")
    (place / "khugepaged/defrag").write_text("0\n")
    found = take(sampler).rows("parameter")
    assert {(row["name"], row["value"], row["text"]) for row in found} == {
        ("transparent_hugepage.enabled", 0, "always"),
        ("transparent_hugepage.defrag", 2, "defer+madvise"),
        ("transparent_hugepage.khugepaged.defrag", 0, None),
    }
    (place / "enabled").write_text("no word in brackets\n")
    assert take(sampler).rows("parameter") == []
    sampler.close()


def test_a_sample_has_the_free_blocks_of_every_order(proc: Path) -> None:
    sampler = Sampler(proc)
    sample = take(sampler)
    zone = {"node": 0, "zone": "NORMAL"}
    assert plain(sample, "free_count") == [
        zone | {"page_order": order, "nr_free": nr} for order, nr in enumerate([3, 0, 1])
    ]
    sampler.close()


def test_the_rows_of_each_file_have_its_own_stamps(proc: Path) -> None:
    sampler = Sampler(proc)
    show(proc, allocs=9, free=990, high=80)
    (proc / "sys" / "vm" / "swappiness").write_text("10\n")
    began = time.monotonic_ns()
    sample = take(sampler)
    stamps = {
        (row["began"], row["ts"], reading.ts): None
        for reading in sample.readings
        for rows in reading.rows.values()
        for row in rows
    }
    times = [time for begin, end, _ in stamps for time in (begin, end)]
    assert len(stamps) == 4  # buddyinfo, zoneinfo, vmstat, swappiness
    assert times == sorted(times) and times[0] >= began
    assert all(end == ts for _, end, ts in stamps)
    of = {row["name"]: row["ts"] for row in sample.rows("sample") + sample.rows("parameter")}
    assert of["free"] == of["pcp_high"] < of["nr_free_pages"] == sample.ts < of["vm.swappiness"]
    sampler.close()


def test_a_file_without_a_text_is_a_gap(proc: Path) -> None:
    sampler = Sampler(proc)
    text = VMSTAT.format(**STATE)
    (proc / "vmstat").write_text(text + "more 1\n" * 2000)  # longer than the buffer
    sample = take(sampler)
    (gap,) = sample.rows("sample_gap")
    assert (gap["why"], gap["samples"], gap["file"]) == ("failed", 1, "vmstat")
    assert gap["from_ts"] < gap["to_ts"]
    assert (sample.vmstat, len(sample.rows("free_count"))) == ({}, 3)
    (proc / "vmstat").write_text(text.replace("pgfree 12", "pgfree 14"))
    assert [(row["name"], row["value"]) for row in take(sampler).rows("sample")] == [("pgfree", 14)]
    sampler.close()


def test_samples_that_nobody_takes_are_a_gap_of_the_next(proc: Path) -> None:
    sampler = Sampler(proc)
    sampler.start(0.001, 1.0)
    for seconds in (0.5, 5, 50):  # longer than the queue; on a busy machine samples come later
        time.sleep(seconds)
        full = [
            (before.readings[-1].ts, row, after.readings[0].ts)
            for before, after in pairwise(sampler.ask())
            for row in after.rows("sample_gap")
            if row["why"] == "full"
        ]
        if sum(row["samples"] for _, row, _ in full) > 100:
            break
    assert sum(row["samples"] for _, row, _ in full) > 100
    assert all(last <= row["from_ts"] < row["to_ts"] <= first for last, row, first in full)
    sampler.close()


def test_each_write_to_a_sysctl_is_a_row_with_its_instants(proc: Path) -> None:
    """Also while no sample is due, or all are left out."""
    sampler = Sampler(proc)
    sampler.start(3600, 0)
    sampler.charge(1 << 60)
    written, found = [], []
    with (proc / "sys" / "vm" / "swappiness").open("r+b", buffering=0) as file:
        for value in range(10, 35):
            before = time.monotonic_ns()
            os.pwrite(file.fileno(), b"%d\n" % value, 0)
            written.append((value, before, time.monotonic_ns()))
            while len(found) < len(written):  # without an end if the write is not noticed
                sampler.wait(1)
                for sample in sampler.samples():
                    assert not sample.whole and sample.vmstat == {}
                    found += sample.rows("parameter")
    assert [row["value"] for row in found] == [value for value, _, _ in written]
    for row, (_, before, after) in zip(found, written, strict=True):
        assert row["since_ts"] <= after and before <= row["ts"]
    assert all(row["since_ts"] >= earlier["began"] for earlier, row in pairwise(found))
    sampler.close()


def test_a_machine_without_any_of_it_has_empty_samples(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path)
    sample = take(sampler)
    assert (sample.readings, sample.vmstat) == ([], {})
    sampler.close()


def test_this_machine_can_be_sampled() -> None:
    sampler = Sampler()
    sampler.restart()
    sample = take(sampler)
    assert sample.vmstat.keys() > {"pgfree", "pgfault"}
    assert all(name.startswith(COUNTERS) for name in sample.vmstat)
    names = {row["name"] for row in sample.rows("sample")}
    assert {"free", *sample.vmstat} <= names
    sampler.close()


def test_every_sysctl_is_one_number_here() -> None:
    for name in SYSCTLS:
        path = Path("/proc/sys/vm") / name
        if path.exists():
            int(path.read_text())


@pytest.fixture
def full_below() -> Iterator[int]:
    """The first free descriptor; all below it are in use."""
    used = [os.open(os.devnull, os.O_RDONLY)]
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    while used[-1] < highest:
        used.append(os.open(os.devnull, os.O_RDONLY))
    yield used[-1] + 1
    for fd in used:
        os.close(fd)


@pytest.mark.parametrize("free", range(12))
def test_without_free_descriptors_no_file_is_left_out_or_left_open(
    proc: Path, full_below: int, free: int
) -> None:
    """Six files, and three events of the reader."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (full_below + free, limits[1]))
    said = None
    try:
        Sampler(proc).close()
    except OSError as error:
        said = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    first = os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    assert first == full_below
    assert (said is None) == (free >= 9)
    assert said is None or "too many open files for samples of /proc: the limit is" in said
