# SPDX-License-Identifier: Apache-2.0
"""Live recordings on this machine. Skipped where it cannot be traced: see livetest.py."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import livetest
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape import _collector
from pagetape.schemas import TABLES

TRACING = Path("/sys/kernel/tracing")
INSTANCES = TRACING / "instances"
PAGE_EVENTS = [
    "kmem:mm_page_alloc",
    "kmem:mm_page_free",
    "kmem:mm_page_free_batched",
    "kmem:mm_page_alloc_zone_locked",
    "kmem:mm_page_pcpu_drain",
    "kmem:mm_page_alloc_extfrag",
]
ALL_EVENTS = [
    tracepoint
    for table in ("event", "reclaim", "compaction")
    for kind in TABLES[table].kinds
    for tracepoint in kind.tracepoints
]


pytestmark = [livetest.recording, livetest.alone]


def recorder_of(events: list[str], spool: Path, ring_kb: int = 0) -> _collector.Recorder:
    return _collector.Recorder(events, _collector.SpoolConfig(str(spool)), ring_kb=ring_kb)


class Recording:
    """A recording whose batches a thread takes as they come."""

    def __init__(self, events: list[str], spool: Path, ring_kb: int = 0) -> None:
        self.recorder = recorder_of(events, spool, ring_kb=ring_kb)
        self.batches: dict[str, list[pa.RecordBatch]] = {}
        self.thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        while (item := self.recorder.read()) is not None:
            name, batch = item
            self.batches.setdefault(name, []).append(pa.record_batch(batch))

    def table(self, name: str) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(name, []), TABLES[name].arrow)

    def counts(self) -> dict[str, int]:
        return {row["name"]: row["events"] for row in self.recorder.tracepoints()}


@contextmanager
def recording(events: list[str], spool: Path, ring_kb: int = 0) -> Iterator[Recording]:
    """Record the body of the `with`; the results are complete after it."""
    r = Recording(events, spool, ring_kb)
    r.recorder.start()
    r.thread.start()
    try:
        yield r
    finally:
        r.recorder.stop()
        r.thread.join()


def touch_pages(mebibytes: int, before_readers: bool = False) -> int:
    """Fault in that much memory in a process of its own, which readers may wait for; its pid."""
    code = (
        "import mmap, os\n"
        f"if {before_readers}: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))\n"
        f"for _ in range({mebibytes} // 16):\n"
        "    m = mmap.mmap(-1, 16 << 20)\n"
        "    m.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "    for at in range(0, len(m), 4096):\n"
        "        m[at] = 1\n"
        "    m.close()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    assert child.wait() == 0
    return child.pid


def instances(prefix: str = "pagetape-") -> set[str]:
    return {entry.name for entry in INSTANCES.iterdir() if entry.name.startswith(prefix)}


def accounted(r: Recording) -> None:
    """Every event that the kernel wrote was read, or is in a row of `lost`."""
    rings, lost = r.recorder.rings(), r.recorder.lost()
    assert sum(r.counts().values()) == sum(ring["read"] for ring in rings)
    for ring in rings:
        gaps = [gap["events"] for gap in lost if gap["cpu"] == ring["cpu"]]
        if None not in gaps:
            assert sum(gaps) == ring["overrun"] + ring["commit_overrun"] + ring["dropped"]


def test_every_event_is_read_and_in_order(tmp_path: Path) -> None:
    with recording(ALL_EVENTS, tmp_path) as r:
        pid = touch_pages(64)
    event = r.table("event")
    assert r.recorder.lost() == []
    accounted(r)
    stored = [row for row in r.recorder.tracepoints() if row["stored"] == "event"]
    assert event.num_rows == sum(row["events"] for row in stored)
    mine = event.filter(pc.equal(event["pid"], pid))
    allocs = pc.sum(pc.equal(mine["kind"].cast(pa.utf8()), "alloc")).as_py()
    assert allocs >= 64 * 256
    ts = event["ts"].combine_chunks()
    assert pc.all(pc.less_equal(ts[:-1], ts[1:])).as_py()
    for ring in r.recorder.rings():
        assert ring["first_ts"] <= ring["last_ts"]
        assert ring["bytes"] > 16 * ring["read"]
    r.recorder.close()
    assert not instances(f"pagetape-{os.getpid()}-")
    assert list(tmp_path.iterdir()) == []


def test_the_recorder_knows_its_own_threads(tmp_path: Path) -> None:
    """Also the decoder's, which starts after /proc was read, and before events of it."""
    with recording(ALL_EVENTS, tmp_path) as r:
        for _ in range(8):  # events for the decoder to write while it is recorded
            touch_pages(64)
            time.sleep(0.1)
    assert r.recorder.facts["recorder_pid"] == os.getpid()
    own = {task["comm"]: task["tgid"] for task in r.recorder.tasks()}
    assert own.get("pagetape-decode") == os.getpid()


def test_short_lived_tasks_have_their_names(tmp_path: Path) -> None:
    with recording(PAGE_EVENTS, tmp_path) as r:
        child = subprocess.Popen(["true"])
        child.wait()
    tasks = {task["pid"]: task for task in r.recorder.tasks()}
    assert tasks[child.pid] == {
        "pid": child.pid,
        "tgid": child.pid,
        "comm": "true",
        "kthread": False,
        "cgroup": own_cgroup(),
    }
    r.recorder.close()


def own_cgroup() -> str | None:
    """The group of this process: of the v1 controller `memory`, or of cgroup v2."""
    path = Path("/proc/self/cgroup")
    lines = path.read_text().splitlines() if path.exists() else []
    parts = [line.split(":", 2) for line in lines]
    v1 = [path for _, controllers, path in parts if "memory" in controllers.split(",")]
    v2 = [path for number, _, path in parts if number == "0"]
    return next(iter(v1 or v2), None)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A new control group for the test."""
    places = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
    top = next((place for place in places if (place / "cgroup.procs").exists()), None)
    if top is None:
        livetest.skip("no control groups are mounted")
    group = top / f"pagetape-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        livetest.skip(f"no control group can be made: {e}")
    try:
        yield group
    finally:
        group.rmdir()


def test_the_memory_of_the_spools_follows_the_limit_of_a_control_group(cgroup: Path) -> None:
    names = ("memory.limit_in_bytes", "memory.max")
    limit = next((cgroup / name for name in names if (cgroup / name).exists()), None)
    if limit is None:
        livetest.skip("no control group limits memory here")
    limit.write_text(str(256 << 20))
    plan = "from pagetape import _collector; print(_collector.plan(2)['memory'])"
    shell = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    words = ["sh", "-c", shell, str(cgroup), sys.executable, "-c", plan]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 8 << 20 < int(done.stdout) <= 16 << 20  # a sixteenth


def test_a_process_that_moved_is_in_its_new_control_group(tmp_path: Path, cgroup: Path) -> None:
    move = f"echo $$ > {cgroup}/cgroup.procs && true | true"
    with recording(PAGE_EVENTS, tmp_path) as r:
        child = subprocess.Popen(["sh", "-c", move])
        assert child.wait() == 0
    tasks = [task for task in r.recorder.tasks() if task.get("cgroup") == f"/{cgroup.name}"]
    assert child.pid in {task["pid"] for task in tasks}
    assert "true" in {task["comm"] for task in tasks} or len(tasks) > 1  # its children, too
    r.recorder.close()


WATCHED = [
    "trace_clock",
    "tracing_on",
    "current_tracer",
    "set_event",
    "trace_options",
    "tracing_cpumask",
    "buffer_size_kb",
    "buffer_percent",
    *(f"events/{e.replace(':', '/')}/{file}" for e in PAGE_EVENTS for file in ("enable", "filter")),
]


def _settings(instance: Path) -> dict[str, str]:
    return {file: (instance / file).read_text() for file in WATCHED}


@contextmanager
def waiting_to_touch_pages() -> Iterator[subprocess.Popen[str]]:
    """A process that faults in 16 MiB on request, and is idle before."""
    code = (
        "import mmap\n"
        "m = mmap.mmap(-1, 16 << 20)\n"
        "m.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "print('ready', flush=True)\n"
        "input()\n"
        "for at in range(0, len(m), 4096):\n"
        "    m[at] = 1\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        while _state(child.pid) != "S":  # it allocates until it sleeps
            time.sleep(0.01)
        yield child


def _state(pid: int) -> str:
    """The state of a process as /proc has it: R, S, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def tracing_allocs_of(pid: int, instance: Path) -> Iterator[None]:
    event = instance / "events/kmem/mm_page_alloc"
    (event / "filter").write_text(f"common_pid == {pid}")
    (event / "enable").write_text("1")
    try:
        yield
    finally:
        (event / "enable").write_text("0")
        (event / "filter").write_text("0")


def test_other_tracers_are_not_disturbed(tmp_path: Path) -> None:
    """Another instance, and the top one if nobody uses it, see what the recorder sees."""
    other = INSTANCES / f"test-{os.getpid()}"
    other.mkdir()
    idle = not (TRACING / "set_event").read_text()
    tracers = [other, TRACING] if idle else [other]
    try:
        with waiting_to_touch_pages() as child, ExitStack() as stack:
            for tracer in tracers:
                stack.enter_context(tracing_allocs_of(child.pid, tracer))
            settings = [_settings(tracer) for tracer in tracers]
            entries = [_entries(tracer) for tracer in tracers]
            with recording(ALL_EVENTS, tmp_path) as r:
                child.communicate("go\n")
            r.recorder.close()
            seen = [_entries(t) - before for t, before in zip(tracers, entries, strict=True)]
            assert [_settings(tracer) for tracer in tracers] == settings
        event = r.table("event")
        mine = event.filter(pc.equal(event["pid"], child.pid))
        allocs = pc.sum(pc.equal(mine["kind"].cast(pa.utf8()), "alloc")).as_py()
        assert allocs >= 16 * 256
        assert seen == [allocs] * len(tracers)
    finally:
        other.rmdir()


def _entries(instance: Path) -> int:
    """The number of events that an instance without a reader has received so far."""
    total = 0
    for stats in instance.glob("per_cpu/cpu*/stats"):
        lines = dict(line.split(": ") for line in stats.read_text().splitlines() if ": " in line)
        total += int(lines["entries"]) + int(lines["overrun"])
    return total


RECORD_FOREVER = (
    "import sys, time\n"
    "from pagetape import _collector\n"
    "r = _collector.Recorder(sys.argv[2:], _collector.SpoolConfig(sys.argv[1]))\n"
    "r.start()\n"
    "print('started', flush=True)\n"
    "time.sleep(60)\n"
)


@contextmanager
def other_recorder(spool: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", RECORD_FOREVER, str(spool), *PAGE_EVENTS],
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        try:
            yield child
        finally:
            child.kill()


def test_the_next_recorder_removes_leftovers_of_a_killed_one(tmp_path: Path) -> None:
    with other_recorder(tmp_path) as child:
        os.kill(livetest.guard_of(child.pid), signal.SIGKILL)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert len(instances(f"pagetape-{child.pid}-")) == 1
    assert list(tmp_path.iterdir()) == []
    recorder_of(PAGE_EVENTS, tmp_path).close()
    assert not instances(f"pagetape-{child.pid}-")


def test_two_recorders_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    with other_recorder(tmp_path) as child:
        with recording(PAGE_EVENTS, tmp_path) as r:
            touch_pages(16)
        accounted(r)
        assert r.table("event").num_rows >= 16 * 256
        r.recorder.close()
        assert len(instances(f"pagetape-{child.pid}-")) == 1
    recorder_of(PAGE_EVENTS, tmp_path).close()


def test_instances_of_others_are_never_removed(tmp_path: Path) -> None:
    names = ["pagetape-", "pagetape-mine", "other-1-1"]
    for name in names:
        (INSTANCES / name).mkdir()
    try:
        recorder_of(PAGE_EVENTS, tmp_path).close()
        assert all((INSTANCES / name).is_dir() for name in names)
    finally:
        for name in names:
            (INSTANCES / name).rmdir()


def test_a_ring_that_is_too_small_reports_each_gap(tmp_path: Path) -> None:
    with recording(PAGE_EVENTS, tmp_path, ring_kb=8) as r:
        touch_pages(512, before_readers=True)
    lost, rings = r.recorder.lost(), {ring["cpu"]: ring for ring in r.recorder.rings()}
    accounted(r)
    r.recorder.close()
    assert lost
    for gap in lost:
        ring = rings[gap["cpu"]]
        if gap["from_ts"] is not None:
            assert ring["first_ts"] <= gap["from_ts"] <= gap["to_ts"]
        if gap["to_ts"] is not None:
            assert gap["to_ts"] <= ring["last_ts"]


def test_a_late_reader_gets_everything_through_the_spool(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    recorder.start()
    pid = touch_pages(512)
    recorder.stop()
    rows = allocs = 0
    while (item := recorder.read()) is not None:
        batch = pa.record_batch(item[1])
        rows += batch.num_rows
        allocs += pc.sum(pc.equal(batch["pid"], pid)).as_py()
    assert recorder.lost() == []
    assert rows == sum(t["events"] for t in recorder.tracepoints() if t["stored"] == "event")
    assert allocs >= 512 * 256
    assert recorder.progress == 1
    recorder.close()


def test_stop_without_events_is_a_recording(tmp_path: Path) -> None:
    with recording(["oom:mark_victim"], tmp_path) as r:
        pass
    assert r.batches == {}
    accounted(r)
    r.recorder.close()


def test_stop_without_start_gives_nothing(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    recorder.stop()
    recorder.stop()
    assert recorder.read() is None
    with pytest.raises(OSError, match="started before"):
        recorder.start()
    recorder.close()


class Segment:
    """The rows of one segment of a recording."""

    def __init__(self, recorder: _collector.Recorder) -> None:
        batches: dict[str, list[pa.RecordBatch]] = {}
        while (item := recorder.read()) is not None:
            batches.setdefault(item[0], []).append(pa.record_batch(item[1]))
        self.tables = {
            name: pa.Table.from_batches(batches.get(name, []), TABLES[name].arrow)
            for name in ("event", "reclaim", "compaction")
        }
        self.counts = {row["name"]: row for row in recorder.tracepoints()}
        self.rings = recorder.rings()
        self.lost = recorder.lost()
        self.pids = {row["pid"] for row in recorder.tasks()}


def test_a_recording_can_be_cut_into_segments_without_loss(tmp_path: Path) -> None:
    segments: list[Segment] = []
    recorder = recorder_of(ALL_EVENTS, tmp_path)

    def read() -> None:
        segments.append(Segment(recorder))
        while recorder.next():
            segments.append(Segment(recorder))

    recorder.start()
    thread = threading.Thread(target=read)
    thread.start()
    cuts = [0]
    for nr in range(4):
        touch_pages(16)
        recorder.hold()
        if nr == 3:
            with pytest.raises(_collector.CollectorError, match="has not been reached"):
                recorder.hold()
        cuts.append(time.monotonic_ns())
        touch_pages(16)
        recorder.cut(cuts[-1])
        while len(segments) < nr + 1:
            time.sleep(0.01)
    recorder.stop()
    thread.join()
    assert not recorder.next()
    cuts.append(time.monotonic_ns())
    assert len(segments) == 5
    for segment, begin, end in zip(segments, cuts[:-1], cuts[1:], strict=True):
        rows = 0
        for table in segment.tables.values():
            rows += table.num_rows
            if table.num_rows:
                assert begin < table["ts"][0].as_py() <= table["ts"][-1].as_py() <= end
        for name in ("reclaim", "compaction"):
            at = segment.tables[name]["at"].to_pylist()
            assert at == sorted(at) and all(nr <= segment.tables["event"].num_rows for nr in at)
        assert segment.counts["mm_page_alloc"]["events"] >= 16 * 256
        stored = sum(row["events"] for row in segment.counts.values() if row["stored"])
        assert rows == stored
        assert sum(ring["read"] for ring in segment.rings) == sum(
            row["events"] for row in segment.counts.values()
        )
        assert segment.lost == []
        assert all(ring["overrun"] == 0 for ring in segment.rings)
        seen = {
            pid for table in segment.tables.values() for pid in table["pid"].unique().to_pylist()
        }
        assert seen <= segment.pids
    recorder.close()


def test_a_hold_without_a_cut_does_not_delay_the_end(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    with pytest.raises(_collector.CollectorError, match="only a recording that runs"):
        recorder.hold()
    recorder.start()
    recorder.hold()
    touch_pages(16)
    recorder.stop()
    rows = [pa.record_batch(item[1]).num_rows for item in iter(recorder.read, None)]
    assert sum(rows) >= 16 * 256
    assert not recorder.next()
    recorder.close()


def test_a_recording_can_be_closed_at_the_end_of_a_segment(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    recorder.start()
    recorder.hold()
    recorder.cut(time.monotonic_ns())
    while recorder.read() is not None:
        pass
    recorder.close()
    assert not instances(f"pagetape-{os.getpid()}-")


def test_rows_come_out_soon_where_little_happens(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    recorder.start()
    touch_pages(16)
    assert recorder.read() is not None  # a batch that is not full, before the end of the recording
    recorder.close()


def test_start_and_stop_leave_nothing_behind(tmp_path: Path) -> None:
    def used() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    before = used()
    for _ in range(10):
        with recording(["kmem:mm_page_alloc_extfrag"], tmp_path) as r:
            pass
        r.recorder.close()
    assert used() == before
    assert not instances(f"pagetape-{os.getpid()}-")


def test_a_recorder_that_is_dropped_cleans_up(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    recorder.start()
    assert instances(f"pagetape-{os.getpid()}-")
    del recorder
    gc.collect()
    assert not instances(f"pagetape-{os.getpid()}-")


def test_close_in_the_middle_of_a_full_queue_returns(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    recorder.start()
    touch_pages(512)
    recorder.close()
    assert not instances(f"pagetape-{os.getpid()}-")
    with pytest.raises(ValueError, match="closed"):
        recorder.read()


def test_close_wakes_a_reader_in_another_thread(tmp_path: Path) -> None:
    r = Recording(["oom:mark_victim"], tmp_path)
    r.recorder.start()
    ended: list[BaseException] = []

    def read() -> None:
        try:
            r.recorder.read()
        except OSError as e:
            ended.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    r.recorder.close()
    thread.join(60)
    assert not thread.is_alive()
    assert not ended or ended[0].errno == errno.ECANCELED


def test_one_recording_at_a_time_in_a_process(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path)
    with pytest.raises(OSError, match="this process records already"):
        recorder_of(PAGE_EVENTS, tmp_path)
    recorder.start()
    recorder.stop()
    assert recorder.read() is None or recorder.read() is None
    recorder.close()


@pytest.mark.parametrize(
    ("events", "code", "words"),
    [
        (["mm_page_alloc"], errno.EINVAL, "'mm_page_alloc' is not a tracepoint"),
        (["kmem:mm_page_free_direct"], errno.ENOENT, "no tracepoint kmem:mm_page_free_direct"),
        (["nothing:of_the_kind"], errno.ENOENT, "none of the events asked for"),
    ],
)
def test_events_that_cannot_be_recorded_are_named(
    tmp_path: Path, events: list[str], code: int, words: str
) -> None:
    with pytest.raises(_collector.CollectorError, match=words) as e:
        recorder_of(events, tmp_path)
    assert e.value.errno == code
    assert not instances(f"pagetape-{os.getpid()}-")


def test_events_that_may_be_missing_are_listed(tmp_path: Path) -> None:
    recorder = recorder_of([*PAGE_EVENTS, "kmem:not_there"], tmp_path)
    assert recorder.facts["skipped_events"] == ["kmem:not_there"]
    recorder.close()


def test_a_spool_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    recorder = recorder_of(PAGE_EVENTS, tmp_path / "no")
    with pytest.raises(_collector.CollectorError, match=r"cannot make a spool file in .*/no: "):
        recorder.start()
    recorder.close()


@livetest.needs(livetest.why_not_nobody)
def test_without_rights_the_message_names_the_remedy() -> None:
    code = (
        "from pagetape import _collector\n"
        "try:\n"
        "    _collector.Recorder(['kmem:mm_page_alloc'], _collector.SpoolConfig('/tmp'))\n"
        "except OSError as e:\n"
        "    print(e.errno, e)\n"
    )
    argv = [*livetest.as_nobody(), sys.executable, "-c", code]
    said = subprocess.run(argv, capture_output=True, text=True, cwd="/").stdout
    assert said.startswith(f"{errno.EACCES} cannot make a tracing instance in {TRACING}")
    assert "(run as root, or mount -o remount,uid=USER " in said


def recorder_where(script: str, *drop: str) -> subprocess.CompletedProcess[str]:
    """Make a Recorder in a mount namespace that `script` has changed; with `drop`, as somebody
    else."""
    code = (
        "from pagetape import _collector\n"
        "try:\n"
        "    _collector.Recorder(['kmem:mm_page_alloc'], _collector.SpoolConfig('/tmp')).close()\n"
        "    print('made')\n"
        "except OSError as e:\n"
        "    print(e.errno, e)\n"
    )
    script += '; exec "$@"'
    said = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", *drop, sys.executable, "-c", code],
        capture_output=True,
        text=True,
    )
    if said.returncode:
        livetest.skip(f"cannot change the mounts of one process: {said.stderr}")
    return said


def without_tracefs(*drop: str) -> subprocess.CompletedProcess[str]:
    script = "umount /sys/kernel/tracing && umount -a -t debugfs,tracefs"
    return recorder_where(script, *drop)


def test_tracefs_is_mounted_where_it_is_not() -> None:
    assert without_tracefs().stdout == "made\n"


def test_without_tracefs_the_message_names_the_remedy() -> None:
    words = (
        "tracefs is not mounted, and mounting it failed (run as root): "
        "mount -t tracefs tracefs /sys/kernel/tracing"
    )
    said = without_tracefs("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    assert said.stdout == f"{errno.ENOENT} {words}\n"


def test_a_mount_over_tracefs_is_named() -> None:
    said = recorder_where("mount -t tmpfs none /sys/kernel")
    assert said.stdout == (
        f"{errno.ENOENT} cannot make a tracing instance in {TRACING}/instances: "
        "No such file or directory (another mount hides tracefs: mount it there again)\n"
    )


def test_a_locked_down_kernel_is_named() -> None:
    code = (
        "from pagetape import _collector\n"
        "try:\n"
        "    _collector.Recorder(['kmem:mm_page_alloc'], _collector.SpoolConfig('/tmp')).close()\n"
        "except OSError as e:\n"
        "    print(e)\n"
    )
    script = (
        "mount -t tmpfs -o mode=755 pagetape-test /sys/kernel/security; "
        'echo "none integrity [confidentiality]" >/sys/kernel/security/lockdown; exec "$@"'
    )
    said = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-ec", script, "sh"),
            *(*livetest.as_nobody(), sys.executable, "-c", code),
        ],
        capture_output=True,
        text=True,
    )
    if said.returncode:
        livetest.skip(f"cannot mount a file system for one process: {said.stderr}")
    assert said.stdout.endswith("(the kernel is locked down: boot with lockdown=integrity)\n")


def test_a_full_spool_loses_nothing_silently(tmp_path: Path) -> None:
    """The file system of the spool fills up while nobody reads."""
    spool = tmp_path / "small"
    spool.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "pagetape-test", str(spool)]
    if subprocess.run(mount, capture_output=True).returncode:
        livetest.skip("cannot mount a small file system")
    try:
        recorder = recorder_of(PAGE_EVENTS, spool, ring_kb=1024)
        recorder.start()
        touch_pages(1024)
        recorder.stop()
        while recorder.read() is not None:
            pass
        rings, gaps = recorder.rings(), recorder.lost()
        assert sum(ring["overrun"] for ring in rings) > 0
        for ring in rings:
            lost = [gap for gap in gaps if gap["cpu"] == ring["cpu"]]
            assert sum(gap["events"] or 0 for gap in lost) == ring["overrun"]
            # What the kernel did not size is one row without times.
            assert sum(gap["from_ts"] is None for gap in lost) <= 1
        recorder.close()
    finally:
        subprocess.run(["umount", str(spool)], check=True)
