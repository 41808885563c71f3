# SPDX-License-Identifier: Apache-2.0
"""The live view: samples of a given stream of events, and of this machine."""

import contextlib
import json
import os
import pty
import queue
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import livetest
import pyarrow as pa
import pytest

from pagetape import _collector
from pagetape._collector import CollectorError
from pagetape.commands.top import cut, text
from pagetape.dat_file import DatFile
from pagetape.recording import live
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]
DAT = Path(__file__).parents[2] / "collector/tests/data/linux-6.12.dat"
INSTANCES = Path("/sys/kernel/tracing/instances")


class Stream:
    """A recorder that has a tape in place of a machine: half of its events to each cut."""

    made: ClassVar[list["Stream"]] = []
    tape: ClassVar[Tape]
    broken = False

    def __init__(self, *_: object, **__: object) -> None:
        self._given: queue.SimpleQueue[tuple[str, pa.RecordBatch] | None] = queue.SimpleQueue()
        self._cuts = 0
        self._over = False
        self.closed = False
        self.made.append(self)

    def start(self) -> None: ...

    def hold(self) -> None: ...

    def cut(self, _ts: int) -> None:
        if self._cuts < 2:
            for name in ("event", "reclaim", "compaction"):
                rows = self.tape.table(name).combine_chunks()
                half = rows.num_rows // 2
                part = rows.slice(half) if self._cuts else rows.slice(0, half)
                for batch in part.to_batches():
                    self._given.put((name, batch))
        self._cuts += 1
        self._given.put(None)

    def stop(self) -> None:
        self._over = True
        self._given.put(None)

    def read(self) -> tuple[str, pa.RecordBatch] | None:
        if self.broken:
            raise CollectorError(5, "the ring is gone")
        return self._given.get()

    def lost(self) -> list[dict[str, int | None]]:
        sizes = (3, 4) if self._cuts < 2 else (None,)
        return [{"cpu": 0, "from_ts": 1, "to_ts": 2, "events": nr} for nr in sizes]

    def rings(self) -> list[dict[str, int | None]]:
        return [{"cpu": 0, "overrun": None, "commit_overrun": None, "dropped": None}]

    def tasks(self) -> list[dict[str, Any]]:
        return self.tape.rows("task")

    def next(self) -> bool:
        return not self._over

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def stream(golden: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stream]]:
    Stream.made, Stream.tape, Stream.broken = [], Tape(golden), False
    monkeypatch.setattr(_collector, "Recorder", Stream)
    yield Stream
    assert all(made.closed for made in Stream.made)


def test_a_recorded_stream_is_counted_as_its_tape_counts_it(tmp_path: Path, pagetape: Run) -> None:
    counts = live.Counts()
    source = DatFile(str(DAT))
    while (found := source.read()) is not None:
        counts.add(found[0], pa.record_batch(found[1]))
    source.close()
    out = tmp_path / "t.tape"
    pagetape("import", DAT, "-o", out, "--kernel-release", "6.12.0")

    def asked(sql: str) -> int:
        ((value,),) = (row.values() for row in pagetape("sql", out, sql, "--json").json["rows"])
        return int(value)

    allocs = sum(nr for key, nr in counts.events.items() if key[0] == "alloc")
    assert allocs == asked("SELECT count(*) FROM event WHERE kind = 'alloc' AND pfn NOTNULL") > 0
    for kind in ("free", "alloc_zone_locked", "pcpu_drain"):
        pages = f"SELECT sum(1 << page_order::INTEGER) FROM event WHERE kind = '{kind}'"
        assert counts.pages(kind) == asked(pages) > 0
    assert sum(counts.task_pages.values()) == asked(
        "SELECT sum(1 << page_order::INTEGER) FROM event WHERE kind = 'alloc' AND pfn NOTNULL"
    )
    pid, pages = counts.task_pages.most_common(1)[0]
    counts.names = {pid: "busy"}
    assert counts.first_tasks("pages")[0]["comm"] == "busy"
    assert counts.first_tasks("pages")[0]["pages"] == pages
    assert len(counts.first_tasks("pages")) == min(
        len(counts.task_pages | counts.task_fallbacks), 10
    )
    assert sum(counts.task_fallbacks.values()) == asked(
        "SELECT count(*) FROM event WHERE kind = 'alloc_extfrag'"
    )
    assert counts.failed == asked("SELECT count(*) FROM event WHERE kind = 'alloc' AND pfn IS NULL")


@pytest.mark.usefixtures("stream")
def test_each_interval_has_its_own_events_per_second(pagetape: Run) -> None:
    said = pagetape("top", "--count", 3, "--interval", "200ms", "--json")
    first, second, third = map(json.loads, said.out.splitlines())

    def nr(sample: dict[str, Any], rate: float) -> int:
        return round(rate * sample["seconds"])

    def allocs(sample: dict[str, Any]) -> list[int]:
        return [nr(sample, rate) for rate in sample["allocs_per_s"].values()]

    assert allocs(first) == [4, 0, 0, 1, *[0] * 7]
    assert allocs(second) == [1, 0, 2, *[0] * 8]
    assert sum(allocs(third)) == 0
    pairs = [
        (r["alloc_migratetype"], r["fallback_migratetype"], nr(first, r["per_s"]))
        for r in first["fallbacks"]
    ]
    assert pairs == [("UNMOVABLE", "MOVABLE", 3), ("RECLAIMABLE", "MOVABLE", 1)]
    assert nr(second, second["failed_allocs_per_s"]) == 1
    assert nr(second, second["freed_pages_per_s"]) == 3
    assert nr(second, second["drain_pages_per_s"]) == 2
    assert nr(first, first["refill_pages_per_s"]) == 12
    assert nr(first, first["reclaim_per_s"]["wakeup_kswapd"]) == 1
    assert nr(second, second["reclaim_per_s"]["kswapd_wake"]) == 1
    assert nr(first, first["compaction_per_s"]["begin"]) == 1
    tasks = first["tasks"]
    assert sum(nr(first, row["pages_per_s"]) for row in tasks) == 4 + (1 << 3)
    assert sum(nr(first, row["fallbacks_per_s"]) for row in tasks) <= 4
    assert [sample["lost"] for sample in (first, second, third)] == [7, None, None]
    assert first["ts"] < second["ts"] < third["ts"]
    assert {"node", "zone", "free", "wmark_low", "boost", "usable"} <= set(first["zones"][0])


def test_a_zone_has_the_pages_that_kernel_requests_may_use() -> None:
    """Of 1,000 free pages 600 are CMA and 100 are withheld from requests that may take Normal."""
    row: dict[str, Any] = {c.name: None if c.null else 0 for c in TABLES["zone"].columns}
    row |= {"zone": "DMA32", "free": 1000, "nr_free_cma": 600, "nr_reserved_highatomic": 0}
    row["lowmem_reserve_normal"] = 100
    zone = live.zone_now(row, "6.18.1")
    assert (zone["free"], zone["usable"], zone["usable_exact"]) == (1000, 300, True)
    zone = live.zone_now(row | {"nr_free_cma": None}, "6.18.1")
    assert (zone["usable"], zone["usable_exact"]) == (900, False)
    assert live.zone_now(row | {"zone": "MOVABLE"}, "6.18.1")["usable"] == 0
    assert live.zone_now(row, "no release")["usable"] is None


@pytest.mark.usefixtures("stream")
def test_without_a_terminal_samples_are_text_below_each_other(pagetape: Run) -> None:
    said = pagetape("top", "--count", 2, "--interval", "200ms")
    assert said.status == 0
    assert said.out.count("\nallocs/s") == 2
    assert "lost: 7 events" in said.out and "lost: unknown" in said.out
    assert "fallbacks/s: UNMOVABLE from MOVABLE" in said.out
    assert "\x1b" not in said.out


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_screen_has_narrow_tables(width: int, pagetape: Run) -> None:
    said = pagetape("top", "--count", 1, "--interval", "200ms", "--json")
    sample = json.loads(said.out.splitlines()[0])
    shown = text(sample, "page", width).splitlines()
    tables = [
        line for line in shown if re.match("order|allocs|pages |node |task|[^ ]+ [0-9]", line)
    ]
    assert len(tables) > 6
    assert all(len(line) <= width for line in tables)


@pytest.mark.parametrize(
    ("sort", "first"),
    [("pages", ["b", "a", "c"]), ("fallbacks", ["c", "a", "b"]), ("threads", ["a", "b", "c"])],
)
def test_tasks_are_in_the_order_that_is_asked_for(sort: str, first: list[str]) -> None:
    counts = live.Counts(names={1: "a", 2: "a", 3: "b", 4: "c"})
    counts.task_pages = Counter({1: 2, 2: 2, 3: 9, 4: 1})
    counts.task_fallbacks = Counter({1: 1, 4: 5})
    assert [row["comm"] for row in counts.first_tasks(sort)] == first


def test_the_ten_tasks_are_the_first_ten_of_the_order() -> None:
    """The task with all fallbacks allocates least, and is the eleventh by pages."""
    counts = live.Counts(names={pid: f"task{pid}" for pid in range(11)})
    counts.task_pages = Counter({pid: 100 - pid for pid in range(11)})
    counts.task_fallbacks = Counter({10: 1})
    assert "task10" not in [row["comm"] for row in counts.first_tasks("pages")]
    assert counts.first_tasks("fallbacks")[0]["comm"] == "task10"


@pytest.mark.usefixtures("stream")
def test_pages_stand_beside_their_mib(pagetape: Run) -> None:
    said = pagetape("top", "--count", 1, "--interval", "200ms")
    head, row, *_ = said.out[said.out.index("pages  ") :].splitlines()
    assert head.split()[:5] == ["pages", "free", "MiB", "usable", "MiB"]
    free, mib = re.findall(r"[0-9.]+", row.partition("  ")[2])[:2]
    page = os.sysconf("SC_PAGE_SIZE")
    assert float(mib) == pytest.approx(int(free) * page / (1 << 20), abs=0.06)
    freed, size = re.findall(r"freed ([0-9,.]+) \(([0-9,.]+) MiB/s\)", said.out)[0]
    assert float(size) == pytest.approx(float(freed) * page / (1 << 20), abs=0.06)
    assert "pages/s  MiB/s  fallbacks/s" in said.out


@pytest.mark.parametrize("height", [1, 2, 3, 10, 50])
def test_the_last_line_is_on_every_screen(height: int) -> None:
    lines = ["head", *("word " * 12 for _ in range(20))]
    shown = cut(lines, "q quit", 30, height)
    assert shown[-1] == "q quit" and len(shown) <= height
    assert all(len(line) <= 30 for line in shown)


class OnTerminal:
    """top of a given stream, on a terminal of its own."""

    def __init__(self, tape: Path, *words: str, broken: bool = False) -> None:
        code = (
            "import fcntl, sys, termios, test_top as t; from pathlib import Path;"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
            f"t.Stream.tape, t.Stream.broken = t.Tape(Path({str(tape)!r})), {broken};"
            "t._collector.Recorder = t.Stream;"
            "from pagetape.cli import main; main()"
        )
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        self.said, self._after = "", 0
        # Ours stays open: a terminal that nobody has open forgets its settings.
        self._master, self._terminal = pty.openpty()
        self.before = termios.tcgetattr(self._terminal)
        self._top = subprocess.Popen(
            [sys.executable, "-c", code, "top", *words],
            stdin=self._terminal,
            stdout=self._terminal,
            stderr=self._terminal,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "40", "PYTHONPATH": path},
            start_new_session=True,
        )

    def wait_for(self, words: str) -> None:
        """Wait until `words` come, after those that were waited for."""
        until = time.monotonic() + 60
        while self.said.find(words, self._after) < 0:
            assert time.monotonic() < until and self._top.poll() is None, self.said
            self._read(0.2)
        self._after = self.said.index(words, self._after) + len(words)

    def _read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            self.said += os.read(self._master, 65536).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & (termios.ECHO | termios.ICANON))

    def status(self) -> int:
        """The exit status; the terminal is what it was."""
        until = time.monotonic() + 60
        while self._top.poll() is None:
            assert time.monotonic() < until, self.said
            self._read(0.2)
        while select.select([self._master], [], [], 0)[0]:
            self._read(0)
        after = termios.tcgetattr(self._terminal)
        assert after[:4] == self.before[:4]
        assert self.said.rfind("\x1b[?1049l") > self.said.rfind("\x1b[?1049h")
        assert self.said.rfind("\x1b[?25h") > self.said.rfind("\x1b[?25l")
        return self._top.returncode

    def end(self, number: signal.Signals) -> None:
        self._top.send_signal(number)

    def close(self) -> None:
        self._top.kill()
        self._top.wait()
        os.close(self._master)
        os.close(self._terminal)


@pytest.fixture
def top_on_terminal(golden: Path) -> Iterator[Callable[..., OnTerminal]]:
    """Starts top of a given stream on a terminal of its own."""
    with contextlib.ExitStack() as stack:

        def start(*words: str, broken: bool = False) -> OnTerminal:
            found = OnTerminal(golden, *words, broken=broken)
            stack.callback(found.close)
            return found

        yield start


TopOnTerminal = Callable[..., OnTerminal]


def test_q_quits_at_once_and_leaves_the_terminal_as_it_was(top_on_terminal: TopOnTerminal) -> None:
    top = top_on_terminal("--interval", "200ms")
    top.wait_for("q quit")
    assert not top.echoes()
    top.type("q")
    assert top.status() == 0


def test_q_does_not_wait_for_the_end_of_an_interval(top_on_terminal: TopOnTerminal) -> None:
    top = top_on_terminal("--interval", "1h")
    top.wait_for("\x1b[?1049h")
    while top.echoes():
        time.sleep(0.05)
    top.type("q")
    assert top.status() == 0


def test_keys_change_the_order_of_the_tasks(top_on_terminal: TopOnTerminal) -> None:
    top = top_on_terminal("--interval", "500ms")
    top.wait_for("[pages]")
    top.type("s")
    top.wait_for("[fallbacks]")
    top.type("n")
    top.wait_for("[name]")
    top.type("s")
    top.wait_for("[pages]")
    top.type("\x1b[Az")  # an arrow, and a key without a meaning
    top.type("t")
    top.wait_for("[threads]")
    top.type("q")
    assert top.status() == 0


def test_rare_events_have_no_order_by_pages(top_on_terminal: TopOnTerminal, pagetape: Run) -> None:
    top = top_on_terminal("--interval", "200ms", "--events", "cheap")
    top.wait_for("tasks by: [fallbacks] threads name")
    top.type("q")
    assert top.status() == 0
    said = pagetape("top", "--events", "cheap", "--sort", "pages")
    assert (said.status, said.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_as_it_was_after_a_signal(
    number: signal.Signals, top_on_terminal: TopOnTerminal
) -> None:
    top = top_on_terminal("--interval", "200ms")
    top.wait_for("q quit")
    top.end(number)
    assert top.status() == 0


def test_the_terminal_is_as_it_was_after_an_error(top_on_terminal: TopOnTerminal) -> None:
    top = top_on_terminal("--interval", "200ms", broken=True)
    assert top.status() == 1
    assert "pagetape: the ring is gone" in top.said


def test_a_stream_that_breaks_off_is_one_line(stream: type[Stream], pagetape: Run) -> None:
    stream.broken = True
    said = pagetape("top", "--interval", "200ms")
    assert (said.status, said.err) == (1, "pagetape: the ring is gone\n")


def test_a_machine_that_cannot_be_traced_is_one_line(
    monkeypatch: pytest.MonkeyPatch, pagetape: Run
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CollectorError(2, "tracefs is not there")

    monkeypatch.setattr(_collector, "Recorder", refuse)
    said = pagetape("top")
    assert (said.status, said.out, said.err) == (1, "", "pagetape: tracefs is not there\n")


@pytest.mark.parametrize("words", [("--interval", "1ms"), ("--count", "0"), ("--events", "all")])
def test_invalid_options_are_bad_usage(words: tuple[str, str], pagetape: Run) -> None:
    said = pagetape("top", *words)
    assert (said.status, said.err.count("\n")) == (2, 1)


def own_instances(pid: int) -> list[str]:
    return [entry.name for entry in INSTANCES.iterdir() if entry.name.startswith(f"pagetape-{pid}")]


@livetest.recording
def test_this_machine_is_looked_at_and_left_as_it_was(pagetape: Run) -> None:
    # The process would hold memory of malloc(), and reuse it.
    code = """
import mmap
print(flush=True)
while True:
    with mmap.mmap(-1, 8 << 20) as memory:
        memory.write(bytes(8 << 20))
"""
    touch = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert touch.stdout is not None
        touch.stdout.readline()
        said = pagetape("top", "--count", 2, "--interval", "300ms", "--json")
    finally:
        touch.kill()
        touch.communicate()
    samples = [json.loads(line) for line in said.out.splitlines()]
    assert len(samples) == 2
    assert all(sum(sample["allocs_per_s"].values()) > 100 for sample in samples)
    assert all(sum(zone["free"] for zone in sample["zones"]) > 0 for sample in samples)
    assert own_instances(os.getpid()) == []


@livetest.recording
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    words = ("top", "--events", "cheap", "--interval", "200ms", "--json")
    with subprocess.Popen([*PAGETAPE, *words], stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        sample = json.loads(top.stdout.readline())
        assert own_instances(top.pid) != []
        top.send_signal(number)
        top.communicate(timeout=30)
    assert top.returncode == 0
    assert own_instances(top.pid) == []
    assert sample["freed_pages_per_s"] is None  # not counted
    assert sample["allocs_per_s"] is None
