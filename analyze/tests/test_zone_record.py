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

from pagetape.recording import printed
from pagetape.recording.exact import ExactSnapshots
from pagetape.replaying import validation
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

PAGETAPE = [sys.executable, "-c", "from pagetape.cli import main; main()"]

# Single pages, and blocks of order 4: getxattr() takes one and frees it. A second, from the
# moment at which as many loads run as there are files named: under each recorder one.
_LOAD = """
import ctypes, sys, time
from pathlib import Path
own, *others = map(Path, sys.argv[1:])
own.touch()
begin, end = time.monotonic(), 0
while not end or time.monotonic() < end:
    if not end and (all(map(Path.exists, others)) or time.monotonic() > begin + 60):
        end = time.monotonic() + 1
    x = bytearray(8 << 20)
    ctypes.CDLL(None).getxattr(b"/", b"user.pagetape", ctypes.create_string_buffer(65536), 65536)
"""


_LISTED = (0, 1, 2, 3, 9)  # orders with a list
_EDGE = 250_000_000  # ns
_NEAR = 50_000_000  # ns

Span = tuple[int, int]


Rows = Counter[tuple[Any, ...]]


def _past_locks(tape: Path) -> Callable[[int, int], Rows]:
    """Pages whose free found their list locked, in a span: inferred from a page tape, recorded in
    a zone tape."""
    if Tape(tape).facts["event_set"] == "page":
        rows = [
            r for r in validation.inferred(Tape(tape)).to_pylist() if r["kind"] == "direct_free"
        ]
    else:
        rows = [
            row
            for row in Tape(tape).table("event").to_pylist()
            if row["kind"] == "free" and row["page_order"] in _LISTED
        ]
    return lambda first, last: Counter((r["pfn"],) for r in rows if first < r["ts"] < last)


def _events(tape: Path) -> Callable[[int, int], Rows]:
    """What a zone tape should hold of the events in a span, without pages whose list was locked."""
    names = ("kind", "pfn", "page_order", "cpu", "pid", "migratetype")
    rows = [
        row
        for row in Tape(tape).table("event").to_pylist()
        if row["kind"] in ("alloc_zone_locked", "pcpu_drain", "alloc_extfrag")
        or (row["kind"] == "free" and row["page_order"] not in _LISTED)
    ]
    return lambda first, last: Counter(
        tuple(row[name] for name in names) for row in rows if first < row["ts"] < last
    )


def _seen_last_when_freed(tape: Path) -> set[tuple[int]]:
    """Pages whose last event is their free: no later event shows where it put them."""
    last = {row["pfn"]: row["kind"] for row in Tape(tape).table("event").to_pylist()}
    return {(pfn,) for pfn, kind in last.items() if kind == "free"}


def _only_in(
    one: Callable[[int, int], Rows], other: Callable[[int, int], Rows], span: Span
) -> Rows:
    """What one tape holds in a span and another does not within _NEAR of it: each instance of
    ftrace takes the time of an event for itself, and may be interrupted between the two."""
    return one(*span) - other(span[0] - _NEAR, span[1] + _NEAR)


def _span(*tapes: Path) -> Span:
    """A span of time in the middle of all tapes, _EDGE from their ends."""
    clocks = [Tape(tape).clock or (0, 0) for tape in tapes]
    return max(c[0] for c in clocks) + _EDGE, min(c[1] for c in clocks) - _EDGE


def _both(tmp_path: Path, *options: str) -> tuple[Path, Path, str]:
    """The same time recorded as `page`, and as `zone` with the options; what the latter said."""
    page, zone = tmp_path / "page.tape", tmp_path / "zone.tape"
    load = ("--", sys.executable, "-c", _LOAD)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    ways = [
        ("page", page, (*load, one, two)),
        ("zone", zone, (*options, *load, two, one)),
    ]
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
    switch = printed._top_switch()
    before = switch.read_text()
    page, zone, said = _both(tmp_path, *options)
    assert switch.read_text() == before
    span = _span(page, zone)
    wanted, found = _events(page), _events(zone)
    assert wanted(*span).total() > 100
    assert any(key[0] == "free" for key in wanted(*span))
    assert not _only_in(wanted, found, span) and not _only_in(found, wanted, span)
    inferred, recorded = _past_locks(page), _past_locks(zone)
    if how == "bpf":
        assert not _only_in(inferred, recorded, span)
        assert not _only_in(recorded, inferred, span).keys() - _seen_last_when_freed(page)
    else:
        assert not recorded(*span)
    assert (printed.COST in said) == (how == "filter")
    info = pagetape("info", zone, "--json").json
    assert info["facts"]["event_set"] == "zone"
    assert "kmem:mm_page_free" in info["facts"]["events"]
    assert not info["events"].keys() & {"bpf_trace_printk", "mm_page_alloc"}
    assert info["lost"] == 0


@livetest.recording
def test_a_deferred_zone_recording_is_whole_after_its_import(tmp_path: Path, pagetape: Run) -> None:
    raw, whole = tmp_path / "raw.tape", tmp_path / "whole.tape"
    load = [sys.executable, "-c", _LOAD, tmp_path / "one"]
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
