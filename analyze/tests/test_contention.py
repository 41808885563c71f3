# SPDX-License-Identifier: Apache-2.0
"""Waits for the locks of zones: what is recorded, against a tracing instance of the test's own, and
what the reports make of it. Live tests are skipped where nothing can be traced: livetest.py."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.recording import exact
from pagetape.recording.doctor import tracefs
from pagetape.recording.exact import ExactSnapshots
from pagetape.schemas.tape import Tape, Writer

from .conftest import when_let_go, write_golden

Run = Callable[..., Any]

_PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]

# A process on each CPU takes and frees blocks of order 4, which no per-CPU list holds: getxattr()
# takes one for the value. Each needs the lock of the zone twice. It prints when it began and ended.
_STORM = """
import ctypes, os, sys, time
get, room = ctypes.CDLL(None).getxattr, ctypes.create_string_buffer(65536)
begin, children = time.monotonic_ns(), []
for cpu in sorted(os.sched_getaffinity(0)):
    if not (child := os.fork()):
        os.sched_setaffinity(0, {cpu})
        while time.monotonic_ns() < begin + float(sys.argv[1]) * 1e9:
            for _ in range(100):
                get(b"/proc/self" if cpu % 2 else b"/", b"user.none", room, 65536)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print(begin, time.monotonic_ns())
"""

_NEAR = 0.05  # s: the same event in two rings, as the host may stop a CPU between the two

Wait = tuple[float, int, str, int]  # time in s, CPU, kind, pid


def why_not() -> str:
    """Why contention cannot be recorded here; empty if it can."""
    if why := livetest.why_not() or ExactSnapshots().refused:
        return f"no addresses of locks: {why}"
    root = tracefs()
    return "" if root and (root / "events/lock/contention_begin").is_dir() else "no lock events"


live = livetest.needs(why_not)


def _zone_locks() -> list[tuple[int, int, int]]:
    snapshots = ExactSnapshots()
    try:
        return snapshots.zone_locks()
    finally:
        snapshots.close()


@contextmanager
def _own_instance(name: str) -> Iterator[Path]:
    """A tracing instance that records the events of the same locks, apart from pagetape."""
    root = tracefs()
    assert root is not None
    instance = root / "instances" / name
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text("4096")
        ours = " || ".join(f"lock_addr == {address:#x}" for address, _, _ in _zone_locks())
        for event in ("contention_begin", "contention_end"):
            (instance / "events/lock" / event / "filter").write_text(ours)
            (instance / "events/lock" / event / "enable").write_text("1")
        yield instance
    finally:
        instance.rmdir()


def _in_trace(instance: Path) -> list[Wait]:
    line = re.compile(r".+-(\d+) +\[(\d+)\] \S+ +(\d+\.\d+): contention_(begin|end):")
    found = map(line.match, (instance / "trace").read_text().splitlines())
    return [(float(m[3]), int(m[2]), m[4], int(m[1])) for m in found if m]


def _is_run_of(some: list[Wait], every: list[Wait]) -> bool:
    """Whether the events stand in `every` one after the other, at about the same time."""
    return any(
        all(
            one[2:] == other[2:] and abs(one[0] - other[0]) < _NEAR
            for one, other in zip(some, every[at : at + len(some)], strict=True)
        )
        for at in range(len(every) - len(some) + 1)
    )


def _overrun(instance: Path) -> int:
    """Events that the instance's rings lost."""
    stats = " ".join(path.read_text() for path in instance.glob("per_cpu/cpu*/stats"))
    return sum(map(int, re.findall(r"(?:overrun|dropped events): (\d+)", stats)))


def _storm(pagetape: Run, out: Path, *options: object, seconds: float = 1) -> tuple[int, int]:
    """Record the storm; when it began and ended (ns)."""
    load = (sys.executable, "-c", _STORM, seconds)
    found = pagetape("record", "-o", out, *options, "--", *load)
    assert found.status == 0, found.err
    begin, end = map(int, found.out.split()[:2])
    return begin, end


@live
@pytest.mark.parametrize("events", ["lock", "zone,lock"])
def test_the_table_is_what_another_tracer_sees_of_the_same_locks(
    events: str, tmp_path: Path, pagetape: Run
) -> None:
    for seconds in (0.2, 1.5):  # a quiet machine has thousands of events soon, a busy one few
        out = tmp_path / f"{seconds}.tape"
        with _own_instance(f"test-contention-{time.monotonic_ns()}") as instance:
            begin, end = _storm(pagetape, out, "--events", events, seconds=seconds)
            seen, lost = _in_trace(instance), _overrun(instance)
        rows = Tape(out).rows("lock_event")
        recorded = [
            (r["ts"] / 1e9, r["cpu"], r["kind"], r["pid"]) for r in rows if r["kind"] != "release"
        ]
        assert not lost
        if len(recorded) > 200:
            break
    for ours, theirs in ((recorded, seen), (seen, recorded)):
        sure = [
            one for one in ours if begin <= (one[0] - _NEAR) * 1e9 < (one[0] + _NEAR) * 1e9 <= end
        ]
        for cpu in {one[1] for one in sure}:
            here, there = ([one for one in ones if one[1] == cpu] for ones in (sure, theirs))
            assert _is_run_of(here, there), cpu
    if len(recorded) < 20:
        livetest.skip(f"only {len(recorded)} events of contention", by_chance=True)
    zones = {(node, zone) for _, node, zone in _zone_locks()}
    assert {r["node"] for r in rows} <= {node for node, _ in zones}


@live
def test_each_wait_of_the_kernel_is_one_of_the_report(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    _storm(pagetape, out, "--events", "page,lock")
    kinds = [row["kind"] for row in Tape(out).rows("lock_event")]
    info = pagetape("info", out, "--json").json
    assert info["events"].get("contention_begin", 0) == kinds.count("begin")
    assert info["facts"]["event_set"] == "page" and info["snapshot"] in ("exact", "proc")
    assert not any(f"{address:x}" in str(info) for address, _, _ in _zone_locks())
    rows = pagetape("report", "zone_lock.contention", out, "--json").json["rows"]
    assert sum(row["contentions"] for row in rows) == kinds.count("begin")
    at = [row["at"] for row in Tape(out).rows("lock_event")]
    assert at == sorted(at) and (not at or at[-1] <= Tape(out).num_rows("event"))


@live
def test_a_deferred_recording_knows_the_locks(tmp_path: Path, pagetape: Run) -> None:
    raw, whole = tmp_path / "raw.tape", tmp_path / "whole.tape"
    _storm(pagetape, raw, "--events", "lock", "--defer")
    assert pagetape("import", raw, "-o", whole).status == 0
    counted = pagetape("info", whole, "--json").json["events"]
    kinds = [row["kind"] for row in Tape(whole).rows("lock_event")]
    if not kinds:
        livetest.skip("no lock was contended", by_chance=True)
    assert kinds.count("begin") == counted["contention_begin"]
    assert {row["zone"] for row in Tape(whole).rows("lock_event")} <= {"DMA", "DMA32", "NORMAL"}


@live
def test_a_killed_recording_has_each_event_once(tmp_path: Path, pagetape: Run) -> None:
    out, whole = tmp_path / "t.tape", tmp_path / "whole.tape"
    given = ("record", "-o", out, "--events", "lock", "--duration", "300s")
    with subprocess.Popen([*_PAGETAPE, *given], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        while "recording since" not in (line := run.stderr.readline()):
            assert line, "it ended"
        subprocess.run([sys.executable, "-c", _STORM, "0.5"], check=True, capture_output=True)
        time.sleep(2.5)  # past a checkpoint
        subprocess.run([sys.executable, "-c", _STORM, "0.5"], check=True, capture_output=True)
        run.kill()
    assert when_let_go(pagetape, "import", out, "-o", whole).status == 0
    rows = Tape(whole).rows("lock_event")
    if not rows:
        livetest.skip("no lock was contended", by_chance=True)
    assert len({(row["cpu"], row["ts"], row["kind"]) for row in rows}) == len(rows)


def test_without_bpf_one_line_says_why(
    tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := livetest.why_not():
        livetest.skip(why)

    def refuse(self: ExactSnapshots, _max_ms: float | None = None) -> None:
        self._loaded, self._max_ms, self._patient = None, exact.MAX_MS, True
        self.refused = "the kernel refuses BPF programs"

    monkeypatch.setattr(ExactSnapshots, "__init__", refuse)
    out = tmp_path / "t.tape"
    found = pagetape("record", "-o", out, "--events", "page,lock", "--duration", "1ms")
    assert found.status == 1 and not out.exists()
    (*_, line) = found.err.splitlines()
    assert "the addresses of the zones' locks are unknown: the kernel refuses BPF programs" in line
    assert "record without the event set lock" in line


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ("page,zone", "one event set"),
        ("proc,lock", "one event set"),
        ("lock,proc", "one event set"),
        ("pages,lock", "'pages' is not one of"),
        ("", "'' is not one of"),
    ],
)
def test_wrong_sets_are_refused(events: str, words: str, pagetape: Run, tmp_path: Path) -> None:
    found = pagetape("record", "-o", tmp_path / "t.tape", "--events", events)
    assert found.status == 2 and words in found.err and "Traceback" not in found.err


@pytest.mark.parametrize("option", [("--snapshot", "exact"), ("--stamps", "on")])
def test_waits_alone_need_no_state(option: tuple[str, str], pagetape: Run, tmp_path: Path) -> None:
    found = pagetape("record", "-o", tmp_path / "t.tape", "--events", "lock", *option)
    assert found.status == 2 and "--events page" in found.err


def test_a_wait_ends_with_the_next_event_of_its_cpu_and_lock(tmp_path: Path, pagetape: Run) -> None:
    about = {"pid": 1, "flags": 0, "at": 0}
    place = {"node": 0, "zone": "NORMAL"}
    other = {"node": 1, "zone": "NORMAL"}
    rows = [
        (100, 0, "begin", place),  # 50 ns
        (110, 1, "begin", place),  # 70 ns, beside it
        (150, 0, "end", place),
        (160, 0, "release", place),
        (180, 1, "end", place),
        (200, 0, "end", place),  # its begin is lost
        (300, 0, "begin", place),  # its end is lost
        (400, 0, "begin", place),  # 5 ns
        (402, 0, "begin", other),  # of another lock, without an end
        (405, 0, "end", place),
    ]
    out = tmp_path / "t.tape"
    with Writer(out, {"cpus": 2}) as tape:
        tape.rows(
            "lock_event",
            [about | where | {"ts": ts, "cpu": cpu, "kind": kind} for ts, cpu, kind, where in rows],
        )
    asked = "SELECT ts, wait_ns FROM contention ORDER BY ts"
    found = pagetape("sql", out, asked, "--json").json["rows"]
    assert [(row["ts"], row["wait_ns"]) for row in found] == [
        (100, 50),
        (110, 70),
        (300, None),
        (400, 5),
        (402, None),
    ]
    whole, part = pagetape("report", "zone_lock.contention", out, "--json").json["rows"]
    assert (whole["contentions"], whole["cut"], whole["releases"]) == (4, 1, 1)
    assert whole["wait_ms"] == pytest.approx(125e-6, abs=1e-3)
    # 125 ns of 2 CPUs in the 305 ns of the tape.
    assert whole["cpu_percent"] == pytest.approx(100 * 125 / (2 * 305))
    assert (part["contentions"], part["cut"], part["wait_ms"]) == (1, 1, None)


def test_the_model_stands_beside_the_record(tmp_path: Path, pagetape: Run) -> None:
    recording = write_golden(tmp_path / "recording.tape", {}, {"event", "lock_event"})
    replay = write_golden(tmp_path / "replay.tape", {}, {"event", "zone_lock", "lock_wait"})
    rows = pagetape("report", "zone_lock.contention", recording, replay, "--json").json["rows"]
    found = {(row["tape"], row["node"], row["source"]): row for row in rows}
    assert {key[0]: key[2] for key in found} == {"recording": "recorded", "replay": "modelled"}
    assert found["recording", 0, "recorded"]["contentions"] == 4
    assert found["replay", 0, "modelled"]["contentions"] == 25  # 20 up to 2047 ns, 5 up to 4095
    assert found["replay", 0, "modelled"]["p50_us"] == 2.047
    assert found["replay", 0, "modelled"]["p99_us"] == 4.095
    assert found["replay", 0, "modelled"]["wait_ms"] == 0.06


def test_a_recording_without_them_says_how_to_get_them(tmp_path: Path, pagetape: Run) -> None:
    facts = {"events": ["kmem:mm_page_alloc"]}
    plain = write_golden(tmp_path / "plain.tape", facts, {"event"})
    found = pagetape("report", "zone_lock.contention", plain)
    assert "pagetape record --events page,lock" in found.out + found.err
    facts = {"events": ["kmem:mm_page_alloc", "lock:contention_begin", "lock:contention_end"]}
    calm = write_golden(tmp_path / "calm.tape", facts, {"event"})
    found = pagetape("report", "zone_lock.contention", calm)
    assert "nothing of the kind" in found.out + found.err


def test_sizes_of_lists_stand_beside_the_model(tmp_path: Path, pagetape: Run) -> None:
    recording = write_golden(tmp_path / "recording.tape", {}, {"event", "sample", "parameter"})
    replay = write_golden(tmp_path / "replay.tape", {}, {"event", "pcp_occupancy"})
    rows = pagetape("report", "pcp.size_over_time", recording, replay, "--json").json["rows"]
    recorded = {(r["at_s"], r["cpu"]): r for r in rows if r["source"] == "recorded"}
    assert {key: row["mean_pages"] for key, row in recorded.items()} == {
        (0.0, 0): 110,
        (0.0, 1): 28,
        (1.0, 0): 52,
        (1.0, 1): 28,  # as at the sample before
        (2.0, 0): 52,
        (2.0, 1): 28,
    }
    assert (recorded[0.0, 1]["high"], recorded[2.0, 1]["high"]) == (300, 350)
    modelled = {(r["at_s"], r["cpu"]): r for r in rows if r["source"] == "modelled"}
    assert modelled[0.0, 0]["mean_pages"] == 100 and modelled[0.0, 0]["high"] == 448
    at = [row["at_s"] for row in rows]
    assert at == sorted(at) and bisect_left(at, 1.0) > 0
