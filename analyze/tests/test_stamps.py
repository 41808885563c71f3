# SPDX-License-Identifier: Apache-2.0
"""Stamps on this machine; skipped where it cannot be traced or BPF is refused: livetest.py."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.recording import printed
from pagetape.recording.eventsets import Contents
from pagetape.recording.exact import ExactSnapshots
from pagetape.schemas.tape import Tape

from .conftest import when_let_go

Run = Callable[..., Any]
Key = tuple[int, int, str]  # CPU, node, zone: a PCP

# One process fills a pipe, and another on the next CPU empties it: each page of the pipe comes from
# the list of one CPU and goes to that of the other, one at a time.
_CROSS = """
import fcntl, os, sys, time
one, other = (sorted(os.sched_getaffinity(0)) * 2)[:2]
end, size = time.monotonic() + float(sys.argv[1]), 1 << 20
reader, writer = os.pipe()
fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, size)
if os.fork():
    os.close(reader)
    os.sched_setaffinity(0, {one})
    while time.monotonic() < end:
        os.write(writer, bytes(size))
else:
    os.close(writer)
    os.sched_setaffinity(0, {other})
    while os.read(reader, size):
        pass
"""

_RECORD = (sys.executable, "-c", "from pagetape.cli import main; main()", "record")
_LISTED = (0, 1, 2, 3, 9)  # orders with a list
_STEP = {"alloc": -1, "pcpu_drain": -1}  # of a PCP's count; of others 1
_OCCASION = {
    "refill": ("alloc_zone_locked", "alloc_extfrag"),
    "drain": ("pcpu_drain",),
    "remote_drain": ("pcpu_drain",),
}


@functools.cache
def _why_no_bpf() -> str:
    return livetest.why_not() or ExactSnapshots().refused or ""


recording = livetest.needs(_why_no_bpf)


def _record(pagetape: Run, out: Path, *options: object, seconds: float = 0.5) -> Tape:
    load = (sys.executable, "-c", _CROSS, seconds)
    found = pagetape("record", "-o", out, "--stamps", "on", *options, "--", *load)
    assert found.status == 0, found.err
    return Tape(out)


_COLUMNS = ("ts", "cpu", "pid", "kind", "pfn", "page_order")


def _zone_of(tape: Tape) -> Callable[[int], tuple[int, str]]:
    zones = [row for row in tape.rows("zone") if row["snapshot"] == 0]
    places = [(z["start_pfn"], z["spanned"], (z["node"], z["zone"])) for z in zones]
    return lambda pfn: next(zone for start, nr, zone in places if 0 <= pfn - start < nr)


def _merged(tape: Tape) -> Iterator[tuple[dict[str, Any] | None, tuple[Any, ...]]]:
    """Each row of `event` as a tuple of _COLUMNS, after each stamp before it and `()`."""
    stamps = iter(tape.table("stamp").to_pylist())
    stamp = next(stamps, None)
    events = tape.table("event")
    for at, row in enumerate(zip(*(events[name].to_pylist() for name in _COLUMNS), strict=True)):
        while stamp is not None and stamp["at"] == at:
            yield stamp, ()
            stamp = next(stamps, None)
        yield None, row


def _batched(tape: Tape) -> dict[int, int]:
    """By row of `event`: the order of a page that joins its list with the row. A free in a batch
    does so at its free_batched, which comes after the frees of the whole batch."""
    freed, found = dict[int, tuple[int, int]](), dict[int, int]()
    for at, (_, row) in enumerate(each for each in _merged(tape) if each[0] is None):
        kind, pfn, order = row[3:]
        if kind == "free":
            freed[pfn] = at, order
            found[at] = order
        elif kind == "free_batched" and pfn in freed:
            before, order = freed.pop(pfn)
            found[at] = found.pop(before)
    return found


def _counted(tape: Tape) -> Counter[tuple[str, int]]:
    """By kind of stamp: the sign of its count minus that of the last stamp of the PCP with the
    pages that events moved since."""
    zone_of, count, joins = _zone_of(tape), dict[Key, int](), _batched(tape)
    found = Counter[tuple[str, int]]()
    at = -1
    for stamp, row in _merged(tape):
        if stamp is not None:
            pcp = stamp["cpu"], stamp["node"], stamp["zone"]
            if stamp["count"] is not None and pcp in count:
                more = stamp["count"] - count[pcp]
                found[stamp["kind"], (more > 0) - (more < 0)] += 1
            if stamp["count"] is not None:
                count[pcp] = stamp["count"]
            continue
        at += 1
        _, cpu, _, kind, pfn, order = row
        order = joins.get(at, None if kind == "free" else order)
        if order in _LISTED and pfn is not None and kind != "alloc_extfrag":
            pcp = cpu, *zone_of(pfn)
            if pcp in count:
                count[pcp] += _STEP.get(kind, 1) << order
    return found


@livetest.alone
@recording
def test_the_count_of_a_list_follows_its_events(tmp_path: Path, pagetape: Run) -> None:
    found = _counted(_record(pagetape, tmp_path / "t.tape", "--events", "page", seconds=1))
    for kind in ("drain", "refill"):
        more, equal, fewer = (found[kind, sign] for sign in (1, 0, -1))
        # On a busy machine bulk allocations have no event, frees past a locked list seem to join
        # it, and an allocation may have its event on another CPU. A quiet one has 99 % or more.
        assert more + equal + fewer > 5 and equal > 3 * (more + fewer), found


@recording
def test_a_stamp_stands_right_before_its_event(tmp_path: Path, pagetape: Run) -> None:
    tape = _record(pagetape, tmp_path / "t.tape", "--events", "all")
    waiting, judged = dict[int, dict[str, Any]](), 0
    for stamp, row in _merged(tape):
        if stamp is not None:
            waiting[stamp["cpu"]] = stamp
        elif before := waiting.pop(row[1], None):
            judged += 1
            assert row[3] in _OCCASION[before["kind"]], (before, row)
            assert before["pid"] == row[2] and before["ts"] <= row[0]
    assert judged


def _of_zoneinfo() -> dict[Key, dict[str, int]]:
    """high, high_min, high_max and batch of each PCP, and the marks of its zone without boost."""
    found = dict[Key, dict[str, int]]()
    zone, marks, cpu = ("0", ""), dict[str, int](), 0
    for line in Path("/proc/zoneinfo").read_text().splitlines():
        if begin := re.match(r"Node (\d+), zone +(\w+)", line):
            zone, marks = (begin[1], begin[2].upper()), {}
        elif pair := re.match(
            r" +(boost|min|low|high|batch|high_min|high_max|cpu):? +(\d+)$", line
        ):
            name, value = pair[1], int(pair[2])
            if name == "cpu":
                cpu = value
                found[cpu, int(zone[0]), zone[1]] = dict(marks)
            elif name == "boost":
                marks[name] = value
            elif f"wmark_{name}" in marks or name.startswith(("batch", "high_")):
                found[cpu, int(zone[0]), zone[1]][name] = value
            else:
                marks[f"wmark_{name}"] = value - marks.get("boost", 0)
    return found


@recording
def test_limits_are_those_of_zoneinfo(tmp_path: Path, pagetape: Run) -> None:
    before = _of_zoneinfo()
    tape = _record(pagetape, tmp_path / "t.tape", "--events", "zone")
    now, last = _of_zoneinfo(), dict[Key, dict[str, Any]]()
    for stamp in tape.table("stamp").to_pylist():
        last[stamp["cpu"], stamp["node"], stamp["zone"]] = stamp
    compared = 0
    for pcp, stamp in last.items():
        for name in (now[pcp].keys() & stamp.keys()) - {
            "high",
            "boost",
        }:  # they change all the time
            if before[pcp][name] == now[pcp][name]:  # nobody set it meanwhile
                assert stamp[name] in (None, now[pcp][name]), (name, stamp, now[pcp])
                compared += stamp[name] is not None
    assert compared > 3


@recording
def test_stamps_are_no_events_and_survive_a_deferred_recording(
    tmp_path: Path, pagetape: Run
) -> None:
    raw, whole = tmp_path / "raw.tape", tmp_path / "whole.tape"
    _record(pagetape, raw, "--events", "page", "--defer")
    assert pagetape("import", raw, "-o", whole).status == 0
    info = pagetape("info", whole, "--json").json
    assert info["stamps"] == Tape(whole).num_rows("stamp") > 10
    kinds = Tape(whole).table("event")["kind"].to_pylist()
    assert info["events"]["mm_page_free"] == kinds.count("free")
    assert "bpf_trace_printk" not in info["events"]
    assert "stamps" in pagetape("info", whole).out


@recording
def test_a_killed_recording_has_each_once(tmp_path: Path, pagetape: Run) -> None:
    out, whole = tmp_path / "t.tape", tmp_path / "whole.tape"
    given = ("-o", out, "--events", "page", "--stamps", "on", "--duration", "300s")
    with subprocess.Popen([*_RECORD, *given], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        while "recording since" not in (line := run.stderr.readline()):
            assert line, "it ended"
        subprocess.run([sys.executable, "-c", _CROSS, "2"], check=True)
        run.kill()
    printed._switch_off(printed._top_switch())  # which the killed one can no more
    assert when_let_go(pagetape, "import", out, "-o", whole).status == 0
    rows = Tape(whole).table("stamp").to_pylist()
    assert len(rows) > 10 and [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert len({(row["cpu"], row["ts"]) for row in rows}) == len(rows)


@recording
def test_each_of_two_recorders_has_its_own(tmp_path: Path) -> None:
    load = ("--", sys.executable, "-c", _CROSS, "1")
    switch = printed._top_switch()
    before = switch.read_text()
    runs = [
        subprocess.Popen(
            [*_RECORD, "-o", tmp_path / f"{name}.tape", "--events", name, "--stamps", "on", *load],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("page", "zone")
    ]
    said = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    for name in ("page", "zone"):
        rows = Tape(tmp_path / f"{name}.tape").table("stamp").to_pylist()
        places = [(row["cpu"], row["at"]) for row in rows if row["kind"] == "drain"]
        assert len(places) == len({*places}) > 0
    assert switch.read_text() == before


@recording
def test_tracefs_that_is_not_mounted_yet_is_mounted_for_them(tmp_path: Path) -> None:
    script = 'umount -a -t debugfs,tracefs; exec "$@"'
    given = (*_RECORD, "-o", tmp_path / "t.tape", "--duration", "100ms", "--stamps", "on")
    words = ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, given)]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@recording
def test_off_leaves_them_out_and_on_needs_the_programs(tmp_path: Path, pagetape: Run) -> None:
    out = tmp_path / "t.tape"
    given = ("--duration", "100ms", "--events", "page")
    assert pagetape("record", "-o", out, *given, "--stamps", "off").status == 0
    assert pagetape("info", out, "--json").json["stamps"] is None
    refused = pagetape("record", "-o", out, *given, "--stamps", "on", "--snapshot", "proc")
    assert refused.status == 2 and "--stamps on needs" in refused.err


def test_a_kernel_that_refuses_the_programs_costs_a_line_and_no_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ExactSnapshots.__new__(ExactSnapshots)
    refused._loaded, refused.refused = None, "the kernel has no BTF"
    monkeypatch.setattr(printed, "_top_switch", lambda: Path("/dev/null"))
    contents = Contents(["kmem:mm_page_alloc"], "page", 0)
    plan = printed.prepare(contents, refused, 9)
    assert (plan.note, plan.events) == ("no stamps: the kernel has no BTF", contents.events)
    assert plan.facts == {"no_stamps": "the kernel has no BTF"}
    # Without exact snapshots, nobody asked for the programs.
    assert printed.prepare(contents, None, 9).note is None
