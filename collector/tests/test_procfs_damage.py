# SPDX-License-Identifier: Apache-2.0
"""Copies of /proc files that no kernel prints: rows that a tape can hold, or one error."""

import os
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from fuzz_proc import damage_text, read_all_of
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import DATA
from pagetape import numa_maps, proc_copies, procfs
from pagetape.recording.capture import complete_lost
from pagetape.recording.stacks import Symbols

PROC = DATA / "proc-6.1"
TEXTS = sorted(path.name for path in PROC.iterdir() if not path.name.startswith("kpageflags"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 1 << 32))
def test_damaged_texts_become_rows_that_fit(name: str, seed: int) -> None:
    with TemporaryDirectory() as directory:
        copy = Path(directory) / "proc"
        shutil.copytree(PROC, copy)
        damage_text(copy / name, seed)
        try:
            read_all_of(proc_copies.saved(copy))
        except OSError as e:
            assert str(e.filename).startswith(str(copy))
            assert "\n" not in str(e)


ZONE = """\
Node 0, zone   Normal
  pages free     1000
        boost    {boost}
        min      50
        low      62
        high     75
        spanned  {spanned}
        present  5900
        managed  5800
        protection: ({protection})
  pagesets
    cpu: 0
              count: {count}
              high:  186
              batch: 31
  start_pfn:         0
"""
PAGETYPES = """\
Page block order: 2
Pages per block:  4

Free pages count per migrate type at order       0      1      2
Node    0, zone   Normal, type    Unmovable      1      0      3

Number of blocks type     Unmovable
Node 0, zone   Normal            4
"""
GOOD = {"boost": 0, "spanned": 6000, "protection": "0, 400", "count": 5}


def rows_of(directory: Path, text: str) -> dict[str, list[procfs.Row]]:
    (directory / "zoneinfo").write_text(text)
    proc = proc_copies.saved(directory)
    read_all_of(proc)
    return proc.rows("", 0)


def test_figures_that_no_kernel_prints(tmp_path: Path) -> None:
    (zone,) = rows_of(tmp_path, ZONE.format(**GOOD))["zone"]
    assert zone["lowmem_reserve_normal"] == 0
    # A boost that the kernel printed after it had grown.
    (zone,) = rows_of(tmp_path, ZONE.format(**GOOD | {"boost": 60}))["zone"]
    assert (zone["wmark_min"], zone["wmark_low"], zone["wmark_high"]) == (0, 2, 15)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"spanned": "9" * 5000}, "line 7: expected 'spanned NUMBER'"),
        ({"spanned": 1 << 53}, "line 1: Node 0, zone   Normal has 9007199254740992 pages"),
        ({"spanned": 5000}, "line 1: Node 0, zone   Normal has 5900 pages present of 5000 spanned"),
        ({"protection": "0, four"}, r"line 10: expected 'protection: \(N, N, ...\)'"),
        ({"protection": "9" * 30}, r"line 10: expected 'protection: \(N, N, ...\)'"),
        ({"count": 1 << 40}, "line 13: expected 'count NUMBER'"),
        ({"count": "-1"}, "line 13: expected 'count NUMBER'"),
        ({"count": "٣"}, "line 13: not text of /proc/zoneinfo"),  # a digit, but not of a kernel
    ],
)
def test_a_figure_that_does_not_fit(tmp_path: Path, wrong: dict[str, object], why: str) -> None:
    with pytest.raises(OSError, match=why) as error:
        rows_of(tmp_path, ZONE.format(**GOOD | wrong))
    assert error.value.filename == str(tmp_path / "zoneinfo")


def test_nothing_counts_twice(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"line 17: Node 0, zone   Normal again \(first in line 1\)"):
        rows_of(tmp_path, ZONE.format(**GOOD) * 3)
    (tmp_path / "zoneinfo").write_text(ZONE.format(**GOOD))
    (tmp_path / "vmstat").write_text("nr_free_pages 1\nnr_free_pages 2\n")
    with pytest.raises(OSError, match="line 2: nr_free_pages again"):
        read_all_of(proc_copies.saved(tmp_path))


NOT_OF_A_KERNEL = {
    "meminfo": ("MemFree: 0 kB\n", "expected a line 'MemTotal: N kB', found 'MemFree: 0 kB'"),
    "version": ("6.1.0-56-amd64\n", "expected 'Linux version RELEASE ...'"),
    "nodes": ("node0 cpus 0 distance 10\nnode0 cpus 1 distance 10\n", "line 2: node0 again"),
    "pagetypeinfo": ("Page block order: 4000000000\n", "line 1: expected 'Page block order: N'"),
    "ring-stats": ("overrun: 5\nnonsense\n", "line 2: expected 'NAME: NUMBER'"),
    "sysctls": ("60\n", "expected lines 'vm.NAME = VALUE'"),
    "config": ("y\n", "expected lines 'CONFIG_NAME=VALUE'"),
    "numa_maps": ("7f00 default\n", "expected lines '/proc/N/numa_maps:ADDRESS POLICY ...'"),
}


@pytest.mark.parametrize("name", NOT_OF_A_KERNEL)
def test_facts_that_no_kernel_prints(tmp_path: Path, name: str) -> None:
    text, why = NOT_OF_A_KERNEL[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(OSError) as error:
        rows_of(tmp_path, ZONE.format(**GOOD))
    assert why in str(error.value.strerror)
    assert error.value.filename == str(tmp_path / name)


def test_facts_are_within_the_bounds_of_a_kernel(tmp_path: Path) -> None:
    texts = {
        "meminfo": "MemTotal: 0 kB\n",
        "nodes": "node0 cpus 9-99999999999,0,3 distance 10\n"
        "node1 cpus 2--3,5-4,3,7 distance 999\n"
        "node70000 cpus 1 distance 10\n",
        "cmdline": "x" * 60000,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    rows_of(tmp_path, ZONE.format(**GOOD))
    proc = proc_copies.saved(tmp_path)
    assert proc.facts["nodes"] == [
        {"id": 0, "cpus": [0, 3], "distance": [10]},
        {"id": 1, "cpus": [7], "distance": []},
    ]
    assert {"page_size", "pageblock_order", "nr_orders"}.isdisjoint(proc.facts)
    assert len(proc.facts["cmdline"]) == 4096


def test_page_flags_without_the_number_of_orders(tmp_path: Path) -> None:
    (tmp_path / "kpageflags").write_bytes(bytes(8 * 6000))
    rows_of(tmp_path, ZONE.format(**GOOD))
    assert proc_copies.saved(tmp_path).blocks("", 0) == {}


@pytest.mark.parametrize("name", ["zoneinfo", "kpageflags"])
def test_only_regular_files_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "zoneinfo").write_text(ZONE.format(**GOOD))
    (tmp_path / "pagetypeinfo").write_text(PAGETYPES)
    (tmp_path / name).unlink(missing_ok=True)
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        make(tmp_path / name)
        with pytest.raises(OSError, match="not a regular file"):
            read_all_of(proc_copies.saved(tmp_path))
        path = tmp_path / name
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_compressed_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc_copies, "TEXT_MB", 4)
    with pa.output_stream(str(tmp_path / "zoneinfo.zst"), compression="zstd") as out:
        for _ in range(8):
            out.write(bytes(1 << 20))
    with pytest.raises(OSError, match="more than 4 MB of text"):
        proc_copies.saved(tmp_path).rows("", 0)


def test_compressed_page_flags_are_read_as_far_as_the_zones_go(tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / "kpageflags.zst"), compression="zstd") as out:
        for _ in range(64):
            out.write(bytes(1 << 20))
    (tmp_path / "zoneinfo").write_text("")
    with proc_copies.saved(tmp_path).kpageflags("", 1000) as path:
        assert path is not None
        assert path.stat().st_size == 8000
    with proc_copies.saved(tmp_path).kpageflags("", 8 << 20) as path:
        assert path is not None
        assert (path.stat().st_size, path.stat().st_blocks) == (64 << 20, 0)


@pytest.mark.parametrize("form", ["plain", "zst"])
def test_page_flags_that_end_before_the_zones(tmp_path: Path, form: str) -> None:
    (tmp_path / "pagetypeinfo").write_text(PAGETYPES)
    data = bytes(8 * 5999)
    if form == "plain":
        (tmp_path / "kpageflags").write_bytes(data)
    else:
        with pa.output_stream(str(tmp_path / "kpageflags.zst"), compression="zstd") as out:
            out.write(data)
    with pytest.raises(OSError, match="5999 pages, but the zones of zoneinfo end at pfn 6000"):
        rows_of(tmp_path, ZONE.format(**GOOD))


def test_a_damaged_zst_is_one_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "vmstat.before.zst").write_bytes(b"nonsense")
    with pytest.raises(OSError, match=r"cannot be read") as error:
        read_all_of(proc_copies.saved(tmp_path))
    assert str(error.value.filename).endswith("vmstat.before.zst")


def test_memory_policies() -> None:
    assert numa_maps.parse(f"/proc/{'9' * 12}/numa_maps:7f00 default anon=1\n") == []
    row = {"pid": 1, "policy": None, "cpuset": "0-99999999999,--,1"}
    assert numa_maps.preference_of(row, {1}) is None
    assert numa_maps.preference_of(row, {2}) == "landed"


def test_gaps_are_sized_in_one_pass() -> None:
    lost = [{"cpu": n % 2, "events": None if n < 2 else 1} for n in range(100_000)]
    found = complete_lost(lost, [{"cpu": 0, "overrun": 50_007}, {"cpu": 1, "overrun": 5}])
    assert Counter(row["events"] for row in found) == {1: 99_998, 8: 1, None: 1}


def test_lines_that_are_no_symbols() -> None:
    text = "\nffffffff81000010 T one\nzz T two\n10 t\nffffffff81000020 d data\n20 t three [mod]\n"
    symbols = Symbols(text)
    assert (found := symbols.find(0x28)) is not None
    assert (found.function, found.module) == ("three", "mod")
    assert (found := symbols.find(0xFFFFFFFF81000024)) is not None
    assert (found.function, found.offset) == ("one", 0x14)
