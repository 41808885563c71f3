# SPDX-License-Identifier: Apache-2.0
"""Faults around a recorder: kills, signals, other users, a tape that moves, a machine that sleeps.

Where this machine cannot be traced, they are skipped.
"""

from __future__ import annotations

import contextlib
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kills
import livetest
import pyarrow as pa
import pytest

from pagetape.recording import disturbance
from pagetape.recording.disturbance import Disturbances
from pagetape.recording.session import Session
from pagetape.recording.status import SILENT, Look, Status
from pagetape.recording.triggers import Extfrag
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]
TRACING = Path("/sys/kernel/tracing")
QUICK = ("--snapshot", "proc", "--events", "cheap", "--sample", "0")


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def recorder(
    out: Path, *options: object, before: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A recorder that has said that it records (its second line)."""
    argv = [*before, *PAGETAPE, "record", "-o", out, *QUICK, *options]
    with subprocess.Popen(list(map(str, argv)), stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            running.stderr.readline()
            began = running.stderr.readline()
            assert began.startswith("pagetape: recording since "), began
            yield running
        finally:
            running.kill()


@contextlib.contextmanager
def page_faults() -> Iterator[None]:
    """A process that allocates pages all the time."""
    code = "import mmap\nwhile True:\n with mmap.mmap(-1, 1 << 20) as m: m.write(bytes(1 << 20))"
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        try:
            yield
        finally:
            running.kill()


def instance_of(pid: int) -> Path:
    (found,) = (TRACING / "instances").glob(f"pagetape-{pid}-*")
    return found


def ended(running: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, list[str]]:
    """Its exit status, and the lines that it printed after the first."""
    running.send_signal(number)
    return waited(running)


def waited(running: subprocess.Popen[str]) -> tuple[int, list[str]]:
    _, said = running.communicate(timeout=60)
    return running.returncode, said.splitlines()


# --- kills


@livetest.recording
@pytest.mark.parametrize("moment", kills.MOMENTS)
def test_a_kill_leaves_a_tape_and_tracing_is_off(moment: str, tmp_path: Path) -> None:
    """analyze/lab/kills.py measures more of them, and holds the end of tracing to 1 s.

    Other tests run beside these, so that it has taken 1.3 s here.
    """
    kill = kills.kill(moment, random.Random(7), tmp_path, off_s=10)
    assert not kill.wrong, kill


@livetest.recording
def test_a_guard_ends_with_its_recorder_and_has_little_memory(tmp_path: Path) -> None:
    with recorder(tmp_path / "t.tape") as running:
        guard = livetest.guard_of(running.pid)
        status = Path(f"/proc/{guard}/status").read_text()
        rss = re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)
        assert rss and int(rss[1]) < 4096
        assert os.getsid(guard) == guard
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guard, number)
        assert ended(running)[0] == 0
    assert not Path(f"/proc/{guard}").exists()


@livetest.recording
def test_a_private_tape_of_a_killed_recorder_can_be_imported(tmp_path: Path, pagetape: Run) -> None:
    """It has no spool: what its tables have is all there is."""
    out = tmp_path / "t.tape"
    with recorder(out, "--private", "hash") as running:
        until(out.exists)
        time.sleep(0.5)
        running.kill()
        running.wait()
    assert pagetape("import", out, "-o", tmp_path / "whole.tape").status == 0
    assert pagetape("info", tmp_path / "whole.tape", "--json").json["ended"] == "killed"


# --- limits


@livetest.recording
def test_a_low_limit_of_open_files_is_raised(tmp_path: Path, pagetape: Run) -> None:
    """A tape has more tables than the limit allows files."""
    out = tmp_path / "t.tape"
    with recorder(out, before=("prlimit", "--nofile=20:4096")) as running:
        assert ended(running)[0] == 0
    assert pagetape("info", out, "--json").json["finished"]


def test_a_limit_of_open_files_that_cannot_be_raised_is_named(tmp_path: Path) -> None:
    # A root user without this capability cannot raise its hard limit either.
    drop = ("setpriv", "--bounding-set=-sys_resource") if os.geteuid() == 0 else ()
    argv = [*drop, "prlimit", "--nofile=20:20", *PAGETAPE, "record", "-o", tmp_path / "t.tape"]
    said = subprocess.run([*map(str, argv)], capture_output=True, text=True)
    assert said.returncode == 1
    _, error = said.stderr.splitlines()  # behind the words that it prepares
    assert "the limit is 20: raise it with ulimit -n " in error
    assert list(tmp_path.iterdir()) == []


# --- what a recorder says, and signals


@livetest.recording
def test_a_quiet_recorder_says_nothing(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    said = pagetape("record", "-o", out, *QUICK, "--quiet", "--duration", 0.1)
    assert (said.status, said.err) == (0, "")
    assert Tape(out).complete


@pytest.mark.parametrize("text", ["0", "0s", "0.0001", "-1", "nan", "inf", "9" * 400])
def test_a_duration_without_time_is_refused(text: str, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("record", "-o", tmp_path / "t.tape", f"--duration={text}")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []


@livetest.recording
def test_a_stop_during_the_set_up_leaves_a_whole_tape(
    tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, ran = tmp_path / "t.tape", tmp_path / "ran"
    before = Session._started

    def stopped(session: Session) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        before(session)

    monkeypatch.setattr(Session, "_started", stopped)
    assert pagetape("record", "-o", out, *QUICK, "--", "touch", ran).status == 0
    assert pagetape("info", out, "--json").json["finished"]
    assert not ran.exists()  # a command that starts after the stop would only be terminated


@livetest.recording
def test_a_hangup_ends_the_recording_but_nohup_ignores_it(tmp_path: Path) -> None:
    with recorder(tmp_path / "t.tape", before=("nohup",)) as running:
        running.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert running.poll() is None
        assert ended(running)[0] == 0
    with recorder(tmp_path / "u.tape") as running:
        assert ended(running, signal.SIGHUP)[0] == 0


@livetest.recording
def test_a_terminal_shows_a_line_and_may_go_away(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    pid, terminal = pty.fork()
    if not pid:
        argv = [*PAGETAPE, "record", "-o", str(out), *QUICK]
        os.execvp(argv[0], argv)
    shown = b""
    while b"events/s" not in shown:
        shown += os.read(terminal, 4096)
    assert b"recording since" in shown and b"lost events, spool" in shown
    os.close(terminal)  # SIGHUP, and every write to the terminal fails
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pagetape("info", out, "--json").json["finished"]


@livetest.recording
def test_triggers_are_armed_and_fire_in_words(tmp_path: Path) -> None:
    options = ("--ring", "1s", "--trigger", "extfrag>1000000/s")
    with recorder(tmp_path / "tapes", *options) as running:
        assert running.stderr is not None
        armed = running.stderr.readline()
        assert armed == "pagetape: armed: extfrag>1000000/s, SIGUSR1\n"
        running.send_signal(signal.SIGUSR1)
        assert running.stderr.readline() == "pagetape: fired: signal; writing a tape\n"
        assert "s wanted" in running.stderr.readline()
        assert ended(running) == (0, [])


def test_a_firing_is_said_with_its_value(capfd: pytest.CaptureFixture[str]) -> None:
    firing = Extfrag("extfrag>5/s", 5)._fires(1234.0, 0)
    assert firing is not None
    Status().fired(firing)
    assert capfd.readouterr().err == "pagetape: fired: extfrag>5/s with 1234/s; writing a tape\n"


def test_a_status_without_a_terminal_has_no_line_in_place(
    capfd: pytest.CaptureFixture[str],
) -> None:
    status = Status()
    for second in range(3):
        status.look(Look(float(second), 1000 * second, 0, 0))
    status.ending(5)
    status.close()
    assert capfd.readouterr().err == ""


# --- other users of the machine


def switch_off(instance: Path) -> None:
    (instance / "tracing_on").write_text("0")


def switch_event_off(instance: Path) -> None:
    (instance / "events/vmscan/enable").write_text("0")


def change_clock(instance: Path) -> None:
    (instance / "trace_clock").write_text("global")


def change_subbufs(instance: Path) -> None:
    if not (instance / "buffer_subbuf_size_kb").exists():
        livetest.skip("sub-buffers have one size before Linux 6.8")
    (instance / "buffer_subbuf_size_kb").write_text("16")


@livetest.recording
@pytest.mark.parametrize(
    ("disturb", "kind", "words"),
    [
        (switch_off, "tracing_off", "another user switched tracing off"),
        (switch_event_off, "event_off", "another user switched vmscan:"),
        (change_clock, "clock_changed", "another user changed the clock"),
        (change_subbufs, "subbuf_changed", "another user changed the sub-buffers"),
    ],
)
def test_another_user_who_stops_the_recording_is_named(
    disturb: Callable[[Path], None], kind: str, words: str, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.tape"
    with recorder(out) as running:
        time.sleep(1.2)
        disturb(instance_of(running.pid))
        status, said = waited(running)
    assert status == 1
    assert f"the recording ended early: {words}" in said[-1]
    info = pagetape("info", out, "--json").json
    assert (info["finished"], info["ended"], info["lost"]) == (True, kind, None)
    (row,) = info["disturbances"]
    assert row["kind"] == kind and row["since_ts"] < row["ts"] < row["since_ts"] + 10e9
    gaps = Tape(out).table("lost").to_pylist()
    assert [gap["from_ts"] for gap in gaps if gap["events"] is None] == [row["since_ts"]] * len(
        os.sched_getaffinity(0)
    )
    assert words in pagetape("info", out).out


@livetest.recording
def test_another_user_who_empties_the_rings_is_named(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    with page_faults(), recorder(out, "--events", "page") as running:
        time.sleep(2.5)
        (instance_of(running.pid) / "trace").write_text("")
        status, said = waited(running)
    assert status == 1 and "another user emptied this recorder's rings" in said[-1]
    assert pagetape("info", out, "--json").json["ended"] == "ring_cleared"


@livetest.recording
def test_resized_rings_do_not_end_the_recording(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    with recorder(out, "--buffer", "4MB") as running:
        time.sleep(0.5)
        (instance_of(running.pid) / "buffer_size_kb").write_text("2048")
        assert running.stderr is not None
        assert "another user resized the rings to 2" in running.stderr.readline()
        status, said = ended(running)
    assert (status, len(said)) == (0, 1)
    info = pagetape("info", out, "--json").json
    assert (info["ended"], [row["kind"] for row in info["disturbances"]]) == (
        "stopped",
        ["ring_resized"],
    )


@livetest.recording
def test_a_running_recorders_instance_cannot_be_removed(tmp_path: Path) -> None:
    """Its open rings hold it; so the kernel itself protects a recording."""
    with recorder(tmp_path / "t.tape") as running:
        with pytest.raises(OSError, match="busy"):
            instance_of(running.pid).rmdir()
        assert ended(running)[0] == 0


def settings(instance: Path) -> dict[str, str]:
    names = (
        "tracing_on",
        "trace_clock",
        "buffer_size_kb",
        "set_event",
        "options/overwrite",
        "options/record-cmd",
        "events/kmem/mm_page_alloc/filter",
        "current_tracer",
    )
    return {name: (instance / name).read_text() for name in names if (instance / name).exists()}


@livetest.recording
def test_other_instances_and_the_top_buffer_keep_their_settings(
    tmp_path: Path, pagetape: Run
) -> None:
    other = TRACING / "instances" / f"other_tracer-{os.getpid()}"
    other.mkdir()
    try:
        (other / "trace_clock").write_text("global")
        (other / "events/kmem/mm_page_alloc/filter").write_text("order > 3")
        (other / "events/kmem/mm_page_alloc/enable").write_text("1")
        before = settings(other), settings(TRACING)
        pagetape("record", "-o", tmp_path / "t.tape", *QUICK, "--duration", 0.3)
        with recorder(tmp_path / "u.tape") as running:
            running.kill()
            running.wait()
            until(lambda: not list((TRACING / "instances").glob(f"pagetape-{running.pid}-*")))
        assert (settings(other), settings(TRACING)) == before
    finally:
        (other / "events/enable").write_text("0")
        other.rmdir()


# --- the tape moves


@livetest.recording
@pytest.mark.parametrize("seconds", [0, 0.5])  # at 0, /proc is still being read
def test_a_renamed_tape_is_written_on(seconds: float, tmp_path: Path, pagetape: Run) -> None:
    out, renamed = tmp_path / "t.tape", tmp_path / "u.tape"
    with recorder(out, "--events", "page", "--sample", "1s") as running:
        time.sleep(seconds)
        out.rename(renamed)
        time.sleep(3.5)  # checkpoints and new tables meanwhile
        status, said = ended(running)
    assert status == 0
    assert f"the tape was renamed to {renamed}" in said[0] and said[1].startswith(f"{renamed}: ")
    info = pagetape("info", renamed, "--json").json
    assert info["finished"] and info["stored"] > 0 and info["samples"] > 0
    assert [row["kind"] for row in info["disturbances"]] == ["moved"]
    assert sorted(tmp_path.iterdir()) == [renamed] and not (renamed / "spool").exists()


@livetest.recording
@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_removed_tape_ends_the_recording(seconds: float, tmp_path: Path) -> None:
    out = tmp_path / "t.tape"
    with recorder(out) as running:
        time.sleep(seconds)
        while out.exists():  # again where a file was made meanwhile
            shutil.rmtree(out, ignore_errors=True)
        status, said = waited(running)
    assert (status, len(said)) == (1, 1)
    assert said[0] == f"pagetape: {out}: was removed while it was written"
    assert list(tmp_path.iterdir()) == []


@livetest.recording
def test_the_directory_of_a_rotation_may_be_renamed(tmp_path: Path, pagetape: Run) -> None:
    out, renamed = tmp_path / "tapes", tmp_path / "elsewhere"
    with recorder(out, "--rotate", "1s") as running:
        out.rename(renamed)
        until(lambda: len(list(renamed.glob("*.tape"))) >= 3)
        status, _ = ended(running)
    assert status == 0
    tapes = sorted(renamed.iterdir())
    assert len(tapes) >= 3
    assert all(pagetape("info", tape, "--json").json["finished"] for tape in tapes)


def test_a_writer_follows_its_tape_and_reports_its_removal(tmp_path: Path) -> None:
    with Writer(tmp_path / "t.tape", {}) as tape:
        assert tape.where() == tmp_path / "t.tape"
        (tmp_path / "t.tape").rename(tmp_path / "u.tape")
        assert tape.where() == tmp_path / "u.tape"
        tape.rows("spool", [{"cpu": 0, "peak": 1, "full": 0}])
    assert Tape(tmp_path / "u.tape").num_rows("spool") == 1
    gone = Writer(tmp_path / "v.tape", {})
    shutil.rmtree(tmp_path / "v.tape")
    assert gone.where() is None
    with pytest.raises(OSError, match="was removed while it was written"):
        gone.rows("spool", [])
    with pytest.raises(OSError, match="was removed while it was written"):
        gone.close()


# --- time


class Nothing:
    """A look at a recorder that nobody disturbs."""

    disturbance, what = None, ""


def test_a_suspend_is_a_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = 0.0
    monkeypatch.setattr(disturbance, "_slept", lambda: 100 + slept)
    found = Disturbances(SILENT)
    found.see(Nothing(), None)  # type: ignore[arg-type]
    assert found.take([0]) == {}
    slept = 312.0
    found.see(Nothing(), None)  # type: ignore[arg-type]
    found.see(Nothing(), None)  # type: ignore[arg-type]
    taken = found.take([0])
    assert [(row["kind"], row["length"]) for row in taken["disturbance"]] == [
        ("suspended", 312 * 10**9)
    ]
    assert "lost" not in taken and found.ended is None


def test_a_late_cut_is_a_disturbance(capfd: pytest.CaptureFixture[str]) -> None:
    found = Disturbances(Status())
    found.late(0.3)
    assert found.take([0]) == {}
    found.late(4.5)
    ((row,),) = found.take([0]).values()
    assert (row["kind"], row["length"]) == ("late_cut", 4500 * 10**6)
    assert "4.5 s late" in capfd.readouterr().err


@livetest.recording
def test_a_rotation_whose_sink_is_slow_says_that_its_cuts_are_late(
    tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pagetape.recording.rotation import Rotation

    before, waits = Rotation.write, [2.5, 2.5, 2.5]

    def slow(self: Rotation, name: str, batch: pa.RecordBatch) -> None:
        if name == "event" and waits:
            time.sleep(waits.pop())
        before(self, name, batch)

    monkeypatch.setattr(Rotation, "write", slow)
    argv = ("record", "-o", tmp_path / "tapes", *QUICK, "--rotate", "1s", "--duration", 6)
    said = pagetape(*argv, "--events", "page")
    assert said.status == 0 and "s late: the machine is too slow for --rotate" in said.err
    kinds = {
        row["kind"]
        for tape in (tmp_path / "tapes").iterdir()
        for row in Tape(tape).table("disturbance").to_pylist()
    }
    assert kinds == {"late_cut"}
