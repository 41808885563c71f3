# SPDX-License-Identifier: Apache-2.0
"""/proc over time: dated copies, archives, logs and monitors become moments, and no guesses."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fuzz_proc import damage_text, fold, read_series_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_procfs import ZONEINFO_3_2

from conftest import DATA
from pagetape import proc_dates, proc_form, proc_log, proc_metrics, proc_series, procfs

PROC = DATA / "proc-6.1"
FILES = ("zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat")
BEGIN = datetime(2026, 11, 21, 6, 15, tzinfo=UTC).timestamp()
NS = 1_000_000_000
UNAME = "Linux web1 5.14.0-70.el9.x86_64 #1 SMP x86_64 GNU/Linux"
PARSE: dict[str, Callable[[str], object]] = {
    "zoneinfo": procfs.parse_zoneinfo,
    "buddyinfo": procfs.parse_buddyinfo,
    "pagetypeinfo": procfs.parse_pagetypeinfo,
}


def text_of(name: str, stage: str = "before") -> str:
    return (PROC / f"{name}.{stage}").read_text()


def whole(name: str) -> str:
    """The text without blanks at the ends of lines."""
    return proc_form.checked(name, text_of(name).encode())


def later(text: str, by: int) -> str:
    """vmstat, some time later."""
    rows = (line.split() for line in text.splitlines())
    return "".join(f"{name} {int(value) + by}\n" for name, value in rows)


def read(path: Path, text: str, interval: float | None = None) -> proc_series.Series:
    """The series of a log with that text."""
    (path / "log").write_text(text)
    return proc_series.read(path / "log", interval)


def blocks(moment: proc_series.Moment) -> int:
    """Free pages at a moment."""
    rows = procfs.parse_buddyinfo(moment.text("buddyinfo") or "")
    return sum(row["nr_free"] << row["page_order"] for row in rows)


# Dates


@pytest.mark.parametrize(
    ("line", "second"),
    [
        ("Sat Nov 21 06:15:00 UTC 2026", 0),
        ("Sat Nov 21 07:15:00 CET 2026", 0),
        ("Sat Nov 21 01:15:07 AM EST 2026", 7),
        ("Sat 21 Nov 2026 06:15:00 PM UTC", 12 * 3600),
        ("zzz ***Sat Nov 21 06:15:30 UTC 2026", 30),
        ("2026-11-21 06:15:00.250", 0.25),
        ("2026-11-21T07:15:00+01:00", 0),
        ("=== 2026-11-21 06:15:00 UTC ===", 0),
        (f"{BEGIN + 3:.0f}", 3),
        (f"{BEGIN + 3:.0f}.5", 3.5),
        (f"time: {BEGIN:.0f}", 0),
        (f"{BEGIN + 3:.0f}500", 3.5),
        (f">>> {BEGIN:.0f}.001 <<<", 0.001),
        ("Sa 21. Nov 07:15:00 CET 2026", 0),
        ("sam. 21 nov. 2026 06:15:00 UTC", 0),
        ("2026年 11月 21日 星期六 06:15:00 UTC", 0),
        ("21.11.2026 06:15:00", 0),
        ("20261121-061500", 0),
        ("2026-11-21 06:15", 0),
        ("zzz <11/21/2026 06:15:00> subcount: 5", 0),
    ],
)
def test_dates_of_lines(line: str, second: float) -> None:
    assert proc_dates.of_line(line) == BEGIN + second


@pytest.mark.parametrize(
    "line",
    [
        "Node 0, zone      DMA",
        "nr_free_pages 1795241700",
        "2026-13-21 06:15:00",
        "06:15:00",
        "2026",
    ],
)
def test_lines_that_are_no_dates(line: str) -> None:
    assert proc_dates.of_line(line) is None


@pytest.mark.parametrize(
    "name",
    [
        "zoneinfo.2026-11-21T061500",
        "buddy-20261121-0615.txt",
        "2026-11-21_06-15-00",
        "2026.log-20261121061500Z",
        f"vmstat.{BEGIN:.0f}",
    ],
)
def test_dates_of_names(name: str) -> None:
    assert proc_dates.of_name(name) == BEGIN


def test_a_day_is_no_time() -> None:
    assert proc_dates.of_name("sosreport-web1-2026-11-21-abcdef") is None
    assert proc_dates.of_day("sosreport-web1-2026-11-21-abcdef") == BEGIN - 6.25 * 3600
    assert proc_dates.of_day("zoneinfo.7") is None


STAMPS = [
    "{at:%Y-%m-%dT%H:%M:%S+00:00} {line}",
    "[{at:%Y-%m-%d %H:%M:%S}] {line}",
    "{epoch}.25 {line}",
    "{at:%b %d %H:%M:%S} {line}",
    "{at:%b %d %H:%M:%S} web1 watch-buddy[12]: {line}",
    "<13>1 {at:%Y-%m-%dT%H:%M:%S.000Z} web1 watch 12 - - {line}",
    "{at:%Y-%m-%dT%H:%M:%S.123456789Z} stdout F {line}",
    '{{"log":"{line}\\n","stream":"stdout","time":"{at:%Y-%m-%dT%H:%M:%S.1Z}"}}',
    '{{"__REALTIME_TIMESTAMP":"{epoch}000000","MESSAGE":"{line}"}}',
]


@pytest.mark.parametrize("stamp", STAMPS)
def test_dates_before_each_line(stamp: str, tmp_path: Path) -> None:
    rows = []
    for second in (0, 30, 60):
        at = datetime.fromtimestamp(BEGIN + second, UTC)
        rows += [
            stamp.format(at=at, epoch=round(BEGIN) + second, line=line)
            for name in FILES
            for line in text_of(name).splitlines()
        ]
    log = tmp_path / "log"
    log.write_text("\n".join(rows) + "\n")
    os.utime(log, (BEGIN + 90, BEGIN + 90))  # the year of dates without one
    series = proc_series.read(log)
    assert [moment.ts // NS for moment in series.moments] == [BEGIN, BEGIN + 30, BEGIN + 60]
    assert all(one.text(name) == whole(name) for one in series.moments for name in FILES)


@pytest.mark.parametrize(
    "before", ["", "/proc/buddyinfo:", "buddy ", "\x1b[1m", "> ", "web1: ", "    "]
)
def test_an_epoch_below_counts_is_a_date(before: str, tmp_path: Path) -> None:
    rows = "".join(f"{before}{line}\n" for line in text_of("buddyinfo").splitlines())
    text = "".join(f"{BEGIN + second:.0f}\n{rows}" for second in (0, 30, 60))
    assert proc_log.is_of_proc(text)
    moments = read(tmp_path, text).moments
    assert [(moment.ts // NS - BEGIN, blocks(moment) > 0) for moment in moments] == [
        (second, True) for second in (0, 30, 60)
    ]


LABELS = ["Snapshot 3 at {}", "[{}] buddyinfo:", "{} buddyinfo", "DATE: {} of web1", "web1 | {}\n"]


@pytest.mark.parametrize("label", LABELS)
def test_a_date_among_words_right_above_a_copy(label: str, tmp_path: Path) -> None:
    rows = text_of("buddyinfo")
    text = "".join(f"{label.format(f'2026-11-21 06:15:{s:02}')}\n{rows}" for s in (0, 20, 40))
    moments = read(tmp_path, "2026-11-20 01:02:03 starting\n\n\n\n" + text).moments
    assert [moment.ts // NS - BEGIN for moment in moments] == [0, 20, 40]


# Where copies are


def dated(directory: Path, nr: int = 3) -> Path:
    """Directories with a date in their name, a minute apart."""
    for minute in range(nr):
        folder = directory / "copies" / f"2026-11-21T06{15 + minute}00"
        folder.mkdir(parents=True)
        for name in FILES:
            text = text_of(name)
            (folder / name).write_text(later(text, minute) if name == "vmstat" else text)
        shutil.copy(PROC / "version.after", folder / "version")
    return directory / "copies"


def test_dated_directories(tmp_path: Path) -> None:
    series = proc_series.read(dated(tmp_path))
    assert [moment.ts for moment in series.moments] == [
        round((BEGIN + 60 * n) * NS) for n in range(3)
    ]
    assert all(name in moment for moment in series.moments for name in FILES)
    assert series.facts["version"].startswith("Linux version 6.1")
    assert series.limits == []


def test_dates_in_the_names_of_files_and_names_that_say_nothing(tmp_path: Path) -> None:
    for second in (10, 20):
        for nr, name in enumerate(FILES):
            (tmp_path / f"file{nr}-20261121-0615{second}.out").write_text(text_of(name))
    series = proc_series.read(tmp_path)
    assert [sorted(moment.times) for moment in series.moments] == [sorted(FILES)] * 2
    assert [moment.ts for moment in series.moments] == [round((BEGIN + s) * NS) for s in (10, 20)]


def test_dates_of_last_change(tmp_path: Path) -> None:
    for nr in (9, 10, 11):
        for second, name in enumerate(FILES):
            file = tmp_path / f"{name}.{nr}"
            file.write_text(text_of(name))
            os.utime(file, (BEGIN, BEGIN + 60 * nr + second))
    series = proc_series.read(tmp_path)
    assert [moment.ts for moment in series.moments] == [
        round((BEGIN + 60 * n) * NS) for n in (9, 10, 11)
    ]
    assert "changed last" in series.limits[0]


def test_before_and_after_that_were_copied_together_have_an_order_and_no_time() -> None:
    series = proc_series.read(PROC)
    assert [moment.ts for moment in series.moments] == [0, 0]
    assert series.moments[0].text("vmstat") == text_of("vmstat")
    assert proc_series.NO_DATES in series.limits


def sosreport(path: Path) -> Path:
    root = path / "sosreport-web1-2026-11-21-abcdef"
    for place, text in (
        *((f"proc/{name}", text_of(name)) for name in FILES),
        ("proc/1/status", "Name:\tinit\n"),
        ("sys/devices/system/node/node0/vmstat", "nr_free_pages 7\nnr_zone_active_anon 1\n"),
        (
            "sos_commands/kernel/uname_-a",
            f"{UNAME}\n",
        ),
        ("sos_commands/kernel/sysctl_-a", "abi.x = 1\nvm.swappiness = 60\n"),
        ("var/log/messages", "Nov 21 06:15:00 web1 kernel: nothing\n"),
    ):
        file = root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "proc" / "link").symlink_to("/etc/passwd")
    return root


@pytest.mark.parametrize("packed", ["", "gz", "xz", "bz2"])
def test_a_sosreport(tmp_path: Path, packed: str) -> None:
    root = sosreport(tmp_path)
    if packed:
        path = tmp_path / f"sos.tar.{packed}"
        with tarfile.open(path, f"w:{packed}") as archive:
            archive.add(root, root.name)
        shutil.rmtree(root)
        root = path
    assert proc_series.is_series(root)
    series = proc_series.read(root)
    (moment,) = series.moments
    assert sorted(moment.times) == sorted(FILES)
    assert moment.text("vmstat") == text_of("vmstat"), "not that of one node"
    assert series.facts["uname"].startswith("Linux web1 5.14.0-70.el9.x86_64")
    assert "vm.swappiness = 60" in series.facts["sysctls"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_log(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(f"Sat Nov 21 06:15:00 UTC 2026\n{text_of('buddyinfo')}".encode()))
    assert [m.ts for m in proc_series.read(path).moments] == [round(BEGIN * NS)]


def test_an_archive_that_ends_early_keeps_what_came_before(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(sosreport(tmp_path), "sos")
    path = tmp_path / "cut.tar"
    whole = out.getvalue()
    path.write_bytes(whole[: whole.index(b"sos/sys") + 700])
    series = proc_series.read(path)
    assert len(series.moments) == 1
    assert "cannot be read to their end" in series.limits[0]


def test_other_files_and_directories_are_no_series(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    assert not proc_series.is_series(tmp_path / "text")
    assert not proc_series.is_series(PROC / "version.after")
    with pytest.raises(OSError, match="no copies of /proc"):
        proc_series.read(tmp_path)


# Logs


def log(*names: str, nr: int = 3) -> str:
    """`date; cat` of the files, nr times, 10 s apart, between lines of other programs."""
    return "".join(
        f"Sat Nov 21 06:15:{10 * n:02} UTC 2026\n"
        + "".join(later(text_of(x), n) if x == "vmstat" else text_of(x) for x in names)
        + " 06:15:00 up 1 day,  load average: 0.00\n"
        for n in range(nr)
    )


def test_a_log_of_all_files(tmp_path: Path) -> None:
    series = read(tmp_path, log(*FILES))
    assert [moment.ts for moment in series.moments] == [
        round((BEGIN + s) * NS) for s in (0, 10, 20)
    ]
    for moment in series.moments:
        assert all(moment.text(name) == whole(name) for name in FILES[:3])
    assert series.limits == []


@pytest.mark.parametrize("first", FILES)
def test_the_order_in_a_log_is_free(tmp_path: Path, first: str) -> None:
    names = [first, *(name for name in reversed(FILES) if name != first)]
    series = read(tmp_path, log(*names))
    assert [sorted(moment.times) for moment in series.moments] == [sorted(FILES)] * 3


def test_a_log_with_names_and_paths(tmp_path: Path) -> None:
    text = log("buddyinfo").replace("Node", "==> /proc/buddyinfo <==\n/proc/buddyinfo:Node", 1)
    assert len(read(tmp_path, text).moments) == 3


def test_a_log_without_dates(tmp_path: Path) -> None:
    text = text_of("buddyinfo") * 3
    assert [moment.ts for moment in read(tmp_path, text).moments] == [0, 0, 0]
    assert [moment.ts for moment in read(tmp_path, text, 2.5).moments] == [NS, 3.5 * NS, 6 * NS]


def test_a_copy_above_the_first_date_is_left_out(tmp_path: Path) -> None:
    series = read(tmp_path, text_of("buddyinfo") + log("buddyinfo"))
    assert len(series.moments) == 3
    assert series.limits[0].startswith("copies without a date were left out (1): log line 1")


def test_a_second_copy_of_one_second_is_left_out(tmp_path: Path) -> None:
    one, two = text_of("buddyinfo"), text_of("buddyinfo", "after")
    series = read(tmp_path, f"Sat Nov 21 06:15:00 UTC 2026\n{one}\n{two}\n{one}")
    assert len(series.moments) == 1
    assert series.limits[0].startswith("copies with the date of another one were left out (1)")


def test_a_restart_begins_another_series(tmp_path: Path) -> None:
    text = log("buddyinfo", "vmstat", nr=2)
    small = "".join(f"{line.split()[0]} 5\n" for line in text_of("vmstat").splitlines())
    for n in (3, 4, 5):
        text += f"Sat Nov 21 06:15:{10 * n:02} UTC 2026\n{text_of('buddyinfo')}\n{small}"
    series = read(tmp_path, text)
    assert [moment.ts for moment in series.moments] == [
        round((BEGIN + s) * NS) for s in (30, 40, 50)
    ]
    assert "2 boots or machines" in series.limits[0]
    assert "2 moments are left out" in series.limits[0]


# Damage: a clear line, and the rest is kept


@pytest.mark.parametrize("name", ["zoneinfo", "buddyinfo", "pagetypeinfo"])
def test_a_cut_copy_is_left_out_and_the_others_are_kept(tmp_path: Path, name: str) -> None:
    lines = text_of(name).splitlines(keepends=True)
    before = log("buddyinfo" if name != "buddyinfo" else "zoneinfo", name)
    good = PARSE[name](text_of(name))
    for cut in range(1, len(lines), max(len(lines) // 40, 1)):
        short = "".join(lines[:cut])
        text = before + f"Sat Nov 21 06:15:50 UTC 2026\n{short}"
        text += f"Sat Nov 21 06:16:00 UTC 2026\n{text_of(name)}"
        series = read(tmp_path, text)
        of_name = [moment for moment in series.moments if name in moment]
        assert all(PARSE[name](moment.text(name) or "") == good for moment in of_name)
        if len(of_name) == 5:  # cut within a zone without pages
            continue
        assert len(of_name) == 4
        assert any("left out (1): log line" in line or "log: " in line for line in series.limits)


def test_lines_between_the_zones_are_no_two_copies(tmp_path: Path) -> None:
    lines = text_of("buddyinfo").splitlines(keepends=True)
    mixed = "".join([*lines[:1], "usb 1-1: new device\n", *lines[1:]])
    with pytest.raises(OSError, match="buddyinfo is in pieces"):
        read(tmp_path, f"Sat Nov 21 06:15:00 UTC 2026\n{mixed}")
    series = read(tmp_path, f"{log('buddyinfo')}Sat Nov 21 06:15:30 UTC 2026\n{mixed}")
    assert len(series.moments) == 3


@pytest.mark.parametrize("at_blanks", [True, False])
@pytest.mark.parametrize("name", ["buddyinfo", "pagetypeinfo", "zoneinfo"])
def test_a_folded_log_is_unfolded_or_left_out(tmp_path: Path, name: str, at_blanks: bool) -> None:
    for width in range(40, 110, 7):
        folded = fold(text_of(name), width, at_blanks=at_blanks)
        try:
            series = read(tmp_path, f"Sat Nov 21 06:15:00 UTC 2026\n{folded}")
        except OSError as e:
            assert "left out" in str(e) or "no copies" in str(e)
            continue
        assert PARSE[name](series.moments[0].text(name) or "") == PARSE[name](text_of(name))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 32))
def test_damage_ends_in_moments_or_one_error(seed: int) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"series-{os.getpid()}"
    path.write_text(log(*FILES))
    try:
        damage_text(path, seed)
        read_series_of(path)
    except OSError as e:
        assert "\n" not in str(e)
    finally:
        path.unlink()


# Large machines and old kernels


def test_eight_nodes(tmp_path: Path) -> None:
    buddy = "".join(
        f"Node {n}, zone   Normal {' '.join(str(n + o) for o in range(11))}\n" for n in range(8)
    )
    types = "".join(
        "Page block order: 9\nPages per block:  512\n\n"
        "Free pages count per migrate type at order       0      1      2\n"
        f"Node    {n}, zone   Normal, type    Unmovable      1      2      3\n"
        f"Node    {n}, zone   Normal, type      Movable >100000      2      3\n\n"
        "Number of blocks type     Unmovable      Movable\n"
        f"Node {n}, zone   Normal           12           80\n"
        for n in range(8)
    )
    series = read(tmp_path, f"Sat Nov 21 06:15:00 UTC 2026\n{types}{buddy}")
    (moment,) = series.moments
    areas, counts = procfs.parse_pagetypeinfo(moment.text("pagetypeinfo") or "")
    assert len(areas) == 8 * 6
    assert sum(row["capped"] for row in areas) == 8
    assert sum(row["nr_blocks"] for row in counts) == 8 * 92
    assert len(procfs.parse_buddyinfo(moment.text("buddyinfo") or "")) == 88


ZONEINFO_2_6_18 = """\
Node 0, zone      DMA
  pages free     1500
        min      17
        low      21
        high     25
        active   0
        inactive 0
        scanned  0 (a: 17 i: 4)
        spanned  4096
        present  4096
        protection: (0, 0, 880, 2012)
  pagesets
  all_unreclaimable: 0
  prev_priority:     12
  start_pfn:         0
Node 0, zone  HighMem
  pages free     90000
        min      128
        low      279
        high     430
        active   7
        inactive 5
        scanned  0 (a: 0 i: 0)
        spanned  289792
        present  289792
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0 pcp: 0
              count: 53
              high:  186
              batch: 31
    cpu: 0 pcp: 1
              count: 2
              high:  62
              batch: 15
  vm stats threshold: 20
  all_unreclaimable: 0
  prev_priority:     12
  start_pfn:         225280
"""


@pytest.mark.parametrize("text", [ZONEINFO_2_6_18, ZONEINFO_3_2], ids=["2.6.18", "3.2"])
def test_high_memory_of_old_kernels(tmp_path: Path, text: str) -> None:
    (moment,) = read(tmp_path, text).moments
    zones, _ = procfs.parse_zoneinfo(moment.text("zoneinfo") or "")
    assert [row["zone"] for row in zones][-1] == "HIGHMEM"


def test_types_in_the_order_of_old_kernels() -> None:
    text = (
        "Page block order: 9\nPages per block:  512\n\n"
        "Free pages count per migrate type at order       0      1      2\n"
        "Node    0, zone      DMA, type    Unmovable      1      0      2\n"
        "Node    0, zone      DMA, type  Reclaimable      0      0      0\n"
        "Node    0, zone      DMA, type      Movable      4      5      6\n"
        "Node    0, zone      DMA, type      Reserve      0      0      1\n"
        "Node    0, zone      DMA, type      Isolate      0      0      0\n\n"
        "Number of blocks type     Unmovable  Reclaimable      Movable      Reserve      Isolate\n"
        "Node 0, zone      DMA            1            0            6            1            0\n"
    )
    areas, counts = procfs.parse_pagetypeinfo(proc_form.checked("pagetypeinfo", text.encode()))
    assert {row["migratetype"]: row["nr_blocks"] for row in counts}["MOVABLE"] == 6
    assert [r["nr_free"] for r in areas if r["migratetype"] == "MOVABLE"] == [4, 5, 6]


# Monitors

SCRAPE = """\
# HELP node_buddyinfo_blocks Count of free blocks according to size.
# TYPE node_buddyinfo_blocks gauge
node_buddyinfo_blocks{node="0",size="0",zone="Normal"} 4381
node_buddyinfo_blocks{node="0",size="1",zone="Normal"} 1.2e+03
node_buddyinfo_blocks{node="0",size="2",zone="Normal"} 7
node_cpu_seconds_total{cpu="0",mode="idle"} 12.5
node_memory_MemTotal_bytes 1.6e+10
node_time_seconds 1.7952417e+09
node_uname_info{machine="x86_64",nodename="web1",release="5.4.0-42-generic",version="#46"} 1
node_vmstat_pgfault 5.5e+06
node_zoneinfo_high_pages{node="0",zone="Normal"} 30
node_zoneinfo_low_pages{node="0",zone="Normal"} 20
node_zoneinfo_managed_pages{node="0",zone="Normal"} 90000
node_zoneinfo_min_pages{node="0",zone="Normal"} 10
node_zoneinfo_nr_free_pages{node="0",zone="Normal"} 6809
node_zoneinfo_present_pages{node="0",zone="Normal"} 95000
node_zoneinfo_protection_0{node="0",zone="Normal"} 0
node_zoneinfo_protection_1{node="0",zone="Normal"} 12
node_zoneinfo_spanned_pages{node="0",zone="Normal"} 95000
"""


def test_a_scrape_of_node_exporter(tmp_path: Path) -> None:
    (tmp_path / "metrics.prom").write_text(SCRAPE)
    series = proc_series.read(tmp_path)
    (moment,) = series.moments
    assert moment.ts == 1_795_241_700 * NS
    assert blocks(moment) == 4381 + 2400 + 28
    ((zone,), _) = procfs.parse_zoneinfo(moment.text("zoneinfo") or "")
    assert (zone["free"], zone["wmark_min"], zone["managed"]) == (6809, 10, 90000)
    assert zone["lowmem_reserve_dma32"] == 0, "the place of a reserve is that of a zone"
    assert series.facts["uname"].startswith("Linux web1 5.4.0-42-generic #1 x86_64")


def test_several_scrapes(tmp_path: Path) -> None:
    later_one = SCRAPE.replace("4381", "5").replace("1.7952417e+09", "1.79524176e+09")
    moments = read(tmp_path, SCRAPE + later_one).moments
    assert [blocks(moment) for moment in moments] == [6809, 2433]
    assert moments[1].ts - moments[0].ts == 60 * NS


def test_a_dump_of_prometheus(tmp_path: Path) -> None:
    text = "".join(
        f'{{__name__="node_buddyinfo_blocks",node="0",size="{size}",zone="Normal"}} {size + n}'
        f" {(1_795_241_700 + 60 * n) * 1000}\n"
        for size in range(3)
        for n in range(4)
    )
    moments = read(tmp_path, text).moments
    assert [moment.ts for moment in moments] == [(1_795_241_700 + 60 * n) * NS for n in range(4)]
    assert [blocks(moment) for moment in moments] == [10 + 7 * n for n in range(4)]


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_table_of_pcp(tmp_path: Path, delimiter: str) -> None:
    columns = ["Time", "kernel.all.load-1 minute"]
    columns += [f"mem.buddyinfo.pages-Normal::order{order}::node0" for order in range(3)]
    columns += [f"mem.zoneinfo.{name}-Normal::node0" for name in ("free", "min", "present")]
    columns += ["mem.zoneinfo.protection-Normal::node0::lowmem_reserved1"]
    if delimiter == "\t":
        columns = [c.replace("pages-", 'pages["') + '"]' * ("pages-" in c) for c in columns]
    row = ["0.5", "4381", "1200", "", "27236.000", "40", "380000", "48"]
    lines = [columns, ["2026-11-21 06:15:00", *row], ["2026-11-21 06:16:00", *row]]
    text = "".join(delimiter.join(line) + "\n" for line in lines)
    moments = read(tmp_path, text).moments
    assert [moment.ts for moment in moments] == [round((BEGIN + s) * NS) for s in (0, 60)]
    assert blocks(moments[0]) == 6781
    ((zone,), _) = procfs.parse_zoneinfo(moments[0].text("zoneinfo") or "")
    assert (zone["free"], zone["wmark_min"], zone["present"]) == (6809, 10, 95000)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_parts(text: str) -> None:
    list(proc_log.parts(text.splitlines()))
    for kind in ("metrics", "pcp"):
        if text.strip():
            list(proc_metrics.texts(kind, text))
