# SPDX-License-Identifier: Apache-2.0
"""Private tapes: the hidden data, and equal replays."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pyarrow as pa
import pytest

from pagetape.recording.private import Veil
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

from .conftest import unpacked

Run = Callable[..., Any]
Make = Callable[[dict[str, Any]], Path]

DATA = Path(__file__).parents[2] / "collector/tests/data"
PRIVATE = {
    "host": "db17.secret.example",
    "boot_id": "12345678-dead-beef-cafe-0123456789ab",
    "cmdline": "root=/dev/mapper/secretdisk quiet",
    "version": "Linux version 6.1.0-9 (builder@secrethost) Debian 6.1.192-2 (2026-01-01)",
    "source": "secretfile.dat",
    "instances": ["", "secretinstance"],
    "sysctls": {
        "vm.min_free_kbytes": "5",
        "kernel.numa_balancing": "2",
        "kernel.hostname": "secrethost",
    },
    "nobody_thought_of_this": "secretfact",
    "snapshot": {"how": "proc", "why": "no /home/secretuser/lib/bpf.so here", "pfn": 4096},
}


def everything(tape: Path) -> bytes:
    """The bytes of all files, and those that are compressed in them."""
    found = b""
    for file in unpacked(tape).iterdir():
        found += file.read_bytes()
        with pa.memory_map(str(file)) as source:
            for batch in pa.ipc.open_file(source).read_all().to_batches():
                for column in batch.columns:
                    found += b"".join(bytes(buffer) for buffer in column.buffers() if buffer)
                    if pa.types.is_dictionary(column.type):
                        found += str(column.dictionary).encode()
    return found


def pfns(tape: Path) -> dict[tuple[str, str], list[int]]:
    """Every pfn of a tape, by table and column."""
    return {
        (table.name, column.name): Tape(tape).table(table.name)[column.name].drop_null().to_pylist()
        for table in TABLES.values()
        for column in table.columns
        if column.private == "pfn"
    }


def test_private_columns_are_marked_in_the_schema() -> None:
    for table in TABLES.values():
        for column in table.columns:
            assert (column.private == "pfn") == column.name.endswith("pfn"), column
            private = {"comm", "cgroup", "instance", "address", "host", "path", "detail"}
            private |= {"why"} if column.type == "utf8" else set()  # a text, not one of a list
            if table.name == "miss":
                private |= {"expected", "got"}  # pfns, or else small numbers
            private |= {"function"}  # may be a BPF program
            private |= {"name"} if table.name == "sample_latency" else set()  # of any program
            assert bool(column.private) == (column.name in private or column.private == "pfn")


@pytest.mark.parametrize("mode", ["hash", "drop"])
def test_nothing_of_the_original_is_left(
    mode: str, golden_with: Make, tmp_path: Path, pagetape: Run
) -> None:
    plain, out = golden_with(PRIVATE), tmp_path / "private.tape"
    assert pagetape("import", plain, "--private", mode, "-o", out).status == 0
    found = everything(out)
    for secret in (b"secret", b"db17", b"beef", b"builder", b"session-1", b"build.slice"):
        assert secret in everything(plain)
        assert secret not in found
    tasks = Tape(out).table("task").to_pylist()
    assert not {task["comm"] for task in tasks} & {"cat", "make"}
    assert {task["comm"] for task in tasks if task["kthread"]} == {"swapper", "kswapd0"}
    facts = Tape(out).facts
    assert facts["private"] == {"names": mode, "pfns": "moved"}
    assert facts["version"] == "Linux Debian 6.1.192"
    assert facts["snapshot"]["why"] == "no [path] here"
    assert facts["sysctls"] == {"vm.min_free_kbytes": "5", "kernel.numa_balancing": "2"}
    assert Tape(out).table("frame")["address"].null_count == Tape(out).num_rows("frame")
    said = pagetape("info", out)
    words = {"hash": "names hashed, pfns moved", "drop": "names dropped, pfns moved"}
    assert words[mode] in said.out
    assert pagetape("report", "alloc.by_cgroup", out).status == 0


def test_equal_names_stay_equal_within_a_tape_and_only_there(
    golden_with: Make, tmp_path: Path, pagetape: Run
) -> None:
    plain = golden_with(PRIVATE)
    seen = []
    for name in ("a.tape", "b.tape"):
        assert pagetape("import", plain, "--private", "hash", "-o", tmp_path / name).status == 0
        tasks = {task["pid"]: task for task in Tape(tmp_path / name).table("task").to_pylist()}
        assert tasks[101]["comm"] == tasks[102]["comm"] != tasks[100]["comm"]
        assert tasks[101]["cgroup"] == tasks[102]["cgroup"] != tasks[100]["cgroup"]
        assert tasks[100]["cgroup"].count("/") == 2  # /user.slice/session-1.scope
        assert tasks[50]["cgroup"] == "/"
        seen.append((tasks[101]["comm"], tasks[101]["cgroup"], Tape(tmp_path / name).facts["host"]))
    assert not set(seen[0]) & set(seen[1])


def test_all_pfns_move_by_one_number_that_no_file_has(
    golden_with: Make, tmp_path: Path, pagetape: Run
) -> None:
    plain, out = golden_with(PRIVATE), tmp_path / "private.tape"
    assert pagetape("import", plain, "--private", "hash", "-o", out).status == 0
    before, after = pfns(plain), pfns(out)
    assert sum(map(len, before.values())) > 30
    moved = {b - a for key in before for a, b in zip(before[key], after[key], strict=True)}
    assert len(moved) == 1
    (by,) = moved
    assert by % (1 << 18) == 0
    assert by > 1 << 31  # pages: no memory is as large, so no pfn stands for another
    assert Tape(out).facts["snapshot"]["pfn"] == PRIVATE["snapshot"]["pfn"] + by
    assert Tape(out).table("event")["pfn"].null_count == 1
    assert by.to_bytes(8, "little") not in everything(out)
    assert str(by).encode() not in everything(out)


def test_a_private_tape_replays_as_the_other(small: Path, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "private.tape"
    assert pagetape("import", small, "--private", "hash", "-o", out).status == 0
    models = []
    for path in (small, out):
        model = tmp_path / f"{path.stem}-model.tape"
        run = pagetape("replay", path, "-o", model, "--json").json
        assert run["totals"]["allocs"]["value"] == 6000
        report = pagetape("report", "metrics", model, "--json").json["rows"]
        models.append((run["totals"], report, Tape(model).table("counter").to_pylist()))
    for plain, private in zip(*models, strict=True):
        assert plain == private


@pytest.mark.parametrize("mode", ["hash", "drop"])
def test_a_trace_becomes_a_private_tape_at_once(mode: str, tmp_path: Path, pagetape: Run) -> None:
    plain, out = tmp_path / "plain.tape", tmp_path / "private.tape"
    dat = DATA / "linux-6.12-stacks.dat"
    assert pagetape("import", dat, "-o", plain).status == 0
    assert pagetape("import", dat, "-o", out, "--private", mode).status == 0
    assert b"guest" in everything(plain)
    assert b"guest" not in everything(out)
    assert b"linux-6.12-stacks" not in everything(out)
    before, after = (set(pfns(path)["event", "pfn"]) for path in (plain, out))
    assert len(before) == len(after) > 100
    assert not before & after
    rows = [
        pagetape("report", "extfrag.by_stack", path, "--json").json["rows"] for path in (plain, out)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("comm", "kthread", "public"),
    [
        ("kswapd0", 1, True),
        ("kworker/u8:1-flush", 1, True),
        ("postgres", 0, False),
        ("kswapd0", 0, False),  # a process that calls itself so
        ("kcompactd1", None, False),  # a process may call itself so, too
        ("kworker/0:1H", None, False),
        ("postgres", None, False),
        ("<...>", None, True),
        ("<secret>", None, False),
    ],
)
def test_the_kernels_own_threads_keep_their_names(
    comm: str, kthread: int | None, public: bool
) -> None:
    task = {"pid": 7, "comm": comm, "kthread": kthread}
    hidden = Veil("hash").batch("task", TABLES["task"].batch([task])).to_pylist()[0]
    assert (hidden["comm"] == comm) == public
    assert hidden["pid"] == 7


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("--private", "rot13"), 2, "'rot13' is not one of"),
        ((), 2, "is already a finished tape"),
        (("--private", "hash", "--kernel-release", "6.1"), 2, "are for FILE"),
    ],
)
def test_a_tape_cannot_be_imported_otherwise(
    args: tuple[str, ...], status: int, words: str, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("import", golden, "-o", tmp_path / "t.tape", *args)
    assert (said.status, said.err.count("\n")) == (status, 1)
    assert words in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_replay_cannot_be_made_private(played: Path, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("import", played, "--private", "drop", "-o", tmp_path / "t.tape")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert "is a replay" in said.err


# Facts of a recording that a private tape leaves out.
HIDDEN = {"cmdline", "version"}


@livetest.recording
def test_a_live_recording_is_private_from_the_first_byte(tmp_path: Path, pagetape: Run) -> None:
    name = f"pt{os.getpid() % 10**9}secret"[:15]
    load = f"open('/proc/self/comm', 'w').write('{name}'); x = bytearray(32 << 20)"
    plain, out = tmp_path / "plain.tape", tmp_path / "private.tape"
    args = ("--snapshot", "proc", "--", sys.executable, "-c", load)
    assert pagetape("record", "-o", plain, *args).status == 0
    assert pagetape("record", "-o", out, "--private", "hash", *args).status == 0
    assert name.encode() in everything(plain)
    known, hidden = Tape(plain).facts, Tape(out).facts
    assert known.keys() - hidden.keys() <= HIDDEN
    for secret in (name, known["boot_id"], known["cmdline"], known["instances"][0]):
        assert secret.encode() not in everything(out)
    assert hidden["host"] != known["host"]
    assert min(pfns(out)["event", "pfn"]) > max(pfns(plain)["event", "pfn"])
    assert pagetape("replay", out).status == 0


@livetest.recording
def test_the_tapes_of_a_series_are_private_and_one_machine(tmp_path: Path, pagetape: Run) -> None:
    args = ("--events", "cheap", "--snapshot", "proc", "--rotate", "1s", "--duration", "1.5s")
    assert pagetape("record", "-o", tmp_path, *args, "--private", "hash").status == 0
    tapes = sorted(tmp_path.iterdir())
    assert len(tapes) == 2
    assert all(tape.name.startswith("private-2") for tape in tapes)
    (host,) = {Tape(tape).facts["host"] for tape in tapes}
    (boot_id,) = {Tape(tape).facts["boot_id"] for tape in tapes}
    assert os.uname().nodename != host
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() != boot_id
    zones = [{row["zone"]: row["start_pfn"] for row in Tape(tape).rows("zone")} for tape in tapes]
    assert zones[0] == zones[1]  # moved by the same number of pages


@livetest.recording
def test_a_deferred_recording_becomes_a_private_tape(tmp_path: Path, pagetape: Run) -> None:
    raw, out = tmp_path / "raw.tape", tmp_path / "private.tape"
    args = ("--snapshot", "proc", "--duration", "0.5s")
    said = pagetape("record", "-o", raw, "--defer", "--private", "hash", *args)
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "--defer stores names in the spool" in said.err
    assert pagetape("record", "-o", raw, "--defer", *args).status == 0
    assert pagetape("import", raw, "-o", out, "--private", "hash").status == 0
    found = everything(out)
    assert Tape(raw).facts["boot_id"].encode() not in found
    assert Tape(raw).facts["cmdline"].encode() not in found
    assert min(pfns(out)["event", "pfn"]) > 1 << 32
    assert Tape(out).facts["private"] == {"names": "hash", "pfns": "moved"}


@livetest.recording
def test_a_killed_private_recorder_leaves_no_names(tmp_path: Path) -> None:
    out = tmp_path / "t.tape"
    code = "from pagetape.cli import main; main()"
    argv = [sys.executable, "-c", code, "record", "-o", out, "--private", "hash"]
    with subprocess.Popen([*argv, "--events", "cheap", "--snapshot", "proc"]) as running:
        while not (out / "snapshot.arrow").exists():
            time.sleep(0.02)
        time.sleep(0.3)
        running.kill()
    tables = b"".join(file.read_bytes() for file in unpacked(out).glob("*.arrow"))
    assert Path("/proc/sys/kernel/random/boot_id").read_bytes().strip() not in tables
    assert Path("/proc/cmdline").read_bytes().strip() not in tables
    assert not (out / "spool").exists()  # it would contain the names


@pytest.mark.parametrize("mode", ["hash", "drop"])
def test_names_of_bpf_programs_are_hidden_in_stacks(mode: str) -> None:
    names = ["bpf_prog_6deef7357e7b4530_secret", "rmqueue", None]
    frames = [{"stack": 1, "depth": i, "function": name} for i, name in enumerate(names)]
    hidden = Veil(mode).batch("frame", TABLES["frame"].batch(frames))["function"].to_pylist()
    assert "secret" not in str(hidden)
    assert hidden[1:] == ["rmqueue", None]
    assert (hidden[0] is None) == (mode == "drop")


def test_a_trace_proves_no_kernel_thread(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "private.tape"
    dat = DATA / "linux-6.12-stacks.dat"
    assert pagetape("import", dat, "-o", out, "--private", "drop").status == 0
    names = {task["comm"] for task in Tape(out).table("task").to_pylist()}
    assert names <= {"<idle>", "<...>", "[private]"}
