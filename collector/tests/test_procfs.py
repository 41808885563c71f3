# SPDX-License-Identifier: Apache-2.0
"""/proc texts of several kernels, shortened to the relevant lines."""

import struct
from pathlib import Path

import pyarrow as pa
import pytest

from pagetape import proc_copies, procfs
from pagetape.schemas import TABLES

ZONEINFO_6_12 = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 11
  pages free     3808
        boost    0
        min      25
        low      31
        high     37
        promo    43
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 179, 180, 181, 182)
      nr_free_pages 3808
      nr_free_cma  7
  pagesets
    cpu: 0
              count: 12
              high:  100
              batch: 1
              high_min: 23
              high_max: 240
  vm stats threshold: 6
    cpu: 1
              count: 13
              high:  101
              batch: 2
              high_min: 24
              high_max: 241
  vm stats threshold: 6
  node_unreclaimable:  0
  start_pfn:           1
Node 0, zone    DMA32
  pages free     23752
        boost    741
        min      1071
        low      1153
        high     1235
        promo    1317
        spanned  47104
        present  47104
        managed  45901
        cma      0
        protection: (0, 0, 0, 0, 0)
      nr_free_pages 23752
      nr_free_cma  0
  pagesets
    cpu: 0
              count: 170
              high:  1081
              batch: 15
  vm stats threshold: 12
  node_unreclaimable:  0
  start_pfn:           4096
Node 0, zone   Normal
  pages free     0
        boost    0
        min      0
        low      0
        high     0
        promo    0
        spanned  0
        present  0
        managed  0
        cma      0
        protection: (0, 0, 0, 0, 0)
Node 0, zone  Movable
  pages free     0
        present  0
        protection: (0, 0, 0, 0, 0)
Node 0, zone   Device
  pages free     0
        present  0
        protection: (0, 0, 0, 0, 0)
"""

# No boost, promo, managed or highatomic lines; a HighMem zone; node_scanned instead of node stats.
ZONEINFO_3_2 = """\
Node 0, zone   Normal
  pages free     1000
        min      50
        low      62
        high     75
        scanned  0
        spanned  6000
        present  5900
    nr_free_pages 1000
        protection: (0, 400)
  pagesets
    cpu: 0
              count: 5
              high:  186
              batch: 31
  vm stats threshold: 8
  all_unreclaimable: 0
  start_pfn:         0
Node 0, zone  HighMem
  pages free     2000
        min      32
        low      60
        high     90
        scanned  0
        spanned  9000
        present  8000
        protection: (0, 0)
  pagesets
  start_pfn:         6000
"""

PAGETYPEINFO = """\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2
Node    0, zone      DMA, type    Unmovable      1      0      3
Node    0, zone      DMA, type      Movable >100000      2      0
Node    0, zone      DMA, type       Vendor      9      9      9

Number of blocks type     Unmovable      Movable       Vendor   HighAtomic
Node 0, zone      DMA            4            7            5            1
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2
Node    1, zone   Normal, type    Unmovable      0      0      6
Node    1, zone   Normal, type      Movable      0      0      0
Node    1, zone   Normal, type       Vendor      0      0      0

Number of blocks type     Unmovable      Movable       Vendor   HighAtomic
Node 1, zone   Normal            8            9            0            0
"""

BUDDYINFO = """\
Node 0, zone      DMA      1      0      2
Node 1, zone   Normal     11     12     13
"""


def test_zoneinfo_becomes_zones_and_pagesets() -> None:
    zones, pcps = procfs.parse_zoneinfo(ZONEINFO_6_12)
    dma, dma32 = zones
    assert dma == {
        "node": 0,
        "zone": "DMA",
        "start_pfn": 1,
        "spanned": 4095,
        "present": 3998,
        "managed": 3840,
        "free": 3808,
        "wmark_min": 25,
        "wmark_low": 31,
        "wmark_high": 37,
        "wmark_promo": 43,
        "boost": 0,
        "nr_reserved_highatomic": None,
        "nr_free_highatomic": None,
        "nr_free_cma": 7,
        "stat_threshold": 6,
        "lowmem_reserve_dma": 0,
        "lowmem_reserve_dma32": 179,
        "lowmem_reserve_normal": 180,
        "lowmem_reserve_highmem": 0,
        "lowmem_reserve_movable": 181,
        "lowmem_reserve_device": 182,
    }
    assert (dma32["zone"], dma32["start_pfn"], dma32["stat_threshold"]) == ("DMA32", 4096, 12)
    assert pcps[1] == {
        "cpu": 1,
        "node": 0,
        "zone": "DMA",
        "count": 13,
        "high": 101,
        "batch": 2,
        "high_min": 24,
        "high_max": 241,
    }
    assert (pcps[2]["high"], pcps[2]["high_min"]) == (1081, None)
    assert len(pcps) == 3


def test_watermarks_are_without_the_boost() -> None:
    (_, dma32), _ = procfs.parse_zoneinfo(ZONEINFO_6_12)
    assert [dma32[f"wmark_{name}"] for name in ("min", "low", "high", "promo")] == [
        330,
        412,
        494,
        576,
    ]
    assert dma32["boost"] == 741


def test_an_old_zoneinfo_lacks_lines() -> None:
    (normal, highmem), (pcp,) = procfs.parse_zoneinfo(ZONEINFO_3_2)
    assert (normal["managed"], normal["boost"], normal["wmark_promo"]) == (5900, None, None)
    assert normal["wmark_min"] == 50
    assert normal["lowmem_reserve_highmem"] == 400
    assert (highmem["zone"], highmem["start_pfn"]) == ("HIGHMEM", 6000)
    assert pcp["batch"] == 31


def test_pagetypeinfo_becomes_lists_and_blocks() -> None:
    areas, blocks = procfs.parse_pagetypeinfo(PAGETYPEINFO)
    found = {(a["node"], a["zone"], a["migratetype"], a["page_order"]): a for a in areas}
    assert len(found) == 12  # the vendor's own type is left out
    assert found[0, "DMA", "UNMOVABLE", 2]["nr_free"] == 3
    assert found[0, "DMA", "MOVABLE", 0] == {
        "node": 0,
        "zone": "DMA",
        "migratetype": "MOVABLE",
        "page_order": 0,
        "nr_free": 100000,
        "capped": True,
    }
    assert not found[1, "NORMAL", "UNMOVABLE", 2]["capped"]
    assert [(b["node"], b["migratetype"], b["nr_blocks"]) for b in blocks] == [
        (0, "UNMOVABLE", 4),
        (0, "MOVABLE", 7),
        (0, "HIGHATOMIC", 1),
        (1, "UNMOVABLE", 8),
        (1, "MOVABLE", 9),
        (1, "HIGHATOMIC", 0),
    ]


def test_buddyinfo_stands_in_for_pagetypeinfo(tmp_path: Path) -> None:
    (tmp_path / "buddyinfo.before").write_text(BUDDYINFO)
    (tmp_path / "zoneinfo.before").write_text(ZONEINFO_6_12)
    proc = proc_copies.saved(tmp_path)
    rows = proc.rows("before", 0)["free_area"]
    assert rows[2]["nr_free"] == 2
    assert all("migratetype" not in row for row in rows)
    assert proc.facts["nr_orders"] == 3
    assert "migratetypes" not in proc.facts


def test_vmstat() -> None:
    rows = procfs.parse_vmstat("nr_free_pages 31966\nnr_anon -3\n\nnr broken\n")
    assert rows == [{"name": "nr_free_pages", "value": 31966}, {"name": "nr_anon", "value": -3}]


def saved(directory: Path) -> procfs.Proc:
    """A directory with everything, kpageflags compressed."""
    for stage, flag in (("before", 1 << 7), ("after", 1 << 10)):  # slab, then all free
        (directory / f"zoneinfo.{stage}").write_text(ZONEINFO_6_12)
        (directory / f"pagetypeinfo.{stage}").write_text(PAGETYPEINFO)
        (directory / f"vmstat.{stage}").write_text("nr_free_pages 1\n")
        flags = struct.pack("=51200Q", *[flag] * 51200)
        with pa.output_stream(
            str(directory / f"kpageflags.{stage}.zst"), compression="zstd"
        ) as out:
            out.write(flags)
    texts = {
        "version.after": "Linux version 6.12.117+deb12-cloud-amd64 (x@y) #1 SMP 6.12.117-1\n",
        "meminfo.before": f"MemTotal:  {(3840 + 45901) * 4} kB\n",
        "nodes": "node0 cpus 0-1,3 distance 10 20\nnode1 cpus 2 distance 20 10\n",
        "cmdline.after": "quiet panic=1 \n",
        "sysctls.before": "kernel.numa_balancing = 2\nkernel.pid_max = 7\n"
        "vm.defrag_mode = 0\nvm.min_free_kbytes = 67584\n",
        "config": "CONFIG_NUMA=y\nCONFIG_PCP_BATCH_SCALE_MAX=5\nCONFIG_USB=m\n# CONFIG_CMA\n",
        "boot_id": "0123\n",
        "hostname.before": "guest\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return proc_copies.saved(directory)


def test_facts_of_a_saved_machine(tmp_path: Path) -> None:
    assert saved(tmp_path).facts == {
        "kernel": "6.12.117+deb12-cloud-amd64",
        "version": "Linux version 6.12.117+deb12-cloud-amd64 (x@y) #1 SMP 6.12.117-1",
        "page_size": 4096,
        "nodes": [
            {"id": 0, "cpus": [0, 1, 3], "distance": [10, 20]},
            {"id": 1, "cpus": [2], "distance": [20, 10]},
        ],
        "sysctls": {
            "kernel.numa_balancing": "2",
            "vm.defrag_mode": "0",
            "vm.min_free_kbytes": "67584",
        },
        "boot_id": "0123",
        "host": "guest",
        "cmdline": "quiet panic=1",
        "config": {"NUMA": "y", "PCP_BATCH_SCALE_MAX": "5"},
        "migratetypes": ["Unmovable", "Movable", "Vendor", "HighAtomic"],
        "pageblock_order": 9,
        "nr_orders": 3,
    }


def test_saved_stages_become_tables(tmp_path: Path) -> None:
    proc = saved(tmp_path)
    assert proc.stages == ("before", "after")
    for number, stage in enumerate(proc.stages):
        for name, rows in proc.rows(stage, number, ts=77).items():
            batch = TABLES[name].batch(rows)
            assert batch.num_rows
            assert set(batch.column("snapshot").to_pylist()) == {number}
            assert set(batch.column("ts").to_pylist()) == {77}
        blocks = proc.blocks(stage, number, ts=77)
        for name, batch in blocks.items():
            batch.validate(full=True)
            assert batch.schema.equals(TABLES[name].arrow)
        assert blocks["block_guess"].num_rows == (0 if stage == "before" else 12801)
        assert set(blocks["pageblock"].column("snapshot").to_pylist()) == {number}


def test_facts_alone_are_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "version.after").write_text("Linux version 6.1.0 (x@y)\n")
    proc = proc_copies.saved(tmp_path)
    assert (proc.stages, proc.facts["kernel"]) == ((), "6.1.0")
    assert proc.blocks("before", 0) == {}
    assert not any(proc.rows("before", 0).values())


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        proc_copies.saved(tmp_path / "none")


@pytest.mark.skipif(not Path("/proc/zoneinfo").exists(), reason="needs /proc/zoneinfo")
def test_this_machine() -> None:
    proc = procfs.live()
    assert proc.facts["kernel"]
    assert proc.facts["nodes"][0]["cpus"]
    for name, rows in proc.rows("now", 0).items():
        TABLES[name].batch(rows)
    zones = proc.rows("now", 0)["zone"]
    assert sum(zone["managed"] for zone in zones) > 0
    assert all(zone["wmark_min"] <= zone["wmark_low"] <= zone["wmark_high"] for zone in zones)


RING_STATS = """entries: {}
overrun: {}
commit overrun: 0
bytes: 7552528
oldest event ts:     3.780342
now ts:    13.830082
dropped events: 2
read events: 0
"""


def test_ring_statistics_of_each_cpu(tmp_path: Path) -> None:
    for cpu, overrun in enumerate((7, 9)):
        (tmp_path / f"ring-stats.cpu{cpu}").write_text(RING_STATS.format(100, overrun))
    rows = [
        {"cpu": 0, "overrun": 7, "commit_overrun": 0, "dropped": 2},
        {"cpu": 1, "overrun": 9, "commit_overrun": 0, "dropped": 2},
    ]
    assert proc_copies.saved(tmp_path).rings() == rows
    (tmp_path / "ring-stats").write_text(RING_STATS.format(1, 7) + RING_STATS.format(1, 9))
    assert proc_copies.saved(tmp_path).rings() == rows


def test_no_ring_statistics(tmp_path: Path) -> None:
    (tmp_path / "hostname").write_text("guest\n")
    assert proc_copies.saved(tmp_path).rings() == []
