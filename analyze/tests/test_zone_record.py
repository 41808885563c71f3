# SPDX-License-Identifier: Apache-2.0
"""pagetape record --events zone on this machine; skipped where it cannot be traced: livetest.py."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.recording import frees
from pagetape.recording.exact import ExactSnapshots
from pagetape.replaying import validation
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]

# Single pages, and blocks of order 4: getxattr() takes one and frees it.
_LOAD = """
import ctypes, time
end = time.monotonic() + 2
while time.monotonic() < end:
    x = bytearray(8 << 20)
    ctypes.CDLL(None).getxattr(b"/", b"user.pagetape", ctypes.create_string_buffer(65536), 65536)
"""


_LISTED = (0, 1, 2, 3, 9)  # orders with a list


def _past_locks(page: Path, zone: Path, span: tuple[int, int]) -> tuple[set[int], set[int]]:
    """Pages whose free found their list locked: inferred from the page tape, recorded as zone."""
    inferred = validation.inferred(Tape(page)).to_pylist()
    rows = Tape(zone).table("event").to_pylist()
    found = (
        [row["pfn"] for row in inferred if row["kind"] == "direct_free" and _in(row, span)],
        [
            row["pfn"]
            for row in rows
            if row["kind"] == "free" and row["page_order"] in _LISTED and _in(row, span)
        ],
    )
    return set(found[0]), set(found[1])


def _in(row: dict[str, Any], span: tuple[int, int]) -> bool:
    return span[0] < int(row["ts"]) < span[1]


def _held(tape: Path, first: int, last: int) -> Counter[tuple[Any, ...]]:
    """What a zone tape should hold of the events in a span of time, without pages whose list was
    locked."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in Tape(tape).table("event").to_pylist():
        past = row["kind"] == "free" and row["page_order"] not in _LISTED
        listed = row["kind"] in ("alloc_zone_locked", "pcpu_drain", "alloc_extfrag")
        if first < row["ts"] < last and (past or listed):
            names = ("kind", "pfn", "page_order", "cpu", "pid", "migratetype")
            found[tuple(row[name] for name in names)] += 1
    return found


def _spans(*tapes: Path) -> tuple[int, int]:
    """A span of time in the middle of all tapes, a quarter of a second from their ends."""
    clocks = [Tape(tape).clock or (0, 0) for tape in tapes]
    return max(c[0] for c in clocks) + 250_000_000, min(c[1] for c in clocks) - 250_000_000


def _both(tmp_path: Path, *options: str) -> tuple[Path, Path, str]:
    """The same time recorded as `page`, and as `zone` with the options; what the latter said."""
    page, zone = tmp_path / "page.tape", tmp_path / "zone.tape"
    load = ("--", sys.executable, "-c", _LOAD)
    ways = [("page", page, load), ("zone", zone, (*options, *load))]
    runs = [
        subprocess.Popen(
            [*PAGETAPE, "record", "-o", out, "--events", name, *more],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, out, more in ways
    ]
    said = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    return page, zone, said[1]


@livetest.recording
@pytest.mark.parametrize("how", ["bpf", "filter"])
def test_a_recording_holds_what_a_projection_would(tmp_path: Path, how: str, pagetape: Run) -> None:
    options = ("--snapshot", "proc") if how == "filter" else ()
    if how == "bpf" and (why := ExactSnapshots().refused):
        livetest.skip(f"no BPF here: {why}")
    switch = frees._top_switch()
    before = switch and switch.read_text()
    page, zone, said = _both(tmp_path, *options)
    assert switch is None or switch.read_text() == before
    span = _spans(page, zone)
    wanted, found = _held(page, *span), _held(zone, *span)
    assert sum(wanted.values()) > 100
    assert any(key[0] == "free" for key in wanted)
    assert found == wanted
    inferred, recorded = _past_locks(page, zone, span)
    assert recorded == (inferred if how == "bpf" else set())
    assert (frees.COST in said) == (how == "filter")
    info = pagetape("info", zone, "--json").json
    assert info["facts"]["event_set"] == "zone"
    assert "kmem:mm_page_free" in info["facts"]["events"]
    assert not info["events"].keys() & {"bpf_trace_printk", "mm_page_alloc"}
    assert info["lost"] == 0


@livetest.recording
def test_a_deferred_zone_recording_is_whole_after_its_import(tmp_path: Path, pagetape: Run) -> None:
    raw, whole = tmp_path / "raw.tape", tmp_path / "whole.tape"
    load = [sys.executable, "-c", _LOAD]
    assert pagetape("record", "-o", raw, "--events", "zone", "--defer", "--", *load).status == 0
    assert pagetape("import", raw, "-o", whole).status == 0
    rows = Tape(whole).table("event").to_pylist()
    assert any(row["kind"] == "free" and row["page_order"] == 4 for row in rows)
    assert pagetape("validate", whole, "--json").json["allocs"] is None


@livetest.recording
@pytest.mark.parametrize("snapshot", ["auto", "proc"])
def test_auto_is_zone_where_bpf_can_be_used(tmp_path: Path, snapshot: str, pagetape: Run) -> None:
    allowed = snapshot == "auto" and ExactSnapshots().refused is None
    out = tmp_path / "auto.tape"
    given = ("--events", "auto", "--snapshot", snapshot, "--duration", "100ms")
    said = pagetape("record", "-o", out, *given)
    assert said.status == 0
    assert ("BPF cannot be used" in said.err) == (not allowed)
    assert (Tape(out).facts.get("event_set") == "zone") == allowed
    assert ("kmem:mm_page_pcpu_drain" in Tape(out).facts["events"]) == allowed
