# SPDX-License-Identifier: Apache-2.0
"""Tables that are not what they seem: every command that reads a tape answers, or says why not.

Each case is a tape with one table damaged. Commands end with status 0, or with status 1 and one
line on stderr that names the tape.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matrix
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer, file_metadata

from .conftest import Said

# Every command that reads a tape; OUT is a new directory. The short ones take a tenth of a second.
SHORT = (
    ("info", "TAPE", "--json"),
    ("info", "TAPE"),
    ("validate", "TAPE", "-o", "OUT/validated.tape"),
    ("validate", "TAPE", "--explain", "--json"),
    ("replay", "TAPE", "--reclaim", "R2", "--policy", "zone_lock:profile=tape"),
    ("archive", "TAPE", "-o", "OUT/archive"),
    ("sql", "TAPE", "SELECT max(comm), max(ts) FROM event LEFT JOIN task USING (pid)"),
    ("report", "extfrag.by_migratetype", "TAPE"),
    ("report", "metrics", "TAPE", "--json"),
    ("report", "loss", "TAPE"),
)
LONG = (
    ("replay", "TAPE", "-o", "OUT/replayed.tape"),
    ("compare", "TAPE", "GOOD", "--json"),
    ("html", "GOOD", "TAPE", "-o", "OUT/page.html"),
    ("export", "TAPE", "-o", "OUT/timeline.json"),
    ("export", "TAPE", "--format", "llfree", "-o", "OUT/trace.bin"),
    ("sweep", "--policy", "nofragment", "TAPE", "-o", "OUT/sweep"),
)


def store(tape: Path, name: str, rows: pa.Table, compression: str | None = None) -> Path:
    """Replace a table, in one batch, with the facts of the tape."""
    file = tape / f"{name}.arrow"
    metadata = file_metadata(Tape(tape).facts)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(file.with_suffix(".new")), "wb") as sink,
        pa.ipc.new_file(sink, rows.schema.with_metadata(metadata), options=options) as out,
    ):
        out.write_table(rows.combine_chunks())
    return file.with_suffix(".new").rename(file)


def with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at).with_type(values.type), values)


def offset(tape: Path, value: int) -> None:
    """An offset of a task's name."""
    rows = Tape(tape).table("task")
    names = rows["comm"].to_pylist()
    ends = [sum(map(len, names[:i])) for i in range(3)]
    file = store(tape, "task", rows)
    data = file.read_bytes()
    there = struct.pack("<3i", *ends)
    assert there in data
    file.write_bytes(data.replace(there, struct.pack("<3i", ends[0], value, ends[2]), 1))


def beyond_labels(tape: Path) -> None:
    rows = Tape(tape).table("event")
    codes = pa.array([250] * len(rows), pa.uint8())
    labels = list(TABLES["event"].column("kind").labels)
    kinds = pa.DictionaryArray.from_arrays(codes, labels, safe=False)
    store(tape, "event", with_column(rows, "kind", kinds))


def strange_label(tape: Path) -> None:
    rows = Tape(tape).table("event")
    strange = pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.uint8()), ["\x1b[31m"])
    store(tape, "event", with_column(rows, "kind", strange))


def null_ts(tape: Path) -> None:
    rows = Tape(tape).table("event")
    ts = pc.if_else(pa.array([True] + [False] * (len(rows) - 1)), None, rows["ts"].combine_chunks())
    store(tape, "event", with_column(rows, "ts", ts))


def swapped(tape: Path, name: str, other: str) -> None:
    a, b = tape / f"{name}.arrow", tape / f"{other}.arrow"
    a.rename(tape / "elsewhere")
    b.rename(a)
    (tape / "elsewhere").rename(b)


def one_more_column(tape: Path) -> None:
    rows = Tape(tape).table("event")
    store(tape, "event", rows.append_column(rows.schema.field("ts"), rows["ts"]))


def in_place_of(tape: Path, name: str, make: Callable[[Path], object]) -> None:
    (tape / f"{name}.arrow").unlink()
    make(tape / f"{name}.arrow")


def hole(file: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 40)


def bomb(tape: Path, name: str, rows: int) -> None:
    first = Tape(tape).table(name).slice(0, 1)
    file = store(tape, name, first.take(pa.repeat(pa.scalar(0), rows)), "zstd")
    assert file.stat().st_size < rows


def cut(tape: Path, share: float) -> None:
    for file in tape.iterdir():
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])


def values(tape: Path, name: str, column: str, value: int) -> None:
    """One value in all rows."""
    rows = Tape(tape).table(name)
    kind = rows.schema.field(column).type
    store(tape, name, with_column(rows, column, pa.repeat(pa.scalar(value, kind), len(rows))))


def labels_reversed(tape: Path) -> None:
    """The labels of every enum in the opposite order, with the same meaning."""
    for name in sorted(Tape(tape).tables):
        rows = Tape(tape).table(name).combine_chunks()
        for column in TABLES[name].columns:
            if column.labels and len(rows):
                coded = rows[column.name].chunk(0)
                last = pa.scalar(len(column.labels) - 1, pa.uint8())
                codes = pc.subtract(last, coded.indices)
                turned = pa.DictionaryArray.from_arrays(codes, list(reversed(column.labels)))
                rows = with_column(rows, column.name, turned)
        store(tape, name, rows)


MOST = 2**64 - 1

CASES: dict[str, Callable[[Path], object]] = {
    "offset 2000000000": lambda tape: offset(tape, 2_000_000_000),
    "offset 200000": lambda tape: offset(tape, 200_000),
    "offset -1": lambda tape: offset(tape, -1),
    "indices beyond the labels": beyond_labels,
    "an unknown label": strange_label,
    "a null": null_ts,
    "event for snapshot_zone": lambda tape: swapped(tape, "event", "snapshot_zone"),
    "event for compaction": lambda tape: swapped(tape, "event", "compaction"),
    "a column twice": one_more_column,
    "event is a FIFO": lambda tape: in_place_of(tape, "event", os.mkfifo),
    "snapshot is a FIFO": lambda tape: in_place_of(tape, "snapshot", os.mkfifo),
    "pcp_page is /dev/zero": lambda tape: in_place_of(
        tape, "pcp_page", lambda file: file.symlink_to("/dev/zero")
    ),
    "zone is a link": lambda tape: in_place_of(
        tape, "zone", lambda file: file.symlink_to("/etc/passwd")
    ),
    "task is a directory": lambda tape: in_place_of(tape, "task", Path.mkdir),
    "a bomb in event": lambda tape: bomb(tape, "event", 5_000_000),
    "a bomb in zone": lambda tape: bomb(tape, "zone", 200_000),
    "a hole of 1 TiB in task": lambda tape: os.truncate(tape / "task.arrow", 1 << 40),
    "a hole of 1 TiB for vmstat": lambda tape: in_place_of(tape, "vmstat", hole),
    "cut in the middle": lambda tape: cut(tape, 0.5),
    "cut at the end": lambda tape: cut(tape, 0.999),
    "the largest pfn": lambda tape: values(tape, "snapshot", "pfn", MOST),
    "the largest time": lambda tape: values(tape, "snapshot", "ts", MOST),
    "events at the largest time": lambda tape: values(tape, "event", "ts", MOST),
    "the largest snapshot": lambda tape: values(tape, "snapshot", "snapshot", 65535),
}

# The suite tries all commands on one tape of each kind of damage, and a third of the short ones on
# the others.
OF_EACH_KIND = (
    "offset 200000",
    "an unknown label",
    "event for compaction",
    "event is a FIFO",
    "a bomb in event",
    "a hole of 1 TiB in task",
    "cut at the end",
    "the largest time",
)


@pytest.fixture(scope="session")
def whole(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small tape with an exact snapshot and compaction, so that all tables are read."""
    path = tmp_path_factory.mktemp("tapes") / "whole.tape"
    tape = Tape(small)
    snapshot = {c.name: 0 for c in TABLES["snapshot"].columns if not c.labels and not c.null}
    snapshot |= {"how": "exact", "pfn": 1 << 16, "cpu": 0, "pid": 100}
    compaction: dict[str, Any] = {
        c.name: 0 for c in TABLES["compaction"].columns if not c.labels and not c.null
    }
    with Writer(path, tape.facts) as writer:
        for name in tape.tables:
            for batch in tape.batches(name):
                writer.write(name, batch)
        writer.rows("snapshot", [snapshot])
        writer.rows("snapshot_zone", [])
        writer.rows("pcp_page", [])
        writer.rows("compaction", [compaction | {"kind": "kcompactd_sleep"}])
    return path


@pytest.mark.parametrize("case", CASES)
def test_every_command_answers_or_says_why_not(
    pagetape: Callable[..., Said],
    whole: Path,
    tmp_path: Path,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAGETAPE_ENSEMBLE", str(matrix.number(0, 2)))  # members read what runs read
    tape, out = tmp_path / "damaged.tape", tmp_path / "out"
    shutil.copytree(whole, tape)
    CASES[case](tape)
    out.mkdir()
    places = {"TAPE": str(tape), "GOOD": str(whole), "OUT": str(out)}
    refused = 0
    every = matrix.WHOLE or case in OF_EACH_KIND
    for command in SHORT + LONG if every else SHORT[1::3]:
        words = [places.get(word, word).replace("OUT", str(out)) for word in command]
        said = pagetape(*words)
        lines = [line for line in said.err.splitlines() if "is not of its release" not in line]
        assert said.status in (0, 1), f"{command}: {said.err}"
        assert all(line.startswith("pagetape: ") for line in lines), f"{command}: {said.err}"
        assert said.status == 0 or str(tape) in lines[-1], f"{command}: {said.err}"
        assert "\x1b" not in said.err + said.out
        assert "--json" not in command or said.status == 1 or json.loads(said.out)
        refused += said.status
    if "event" in case or case in ("a null", "an unknown label", "a column twice"):
        assert refused


def test_labels_in_another_order_are_the_same_tape(
    pagetape: Callable[..., Said], whole: Path, tmp_path: Path
) -> None:
    """By number, they were other kinds: the engine replayed a few of the allocations, with
    status 0."""
    tape = tmp_path / "whole.tape"
    shutil.copytree(whole, tape)
    labels_reversed(tape)
    for command in (("validate",), ("replay", "--ensemble", "0"), ("report", "metrics")):
        before, after = (pagetape(*command, path, "--json").json for path in (whole, tape))
        for answer in (before, after):
            for key in ("tape", "events_per_s"):
                answer.pop(key, None)
        assert after == before
    assert before["rows"]
