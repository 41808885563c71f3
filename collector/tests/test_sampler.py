# SPDX-License-Identifier: Apache-2.0
"""Samples of /proc: changed values only."""

from pathlib import Path

import pytest

from pagetape.sampler import COUNTERS, SYSCTLS, Sampler

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


def test_a_sample_has_only_changes(proc: Path) -> None:
    sampler = Sampler(proc)
    sample = sampler.take()
    assert (sample.parameters, sample.counters) == ([], [])
    assert sample.vmstat == {"nr_free_pages": 1000, "pgalloc_normal": 5, "pgfree": 12}
    sampler.close()


def test_parameters_that_change_are_rows(proc: Path) -> None:
    sampler = Sampler(proc)
    show(proc, min=26, boost=4, high=80)
    (proc / "sys" / "vm" / "swappiness").write_text("10\n")
    (proc / "sys" / "kernel" / "numa_balancing").write_text("2\n")
    sample = sampler.take()
    zone = {"ts": sample.ts, "node": 0, "zone": "NORMAL"}
    assert sorted(sample.parameters, key=lambda row: row["name"]) == [
        {"ts": sample.ts, "name": "kernel.numa_balancing", "node": None, "zone": None, "cpu": None,
         "value": 2},
        zone | {"name": "pcp_high", "cpu": 0, "value": 80},
        {"ts": sample.ts, "name": "vm.swappiness", "node": None, "zone": None, "cpu": None,
         "value": 10},
        zone | {"name": "wmark_high", "cpu": None, "value": 26},  # /proc adds the boost
        zone | {"name": "wmark_low", "cpu": None, "value": 21},
        zone | {"name": "wmark_min", "cpu": None, "value": 22},
    ]  # fmt: skip
    assert [(row["name"], row["value"]) for row in sample.counters] == [("boost", 4)]
    assert sampler.take().parameters == []
    sampler.close()


def test_counters_that_change_are_rows_and_after_a_restart_all_are(proc: Path) -> None:
    sampler = Sampler(proc)
    show(proc, allocs=9, free=990)
    found = {(row["name"], row["zone"]): row["value"] for row in sampler.take().counters}
    assert found == {
        ("free", "NORMAL"): 990,
        ("nr_free_pages", None): 990,
        ("pgalloc_normal", None): 9,
    }
    sampler.restart()
    found = {(row["name"], row["zone"]): row["value"] for row in sampler.take().counters}
    assert found == {
        ("boost", "NORMAL"): 0,
        ("free", "NORMAL"): 990,
        ("nr_free_pages", None): 990,
        ("pgalloc_normal", None): 9,
        ("pgfree", None): 12,
    }
    sampler.close()


def test_a_sample_has_the_free_blocks_of_every_order(proc: Path) -> None:
    sampler = Sampler(proc)
    sample = sampler.take()
    zone = {"ts": sample.ts, "node": 0, "zone": "NORMAL"}
    assert sample.free == [
        zone | {"page_order": order, "nr_free": nr} for order, nr in enumerate([3, 0, 1])
    ]
    sampler.close()


def test_a_machine_without_any_of_it_has_empty_samples(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path)
    sample = sampler.take()
    assert (sample.parameters, sample.counters, sample.vmstat, sample.free) == ([], [], {}, [])
    sampler.close()


def test_this_machine_can_be_sampled() -> None:
    sampler = Sampler()
    sampler.restart()
    sample = sampler.take()
    assert sample.vmstat.keys() > {"pgfree", "pgfault"}
    assert all(name.startswith(COUNTERS) for name in sample.vmstat)
    names = {row["name"] for row in sample.counters}
    assert {"free", *sample.vmstat} <= names
    sampler.close()


def test_every_sysctl_is_one_number_here() -> None:
    for name in SYSCTLS:
        path = Path("/proc/sys/vm") / name
        if path.exists():
            int(path.read_text())
