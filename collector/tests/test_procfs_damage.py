# SPDX-License-Identifier: Apache-2.0
"""Copies of /proc files that no kernel prints: rows that a tape can hold, or one error."""

import os
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from conftest import DATA
from fuzz_proc import damage_text, read_all_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape import numa_maps, procfs
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
        read_all_of(procfs.saved(copy))


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
GOOD = {"boost": 0, "spanned": 6000, "protection": "0, 400", "count": 5}


def rows_of(directory: Path, text: str) -> dict[str, list[procfs.Row]]:
    (directory / "zoneinfo").write_text(text)
    proc = procfs.saved(directory)
    read_all_of(proc)
    return proc.rows("", 0)


def test_figures_that_no_kernel_prints(tmp_path: Path) -> None:
    (zone,) = rows_of(tmp_path, ZONE.format(**GOOD))["zone"]
    assert zone["lowmem_reserve_normal"] == 0
    # A boost that the kernel printed after it had grown.
    (zone,) = rows_of(tmp_path, ZONE.format(**GOOD | {"boost": 60}))["zone"]
    assert (zone["wmark_min"], zone["wmark_low"], zone["wmark_high"]) == (0, 2, 15)


@pytest.mark.parametrize(
    ("wrong", "zones", "pcps"),
    [
        ({"spanned": "9" * 5000}, 1, 1),  # reads as no figure: 0
        ({"spanned": 1 << 53}, 0, 0),
        ({"protection": "0, four"}, 1, 1),
        ({"protection": "9" * 30}, 1, 1),
        ({"count": 1 << 40}, 1, 0),
        ({"count": "٣"}, 1, 0),  # a digit, but not of a kernel
    ],
)
def test_a_row_with_a_figure_that_does_not_fit(
    tmp_path: Path, wrong: dict[str, object], zones: int, pcps: int
) -> None:
    rows = rows_of(tmp_path, ZONE.format(**GOOD | wrong))
    assert (len(rows["zone"]), len(rows["pcp"])) == (zones, pcps)


def test_a_zone_counts_once(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ZONE.format(**GOOD) * 3)
    assert (len(rows["zone"]), len(rows["pcp"])) == (1, 1)
    (tmp_path / "vmstat").write_text("nr_free_pages 1\nnr_free_pages 2\nbig 99999999999999999999\n")
    assert rows_of(tmp_path, "")["vmstat"] == [
        {"snapshot": 0, "ts": 0, "began": None, "name": "nr_free_pages", "value": 1}
    ]


def test_facts_are_within_the_bounds_of_a_kernel(tmp_path: Path) -> None:
    texts = {
        "meminfo": "MemTotal: 0 kB\n",
        "nodes": "node0 cpus 0-99999999999,3 distance 10\n"
        "node0 cpus 1 distance 10\n"
        "node1 cpus 2--3,x,5-4,3,7 distance 999\n"
        "node70000 cpus 1 distance 10\n",
        "pagetypeinfo": "Page block order: 4000000000\n",
        "ring-stats": "entries: 1\noverrun: \N{SUPERSCRIPT TWO}\ndropped events: " + "9" * 40,
        "cmdline": "x" * 100000,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    rows_of(tmp_path, ZONE.format(**GOOD))
    proc = procfs.saved(tmp_path)
    assert proc.facts["nodes"] == [
        {"id": 0, "cpus": [3], "distance": [10]},
        {"id": 1, "cpus": [7], "distance": []},
    ]
    assert {"page_size", "pageblock_order", "nr_orders"}.isdisjoint(proc.facts)
    assert len(proc.facts["cmdline"]) == 4096
    assert proc.rings() == [{"cpu": 0}]


def test_page_flags_without_the_number_of_orders(tmp_path: Path) -> None:
    (tmp_path / "kpageflags").write_bytes(bytes(8 * 6000))
    (tmp_path / "pagetypeinfo").write_text("Page block order: 9\n")
    rows_of(tmp_path, ZONE.format(**GOOD))
    assert procfs.saved(tmp_path).blocks("", 0) == {}


@pytest.mark.parametrize("name", ["zoneinfo", "kpageflags"])
def test_only_regular_files_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "zoneinfo").write_text(ZONE.format(**GOOD))
    (tmp_path / "pagetypeinfo").write_text((PROC / "pagetypeinfo.before").read_text())
    (tmp_path / name).unlink(missing_ok=True)
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        make(tmp_path / name)
        with pytest.raises(OSError, match="not a regular file"):
            read_all_of(procfs.saved(tmp_path))
        path = tmp_path / name
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_compressed_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "_TEXT_MB", 4)
    with pa.output_stream(str(tmp_path / "zoneinfo.zst"), compression="zstd") as out:
        for _ in range(8):
            out.write(bytes(1 << 20))
    with pytest.raises(OSError, match="more than 4 MB of text"):
        procfs.saved(tmp_path).rows("", 0)


def test_compressed_page_flags_are_read_as_far_as_the_zones_go(tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / "kpageflags.zst"), compression="zstd") as out:
        for _ in range(64):
            out.write(bytes(1 << 20))
    (tmp_path / "zoneinfo").write_text("")
    with procfs.saved(tmp_path)._kpageflags("", 1000) as path:
        assert path is not None
        assert path.stat().st_size == 8000
    with procfs.saved(tmp_path)._kpageflags("", 1 << 50) as path:
        assert path is not None
        assert (path.stat().st_size, path.stat().st_blocks) == (64 << 20, 0)


def test_a_damaged_zst_is_one_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "vmstat.after.zst").write_bytes(b"nonsense")
    with pytest.raises(OSError, match=r"cannot be read") as error:
        read_all_of(procfs.saved(tmp_path))
    assert str(error.value.filename).endswith("vmstat.after.zst")


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
