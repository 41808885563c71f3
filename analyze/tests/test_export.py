# SPDX-License-Identifier: Apache-2.0
"""Tapes for other tools: the events of a timeline, and the input of LLFree's replay."""

import gzip
import json
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer

Run = Callable[..., Any]


def drawn(path: Path) -> list[dict[str, Any]]:
    """The events of a timeline."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def entries(path: Path) -> tuple[tuple[int, int, int], list[dict[str, int]]]:
    """A trace as LLFree's reader takes it: the header, and every entry in the file's order."""
    data = path.read_bytes()
    assert len(data) % 4096 == 0
    found = []
    for page in range(4096, len(data), 4096):
        (cpu,) = struct.unpack_from("<I", data, page)
        for place in range(page + 16, page + 4096, 16):
            entry = int.from_bytes(data[place : place + 16], "little")
            if not entry >> 38 & 0xFFFFFF:
                break
            found.append(
                {"cpu": cpu, "us": entry & (1 << 38) - 1, "pfn": entry >> 38 & 0xFFFFFF}
                | {"alloc": entry >> 62 & 1, "order": entry >> 63 & 0xF}
                | {"gfp": entry >> 67 & (1 << 29) - 1, "pid": entry >> 96}
            )
    pages, cpus, max_pfn = struct.unpack_from("<3I", data)
    return (pages, cpus, max_pfn), found


# ---- the timeline


def test_what_takes_time_is_a_slice_of_its_thread(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.json"
    said = pagetape("export", golden, "-o", out, "--json").json
    assert (said["slices"], said["marks"], said["lost"]) == (4, 8, 3)
    slices = {event["name"]: event for event in drawn(out) if event["ph"] == "X"}
    reclaim = slices["direct reclaim"]
    assert (reclaim["pid"], reclaim["ts"], reclaim["dur"]) == (100, 1004510, 400)
    assert reclaim["args"] == {"page_order": 9, "nr_reclaimed": 32}
    assert (slices["direct compaction"]["tid"], slices["direct compaction"]["dur"]) == (102, 1000)
    assert (slices["lost"]["dur"], slices["lost"]["args"]["events"]) == (1000, 3)
    # It has not gone to sleep: it is drawn up to the end.
    assert slices["kswapd"]["ts"] + slices["kswapd"]["dur"] == 3001000


def test_fallbacks_are_marks_with_what_they_did(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.json"
    pagetape("export", golden, "-o", out)
    marks = [event for event in drawn(out) if event["ph"] == "i"]
    assert Counter(mark["name"] for mark in marks) == {
        "fallback UNMOVABLE from MOVABLE": 3,
        "fallback MOVABLE from UNMOVABLE": 2,
        "fallback RECLAIMABLE from MOVABLE": 1,
        "wakeup kswapd": 1,
        "allocation failed": 1,
    }
    assert [mark["args"]["kind"] for mark in marks if mark["pid"] == 101] == ["steal", "claim"]


def test_rates_are_pages_in_each_interval(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.json"
    pagetape("export", golden, "-o", out, "--interval", "500ms")
    rates: dict[str, list[float]] = {}
    for event in drawn(out):
        if event["ph"] == "C" and "per second" in event["args"]:
            rates.setdefault(event["name"], []).append(event["args"]["per second"])
    assert rates["allocated"] == [24, 0, 18, 0, 0, 0, 0, 0]
    assert rates["freed"] == [0, 0, 4, 0, 0, 0, 2, 0]
    assert rates["fallbacks"] == [6, 0, 6, 0, 0, 0, 0, 0]


def test_every_zone_has_its_free_pages_and_watermarks(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.json"
    pagetape("export", golden, "-o", out)
    events = drawn(out)
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    levels = {
        (names[e["pid"]], e["name"], e["ts"]): e["args"]["pages"]
        for e in events
        if e["ph"] == "C" and "pages" in e["args"]
    }
    assert levels["node 0 DMA32", "free", 1000] == 1000
    assert levels["node 0 NORMAL", "free", 3002000] == 1800  # of the last snapshot, at its time
    assert levels["node 0 NORMAL", "watermark low", 1000] == 125
    assert levels["node 0 NORMAL", "watermark low", 2000500] == 2000  # somebody has tuned


def test_a_replay_can_be_drawn_too(played: Path, tmp_path: Path, pagetape: Run) -> None:
    made = pagetape("export", played, "-o", tmp_path / "t.json", "--json").json
    events = drawn(tmp_path / "t.json")
    assert made["counter_values"] == sum(event["ph"] == "C" for event in events)
    assert {"free", "allocated"} <= {event["name"] for event in events}


def test_a_tape_of_nothing_is_a_timeline_of_nothing(
    empty: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.json"
    assert pagetape("export", empty, "-o", out).status == 0
    assert [event["name"] for event in drawn(out)] == ["process_name"]


def test_a_name_in_gz_is_compressed_and_the_same_twice(
    golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    for name in ("t.json", "a.json.gz", "b.json.gz"):
        pagetape("export", golden, "-o", tmp_path / name)
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert packed == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "t.json").read_bytes()


# ---- the trace for LLFree


def test_the_trace_has_every_allocation_and_free_in_the_order_of_its_cpu(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.llfree"
    made = pagetape("export", small, "--format", "llfree", "-o", out, "--json").json
    (pages, cpus, max_pfn), found = entries(out)
    assert (made["entries"], cpus) == (9000, 2)
    assert pages == out.stat().st_size // 4096 - 1 == 12 + 24  # 3000 of CPU 0, 6000 of CPU 1
    tape = Tape(small)
    (zone,) = tape.table("zone").to_pylist()
    assert max_pfn == zone["start_pfn"] + zone["spanned"] - 1
    for cpu in (0, 1):
        assert [entry for entry in found if entry["cpu"] == cpu] == [
            {"cpu": cpu, "us": row["ts"] // 1000, "pfn": row["pfn"], "order": 0, "gfp": 0}
            | {"alloc": row["kind"] == "alloc", "pid": row["pid"]}
            for row in tape.table("event").to_pylist()
            if row["cpu"] == cpu
        ]


def test_an_entry_has_the_order_and_the_flags_as_its_reader_numbers_them(
    tmp_path: Path, pagetape: Run
) -> None:
    names = list(TABLES["event"].column("gfp_flags").bits)
    flags = sum(1 << names.index(name) for name in ("MOVABLE", "IO", "WRITE", "ZEROTAGS", "COLD"))
    row = {"cpu": 1, "pid": (1 << 22) - 1, "flags": 0, "kind": "alloc", "pfn": (1 << 24) - 1024}
    with Writer(tmp_path / "t.tape", {}) as tape:
        tape.rows(
            "event",
            [
                row | {"ts": 5_000_000, "page_order": 9, "gfp_flags": flags},
                row | {"ts": 5_001_999, "page_order": 1, "pfn": None},
                row | {"ts": 5_002_000, "page_order": 9, "kind": "free"},
                row | {"ts": 5_002_000, "page_order": 0, "kind": "free_batched"},
            ],
        )
    out = tmp_path / "t.llfree"
    pagetape("export", tmp_path / "t.tape", "--format", "llfree", "-o", out)
    header, found = entries(out)
    assert header == (1, 2, (1 << 24) - 1024)
    common = {"cpu": 1, "pfn": (1 << 24) - 1024, "order": 9, "pid": (1 << 22) - 1}
    assert found == [
        common | {"us": 0, "alloc": 1, "gfp": 0x8 | 0x40 | 0x1000 | 0x800000},
        common | {"us": 2, "alloc": 0, "gfp": 0},
    ]


def test_pfns_of_a_private_tape_begin_where_its_memory_does(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    moved = tmp_path / "moved.tape"
    pagetape("import", small, "--private", "hash", "-o", moved)
    for tape, name in ((small, "a"), (moved, "b")):
        pagetape("export", tape, "--format", "llfree", "-o", tmp_path / name)
    assert entries(tmp_path / "a") == entries(tmp_path / "b")


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"pfn": 1 << 24}, "has pfn 16777216, and LLFree's format ends at 16777215 (64 GiB)"),
        ({"ts": 80 * 3600 * 10**9}, "has 80 hours, and LLFree's format ends at 76"),
        ({"cpu": 256}, "has 257 CPUs, and LLFree's replay takes 256"),
        ({"pid": -107}, "an event does not fit into the format"),
    ],
)
def test_what_the_format_cannot_hold_is_refused_and_leaves_nothing(
    event: dict[str, int], why: str, tmp_path: Path, pagetape: Run
) -> None:
    row = {"ts": 0, "cpu": 0, "pid": 1, "flags": 0, "kind": "alloc", "pfn": 1, "page_order": 0}
    with Writer(tmp_path / "t.tape", {}) as tape:
        tape.rows("event", [row, row | event])
    said = pagetape("export", tmp_path / "t.tape", "--format", "llfree", "-o", tmp_path / "x")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert why in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["t.tape"]


# ---- files


def test_a_file_that_is_there_stays(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.json"
    out.write_text("mine")
    said = pagetape("export", golden, "-o", out)
    assert (said.status, out.read_text()) == (1, "mine")
    assert "exists already (--force replaces it)" in said.err
    said = pagetape("export", golden, "-o", out, "--force")
    assert (said.status, out.read_text()) == (1, "mine")
    assert "was not written by pagetape" in said.err
    out.unlink()
    for made in range(2):
        assert pagetape("export", golden, "-o", out, *["--force"] * made).status == 0
    assert drawn(out)


def test_llfree_refuses_a_compressed_trace(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    said = pagetape("export", golden, "--format", "llfree", "-o", tmp_path / "t.gz")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "LLFree cannot read compressed traces" in said.err


def test_a_tape_without_events_is_an_empty_trace(
    empty: Path, tmp_path: Path, pagetape: Run
) -> None:
    out = tmp_path / "t.llfree"
    assert pagetape("export", empty, "--format", "llfree", "-o", out, "--json").json["entries"] == 0
