# SPDX-License-Identifier: Apache-2.0
"""Recordings that end abnormally: no recorded event is lost.

Where this machine cannot be traced, they are skipped.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import livetest
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape.schemas.tape import Tape, is_tape
from pagetape.tapes.spool import Found, default_bound

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]

TRACING = Path("/sys/kernel/tracing")
INSTANCES = TRACING / "instances"

pytestmark = [livetest.recording, livetest.alone]

IN_INTERRUPT = pa.scalar(1 << 1 | 1 << 2, pa.uint8())  # hardirq, softirq

# Maps, touches and unmaps so many MiB, pauses, and again, on one CPU; says when it begins.
LOAD = """
import mmap, os, sys, time
mib, pause, cpu = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
os.sched_setaffinity(0, {cpu})
print(flush=True)
while True:
    with mmap.mmap(-1, mib << 20) as m:
        m.madvise(mmap.MADV_NOHUGEPAGE)
        with memoryview(m) as view:
            view[::mmap.PAGESIZE] = bytes(len(m) // mmap.PAGESIZE)
    time.sleep(pause)
"""


@contextlib.contextmanager
def load(mib: int, pause: float, cpu: int = 0) -> Iterator[int]:
    """A process that allocates and frees; its pid."""
    argv = [sys.executable, "-c", LOAD, str(mib), str(pause), str(cpu)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


@contextlib.contextmanager
def recording(out: Path, *options: object, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A recorder in a process of its own, from when it records on; killed if it still runs."""
    argv = [*how.pop("before", ()), *PAGETAPE, "record", "-o", out, "--snapshot", "proc", *options]
    running = subprocess.Popen(list(map(str, argv)), stderr=subprocess.PIPE, text=True, **how)
    with running:
        try:
            until(lambda: next(out.rglob("formats"), None) or running.poll() is not None)
            time.sleep(0.1)
            yield running
        finally:
            running.kill()


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def killed(running: subprocess.Popen[str]) -> None:
    """Kill it, and wait for its guard. analyze/lab/kills.py measures the second that is promised:
    a busy machine may take longer."""
    running.kill()
    running.wait()
    until(lambda: not leftovers(running.pid))


def stopped(running: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and what it said."""
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    return running.returncode, said


def leftovers(pid: int) -> list[str]:
    return [path.name for path in INSTANCES.glob(f"pagetape-{pid}-*")]


def is_ordered(tape: Tape) -> bool:
    ts = tape.table("event")["ts"].combine_chunks()
    return bool(pc.all(pc.less_equal(ts[:-1], ts[1:]), min_count=0).as_py())


def accounted(tape: Tape) -> None:
    """Each record that was read is counted, and stored if it is of a table."""
    points = tape.table("tracepoint").to_pylist()
    assert sum(row["events"] for row in points) == sum(tape.table("ring")["read"].to_pylist())
    for name in ("event", "reclaim", "compaction"):
        stored = sum(row["events"] for row in points if row["stored"] == name)
        assert tape.num_rows(name) == stored
    assert is_ordered(tape)


@contextlib.contextmanager
def other_tracer(pid: int) -> Iterator[tuple[Path, int]]:
    """Another instance, which sees the page events of one process, and since when."""
    instance = INSTANCES / f"other_tracer-{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "tracing_on").write_text("0")
        (instance / "buffer_size_kb").write_text("65536")
        for name in ("mm_page_alloc", "mm_page_free"):
            event = instance / "events/kmem" / name
            (event / "filter").write_text(f"common_pid == {pid}")
            (event / "enable").write_text("1")
        since = time.monotonic_ns()
        (instance / "tracing_on").write_text("1")
        yield instance, since
    finally:
        (instance / "events/enable").write_text("0")
        instance.rmdir()


# An interrupt may come when one instance has an event and the other has not: what happens in
# it has another place in each. Only the order of what the process itself did is the same.


def other_tracered(instance: Path) -> list[tuple[str, int]]:
    (instance / "tracing_on").write_text("0")
    line = r"\] (\S+) +[\d.]+: mm_page_(alloc|free): .*?pfn=0x([0-9a-f]+)"
    found = re.findall(line, (instance / "trace").read_text())
    return [(kind, int(pfn, 16)) for flags, kind, pfn in found if flags[2] == "."]


def recorded(tape: Tape, pid: int, since: int = 0) -> list[tuple[str, int]]:
    table = tape.table("event").filter(pc.equal(tape.table("event")["pid"], pid))
    table = table.filter(pc.equal(pc.bit_wise_and(table["flags"], IN_INTERRUPT), 0))
    table = table.filter(pc.greater_equal(table["ts"], since))
    kinds = table["kind"].cast(pa.utf8()).to_pylist()
    both = zip(kinds, table["pfn"].to_pylist(), strict=True)
    return [(kind, pfn) for kind, pfn in both if kind in ("alloc", "free")]


@pytest.mark.parametrize("seconds", [0.4, 2.6])
def test_a_killed_recording_is_whole_up_to_its_end(
    seconds: float, tmp_path: Path, pagetape: Run
) -> None:
    """What another instance saw of a process is what the imported tape has, from its start on."""
    out, whole = tmp_path / "t.tape", tmp_path / "whole.tape"
    with (
        recording(out, "--events", "page") as running,
        load(1, 0.02) as pid,
        other_tracer(pid) as (instance, since),
    ):
        time.sleep(seconds)
        killed(running)
        time.sleep(0.1)
        seen = other_tracered(instance)
    info = pagetape("info", out, "--json").json
    assert (info["finished"], info["ended"], info["lost"]) == (False, "killed", None)
    assert info["spool"]["waiting_bytes"] > 0
    assert "pagetape import" in pagetape("info", out).out
    said = pagetape("import", out, "-o", whole)
    assert said.status == 0 and "lost: 0 events" in said.out
    tape = Tape(whole)
    accounted(tape)
    assert tape.facts["ended"] == "killed"
    got = recorded(tape, pid, since)
    # The load takes the same pages again and again: the first place may be a round too early.
    places = [i for i in range(len(got)) if got[i : i + 50] == seen[:50]][:3]
    assert any(got[i:] == seen[: len(got) - i] for i in places)
    assert len(got) > 100
    assert Found.of(out) is not None  # the input stays as it is


def test_a_tape_is_readable_while_it_is_recorded(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    with recording(out, "--events", "page") as running, load(1, 0.02):
        until(lambda: Tape(out).num_rows("event") > 0)
        info = pagetape("info", out, "--json").json
        assert (info["finished"], info["ended"]) == (False, "recording")
        assert "the recording is still running" in pagetape("info", out).out
        said = pagetape("import", out, "-o", tmp_path / "x.tape")
        assert (said.status, said.err.count("\n")) == (1, 1)
        assert "is still being recorded" in said.err
        assert stopped(running)[0] == 0
    info = pagetape("info", out, "--json").json
    assert (info["finished"], info["ended"], info["spool"]["waiting_bytes"]) == (True, "stopped", 0)
    assert info["spool"]["peak_bytes"] > 0
    assert not (out / "spool").exists()
    said = pagetape("import", out, "-o", tmp_path / "x.tape")
    assert said.status == 2 and "is already a finished tape" in said.err


WITHOUT_TRACEFS = 'umount -a -l -t tracefs,debugfs; exec setpriv --reuid=65534 --clear-groups "$@"'


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that nobody can use."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def test_a_deferred_recording_is_imported_elsewhere(
    tmp_path: Path, open_path: Path, pagetape: Run
) -> None:
    """On a copy, by nobody, where there is no tracefs."""
    out, copy, whole = tmp_path / "t.tape", open_path / "copy.tape", open_path / "whole.tape"
    with recording(out, "--defer", "--events", "all") as running, load(4, 0.01) as pid:
        time.sleep(1.5)
        status, said = stopped(running)
    assert (status, said.count("\n")) == (0, 3)
    assert f"pagetape import {out}" in said
    assert not leftovers(running.pid)
    assert Tape(out).num_rows("event") == 0
    assert pagetape("info", out, "--json").json["lost"] is None
    shutil.copytree(out, copy)
    shutil.rmtree(out)
    for path in (copy, *copy.rglob("*")):
        os.chown(path, 65534, 65534)
    caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    argv = ["unshare", "--mount", "sh", "-ec", WITHOUT_TRACEFS, "sh", *caps]
    done = subprocess.run(
        [*argv, *PAGETAPE, "import", copy, "-o", whole], capture_output=True, text=True
    )
    if "setpriv" in done.stderr or "unshare" in done.stderr:
        livetest.skip(f"cannot become nobody without tracefs: {done.stderr}")
    assert done.stderr == ""
    assert done.returncode == 0
    tape = Tape(whole)
    accounted(tape)
    assert "deferred" not in tape.facts and tape.facts["ended"] == "stopped"
    info = pagetape("info", whole, "--json").json
    assert (info["finished"], info["lost"]) == (True, 0)
    assert [s["how"] for s in info["snapshots"]] == ["proc", "proc"]
    assert len(recorded(tape, pid)) > 1000
    tasks = {row["pid"]: row["comm"] for row in tape.table("task").to_pylist()}
    assert tasks[pid].startswith("python")
    events = tape.table("event")["ts"].to_pylist()
    for row in tape.table("sample").to_pylist():
        before, after = events[: row["at"]][-1:], events[row["at"] :][:1]
        assert all(ts <= row["ts"] for ts in before) and all(ts > row["ts"] for ts in after)


def test_a_spool_gets_its_formats_last(tmp_path: Path) -> None:
    """The file that says that a spool can be read appears when all others are complete."""
    out = tmp_path / "t.tape"
    spool = out / "spool"
    with recording(out, "--events", "cheap", "--stacks", "extfrag") as running:
        killed(running)
    ready = (spool / "formats").stat().st_mtime_ns
    assert (spool / "tasks").exists()
    assert (spool / "kallsyms").stat().st_mtime_ns <= ready  # writing it takes long


def test_a_deferred_recording_ends_when_its_spool_is_full(tmp_path: Path, pagetape: Run) -> None:
    out, whole = tmp_path / "t.tape", tmp_path / "whole.tape"
    with (
        recording(out, "--defer", "--spool-max", "5MB", "--events", "page") as running,
        load(16, 0),
    ):
        _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert said.splitlines()[-1].endswith(": the recording ended early: spool full")
    assert not leftovers(running.pid)
    assert sum(path.stat().st_blocks * 512 for path in (out / "spool").glob("cpu*")) <= 5e6
    info = pagetape("info", out, "--json").json
    assert (info["finished"], info["ended"]) == (False, "spool full")
    assert pagetape("import", out, "-o", whole).status == 0
    tape = Tape(whole)
    accounted(tape)
    assert tape.facts["ended"] == "spool full"
    assert all(gap["from_ts"] is None or gap["events"] for gap in tape.table("lost").to_pylist())
    assert len(tape.table("snapshot")) == 2  # it ended in order


def test_a_spool_at_its_bound_reports_its_losses(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    with recording(out, "--spool-max", "12MB", "--events", "page") as running:
        with load(64, 0), load(64, 0, cpu=max(os.sched_getaffinity(0))):
            os.kill(running.pid, signal.SIGSTOP)  # whoever decodes, and the readers
            time.sleep(0.2)
            os.kill(running.pid, signal.SIGCONT)
            time.sleep(3)
        status, said = stopped(running)
    assert status == 0
    tape = Tape(out)
    accounted(tape)
    spool = pagetape("info", out, "--json").json["spool"]
    assert all(0 < row["peak"] <= 12e6 for row in tape.table("spool").to_pylist())
    rings = {row["cpu"]: row for row in tape.table("ring").to_pylist()}
    for cpu, ring in rings.items():
        gaps = [row["events"] for row in tape.table("lost").to_pylist() if row["cpu"] == cpu]
        if None not in gaps:
            assert sum(gaps) == ring["overrun"] + ring["commit_overrun"] + ring["dropped"]
    if spool["full_s"]:
        assert "the spool was full for" in said


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "pagetape-test", str(path)]
    if subprocess.run(mount, capture_output=True).returncode:
        livetest.skip("cannot mount a small file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize("defer", [False, True])
def test_a_full_disk_ends_the_recording_and_loses_nothing_recorded(
    defer: bool, tmp_path: Path, pagetape: Run
) -> None:
    with small_disk(tmp_path / "disk", "24m") as disk:
        out, whole = disk / "t.tape", tmp_path / "whole.tape"
        options = ["--events", "page", "--spool-max", "30MB", *(["--defer"] if defer else [])]
        with (
            recording(out, *options) as running,
            load(32, 0),
            load(32, 0, cpu=max(os.sched_getaffinity(0))),
        ):
            _, said = running.communicate(timeout=120)
        assert running.returncode == 1
        assert "No space left on device" in said or "disk full" in said
        assert not leftovers(running.pid)
        info = pagetape("info", out, "--json").json
        assert (info["finished"], info["ended"]) == (False, "disk full")
        assert pagetape("import", out, "-o", whole).status == 0
        tape = Tape(whole)
        accounted(tape)
        assert tape.facts["ended"] == "disk full"
        assert tape.num_rows("event") > 10_000


def test_a_disk_without_room_for_the_spool_is_refused_at_the_start(
    tmp_path: Path, pagetape: Run
) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        said = pagetape("record", "-o", disk / "t.tape", "--spool-max", "1GB", "--duration", 1)
        assert said.status == 1
        assert "cannot reserve a spool of" in said.err.splitlines()[-1]
        assert list(disk.iterdir()) == []


def test_a_spool_that_is_too_small_is_refused(tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("record", "-o", tmp_path / "t.tape", "--spool-max", "100kB", "--duration", 1)
    assert said.status == 1
    assert "a spool of 97 KB is too small" in said.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
    said = pagetape("record", "-o", tmp_path / "t.tape", "--spool-max", "much")
    assert said.status == 2 and "'much'" in said.err
    assert default_bound(tmp_path) <= 8 << 30


def test_a_recording_outlives_the_mount_of_tracefs(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    namespace = ["unshare", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        livetest.skip("no mount namespaces")
    with recording(out, "--events", "page", before=namespace) as running, load(4, 0.01) as pid:
        inside = ["nsenter", f"--mount=/proc/{running.pid}/ns/mnt"]
        time.sleep(0.3)
        subprocess.run([*inside, "umount", "-a", "-l", "-t", "tracefs,debugfs"], check=True)
        assert subprocess.run([*inside, "ls", str(INSTANCES)], capture_output=True).returncode
        time.sleep(1)
        status, said = stopped(running)
    assert (status, said.count("\n")) == (0, 3)
    tape = Tape(out)
    accounted(tape)
    span = tape.span("event")
    assert span is not None and span[1] - span[0] > 1e9
    assert len(recorded(tape, pid)) > 1000
    assert pagetape("info", out, "--json").json["lost"] == 0
    assert not leftovers(running.pid)


@contextlib.contextmanager
def offline(cpu: int) -> Iterator[None]:
    switch = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    try:
        switch.write_text("0")
    except OSError as e:
        livetest.skip(f"this machine keeps cpu {cpu} online: {e.strerror}")
    try:
        yield
    finally:
        switch.write_text("1")


def test_a_cpu_may_go_and_come_back(tmp_path: Path, pagetape: Run) -> None:
    cpu = max(os.sched_getaffinity(0))
    if cpu == 0:
        livetest.skip("there is only one CPU")
    out = tmp_path / "t.tape"
    with recording(out, "--events", "page") as running:
        with load(4, 0.01, cpu) as first:
            time.sleep(0.3)
            with offline(cpu):
                time.sleep(0.3)
        with load(4, 0.01, cpu) as second:
            time.sleep(0.3)
        assert stopped(running)[0] == 0
    tape = Tape(out)
    accounted(tape)
    assert pagetape("info", out, "--json").json["lost"] == 0
    assert len(recorded(tape, first)) > 1000 and len(recorded(tape, second)) > 1000


def test_a_cpu_that_comes_later_is_accounted_for(tmp_path: Path, pagetape: Run) -> None:
    cpu = max(os.sched_getaffinity(0))
    if cpu == 0:
        livetest.skip("there is only one CPU")
    out = tmp_path / "t.tape"
    with contextlib.ExitStack() as stack:
        late = stack.enter_context(contextlib.ExitStack())
        late.enter_context(offline(cpu))
        running = stack.enter_context(recording(out, "--events", "page"))
        late.close()
        with load(4, 0.01, cpu):
            time.sleep(0.5)
        assert stopped(running)[0] == 0
    tape = Tape(out)
    assert cpu not in tape.table("ring")["cpu"].to_pylist()
    info = pagetape("info", out, "--json").json
    assert info["lost_by_cpu"][str(cpu)] > 1000


def test_a_jump_of_the_wall_clock_leaves_the_trace_clock_alone(
    tmp_path: Path, pagetape: Run
) -> None:
    def jump(seconds: float) -> None:
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds)

    out = tmp_path / "t.tape"
    with recording(out, "--events", "page") as running, load(4, 0.01):
        begin = time.monotonic_ns()
        for seconds in (7200, -7200):
            try:
                jump(seconds)
            except PermissionError:
                livetest.skip("the clock cannot be set here")
            jump(-seconds)
            time.sleep(0.2)
        end = time.monotonic_ns()
        assert stopped(running)[0] == 0
    tape = Tape(out)
    accounted(tape)
    span = tape.span("event")
    assert span is not None and span[0] < end < span[1] + 1e9 and span[1] > begin
    assert span[1] - span[0] < 60e9
    assert pagetape("info", out, "--json").json["lost"] == 0


def test_a_series_can_be_killed_at_any_time(tmp_path: Path, pagetape: Run) -> None:
    """The spool goes on to the tape that is being written: no event is in two, none in none."""
    out = tmp_path / "tapes"
    with recording(out, "--events", "page", "--rotate", "1s") as running, load(1, 0.02) as pid:
        until(lambda: len([p for p in out.glob("*.tape") if is_tape(p)]) >= 3)
        time.sleep(0.5)
        killed(running)
    tapes = sorted(path for path in out.glob("*.tape") if is_tape(path))
    spools = [path for path in tapes if Found.of(path)]
    assert len(spools) == 1 and spools[0] in tapes[-2:]
    whole = tmp_path / "whole.tape"
    assert pagetape("import", spools[0], "-o", whole).status == 0
    ends = [Tape(path).clock for path in tapes[: tapes.index(spools[0])]]
    spans = [span for span in (*ends, Tape(whole).clock) if span]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert Tape(whole).table("lost").num_rows == 0
    assert len(recorded(Tape(whole), pid)) > 100
    for path in tapes:
        assert pagetape("report", "events.by_kind", path).status == 0


def test_damaged_spools_are_refused_in_words(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    with recording(out, "--events", "page") as running, load(1, 0.02):
        until(lambda: (out / "spool/checkpoint").exists())
        killed(running)
    for name, content, words in [
        ("checkpoint", b"{}\n", "checkpoint: damaged"),
        ("checkpoint", b'{"rows": {"event": 1000000000}}\n', "checkpoint is damaged"),
        ("formats", b"?", "not a file of formats"),
        ("tasks", b"?", "not a file of tasks"),
        ("cpu0", b"?" * 65536, "not a spool"),
    ]:
        before = (out / "spool" / name).read_bytes()
        (out / "spool" / name).write_bytes(content)
        said = pagetape("import", out, "-o", tmp_path / "x.tape")
        assert (said.status, said.err.count("\n")) == (1, 1)
        assert words in said.err
        (out / "spool" / name).write_bytes(before)
    events = (out / "event.arrow").read_bytes()
    (out / "event.arrow").write_bytes(events[: len(events) // 2])
    said = pagetape("import", out, "-o", tmp_path / "x.tape")
    assert said.status == 1 and "fewer rows than its last checkpoint" in said.err
    assert sorted(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("every", [1, 2])
def test_parts_that_never_reached_the_disk_are_a_loss(
    every: int, tmp_path: Path, pagetape: Run
) -> None:
    """After a crash of the machine, a header may count sub-buffers that were not written."""
    out, new = tmp_path / "t.tape", tmp_path / "new.tape"
    with recording(out, "--events", "page", "--defer") as running, load(1, 0.02):
        until(lambda: (out / "spool/formats").exists())
        time.sleep(1)
        killed(running)
    for rest in (out / "spool").glob("cpu?.rest"):  # a guard's, which a crash does not leave
        rest.unlink()
    for file in (out / "spool").glob("cpu?"):
        with file.open("r+b") as spool:
            (size,) = struct.unpack_from("Q", spool.read(40), 24)
            for at in range(4096, file.stat().st_size, size * every):
                spool.seek(at)
                spool.write(bytes(size))
    said = pagetape("import", out, "-o", new)
    assert "never reached the disk because the machine stopped" in said.err
    if every == 1:
        assert (said.status, said.err.count("\n"), new.exists()) == (1, 1, False)
        return
    info = pagetape("info", new, "--json").json
    assert said.status == 0 and info["stored"] > 0 and info["lost"] != 0
    assert "complete up to that point" not in pagetape("info", new).out or info["lost"]


# Forks a recorder for each line it reads, so that no start of an interpreter is in the way.
RECORDERS = """
import os, sys
from pathlib import Path
from pagetape import procfs
from pagetape.recording import sampling
from pagetape.commands import record
procfs.Proc.blocks = lambda *_: {}  # they take long
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        record.command.main(line.split(), standalone_mode=False)
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print(flush=True)
"""


def test_a_dozen_kills_leave_nothing_behind(tmp_path: Path, pagetape: Run) -> None:
    dice = random.Random(50)
    pids, tapes, whole = [], [], tmp_path / "whole.tape"
    argv = [sys.executable, "-c", RECORDERS]
    with (
        load(1, 0.02),
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks,
    ):
        assert forks.stdin and forks.stdout
        for nr in range(12):
            out = tmp_path / f"{nr}.tape"
            forks.stdin.write(f"-o {out} --snapshot proc --events page --sample 0\n")
            forks.stdin.flush()
            pids.append(int(forks.stdout.readline()))
            if nr % 2:  # at any moment of the start; or later
                time.sleep(dice.uniform(0.0, 0.5))
            else:
                until((out / "spool/formats").exists)
                time.sleep(dice.uniform(0.0, 0.4))
            os.kill(pids[-1], signal.SIGKILL)
            forks.stdout.readline()
            tapes += [out] if out.exists() else []
    # Killed within the milliseconds that making an empty tape takes.
    parts = list(tmp_path.glob(".*.tape.*.part"))
    assert sorted(tmp_path.iterdir()) == sorted([*tapes, *parts])
    begun = 0
    until(lambda: not [name for pid in pids for name in leftovers(pid)])  # the guards' work
    for tape in tapes:
        assert pagetape("info", tape).status == 0
        said = pagetape("import", tape, "-o", whole, "--force")
        assert said.status == 0, said.err
        accounted(Tape(whole))
        assert pagetape("info", whole, "--json").json["lost"] == 0
        begun += Tape(whole).num_rows("event") > 0
    assert begun >= 6
    for part in parts:  # the next recorder of that name removes it
        out = tmp_path / re.sub(r"\.\w+\.part$", "", part.name[1:])
        assert pagetape("record", "-o", out, "--snapshot", "proc", "--duration", 0.01).status == 0
        assert not part.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
