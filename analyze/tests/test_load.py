# SPDX-License-Identifier: Apache-2.0
"""pagetape load: each load ends and leaves nothing, also after a kill; its samples are true."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matrix
import pytest

from pagetape.commands.load import PROGRAM
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

LOADS = ("fioscale", "simoop", "kbuild", "extfrag", "reserve", "seek")
KILLS = matrix.number(1, 20)  # of each load; 20 take 5 minutes
POOL = Path("/proc/sys/vm/nr_hugepages")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def words(
    name: str, place: Path, *more: object, memory: int = 64, seconds: float = 0.7
) -> list[str]:
    size = ["--memory", memory, "--seconds", seconds, "--dir", place]
    return [str(PROGRAM), name, *map(str, size), *map(str, more)]


def loaded(name: str, place: Path, *more: object, **size: Any) -> dict[str, Any]:
    """The summary of a load that has ended, and has left nothing."""
    with started(name, place, "--json", *more, **size) as load:
        out, err = load.communicate(timeout=120)
    assert (load.returncode, own(err)) == (0, "")
    assert left_by(load.pid, place) == []
    found: dict[str, Any] = json.loads(out)
    return found


def own(err: str) -> str:
    """What a load said, but for what it undid of others that were killed meanwhile."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("pagetape load: undone: "))


@contextmanager
def started(name: str, place: Path, *more: object, **size: Any) -> Iterator[subprocess.Popen[str]]:
    """A load in a session of its own."""
    argv = words(name, place, *more, **size)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as load:
        try:
            yield load
        finally:
            load.kill()


def processes_of(session: int) -> dict[int, str]:
    """The names of the processes of a session that still run, by pid."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, _, fields = rest.rpartition(") ")
        state, _, _, sid = fields.split()[:4]
        if int(sid) == session and state not in "ZX":
            found[int(pid)] = name
    return found


def left_by(pid: int, place: Path) -> list[str]:
    """What is left of a load: processes, files, mounts, loops, swap, control groups, its list."""
    left = [f"{name} ({nr})" for nr, name in processes_of(pid).items()]
    left += map(str, place.iterdir())
    loops = map(str, Path("/sys/block").glob("loop*/loop/backing_file"))
    for table in ("/proc/self/mounts", "/proc/swaps", *loops):
        left += [line for line in Path(table).read_text().splitlines() if str(place) in line]
    for groups in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
        left += [name for name, *_ in os.walk(groups) if f"pagetape-load.{pid}." in name]
    lists = (Path("/run/pagetape"), Path(f"/tmp/pagetape-load-{os.geteuid()}"))
    left += [str(one) for one in (at / f"load.{pid}" for at in lists) if one.exists()]
    return left


def cleaned() -> None:
    assert subprocess.run([PROGRAM, "--clean"], capture_output=True).returncode == 0


# ---- the list and bad usage


def test_the_list_has_what_each_load_keeps_and_leaves_out(pagetape: Run) -> None:
    loads = pagetape("load", "--json").json["loads"]
    assert [one["name"] for one in loads] == list(LOADS)
    assert all(one[key] for one in loads for key in ("doc", "keeps", "leaves_out", "sampled"))
    said = pagetape("load").out
    assert all(f"{one['name']}: {one['doc']}\n  keeps: {one['keeps']}\n" in said for one in loads)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("kbild",), "did you mean 'kbuild'?"),
        (("kbuild", "--memory", "x"), "'x' is not a valid integer range"),
        (("kbuild", "--seconds", "0"), "0 is not in the range"),
        (("--threads", "2"), "--threads=2 needs the NAME of a load"),
        (("kbuild", "--clean"), "leave out 'kbuild'"),
    ],
)
def test_bad_usage_is_one_line(args: tuple[str, ...], error: str, pagetape: Run) -> None:
    said = pagetape("load", *args)
    assert (said.status, said.err.count("\n")) == (2, 1) and error in said.err


@pytest.mark.parametrize(
    ("args", "status", "error"),
    [
        (("fioscale", "--memory", "16000000"), 3, "memory too short: "),
        (("seek", "--memory", "64", "--dir", "/nowhere"), 1, "/nowhere: No such file"),
        (("storm+none",), 2, "no load named 'none'; there are fioscale"),
        (("seek", "kbuild"), 2, "one load at a time"),
        (("seek", "--memory", "-1"), 2, "--memory: '-1' is not a number"),
        (("hog", "x"), 2, "'x' is not a number of MB"),
    ],
)
def test_the_program_refuses_in_one_line(args: tuple[str, ...], status: int, error: str) -> None:
    done = subprocess.run([PROGRAM, *args], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (status, 1, "")
    assert error in done.stderr


@needs_root
def test_a_disk_that_is_too_short_is_exit_status_3(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], check=True)
    try:
        done = subprocess.run(words("fioscale", disk), capture_output=True, text=True)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "disk too short: " in done.stderr and "needs 96 MB (--memory, --dir)" in done.stderr


def test_the_command_becomes_the_supervisor(tmp_path: Path, pagetape: Run) -> None:
    """Its pid is the one that a kill hits; within another program it stays a child."""
    size = ["seek", "--memory", "64", "--dir", str(tmp_path), "--seconds"]
    found = pagetape("load", *size, "0.2", "--json").json
    assert (found["load"], found["memory_mb"]) == ("seek", 64)
    argv = [sys.executable, "-m", "pagetape", "load", *size, "600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as load:
        deadline = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        name = Path(f"/proc/{load.pid}/comm").read_text()
        load.terminate()
    assert (name, load.returncode) == ("pagetape-load\n", 128 + signal.SIGTERM)
    assert list(tmp_path.iterdir()) == []


# ---- an end, and what is left


@pytest.mark.parametrize("name", [*LOADS, "storm+slab"])
def test_a_load_ends_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    if name == "reserve" and os.geteuid():
        pytest.skip("needs root")
    with started(name, tmp_path, "--json") as load:
        out, err = load.communicate(timeout=120)
    assert (load.returncode, own(err)) == (0, "")
    assert left_by(load.pid, tmp_path) == []
    if name not in LOADS:
        assert out == ""  # only the public ones have a summary
        return
    found = json.loads(out)
    assert (found["load"], found["seed"], found["memory_mb"]) == (name, 1, 64)
    sampled = {row["name"] for row in found["latency"]}
    listed = json.loads(subprocess.run([PROGRAM], capture_output=True).stdout)["loads"]
    (about,) = (one["sampled"] for one in listed if one["name"] == name)
    assert sampled <= set(re.findall(r"[a-z]+", about))
    for row in found["latency"]:
        figures = [row[key] for key in ("p50_us", "p95_us", "p99_us", "max_us")]
        assert row["nr"] > 0 and figures == sorted(figures)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_load_at_once(number: signal.Signals, tmp_path: Path) -> None:
    with started("fioscale", tmp_path, seconds=600) as load:
        while not list(tmp_path.glob("*/io.*")):
            time.sleep(0.01)
        load.send_signal(number)
        load.communicate(timeout=30)
    assert load.returncode == 128 + number
    assert left_by(load.pid, tmp_path) == []


KILLED = [
    pytest.param(name, who, nr, marks=needs_root if name in ("reserve", "hugetlb") else ())
    for name in (*LOADS, "hugetlb")
    for who in ("supervisor", "child")
    for nr in range(KILLS)
]


@pytest.mark.parametrize(("name", "who", "nr"), KILLED)
def test_a_kill_leaves_nothing(name: str, who: str, nr: int, tmp_path: Path) -> None:
    """At a random instant: of the supervisor, or of a process of the load."""
    dice = random.Random(f"{name} {who} {nr}")
    pool = POOL.read_text()
    with started(name, tmp_path, seconds=60) as load:
        time.sleep(dice.uniform(0, 1))
        alive = processes_of(load.pid)
        children = [pid for pid in alive if pid != load.pid]
        victim = dice.choice(children) if children and who == "child" else load.pid
        with contextlib.suppress(ProcessLookupError):  # a compiler that has just ended
            os.kill(victim, signal.SIGKILL)
        if victim != load.pid:  # of a unit: the stream fails; of hugetlb: the others go on
            time.sleep(dice.uniform(0, 0.3))
            load.kill()
        load.wait()
    time.sleep(0.2)
    deadline = time.monotonic() + 60
    while processes_of(load.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    cleaned()
    assert left_by(load.pid, tmp_path) == []
    assert POOL.read_text() == pool


def test_a_killed_process_ends_its_load(tmp_path: Path) -> None:
    with started("fioscale", tmp_path, seconds=600) as load:
        while "io" not in processes_of(load.pid).values():
            time.sleep(0.01)
        victims = [pid for pid, name in processes_of(load.pid).items() if name == "io"]
        os.kill(victims[0], signal.SIGKILL)
        _, err = load.communicate(timeout=30)
    assert load.returncode == 1
    assert (
        own(err) == f"pagetape load: signal 9 ended the process io ({victims[0]}): the load ends\n"
    )
    assert left_by(load.pid, tmp_path) == []


def test_the_next_load_undoes_what_a_killed_one_left(tmp_path: Path) -> None:
    with started("fioscale", tmp_path, seconds=600) as load:
        while not list(tmp_path.glob("*/io.*")):
            time.sleep(0.01)
        load.kill()
    assert list(tmp_path.iterdir())
    for _ in range(40):  # its processes end within moments
        subprocess.run(words("storm", tmp_path, seconds=0.1), capture_output=True, check=True)
        if not left_by(load.pid, tmp_path):
            break
    assert left_by(load.pid, tmp_path) == []


def test_clean_removes_nothing_of_others(tmp_path: Path) -> None:
    """A list that someone wrote by hand, and one of a load that runs."""
    kept = tmp_path / "kept"
    kept.mkdir()
    places = [Path("/run/pagetape"), Path(f"/tmp/pagetape-load-{os.geteuid()}")]
    with started("storm", tmp_path, seconds=600) as load:
        while not (made := [at for at in places if (at / f"load.{load.pid}").exists()]):
            time.sleep(0.01)
        while not list(tmp_path.glob("pagetape-load.*")):
            time.sleep(0.01)
        forged = made[0] / "load.999999999"
        forged.write_text(f"directory\t{kept}\t\n")
        cleaned()
        forged.unlink()
        assert kept.exists()
        assert list(tmp_path.glob("pagetape-load.*")) and load.poll() is None
    cleaned()


# ---- seeds


@pytest.mark.parametrize("name", ["fioscale", "simoop", "kbuild"])
def test_equal_seeds_make_equal_files(name: str, tmp_path: Path) -> None:
    first, second = (made_by(name, 1, tmp_path) for _ in range(2))
    assert first == second and first["nr"] > 0
    if name == "kbuild":  # names and sizes of the others do not depend on the seed
        assert made_by(name, 2, tmp_path) != first


def made_by(name: str, seed: int, place: Path) -> dict[str, Any]:
    """The files of a load that had the time for all of its work."""
    for seconds in (2 if name == "kbuild" else 1, 4, 30):
        more = ("--threads", 1, "--seed", seed)
        found = loaded(name, place, *more, memory=16, seconds=seconds)
        if found["complete"]:
            files: dict[str, Any] = found["files"]
            return files
        if name == "kbuild":  # more time, more work
            break
    pytest.skip("the machine is too busy for the fixed work of this load")


# ---- samples


def samples_of(load: subprocess.Popen[str], file: Path) -> list[list[str]]:
    assert load.wait(60) == 0
    return [line.split(",") for line in file.read_text().splitlines()]


def test_a_stop_of_700_ms_is_one_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "samples"
    place = tmp_path / "files"
    place.mkdir()
    monkeypatch.setenv("PAGETAPE_SAMPLES", str(file))
    for _ in range(5):  # a stop between two samples is in none, and a busy machine stops too
        with started("fioscale", place, "--threads", 1, seconds=3) as load:
            if victim := _in_phase(load):
                time.sleep(0.7)
                os.kill(victim, signal.SIGCONT)
            rows = samples_of(load, file)
        faults = [int(row[2]) for row in rows if row[0] == "fault"]
        stopped = [ns for ns in faults if ns >= 700_000_000]
        if len(stopped) == 1 and len(faults) > 10:
            return
    raise AssertionError(f"{len(stopped)} of {len(faults)} samples hold the stop")


def _in_phase(load: subprocess.Popen[str]) -> int | None:
    """Stop the process that faults huge pages, amid its faults: its pid; None: it was too short."""
    while load.poll() is None:
        for pid, name in processes_of(load.pid).items():
            if name == "fault" and pid != load.pid and _stops(pid):
                if processes_of(load.pid).get(pid) == "fault":
                    return pid
                os.kill(pid, signal.SIGCONT)  # it was about to unmap
        time.sleep(0.01)
    return None


def _stops(pid: int) -> bool:
    """Stop a process, unless it ends before."""
    try:
        os.kill(pid, signal.SIGSTOP)
        while (state := _state(pid)) not in "TZ":
            time.sleep(0.001)
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state == "T"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def record(tape: Path, events: str, load: list[str]) -> list[dict[str, Any]]:
    """Record a load; its summary of the latencies."""
    recorder = [sys.executable, "-m", "pagetape", "record", "--events", events, "-o", str(tape)]
    done = subprocess.run([*recorder, "--", *load], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["latency"]
    return rows


@needs_root
def test_huge_samples_are_the_huge_pages_of_the_load(tmp_path: Path, pagetape: Run) -> None:
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("the kernel gives no huge pages")
    tape = tmp_path / "t.tape"
    rows = record(tape, "page", words("fioscale", tmp_path, "--json"))
    sampled = sum(row["nr"] for row in rows if (row["name"], row["page_order"]) == ("fault", 9))
    pids = "SELECT pid FROM task WHERE comm IN ('fault', 'unmap')"  # one process, at its work
    asked = (
        f"SELECT count(*) nr FROM event WHERE kind = 'alloc' AND page_order = 9 AND pid IN ({pids})"
    )
    (found,) = pagetape("sql", tape, asked, "--json").json["rows"]
    assert sampled > 0 and found["nr"] == pytest.approx(sampled, rel=0.01)


def test_samples_become_a_table_and_a_report(tmp_path: Path, pagetape: Run) -> None:
    tape = tmp_path / "t.tape"
    load = words("simoop", tmp_path, "--json", memory=16, seconds=5)  # a busy machine is slow
    summary = {row["name"]: row for row in record(tape, "proc", load)}
    rows = pagetape("report", "load.latency", tape, "--json").json["rows"]
    assert {row["name"] for row in rows} == set(summary) == {"read", "write", "allocation"}
    for row in rows:
        assert row["nr"] == summary[row["name"]]["nr"]
        for key in ("p50_us", "max_us", "mean_us"):
            assert row[key] == pytest.approx(summary[row["name"]][key], abs=0.11)
    stored = Tape(tape).rows("sample_latency")
    assert [row["ts"] for row in stored] == sorted(row["ts"] for row in stored)
    assert {row["page_order"] for row in stored} == {None}


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        ("echo fault,1,2,0,0,9,3 >$PAGETAPE_SAMPLES", None),
        ("true", None),
        ("echo fault,1,2,0,0,9 >$PAGETAPE_SAMPLES", "Expected 7 columns, got 6"),
        ("echo fault,,2,0,0,9,3 >$PAGETAPE_SAMPLES", "a line has no ts"),
        ("echo fault,x,2,0,0,9,3 >$PAGETAPE_SAMPLES", "conversion error"),
        ("mkfifo $PAGETAPE_SAMPLES", "not a regular file"),
    ],
)
def test_any_command_may_write_samples(
    write: str, reason: str | None, tmp_path: Path, pagetape: Run
) -> None:
    tape = tmp_path / "t.tape"
    said = pagetape("record", "--events", "proc", "-o", tape, "--", "sh", "-c", write)
    assert said.status == 0
    assert ("samples of the command are not on the tape" in said.err) == (reason is not None)
    assert reason is None or reason in said.err
    assert Tape(tape).num_rows("sample_latency") == (write.startswith("echo") and reason is None)


# ---- seek


def test_seek_prints_costs_that_the_report_takes(tmp_path: Path, pagetape: Run) -> None:
    found = loaded("seek", tmp_path)
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    assert found["remote"] == (nodes > 1)
    assert all(cost["base_ns"] > 0 for cost in found["costs"])
    thp, base, *remote = found["cost"].split(",")
    assert len(remote) == 4 and thp in ("-", "0") and (nodes > 1 or remote == ["-"] * 4)
    pressure = Path(__file__).parents[1] / "demo/pressure.tape"
    rows = pagetape("report", "numa.thp", pressure, "--cost", found["cost"], "--json").json["rows"]
    costs = {(row["distance"], row["size"]): row["cost_percent"] for row in rows}
    if thp == "0":
        assert costs[0, "single"] == float(base)
    if nodes == 1:
        said = subprocess.run(words("seek", tmp_path), capture_output=True, text=True).stdout
        assert "remote: refused: this machine has one node" in said
