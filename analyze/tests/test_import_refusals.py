# SPDX-License-Identifier: Apache-2.0
"""The inputs of `import`: a trace and copies of one machine, or one line that says why not."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pagetape.recording.foreign import kind_of
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import REPLAY_FILES

from .conftest import Said

COLLECTOR = Path(__file__).parents[2] / "collector/tests"
SHARED = Path(__file__).parents[3] / "shared/data"
PROC = COLLECTOR / "data/proc-6.1"
sys.path.insert(0, str(COLLECTOR))
from tracedat import ALLOC, FREE, UNAME, Format, Machine, TraceDat, ring  # noqa: E402

Run = Callable[..., Said]
MACHINE = Machine()
SWITCH = Format("sched", "sched_switch", 50, [("int prev_pid", 4, True)])

Record = tuple[int, bytes]


def allocs(pfns: Sequence[int], order: int = 0) -> list[Record]:
    """One allocation of each pfn, a millisecond apart."""
    return [
        (1_000_000 * (n + 1), ALLOC.record(MACHINE, pfn, order, 0, 1)) for n, pfn in enumerate(pfns)
    ]


def write(path: Path, *cpus: list[Record], formats: Sequence[Format] = (ALLOC, FREE)) -> Path:
    """A trace.dat of 6.1.0-56 with these records on each CPU."""
    uname = b"Linux guest 6.1.0-56-cloud-amd64 x86_64\0"
    rings = [ring(MACHINE, records) for records in cpus]
    dat = TraceDat(MACHINE, formats, buffers={"": rings}, options=[(UNAME, uname)])
    path.write_bytes(dat.write(6))
    return path


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROC, tmp_path / "proc"))


@pytest.fixture
def carrier(tmp_path: Path) -> Path:
    """A trace without a page event."""
    records = [(1_000_000 * n, SWITCH.record(MACHINE, n)) for n in range(1, 100)]
    return write(tmp_path / "carrier.dat", records, formats=[SWITCH])


def refused(said: Said) -> str:
    assert (said.status, said.out, said.err.count("\n")) == (1, "", 1), said.err
    return said.err


# Files that are no trace.dat.

FOREIGN: dict[str, tuple[bytes, str, str]] = {
    "dmesg": (
        b"[  141.164242] cc1: page allocation failure: order:4, mode:0x40dc0\n",
        "kernel messages",
        "record",
    ),
    "syslog": (
        b"Nov  2 10:11:12 box kernel: cc1 invoked oom-killer\n",
        "kernel messages",
        "record",
    ),
    "function_graph": (
        b"# tracer: function_graph\n 24)   |   }\n 24)   |  /* mm_page_free: pfn=0x1 order=0 */\n",
        "without times",
        "funcgraph-abstime",
    ),
    "json": (b'{"traceEvents": []}\n', "a trace in JSON", "record"),
    "html": (b"<!DOCTYPE html>\n<html>", "an HTML page", "download"),
    "gzip": (b"\x1f\x8b\x08\0\0", "compressed with gzip", "gunzip"),
    "zstd": (b"\x28\xb5\x2f\xfd\0\0", "compressed with zstd", "zstd -d"),
    "core": (b"\x7fELF\x02", "an ELF file", "record"),
    "meminfo": (b"MemTotal:       16318332 kB\n", "a copy of /proc/meminfo", "--proc"),
    "text": (b"hello\n", "a text of an unknown kind", "trace-cmd record"),
    "binary": (b"\x01\x00\x02" * 9, "a binary file of an unknown kind", "trace-cmd record"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_file_is_named_with_the_next_step(
    what: str, tmp_path: Path, pagetape: Run
) -> None:
    content, name, step = FOREIGN[what]
    path = tmp_path / "given"
    path.write_bytes(content)
    said = refused(pagetape("import", path, "-o", tmp_path / "t.tape"))
    assert f"{path}: not a trace, but " in said
    assert name in said and step in said
    assert not (tmp_path / "t.tape").exists()


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data")
def test_texts_of_others_are_recognised() -> None:
    kinds = {
        "order-filter.trace.txt": "the text of a trace",
        "ftrace-dmabuf-order4.txt": "the text of a trace",
        "perf-script-kmem.txt": "the output of perf script",
        "dmesg-ixgbe-5.11.txt": "a log of kernel messages",
        "dmesg-highatomic-4.19.txt": "a log of kernel messages",
    }
    for name, kind in kinds.items():
        data = (SHARED / "public" / name).read_bytes()
        assert kind_of(data, len(data)).what.startswith(kind), name
        assert (kind_of(data, len(data)).next is None) == ("dmesg" not in name)
    messages = sorted((SHARED / "messages").glob("*.txt"))
    for path in messages:
        data = path.read_bytes()
        assert kind_of(data, len(data)).what == "a log of kernel messages", path.name
    assert len(messages) > 20


# Texts of traces.

FTRACE = (
    "# tracer: nop\n#\n"
    "   cc-5972    [006] ....  7971.248176: mm_page_alloc: page=00000000ea63dfde pfn=0x5e4454"
    " order=1 migratetype=1 gfp_flags=GFP_KERNEL|__GFP_COMP\n"
    "   cc-5972    [006] ....  7971.248276: mm_page_free: page=00000000ea63dfde pfn=0x5e4454"
    " order=1\n"
)


def test_every_report_says_what_a_text_lacks(tmp_path: Path, pagetape: Run) -> None:
    text, tape = tmp_path / "trace.txt", tmp_path / "t.tape"
    text.write_text(FTRACE)
    said = pagetape("import", text, "-o", tape)
    assert said.status == 0 and "2 events" in said.out and "lost: unknown" in said.out
    for words in (("info", tape), ("report", "alloc.by_order", tape)):
        (line,) = [one for one in absent(pagetape, *words) if one.startswith("made from a text")]
        assert line.startswith("made from a text of ftrace: it does not show lost events")
        for what in ("microseconds", "--kernel-release", "names of migratetypes", "--proc"):
            assert what in line
    assert json.loads(pagetape("info", tape, "--json").out)["lost"] is None
    assert "made from a text of ftrace" in pagetape("diagnose", tape, "--json").out


def test_what_is_given_to_the_import_is_no_longer_missing(
    proc: Path, tmp_path: Path, pagetape: Run
) -> None:
    text, tape = tmp_path / "trace.txt", tmp_path / "t.tape"
    text.write_text(FTRACE.replace("0x5e4454", "0x4454").replace("[006]", "[002]"))
    said = pagetape("import", text, "--proc", proc, "-o", tape)
    assert said.status == 0, said.err
    (line,) = [one for one in absent(pagetape, "info", tape) if one.startswith("made from a text")]
    assert "lost events" in line and "--proc" not in line and "--kernel-release" not in line
    assert Tape(tape).facts["kernel"].startswith("6.1.")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data")
@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("order-filter.trace.txt", 388),
        ("perf-script-kmem.txt", 400),
        ("ftrace-dmabuf-order4.txt", 4),
    ],
)
def test_public_texts_are_imported(name: str, events: int, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("import", SHARED / "public" / name, "-o", tmp_path / "t.tape")
    assert said.status == 0 and f"{events} events" in said.out
    lines = absent(pagetape, "info", tmp_path / "t.tape")
    assert any("order 0 among 388" in line for line in lines) == (events == 388)


# Directories of copies.


def test_an_empty_directory_is_an_error(carrier: Path, tmp_path: Path, pagetape: Run) -> None:
    (tmp_path / "empty").mkdir()
    said = refused(pagetape("import", carrier, "--proc", tmp_path / "empty", "-o", tmp_path / "t"))
    assert "no copies of /proc files: expected zoneinfo.before" in said


@pytest.mark.parametrize("name", ["buddyinfo", "vmstat"])
def test_garbage_is_no_snapshot(
    carrier: Path, proc: Path, tmp_path: Path, name: str, pagetape: Run
) -> None:
    (proc / f"{name}.before").write_text("garbage\n")
    said = refused(pagetape("import", carrier, "--proc", proc, "-o", tmp_path / "t.tape"))
    assert f"{name}.before: line 1: expected " in said and "found 'garbage'" in said
    assert not (tmp_path / "t.tape").exists()


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data")
@pytest.mark.parametrize(
    ("name", "migratetype", "pages"),
    [
        ("wrapped-pagetypeinfo", "MOVABLE", 6_323_168),
        ("csky-cma", "CMA", 60_564),
        ("capped-pagetypeinfo", "MOVABLE", 17_953_899),
        ("eight-nodes", None, 125_021_144),
    ],
)
def test_public_copies_keep_their_pages(
    carrier: Path, tmp_path: Path, name: str, migratetype: str | None, pages: int, pagetape: Run
) -> None:
    said = pagetape(
        "import", carrier, "--proc", SHARED / "public" / name, "-o", tmp_path / "t.tape"
    )
    assert said.status == 0, said.err
    rows = Tape(tmp_path / "t.tape").rows("free_area")
    free = [row for row in rows if row["snapshot"] == 0 and row["migratetype"] == migratetype]
    assert sum(row["nr_free"] << row["page_order"] for row in free) == pages


# A trace and copies of two machines.


def test_pages_outside_the_zones(proc: Path, tmp_path: Path, pagetape: Run) -> None:
    dat = write(tmp_path / "t.dat", allocs([*range(100, 150), 1 << 20, *range(60000, 60049)]))
    said = refused(pagetape("import", dat, "--proc", proc, "-o", tmp_path / "t.tape"))
    assert (
        f"{dat}: not of the machine of {proc}: 1 of 100 page events are outside all zones" in said
    )
    assert "0x100000" in said and "node 1 DMA32 0xc800-0x18fd8" in said
    assert not (tmp_path / "t.tape").exists()


def test_cpus_that_the_machine_lacks(proc: Path, tmp_path: Path, pagetape: Run) -> None:
    dat = write(tmp_path / "t.dat", *([allocs([100])] * 5))
    said = refused(pagetape("import", dat, "--proc", proc, "-o", tmp_path / "t.tape"))
    assert "1 page events are of CPU 4, and the machine has the CPUs 0-3" in said
    dat = write(tmp_path / "t.dat", *([allocs([100])] * 4))
    assert pagetape("import", dat, "--proc", proc, "-o", tmp_path / "t.tape").status == 0


def test_another_kernel(proc: Path, tmp_path: Path, pagetape: Run) -> None:
    (proc / "version.after").write_text("Linux version 5.10.0-8-amd64 (x@y)\n")
    dat = write(tmp_path / "t.dat", allocs([100]))
    said = refused(pagetape("import", dat, "--proc", proc, "-o", tmp_path / "t.tape"))
    assert (
        "the kernel is 6.1.0-56-cloud-amd64, but the --proc files are from 5.10.0-8-amd64" in said
    )


def test_a_private_tape_is_checked_with_its_true_pages(
    proc: Path, tmp_path: Path, pagetape: Run
) -> None:
    dat = write(tmp_path / "t.dat", allocs(range(100, 150)))
    words = ("import", dat, "--proc", proc, "--private", "hash", "-o", tmp_path / "t.tape")
    assert pagetape(*words).status == 0


def test_a_release_that_is_none(carrier: Path, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("import", carrier, "--kernel-release", "bookworm", "-o", tmp_path / "t.tape")
    assert said.status == 2 and "'bookworm' is no release of a kernel" in said.err


# What a trace leaves out.


def absent(pagetape: Run, *words: Any) -> list[str]:
    said = pagetape(*words, "--json")
    assert said.status == 0, said.err
    return list(json.loads(said.out).get("absent", []))


def test_a_trace_without_a_page_event(carrier: Path, tmp_path: Path, pagetape: Run) -> None:
    tape = tmp_path / "t.tape"
    assert "no page events" in pagetape("import", carrier, "-o", tape).err
    said = json.loads(pagetape("diagnose", tape, "--json").out)
    assert "No disease" not in said["summary"]
    assert "has no page events" in said["summary"] or "it has no page events" in said["summary"]
    assert any("no page events" in limit["what"] for limit in said["limits"])
    for report in ("extfrag.by_migratetype", "alloc.by_order", "extfrag.over_time"):
        said_of = refused(pagetape("report", report, tape))
        assert "this import has none (not recorded, or none happened)" in said_of
    assert "no page events" in absent(pagetape, "report", "metrics", tape)[0]
    assert "no page events" in absent(pagetape, "info", tape)[0]


@pytest.mark.parametrize("order", [0, 1, 3])
def test_an_order_filter_is_noticed(tmp_path: Path, order: int, pagetape: Run) -> None:
    dat = write(tmp_path / "t.dat", allocs(range(1024, 2048, 8), order))
    assert pagetape("import", dat, "-o", tmp_path / "t.tape").status == 0
    lines = absent(pagetape, "report", "alloc.by_order", tmp_path / "t.tape")
    words = {0: None, 1: "no allocation or free of order 0 among 128", 3: "orders 0 to 2 among 128"}
    assert (
        any(words[order] in line for line in lines) if words[order] else "order" not in str(lines)
    )


def test_kinds_and_cpus_without_an_event(tmp_path: Path, pagetape: Run) -> None:
    frees = [(1000 + n, FREE.record(MACHINE, n, 0)) for n in range(50)]
    dat = write(tmp_path / "t.dat", frees, [], frees, [])
    assert pagetape("import", dat, "-o", tmp_path / "t.tape").status == 0
    assert absent(pagetape, "report", "events.by_kind", tmp_path / "t.tape") == [
        "no event of kmem:mm_page_alloc, kmem:mm_page_alloc_zone_locked, kmem:mm_page_pcpu_drain"
        " or of 2 CPUs of 4 (1, 3): not recorded, or none happened"
    ]
    said = refused(pagetape("report", "pages.lifetimes", tmp_path / "t.tape"))
    assert "needs events of every allocation, and this import has none" in said


def test_events_of_a_kernel_before_4_1(tmp_path: Path, pagetape: Run) -> None:
    old = Format("kmem", "mm_page_free", 10, [("struct page * page", 8, False)])
    records = [*allocs([5, 6]), (9_000_000, old.record(MACHINE, 7))]
    dat = write(tmp_path / "t.dat", records, formats=[ALLOC, old])
    said = pagetape("import", dat, "-o", tmp_path / "t.tape")
    assert said.status == 0 and "2 events" in said.out
    assert "1 event of mm_page_free are counted, not stored" in said.err
    assert "kmem:mm_page_free has no usable field 'pfn' (kernels before 4.1 have none)" in said.err


# A replay needs what the help of `import` says.


@pytest.mark.parametrize("missing", REPLAY_FILES)
def test_a_replay_names_the_missing_file(
    proc: Path, tmp_path: Path, missing: str, pagetape: Run
) -> None:
    dat = write(tmp_path / "t.dat", allocs(range(100, 200)))
    tape = tmp_path / "t.tape"
    for path in proc.glob(f"{missing}.*"):
        path.unlink()
    assert pagetape("import", dat, "--proc", proc, "-o", tape).status == 0
    said = refused(pagetape("replay", tape))
    lacks = f"cannot be replayed without {missing}"
    assert lacks in said and "--proc DIR, which holds zoneinfo, pagetypeinfo and kpageflags" in said
    help_text = " ".join(pagetape("import", "--help").out.split())
    assert "A replay needs zoneinfo, pagetypeinfo and kpageflags from before the trace" in help_text


def test_a_replay_has_enough_with_these_files(proc: Path, tmp_path: Path, pagetape: Run) -> None:
    for path in proc.iterdir():
        if path.name.partition(".")[0] not in REPLAY_FILES:
            path.unlink()
    dat = COLLECTOR / "data/linux-6.1-zstd.dat"
    tape = tmp_path / "t.tape"
    assert pagetape("import", dat, "--proc", proc, "-o", tape).status == 0
    assert pagetape("replay", tape, "--kernel", "6.1.192", "--ensemble", "0").status == 0


def grown(proc: Path, pages: int) -> None:
    """Let the kernel have allocated so many pages between the copies."""
    (before,) = re.findall(r"^pgalloc_normal (\d+)$", (proc / "vmstat.before").read_text(), re.M)
    after = (proc / "vmstat.after").read_text()
    for zone in ("dma", "dma32", "movable", "device", "normal"):
        (old,) = re.findall(rf"^pgalloc_{zone} \d+$", (proc / "vmstat.before").read_text(), re.M)
        after = re.sub(rf"^pgalloc_{zone} \d+$", old, after, flags=re.M)
    after = after.replace(f"pgalloc_normal {before}", f"pgalloc_normal {int(before) + pages}")
    (proc / "vmstat.after").write_text(after)


@pytest.mark.parametrize(("pages", "noted"), [(30_000, False), (300_000, True)])
def test_copies_of_another_time_than_the_trace_are_noted(
    proc: Path, tmp_path: Path, pages: int, noted: bool, pagetape: Run
) -> None:
    grown(proc, pages)
    dat = write(tmp_path / "t.dat", allocs([*range(100, 150)] * 200))  # 10,000 pages
    tape = tmp_path / "t.tape"
    said = pagetape("import", dat, "--proc", proc, "-o", tape)
    line = (
        "the /proc copies are not of the begin and the end of the trace, or it leaves out"
        " allocations: the kernel allocated 300,000 pages between the copies, the trace has 10,000"
    )
    assert said.status == 0 and (line in said.err) == noted
    assert (line in pagetape("info", tape, "--json").json["absent"]) == noted
