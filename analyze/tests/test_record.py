# SPDX-License-Identifier: Apache-2.0
"""pagetape record on this machine; skipped where it cannot be traced: see livetest.py."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import livetest
import pyarrow as pa
import pytest

import pagetape as pagetape_package
from pagetape.recording import triggers, watch
from pagetape.recording.exact import ExactSnapshots
from pagetape.schemas.tape import Tape

from .conftest import when_let_go

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]
TOUCH = [sys.executable, "-c", "x = bytearray(64 << 20)"]


@livetest.recording
def test_a_command_is_recorded_and_its_status_passed_on(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    status = f"{TOUCH[2]}; raise SystemExit(3)"
    said = pagetape("record", "-o", out, "--", sys.executable, "-c", status)
    assert said.status == 3
    assert said.out == ""
    preparing, began, start, saved = said.err.splitlines()
    assert start.startswith("pagetape: start snapshot: ")
    assert preparing.startswith(f"pagetape: Linux {os.uname().release}: preparing ")
    assert began.startswith("pagetape: recording since ") and "or Ctrl-C; at most " in began
    assert saved.startswith(f"{out}: ") and "lost: 0 events" in saved
    info = pagetape("info", out, "--json").json
    assert info["lost"] == 0
    assert info["events"]["mm_page_alloc"] > 0
    assert info["snapshot"] in ("proc", "exact")
    assert info["kernel"] == os.uname().release
    assert list(tmp_path.iterdir()) == [out]  # the spool is gone


@livetest.recording
def test_a_live_tape_can_be_replayed_and_compared(tmp_path: Path, pagetape: Run) -> None:
    out, model = tmp_path / "t.tape", tmp_path / "model.tape"
    assert pagetape("record", "-o", out, "--events", "page", "--", *TOUCH).status == 0
    run = pagetape("replay", out, "-o", model, "--json").json
    assert run["totals"]["allocs"]["value"] > 0
    found = pagetape("compare", out, model, "--json").json
    assert found["model_error_of"] == {"recorded": "t", "model": "model"}


@livetest.recording
def test_policies_of_processes_are_recorded_where_they_are_wanted(
    tmp_path: Path, pagetape: Run
) -> None:
    if not os.access("/proc/self/numa_maps", os.R_OK):
        livetest.skip("no numa_maps on this kernel")
    out = tmp_path / "t.tape"
    words = ("--events", "cheap", "--snapshot", "proc", "--duration", "1s")
    assert pagetape("record", "-o", out, "--numa-maps", *words).status == 0
    rows = {row["pid"]: row for row in Tape(out).table("memory_policy").to_pylist()}
    assert rows[os.getpid()]["policy"] == "default"
    assert rows[os.getpid()]["cpuset"].startswith("0")
    assert pagetape("record", "-o", out, "--force", *words).status == 0
    assert "memory_policy" not in Tape(out).tables
    assert pagetape("record", "-o", out, "--numa-maps", "--sample", 0, *words).status == 2


def exact_or_skip() -> None:
    with contextlib.closing(ExactSnapshots()) as snapshots:
        if snapshots.refused:
            livetest.skip(f"no exact snapshot here: {snapshots.refused}")


@livetest.alone
@livetest.recording
def test_a_replay_from_an_exact_start_keeps_the_kernels_pfns(tmp_path: Path, pagetape: Run) -> None:
    exact_or_skip()
    out, model = tmp_path / "t.tape", tmp_path / "model.tape"
    args = ("record", "-o", out, "--", *TOUCH)
    assert pagetape(*args).status == 0
    info = pagetape("info", out, "--json").json
    if info["snapshot"] != "exact":
        livetest.skip(f"no exact snapshot this time: {info['snapshots']}", by_chance=True)
    assert all(s["mismatches"] in (0, None) for s in info["snapshots"])
    assert info["facts"]["snapshot"]["checks"]["list_sums"] > 0
    assert pagetape("replay", out, "--assisted", "--ensemble", 0, "-o", model).status == 0
    # The recorder's own requests after its end snapshot are on the tape, and are not played.
    snapshots = Tape(out).table("snapshot").to_pylist()
    start, end = snapshots[0]["ts"], snapshots[-1]["ts"]
    recorded, replayed = (
        {
            (row["ts"], row["cpu"]): row["pfn"]
            for row in Tape(path).table("event").to_pylist()
            if row["kind"] == "alloc" and start < row["ts"] <= end
        }
        for path in (out, model)
    )
    both = recorded.keys() & replayed.keys()
    assert len(both) >= len(recorded) * 0.99
    first = sorted(both)[:100]  # before what has no tracepoint can have moved the lists much
    assert sum(recorded[at] == replayed[at] for at in first) > 50


@livetest.recording
def test_a_snapshot_from_proc_can_be_asked_for(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    assert pagetape("record", "-o", out, "--snapshot", "proc", "--duration", 0.01).status == 0
    info = pagetape("info", out, "--json").json
    assert [(s["how"], s["why"]) for s in info["snapshots"]] == [("proc", None)] * 2
    assert "free_block" not in info["tables"]


@livetest.recording
def test_a_cheap_tape_takes_no_exact_snapshot_and_says_why(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    assert pagetape("record", "-o", out, "--events", "cheap", "--duration", "0.1").status == 0
    info = pagetape("info", out, "--json").json
    assert [s["how"] for s in info["snapshots"]] == ["proc", "proc"]
    assert all(s["why"].endswith("because they cannot be replayed") for s in info["snapshots"])
    assert "free_block" not in Tape(out).tables
    assert "take no exact snapshot, because they cannot be replayed" in pagetape("info", out).out


def test_an_exact_snapshot_of_a_cheap_tape_is_bad_usage(tmp_path: Path, pagetape: Run) -> None:
    words = ("--events", "cheap", "--snapshot", "exact", "--duration", "0.1")
    said = pagetape("record", "-o", tmp_path / "t.tape", *words)
    assert said.status == 2
    assert "--snapshot exact needs --events page or all" in said.err


@livetest.recording
def test_a_machine_without_exact_snapshots_falls_back_and_says_why(
    tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pagetape._snapshot", None)
    monkeypatch.delattr(pagetape_package, "_snapshot", raising=False)
    out = tmp_path / "t.tape"
    said = pagetape("record", "-o", out, "--duration", 0.01)
    assert said.status == 0
    assert said.err.count("\n") == 4 and "start from /proc (" in said.err
    info = pagetape("info", out, "--json").json
    assert info["snapshot"] == "proc"
    assert "_snapshot" in info["facts"]["snapshot"]["why"]
    out.unlink()
    said = pagetape("record", "-o", out, "--snapshot", "exact", "--duration", 0.01)
    assert said.status == 1
    assert said.err.splitlines()[-1].startswith("pagetape: no exact snapshot: ")
    assert list(tmp_path.iterdir()) == []


@livetest.recording
def test_the_rings_have_the_size_asked_for(tmp_path: Path, pagetape: Run) -> None:
    tape = tmp_path / "t.tape"
    argv = ("--events", "cheap", "--snapshot", "proc", "--buffer", "2MB", "--duration", 0.1)
    assert pagetape("record", "-o", tape, *argv).status == 0
    assert 1900 <= Tape(tape).facts["ring_kb"] <= 2100
    said = pagetape("record", "-o", tape, "--buffer", "10kB")
    assert said.status == 2 and "10kB" in said.err


def test_a_duration_ends_a_command_that_still_runs(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    assert pagetape("record", "-o", out, "--duration", "0.2", "--", "sleep", "60").status == 0
    assert pagetape("info", out).status == 0


@livetest.recording
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_recording_well(number: int, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    with subprocess.Popen([*PAGETAPE, "record", "-o", out], stderr=subprocess.PIPE) as running:
        while not out.exists():
            time.sleep(0.02)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err.count(b"\n")) == (0, 4)
    assert pagetape("info", out, "--json").json["complete"] is True


@livetest.recording
@pytest.mark.parametrize("when", ["spool/formats", "snapshot.arrow"])
def test_a_killed_recorder_leaves_a_tape(when: str, tmp_path: Path, pagetape: Run) -> None:
    """Killed as soon as it records, or when it has stored its start."""
    out = tmp_path / "t.tape"
    with subprocess.Popen([*PAGETAPE, "record", "-o", out]) as running:
        while not (out / when).exists():
            time.sleep(0.02)
        time.sleep(0.5 if when.endswith("arrow") else 0)
        running.kill()
    info = pagetape("info", out, "--json").json
    assert (info["complete"], info["lost"]) == (False, None)
    assert pagetape("report", "events.by_kind", out).status == 0
    assert list(tmp_path.iterdir()) == [out]
    again = ("record", "-o", out, "--force", "--duration", "0.1")
    assert when_let_go(pagetape, *again).status == 0  # it tidies up


@livetest.recording
def test_a_rotation_makes_tapes_that_each_stand_alone(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "tapes"
    touch = [
        sys.executable,
        "-c",
        "import time\nfor i in range(9): x = bytearray(8 << 20); time.sleep(.3)",
    ]
    args = ("--rotate", "1s", "--keep", "1GB", "--", *touch)
    said = pagetape("record", "-o", out, *args)
    assert said.status == 0
    # Two tapes may begin in one second: their names do not sort by time then.
    tapes = sorted(map(Tape, out.iterdir()), key=lambda tape: tape.facts["series"]["number"])
    assert 2 <= len(tapes) == sum(line.startswith(f"{out}/") for line in said.err.splitlines())
    assert said.err.count("lost: 0 events") == len(tapes)  # though the spool moves later
    ends = []
    for number, tape in enumerate(tapes, start=1):
        info = pagetape("info", tape.path, "--json").json
        assert (info["complete"], info["lost"]) == (True, 0)
        assert info["facts"]["series"]["number"] == number
        first, last = info["snapshots"]
        assert (first["snapshot"], last["snapshot"]) == (0, 1)
        began, ended = tape.clock
        assert began > first["ts"] or number == 1
        assert ended <= last["ts"] or number == len(tapes)
        ends += [first["ts"], last["ts"]]
        stored = sum(tape.num_rows(name) for name in ("event", "reclaim", "compaction"))
        assert info["stored"] == stored
        assert info["events"]["mm_page_alloc"] > 0
        rings = tape.table("ring").to_pylist()
        read = sum(info["events"].values()) + info["stamps"]
        assert sum(ring["read"] for ring in rings) == read
        assert pagetape("replay", tape.path).status == 0
    assert ends == sorted(ends)
    assert all(end == start for end, start in zip(ends[1::2], ends[2::2], strict=False))


@livetest.recording
def test_a_rotation_keeps_no_more_than_it_may(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "tapes"
    args = ("--events", "cheap", "--snapshot", "proc", "--rotate", "1s", "--keep", "0kB")
    assert pagetape("record", "-o", out, *args, "--duration", "2.5s").status == 0
    (last,) = out.glob("*.tape")
    number = Tape(last).facts["series"]["number"]
    assert number > 1
    found = pagetape("info", out, "--json").json
    assert [tape["tape"] for tape in found["tapes"]] == [last.name]
    assert len(found["removed"]) == number - 1


class AnyEvent(watch.Trigger):
    """A trigger that the load of a test can pull."""

    units: ClassVar = {"/s": 1.0}

    def see(self, _name: str, batch: pa.RecordBatch) -> watch.Firing | None:
        return self._fires(batch.num_rows, batch.column("ts")[-1].as_py())


@livetest.alone
@livetest.recording
def test_a_flight_recorder_makes_tapes_when_triggered_and_goes_on(
    tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(triggers._TRIGGERS, "any", AnyEvent)
    out = tmp_path / "tapes"
    code = (
        "import os, signal, sys, time\n"
        "for i in range(9): x = bytearray(8 << 20); time.sleep(.3)\n"
        "os.kill(int(sys.argv[1]), signal.SIGUSR1); time.sleep(.5)\n"
    )
    touch = [sys.executable, "-c", code, str(os.getpid())]
    args = ("--ring", "1s", "--trigger", "any>1000/s", "--cooldown", "1h", "--", *touch)
    before = signal.getsignal(signal.SIGUSR1)
    try:
        assert pagetape("record", "-o", out, *args).status == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    found = [pagetape("info", path, "--json").json for path in sorted(out.iterdir())]
    flights = [info["facts"]["flight"] for info in found]
    assert [flight["trigger"] for flight in flights] == ["any>1000/s", "signal"]
    assert flights[0]["value"] > 1000
    for info in found:
        assert (info["complete"], info["lost"]) == (True, 0)
        tape = Tape(Path(info["tape"]))
        points = {name: nr for name, nr in info["events"].items() if nr}
        for name in ("reclaim", "compaction"):
            at = tape.table(name)["at"].to_pylist()
            assert at == sorted(at) and max(at, default=0) <= tape.num_rows("event")
        rings = tape.table("ring").to_pylist()
        assert sum(ring["read"] for ring in rings) == sum(points.values()) + info["stamps"]
    # The second has at least the second that was wanted, and at most two and the way there.
    assert 1 <= flights[1]["holds_s"] < 5
    assert found[1]["samples"] > 0
    if found[1]["snapshot"] == "exact":
        assert pagetape("replay", found[1]["tape"]).status == 0


@livetest.recording
def test_a_flight_recorder_without_a_trigger_writes_nothing(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "tapes"
    args = ("--events", "cheap", "--snapshot", "proc", "--ring", "1s", "--duration", "1.2s")
    before = signal.getsignal(signal.SIGUSR1)
    try:
        said = pagetape("record", "-o", out, *args)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (said.status, said.out) == (0, "")
    _, began, *lines = said.err.splitlines()
    assert began.startswith("pagetape: recording since ")
    lines = [line for line in lines if "samples of /proc are missing" not in line]  # a busy machine
    assert lines == [
        "pagetape: armed: SIGUSR1",
        "pagetape: no trigger fired: no tape was written",
    ]
    assert list(out.iterdir()) == []


@livetest.recording
def test_looking_at_the_machine_does_not_move_it(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    assert pagetape("record", "-o", out, "--snapshot", "proc", "--duration", "0.5").status == 0
    tape = Tape(out)
    assert "vm.min_free_kbytes" in tape.facts["sysctls"]
    rows = tape.table("reclaim").to_pylist()
    assert "setup_lowmem_reserve" not in [row["kind"] for row in rows if row["pid"] == os.getpid()]


@livetest.recording
def test_samples_show_a_sysctl_that_changed(tmp_path: Path, pagetape: Run) -> None:
    knob = Path("/proc/sys/vm/stat_interval")
    before = knob.read_text()
    code = f"import time; time.sleep(.3); open({str(knob)!r}, 'w').write('2'); time.sleep(.5)"
    out = tmp_path / "t.tape"
    args = ("--sample", "100ms", "--snapshot", "proc", "--", sys.executable, "-c", code)
    try:
        assert pagetape("record", "-o", out, *args).status == 0
    finally:
        knob.write_text(before)
    rows = pagetape("report", "samples.parameters", out, "--name", "vm.%", "--json").json["rows"]
    assert [(row["name"], row["value"]) for row in rows] == [("vm.stat_interval", 2)]
    rates = pagetape("report", "samples.rates", out, "--json").json["rows"]
    assert len(rates) > 1 and any(row["faults"] > 0 for row in rates)
    assert "of /proc" in pagetape("info", out).out
    free = pagetape("report", "frag.over_time", out, "--json").json["rows"]
    assert len({row["at_s"] for row in free}) > 1 and any(row["free_pages"] > 0 for row in free)
    for name in ("parameter", "sample", "free_count"):
        at = Tape(out).table(name)["at"].to_pylist()
        assert at == sorted(at) and at[-1] > 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--keep", "1GB"), "--keep needs --rotate or --ring"),
        (("--trigger", "signal"), "--trigger needs --ring"),
        (("--ring-memory", "9MB"), "--ring-memory needs --ring"),
        (("--cooldown", "9s"), "--cooldown needs --ring"),
        (("--ring", "9s", "--rotate", "9s"), "--rotate and --ring exclude each other"),
        (("--ring", "9s", "--force"), "--force replaces one tape"),
        (("--ring", "9s", "--trigger", "x>3"), "'x>3' is not a trigger: expected extfrag>N/s"),
        (
            ("--ring", "9s", "--trigger", "thp_fail>5%", "--sample", "0"),
            "thp_fail>5% needs --sample",
        ),
        (
            ("--ring", "9s", "--trigger", "direct_reclaim_p99>1s", "--events", "page"),
            "direct_reclaim_p99>1s needs --events cheap or all",
        ),
        (("--rotate", "soon"), "'soon' is not a span of time (example: 90s, 5min or 1h)"),
        (("--rotate", "10ms"), "'10ms' is too small"),
        (("--rotate", "1min", "--keep", "2GX"), "'2GX' is not a size (example: 500MB or 2GB)"),
        (("--duration", "-1"), "'-1' is not a span of time"),
    ],
)
def test_options_that_make_no_sense(
    args: tuple[str, ...], words: str, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("record", "-o", tmp_path / "t", *args)
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert words in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_does_not_exist(tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("record", "-o", tmp_path / "t.tape", "--", "no-such-command")
    assert said.status == 1 and "no-such-command" in said.err
    assert list(tmp_path.iterdir()) == []


@livetest.needs(livetest.why_not_nobody)
def test_a_user_without_access_gets_the_reason(tmp_path: Path) -> None:
    os.chown(tmp_path, livetest.NOBODY, livetest.NOBODY)
    done = subprocess.run(
        [*livetest.as_nobody(), *PAGETAPE, "record", "-o", tmp_path / "t.tape", "--duration", "1"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert re.match(r"pagetape: .*(trac|root)", done.stderr)
    assert list(tmp_path.iterdir()) == []
