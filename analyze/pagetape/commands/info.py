# SPDX-License-Identifier: Apache-2.0
"""pagetape info: what a tape holds."""

from pathlib import Path
from typing import Any

import click

from pagetape import answer
from pagetape.commands import options
from pagetape.schemas.tape import Tape
from pagetape.tapes.info import describe, flight, snapshot_lines, snapshots, spooled


def _text(info: dict[str, Any]) -> str:
    facts = info["facts"]
    lines = [
        ("tape", info["tape"]),
        ("kernel", info["kernel"] or "unknown"),
        ("machine", _machine(info)),
        ("duration", f"{info['duration_s']:.3f} s"),
        ("snapshots", snapshots(info)),
        *snapshot_lines(info),
        ("size", _size(info)),
        ("lost", _lost(info)),
    ]
    if info["stacks"]:
        lines.insert(5, ("stacks", _stacks(info["stacks"])))
    if info["samples"]:
        changes = answer.amount(info["tables"].get("parameter", 0), "change")
        lines.append(("samples", f"{info['samples']:,} of /proc, {changes} of parameters"))
    if private := info["private"]:
        how = {"hash": "names hashed", "drop": "names dropped"}[private["names"]]
        lines.append(("private", f"{how}, pfns moved"))
    if run := facts.get("replay"):
        lines.insert(1, ("replayed", f"kernel {run['kernel']}, {', '.join(run['policies'])}"))
    if why := flight(info):
        lines.insert(1, ("trigger", why))
    if words := spooled(info):
        lines.append(("spool", words))
    if not info["finished"]:
        lines.append(("note", _note(info)))
    elif info["ended"] != "stopped":
        lines.append(("ended", f"{info['ended']}; up to there it is whole"))
    text = "\n".join(f"{name:<11}{value}" for name, value in lines)
    events = sorted(info["events"].items(), key=lambda event: (-event[1], event[0]))
    return f"{text}\n\n{answer.table(('tracepoint', 'events'), [e for e in events if e[1]])}"


def _stacks(found: dict[str, int]) -> str:
    words = f"{found['recorded']:,}, {found['different']:,} different"
    if found["without_event"]:
        words += f", {found['without_event']:,} without their event"
    if found["frames_without_name"] == found["frames"] > 0:
        words += "; addresses only: there were no symbols"
    elif found["frames_without_name"]:
        words += f"; {found['frames_without_name']:,} of {found['frames']:,} frames without a name"
    return words


def _note(info: dict[str, Any]) -> str:
    how = {
        "recording": "it is still being recorded",
        "killed": "the recorder was killed: the tape ends where it stood",
        "stopped": "it was not decoded",
    }
    words = how.get(info["ended"], f"the recording ended early: {info['ended']}")
    if info["spool"]["waiting_bytes"] and info["ended"] != "recording":
        words += f"; pagetape import {info['tape']} -o NEW.tape reads what waits in the spool"
    return words


def _machine(info: dict[str, Any]) -> str:
    parts = [info["host"] or "", info["facts"].get("arch") or ""]
    for key, one in (("cpus", "CPU"), ("nodes", "node")):
        if info[key]:
            parts.append(answer.amount(info[key], one))
    return ", ".join(part for part in parts if part) or "unknown"


def _size(info: dict[str, Any]) -> str:
    each = info["bytes_per_event"]
    return answer.size(info["bytes"]) + (f", {each:.2f} bytes/event" if each else "")


def _lost(info: dict[str, Any]) -> str:
    by_cpu = info["lost_by_cpu"]
    total = "unknown" if info["lost"] is None else answer.amount(info["lost"], "event")
    if not by_cpu:
        return total
    return f"{total} ({', '.join(f'CPU {c}: {answer.cell(n)}' for c, n in by_cpu.items())})"


@click.command("info")
@options.tape
@options.json
def command(tape: Path, as_json: bool) -> None:
    """What a tape holds: events, loss by CPU, machine, snapshots.

    `lost` is unknown (null) where the kernel did not count what it dropped.
    `events` counts every tracepoint of the recording, `stored` those kept in tables;
    bytes_per_event is the whole tape, snapshots included, over the latter.
    `finished` is false while a tape is recorded, and if its recorder could not end it:
    `ended` says how ("recording", "killed", "disk full", "spool full", "failed"; else
    "stopped"), spool.waiting_bytes what `pagetape import` would read. spool.peak_bytes is
    the most that waited (of each CPU, together), spool.full_s how long there was no room.

    The other keys of the JSON: tape, kernel, host, cpus, nodes, duration_s, lost_by_cpu,
    complete (every table was closed), snapshot ("exact", "proc" or "none": the start's) and
    the tables' rows as snapshots, snapshot_zones, snapshot_checks; stacks, samples,
    private, bytes, tables (rows of each) and facts (all that is known of the machine).

    \b
    Example:
      pagetape info base.tape --json | jq .events
    """
    info = describe(Tape(tape))
    if as_json:
        answer.emit(info)
    else:
        click.echo(_text(info))
