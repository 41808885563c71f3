# SPDX-License-Identifier: Apache-2.0
"""pagetape info: show what a tape holds."""

from pathlib import Path
from typing import Any

import click

from pagetape import answer
from pagetape.commands import archive_report, options


def _text(info: dict[str, Any]) -> str:
    from pagetape.replaying import hindsight
    from pagetape.tapes.disturbance import lines as lines_of
    from pagetape.tapes.info import flight, size, snapshot_lines, snapshots, spooled

    facts = info["facts"]
    lines = [
        ("tape", info["tape"]),
        ("kernel", info["kernel"] or "unknown"),
        *(("rules", line) for line in info["kernel_warnings"] or [_rules(info)]),
        ("recording", info["recording_id"] or "unknown"),
        ("machine", _machine(info)),
        ("duration", f"{info['duration_s']:.3f} s of {_covers(facts)}"),
        ("snapshots", snapshots(info)),
        *snapshot_lines(info),
        ("size", size(info)),
        ("lost", _lost(info)),
    ]
    if info["hindsight"]:
        lines.append(("hindsight", hindsight.words(info["hindsight"])))
    if info["stacks"]:
        lines.insert(6, ("stacks", _stacks(info["stacks"])))
    if info["stamps"] is not None:
        lines.insert(6, ("stamps", f"{info['stamps']:,} states of per-CPU lists"))
    elif why := facts.get("no_stamps"):
        lines.insert(6, ("stamps", f"none: {why}"))
    if info["samples"]:
        lines.append(("samples", _samples(info)))
    if private := info["private"]:
        how = {"hash": "names hashed", "drop": "names dropped"}[private["names"]]
        lines.append(("private", f"{how}, pfns moved"))
    if run := facts.get("replay"):
        lines.insert(1, ("replayed", _replayed(run)))
    if why := flight(info):
        lines.insert(1, ("trigger", why))
    if words := spooled(info):
        lines.append(("spool", words))
    lines += [("absent", words) for words in info["absent"]]
    lines += [("disturbed", words) for words in lines_of(info["disturbances"])]
    if not info["finished"]:
        lines.append(("note", _note(info)))
    elif info["ended"] != "stopped":
        missing = info["lost"] is None
        what = "what it lost is unknown" if missing else "complete up to that point"
        lines.append(("ended", f"{info['ended']}; {what}"))
    text = "\n".join(f"{name:<11}{answer.visible(str(value))}" for name, value in lines)
    events = sorted(info["events"].items(), key=lambda event: (-event[1], event[0]))
    return f"{text}\n\n{answer.table(('tracepoint', 'events'), [e for e in events if e[1]])}"


def _covers(facts: dict[str, Any]) -> str:
    """What the tape has for so long; a recording of no event has readings of /proc."""
    return "readings of /proc" if facts.get("events") == [] else "events"


def _samples(info: dict[str, Any]) -> str:
    """'37 of /proc at 2.409 to 38.396 s, 55 changes of parameters'."""
    ends = info["samples_s"]
    when = f" at {ends[0]:.3f} to {ends[1]:.3f} s" if ends else ""
    changes = answer.amount(info["tables"].get("parameter", 0), "change")
    return f"{info['samples']:,} of /proc{when}, {changes} of parameters"


def _rules(info: dict[str, Any]) -> str:
    from pagetape.tapes import kernel_rows

    row = info["kernel_row"]
    return (
        f"kernel row {kernel_rows.named(row)}"
        if row
        else "unknown: no row without the kernel's release"
    )


def _replayed(run: dict[str, Any]) -> str:
    from pagetape.tapes import kernel_rows

    whose = f"; of {name}" if (name := run.get("recording_name")) else ""
    return f"kernel {kernel_rows.named(run['kernel'])}, {', '.join(run['policies'])}{whose}"


def _stacks(found: dict[str, Any]) -> str:
    words = f"{found['recorded']:,}, {found['different']:,} different"
    words += f", of {' and '.join(found['of'])}" if found["of"] else ""
    if found["without_event"]:
        words += f", {found['without_event']:,} without their event"
    if found["frames_without_name"] == found["frames"] > 0:
        words += "; addresses only: no symbols were available"
    elif found["frames_without_name"]:
        words += f"; {found['frames_without_name']:,} of {found['frames']:,} frames without a name"
    return words


def _note(info: dict[str, Any]) -> str:
    how = {
        "recording": "the recording is still running",
        "killed": "the recorder was killed: the tape ends at that point",
        "stopped": "the recording is not decoded yet",
    }
    words = how.get(info["ended"], f"the recording ended early: {info['ended']}")
    if info["ended"] == "stopped" and info["cut_off"]:
        files = ", ".join(f"{name}.arrow" for name in info["cut_off"])
        words = f"cut off since the recording: {files}; the state at the end is of a later moment"
    if info["spool"]["waiting_bytes"] and info["ended"] != "recording":
        words += f"; pagetape import {info['tape']} -o NEW.tape decodes the rest of the spool"
    return words


def _machine(info: dict[str, Any]) -> str:
    parts = [info["host"] or "", info["facts"].get("arch") or ""]
    for key, one in (("cpus", "CPU"), ("nodes", "node")):
        if info[key]:
            parts.append(answer.amount(info[key], one))
    return ", ".join(part for part in parts if part) or "unknown"


def _lost(info: dict[str, Any]) -> str:
    by_cpu = info["lost_by_cpu"]
    total = "unknown" if info["lost"] is None else answer.amount(info["lost"], "event")
    if not by_cpu:
        return total
    return f"{total} ({', '.join(f'CPU {c}: {answer.cell(n)}' for c, n in by_cpu.items())})"


def _directory(found: dict[str, Any]) -> str:
    """A directory of tapes in words, with a line for each tape, removed ones too."""
    rows = [(row["tape"], row["state"], answer.size(row["bytes"])) for row in found["tapes"]]
    rows += [
        (row["tape"], f"removed {row['at']}", answer.size(row["bytes"])) for row in found["removed"]
    ]
    gone = sum(row["bytes"] for row in found["removed"])
    lines = [
        ("directory", found["directory"]),
        ("finished", f"{answer.size(found['finished_bytes'])}, what --keep limits"),
        (
            "others",
            f"{answer.size(found['other_bytes'])}, being recorded, unfinished, half written or"
            " unreadable",
        ),
        (
            "removed",
            f"{answer.amount(len(found['removed']), 'tape')}, {answer.size(gone)}, by --keep",
        ),
    ]
    text = "\n".join(f"{name:<11}{answer.visible(value)}" for name, value in lines)
    return f"{text}\n\n{answer.table(('tape', 'state', 'size'), sorted(rows))}"


def _about(path: Path) -> dict[str, Any]:
    from pagetape.replaying import hindsight
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import series
    from pagetape.tapes.info import describe

    if series.is_directory_of_tapes(path):
        return series.describe(path)
    source = Tape(path)
    info = describe(source) | {"hindsight": hindsight.built(source)}
    return info | {"snapshot": "inferred"} if info["hindsight"] else info


def _archive(url: str) -> dict[str, Any]:
    """What an archive has, as its index knows it."""
    with archive_report.opened(url, archive_report.Choice()) as fleet:
        unlisted = fleet.index.unlisted()
        with fleet.database(["tape"]) as db:
            kernels = db.ask(_KERNELS).objects()
        days = [one.date for one in fleet.index.manifests if one.tapes]
        return {
            "archive": url,
            **fleet.totals,
            "days": days,
            "kernels": kernels,
            "not_indexed": unlisted and unlisted[0],
            "not_archived": unlisted and unlisted[1],
            "notes": fleet.missing(),
        }


_KERNELS = """
    SELECT
        kernel,
        count(DISTINCT machine) AS hosts,
        count(*) AS tapes,
        round(sum(hours), 3) AS hours
    FROM fleet_tape
    WHERE problem IS NULL AND NOT replayed
    GROUP BY kernel
    ORDER BY kernel
"""


def _archive_text(found: dict[str, Any]) -> str:
    days = found["days"]
    nr = answer.amount(len(days), "day")
    span = f"{days[0]} to {days[-1]}, {nr} with tapes" if days else "none"
    lost = "unknown" if found["lost"] is None else answer.amount(found["lost"], "event")
    more = [f"{found[name]:,} {name}" for name in ("replays", "unreadable") if found[name]]
    lines = [
        ("archive", found["archive"]),
        ("tapes", ", ".join([f"{found['tapes']:,}, {answer.size(found['bytes'])}", *more])),
        ("hosts", f"{found['hosts']:,}, {found['hours']:,.3f} host-hours"),
        ("days", span),
        ("lost", lost),
        *(("note", note) for note in found["notes"]),
    ]
    text = "\n".join(f"{name:<11}{answer.visible(value)}" for name, value in lines)
    heads = ("kernel", "hosts", "tapes", "hours")
    rows = [[kernel[name] for name in heads] for kernel in found["kernels"]]
    return f"{text}\n\n{answer.table(heads, rows)}" if rows else text


def _shown(found: dict[str, Any]) -> str:
    if "archive" in found:
        return _archive_text(found)
    return _directory(found) if "directory" in found else _text(found)


@click.command("info")
@options.sources
@options.json
def command(tapes: tuple[Path | options.Archive, ...], as_json: bool) -> None:
    """Show what tapes hold: events, loss by CPU, machine, snapshots.

    Of a directory that `record --rotate` or `record --ring` fills, it lists the tapes, with their
    states and sizes, and the tapes that --keep removed. The JSON keys are directory, tapes (tape,
    state, bytes), finished_bytes, other_bytes and removed (at, tape, bytes, finished_bytes before,
    keep_bytes).

    Of an archive, it shows what the index knows: tapes, hosts, hours, bytes, lost, days, kernels,
    and how many tapes are not in the index yet (not_indexed; null if that was not counted).

    The JSON object of one tape has the keys below. Of several tapes, it has one key, `tapes`: the
    list of their objects, in the given order.

    `lost` is null (unknown) if the kernel did not count the lost events.
    `events` counts every tracepoint of the recording, `stored` the events in the tables.
    `bytes_per_event` is the size of the tape, snapshots included, divided by `stored`.
    `finished` is false during a recording, and if the recorder could not finish the tape.
    `ended` is "stopped" for a regular end, otherwise "recording", "killed", "disk full", "spool
    full", "failed", or a kind of the table `disturbance`. `spool.waiting_bytes` is the number of
    bytes left for `pagetape import`. `spool.peak_bytes` is the maximum size of the spool, summed
    over the CPUs. `spool.full_s` is the time during which the spool was full, in seconds.

    `kernel_row` is the row that played the tape, or the row of its release, which a replay uses
    unless the recording contradicts it. `kernel_warnings` has a line if nobody read the source of
    that release. `pagetape kernels` lists the rows. `recording_id` is a hash of the recording's
    first events: copies and replays of one recording have the same.

    The other JSON keys: tape, kernel, kernel_releases, host, cpus, nodes, duration_s, lost_by_cpu,
    complete (every table was closed), cut_off (tables whose file has no end), snapshot (that at
    the start: "exact", "proc" or "none"; "inferred" if a replay built it from /proc and later
    events), hindsight (what of that start events prove; null if it was not built),
    snapshots, snapshot_zones and snapshot_checks (rows of the snapshot tables), stacks, stamps
    (rows of that table; null if none were recorded), absent (lines about what an imported
    recording leaves out), disturbances (rows of that table), samples, samples_s (first and last
    sample in seconds after the first event; they go on after the last one, while the recorder
    reads its rings), private, bytes, tables (rows of each) and
    facts (all known facts of the machine).

    \b
    Example:
      pagetape info base.tape --json | jq .events
      pagetape info tapes
    """
    url = options.archive_of(tapes)
    found = [_archive(url)] if url else [_about(Path(path)) for path in tapes]
    if as_json:
        answer.emit(found[0] if len(found) == 1 else {"tapes": found})
    else:
        answer.say("\n\n".join(map(_shown, found)))
