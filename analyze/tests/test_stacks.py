# SPDX-License-Identifier: Apache-2.0
"""Kernel stacks: their symbols, and the path from a fallback to the report."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import livetest
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape import conditions
from pagetape.recording.stack_events import StackEvent
from pagetape.recording.stacks import Frames, Place, Symbols
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError

Run = Callable[..., Any]

DATA = Path(__file__).parents[2] / "collector/tests/data"

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t rmqueue_bulk
ffffffff81000200 W alloc_pages
ffffffff81000250 D a_table
ffffffff81000300 T _etext
ffffffffc0000000 t xfs_buf_alloc\t[xfs]
"""


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0xFFFFFFFF81000001, Place("_stext", 1, None)),
        (0xFFFFFFFF81000180, Place("rmqueue_bulk", 0x80, None)),
        (0xFFFFFFFF81000200, Place("rmqueue_bulk", 0x100, None)),  # its last call does not return
        (0xFFFFFFFF81000260, Place("alloc_pages", 0x60, None)),
        (0xFFFFFFFFC0000010, Place("xfs_buf_alloc", 0x10, "xfs")),
        (0xFFFFFFFFA0000000, None),  # far from every symbol
        (0x1000, None),
        (0, None),
    ],
)
def test_an_address_is_in_the_function_before_it(address: int, place: Place | None) -> None:
    assert Symbols(KALLSYMS).find(address) == place


def test_a_kernel_that_hides_its_addresses_has_no_symbols() -> None:
    hidden = Symbols("0000000000000000 T _stext\n0000000000000000 t rmqueue_bulk\n")
    assert not hidden
    assert hidden.find(0xFFFFFFFF81000180) is None


class Traced:
    """A source with two stacks, of a kernel with or without symbols."""

    def __init__(self, kallsyms: str) -> None:
        self.kallsyms = kallsyms

    def stack(self, number: int) -> list[int]:
        return [[0xFFFFFFFF81000180, 0xFFFFFFFFA0000000], [0xFFFFFFFF81000001]][number]


def stacks(*numbers: int | None) -> pa.RecordBatch:
    row = {"at": 0, "ts": 0, "cpu": 0, "pid": 1}
    return TABLES["stack"].batch([row | {"stack": number} for number in numbers])


def test_each_stack_is_written_once_and_addresses_only_without_a_name() -> None:
    frames = Frames(Traced(KALLSYMS))  # type: ignore[arg-type]
    first, again, second = (frames.of(stacks(*n)).to_pylist() for n in ((0, 0), (0,), (None, 1)))
    assert [(r["function"], r["offset"], r["address"]) for r in first] == [
        ("rmqueue_bulk", 0x80, None),
        (None, None, 0xFFFFFFFFA0000000),
    ]
    assert again == []
    assert [(r["stack"], r["depth"], r["function"]) for r in second] == [(1, 0, "_stext")]


@pytest.mark.parametrize(
    ("name", "asked", "nr", "without"), [("6.1", "pipe_write", 8, 0), ("6.12", "pipe_write", 10, 4)]
)
def test_a_trace_with_stacks_shows_the_callers(
    name: str, asked: str, nr: int, without: int, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.tape"
    assert pagetape("import", DATA / f"linux-{name}-stacks.dat", "-o", out).status == 0
    rows = pagetape("report", "extfrag.by_stack", out, "--json").json["rows"]
    found = {row["folded"]: row["nr"] for row in rows}
    assert sum(nr for folded, nr in found.items() if asked in folded.split(";")) == nr
    assert found.get("[no stack]", 0) == without
    assert not re.search("0x|unknown|trace_event", " ".join(found))
    said = pagetape("info", out, "--json").json["stacks"]
    assert (said["recorded"], said["without_event"], said["frames_without_name"]) == (
        {"6.1": 16, "6.12": 200}[name],
        0,
        0,
    )
    assert re.search(r"^stacks +\d+, [34] different$", pagetape("info", out).out, re.MULTILINE)
    assert Tape(out).table("frame")["address"].null_count == Tape(out).num_rows("frame")


def test_the_page_shows_stacks_as_a_flame_graph(
    golden: Path, empty: Path, tmp_path: Path, pagetape: Run
) -> None:
    page = tmp_path / "page.html"
    assert pagetape("html", golden, "-o", page).status == 0
    text = page.read_text()
    assert "Kernel code that causes fallbacks" in text
    assert "<title>ksys_write: 3 of 6 fallbacks</title>" in text
    assert "<title>xfs_buf_alloc [xfs]: 2 of 6 fallbacks</title>" in text
    assert pagetape("html", empty, "-o", page).status == 0
    assert "Kernel code that causes fallbacks" not in page.read_text()


# --stacks alloc:CONDITION


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("order >= 3", "order >= 3"),
        ("order = 3", "order >= 3 && order <= 3"),
        ("order != 3", "(order <= 2) || (order >= 4)"),
        ("order >= 2 and order != 3", "(order >= 2 && order <= 2) || (order >= 4)"),
        ('task = "db"', 'comm == "db"'),
        ('task ~ "db"', 'comm ~ "*db*"'),
        ('task ~ "^db$"', 'comm ~ "db"'),
        ("pid = 7", "common_pid == 7"),
        ("migratetype = MOVABLE", "migratetype == 1"),
        ("migratetype != MOVABLE", "migratetype == 0 || migratetype == 2"),
        ("gfp has NORETRY|IO", "(gfp_flags & 0x40) && (gfp_flags & 0x10000)"),
        ("gfp lacks __GFP_DIRECT_RECLAIM", "!(gfp_flags & 0x400)"),
        ("order < 1 and pid = 1", "(order <= 0) && (common_pid == 1)"),
    ],
)
def test_a_condition_as_the_filter_of_the_kernel(condition: str, text: str) -> None:
    kernel = {"IO": 6, "DIRECT_RECLAIM": 10, "NORETRY": 16}
    assert conditions.ftrace(conditions.parse(condition), kernel) == text


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("kmalloc", "'kmalloc' is not extfrag, alloc or alloc:CONDITION"),
        ("extfrag:order = 3", "extfrag takes no condition"),
        ("alloc:", "expected a condition, found the end"),
        ("alloc:order > 40", "expected an order below 32"),
        ("alloc:order < 0", "no order meets the conditions"),
        ('alloc:stack ~ "x"', "cannot choose stacks by stack or time"),
        ("alloc:time > 1s", "cannot choose stacks by stack or time"),
        ('alloc:cgroup = "/a"', "cannot choose stacks by cgroup"),
        ('alloc:task ~ "a|b"', "plain text, ^ and $, not 'a|b'"),
        ("alloc:pid = x", "expected a pid, found 'x'"),
        (
            "alloc:migratetype = CMA",
            "a request has the migratetype UNMOVABLE, MOVABLE, RECLAIMABLE",
        ),
        ("alloc:order = 3 or order = 4", "found 'or'"),
    ],
)
def test_stacks_that_cannot_be_recorded(spec: str, why: str, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("record", "-o", tmp_path / "t.tape", "--stacks", spec, "--duration", "1s")
    assert said.status == 2
    assert why in said.err and "example: 'alloc:order >= 3'" in said.err
    assert not (tmp_path / "t.tape").exists()


def test_a_flag_that_this_kernel_lacks_is_named() -> None:
    with pytest.raises(conditions.RuleError, match="this kernel has no gfp flag NO_OBJ_EXT"):
        conditions.ftrace(conditions.parse("gfp has NO_OBJ_EXT"), {"IO": 6})


def test_a_filter_takes_the_flags_as_a_recording_names_them() -> None:
    event = StackEvent.parse("alloc:order >= 3 and gfp lacks NORETRY")
    assert event.filter({"__GFP_NORETRY": 16}) == "(order >= 3) && (!(gfp_flags & 0x10000))"
    with pytest.raises(TapeError, match=r"--stacks 'alloc:order >= 3 .*no gfp flag NORETRY"):
        event.filter({"__GFP_IO": 6})


@pytest.mark.parametrize("events", ["cheap", "zone"])
def test_stacks_of_allocations_need_allocations(events: str, tmp_path: Path, pagetape: Run) -> None:
    options = ("--events", events, "--stacks", "alloc", "--duration", "1s")
    said = pagetape("record", "-o", tmp_path / "t.tape", *options)
    assert said.status == 2 and "needs --events page or all" in said.err


# Pages of order 4 for pipes' buffers do not exist: sockets' buffers take orders up to 3.
SEND = """
import socket
for _ in range(200):
    one, other = socket.socketpair()
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    one.send(bytes(60_000))
"""


def places(rows: pa.Table | pa.RecordBatch, ts: str) -> Iterator[tuple[int, int, int]]:
    """Time, CPU and thread of each row."""
    return zip(*(rows[name].to_pylist() for name in (ts, "cpu", "pid")), strict=True)


@livetest.recording
def test_live_stacks_of_a_condition(tmp_path: Path, pagetape: Run) -> None:
    """Exactly the requests of the condition have a stack, and a rule takes those of a function."""
    out = tmp_path / "t.tape"
    condition = f'order >= 1 and task ~ "{Path(sys.executable).name[:6]}"'
    args = ("record", "-o", out, "--events", "page", "--stacks", f"alloc:{condition}")
    said = pagetape(*args, "--", sys.executable, "-c", SEND)
    assert said.status == 0, said.err
    assert re.search(r"stacks: [\d,]+, one for each [\d.,]+ events", said.err)
    tape = Tape(out)
    assert tape.facts["stacks"] == [f"alloc:{condition}"]
    python = Path(sys.executable).name[:6]
    pids = [row["pid"] for row in tape.rows("task") if (row["comm"] or "").startswith(python)]
    stacks = set(places(tape.table("stack"), "event_ts"))
    wanted = set()
    for batch in tape.batches("event"):  # millions, on a busy machine
        of = pc.equal(batch["kind"].cast(pa.utf8()), "alloc")
        of = pc.and_(of, pc.greater_equal(batch["page_order"], 1))
        of = pc.and_(of, pc.is_in(batch["pid"], pa.array(pids, pa.int32())))
        wanted |= set(places(batch.filter(of), "ts"))
    assert stacks and len(stacks ^ wanted) <= len(wanted) // 50, "a comm changes at exec"
    rows = pagetape("report", "alloc.by_stack", out, "--json").json["rows"]
    assert sum(row["nr"] for row in rows) == len(stacks)
    sending = sum(row["nr"] for row in rows if "sock" in row["folded"])
    assert sending >= 100
    rule = 'stack ~ "sock" : drop'
    found = pagetape("replay", out, "--rewrite", rule, "--ensemble", "0", "--json")
    assert found.status == 0, found.err
    assert not list(Path("/sys/kernel/tracing/instances").glob(f"pagetape-{os.getpid()}-*"))


# Pipe buffers are UNMOVABLE, and there are never free ones for so many.
FILL = """
import fcntl, os
pipes = [os.pipe2(os.O_NONBLOCK) for _ in range(800)]
for _, writer in pipes:
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(writer, bytes(1 << 20))
"""


def _no_fallbacks() -> str:
    """Why this machine cannot provoke such fallbacks; empty if it can."""
    if os.geteuid() != 0:
        return "large pipes need root"
    return "pipe buffers of 800 MB need 4 GB of memory" if _available() < 4 << 30 else ""


def _available() -> int:
    text = Path("/proc/meminfo").read_text()
    return int(re.findall(r"MemAvailable: +(\d+) kB", text)[0]) << 10


@livetest.alone
@livetest.needs(livetest.why_not, _no_fallbacks)
def test_every_live_fallback_has_its_stack(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    args = ("record", "-o", out, "--events", "cheap", "--stacks", "extfrag", "--snapshot", "proc")
    assert pagetape(*args, "--", sys.executable, "-c", FILL).status == 0
    found = pagetape("info", out, "--json").json
    fallbacks = found["events"].get("mm_page_alloc_extfrag", 0)
    if not fallbacks:
        livetest.skip("this machine had free UNMOVABLE pages for 800 MB", by_chance=True)
    assert found["events"]["kernel_stack"] == fallbacks
    stacks = Tape(out).table("stack")
    assert (stacks["event_ts"].null_count, len(stacks)) == (0, fallbacks)
    rows = pagetape("report", "extfrag.by_stack", out, "--json").json["rows"]
    assert any("pipe_write" in row["folded"] for row in rows)
    assert not list(Path("/sys/kernel/tracing/instances").glob(f"pagetape-{os.getpid()}-*"))
