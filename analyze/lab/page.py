# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reliability.md: a section per command of reliability.py."""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pagetape import answer

Result = dict[str, Any]

_HEAD = """# Reliability

What does pagetape survive? `make reliability` tries faults on the local machine and writes this
page. Each section names its command and the day it ran. A result that misses its aim is **bold**.

Machine: {machine}.
"""


_WIDTH = 160

RESIDENT_MB = 400  # aims
PAUSE_MS = 0.2


@dataclass(frozen=True)
class Section:
    """One section: its command prints the JSON object that `text` turns into Markdown."""

    name: str
    title: str
    prose: str
    command: Sequence[str]
    text: Callable[[Any], str]


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, bool | float) or value is None:
        return answer.cell(value)
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def _count(nr: int, aim: int = 0) -> str:
    return f"**{nr:,}**" if nr > aim else f"{nr:,}"


def _at_most(value: float, aim: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return f"**{text}**" if value > aim else text


def _stormed(result: Result) -> str:
    lost = "**unknown**" if result["lost"] is None else _count(result["lost"])
    rows = [
        ["length of the storm, s", result["seconds"]],
        ["events recorded", result["events"]],
        ["events per second", round(result["events_per_s"])],
        ["events lost", lost],
        ["memory of the recorder, most, MiB", _at_most(result["rss_mb_max"], RESIDENT_MB, 0)],
        ["spool on the disk, most, MiB", round(result["spool_mb_max"])],
        ["end of the recorder after that of the storm, s", round(result["after_s"], 1)],
        ["CPUs that the recorder used", round(result["recorder_cpus"], 2)],
    ]
    return grid(("figure", "value"), rows)


def _spooled(result: list[Result]) -> str:
    rows = [
        [
            run["cpus"],
            round(run["events_per_s"]),
            round(run["mb_per_s"]),
            round(run["disk_mb_per_s"]),
            _count(run["late"]),
            f"{run['longest_wait_ms']:.1f}",
            f"{run['memory_peak_mb']:.0f} of {run['memory_mb']:.0f}",
            round(run["decoded_per_s"]),
        ]
        for run in result
    ]
    columns = ("CPUs", "events/s", "MB/s", "disk alone, MB/s", "sub-buffers late")
    waits = ("longest wait, ms", "memory, MB", "events/s of one decoder")
    return grid((*columns, *waits), rows)


_HOLDS = {
    "locks": "a zone's lock",
    "holds": "a CPU",
    "holds_less_stolen": "a CPU, less stolen time",
    "control": "a CPU, empty section",
    "control_less_stolen": "a CPU, empty section, less stolen time",
}


def _paused(result: Result) -> str:
    rows = [
        [
            words,
            result[name]["nr"],
            _at_most(result[name]["p999_ms"], PAUSE_MS, 3),
            f"{result[name]['longest_ms']:.3f}",
        ]
        for name, words in _HOLDS.items()
        if result[name]["nr"]
    ]
    runs = result["snapshots"]
    exact = f"{result['exact']} of {len(runs)}"
    text = (
        f"{exact if result['exact'] == len(runs) else f'**{exact}**'} snapshots are exact."
        f" {result['checks']:,} numbers were compared, {_count(result['mismatches'])} differ. The"
        f" longest lists had {max(run['free_blocks'] for run in runs):,} free blocks."
        f"\n\n{grid(('held', 'times', '99.9 % at most, ms', 'longest, ms'), rows)}"
    )
    if sim := result.get("simulated"):
        text += (
            f"\n\nSimulated, {sim['gib']:,} GiB, {sim['nodes']} nodes, {sim['cpus']} CPUs,"
            f" {sim['free_blocks']:,} free blocks: {sim['exact']} of {sim['snapshots']} exact;"
            f" 99.9 % of the locks at most {_at_most(sim['lock_p999_ms'], PAUSE_MS, 3)} ms and of"
            f" the CPUs {_at_most(sim['hold_p999_ms'], PAUSE_MS, 3)} ms, the longest"
            f" {sim['longest_hold_ms']:.3f} ms."
        )
    return text


def _killed(result: Result) -> str:
    rows = []
    for moment in dict.fromkeys(kill["moment"] for kill in result["each"]):
        each = [kill for kill in result["each"] if kill["moment"] == moment]
        wrong = sorted({kill["wrong"] for kill in each if kill["wrong"]})
        slowest = {
            name: None if None in times else max(times)
            for name in ("tracing_s", "gone_s")
            for times in [[kill[name] for kill in each]]
        }
        rows.append(
            [
                f"while it {moment}",
                len(each),
                sum(kill["readable"] for kill in each),
                sum(kill["events"] > 0 for kill in each),
                "**on**" if slowest["tracing_s"] is None else slowest["tracing_s"],
                "**never**" if slowest["gone_s"] is None else slowest["gone_s"],
                f"**{', '.join(wrong)}**" if wrong else "nothing",
            ]
        )
    columns = ("killed", "recorders", "readable tapes", "with events", "tracing off after, s")
    return (
        f"{result['good']} of {result['kills']} are as they should be.\n\n"
        f"{grid((*columns, 'instance gone after, s', 'wrong'), rows)}"
    )


def _mutated(result: Result) -> str:
    columns = ("tried", "answered", "refused", "failed")

    def rows(of: str) -> list[list[object]]:
        return [
            [one["name"], *(one[name] for name in columns[:-1]), _count(one["failed"])]
            for one in result[of]
        ]

    failed = sum(result["failed"].values())
    kinds = ", ".join(f"{nr:,} {name}" for name, nr in sorted(result["failed"].items()))
    return (
        f"{result['inputs']:,} inputs, {_count(failed)} with a wrong result"
        f"{f' ({kinds})' if kinds else ''}. The slowest command took"
        f" {result['slowest_s']:.1f} s. The largest had {result['largest_bytes'] >> 20:,} MiB"
        " resident.\n\n"
        f"{grid(('input', *columns), rows('kinds'))}\n\n"
        f"{grid(('command', *columns), rows('commands'))}"
    )


def _fuzzed(result: Result) -> str:
    rows = [
        [
            target["target"],
            target["executions"],
            target["cpu_seconds"] / 60,
            target["edges"],
            target["features"],
            f"**{target['finding']}**" if target["finding"] else "none",
        ]
        for target in result["targets"]
    ]
    columns = ("target", "executions", "CPU minutes", "edges covered", "features", "findings")
    return grid(columns, rows)


def _faults(result: Result) -> str:
    rows = [
        [
            fault["fault"],
            fault["answer"],
            f"{fault['passed']} of {fault['tests']}"
            if fault["passed"] == fault["tests"]
            else f"**{fault['passed']} of {fault['tests']}**",
        ]
        for fault in result["faults"]
    ]
    return grid(("fault", "what happens", "tests passed"), rows)


SECTIONS = (
    Section(
        "storm",
        "A storm of events",
        "Page faults on all CPUs at full rate, recorded on the disk. Aim: no event is lost, with at"
        f" most {RESIDENT_MB} MiB of memory.",
        ("collector/bench/soak_bench.py", "--seconds", "60", "--json"),
        _stormed,
    ),
    Section(
        "spools",
        "Spools of many CPUs",
        "Simulated CPUs fill spools with 3 million events/s through the code of a recording,"
        " without a kernel. Aim: no sub-buffer is late, so that no ring would lose events.",
        ("collector/bench/spool_bench.py", "--json"),
        _spooled,
    ),
    Section(
        "pauses",
        "Pauses of the snapshot",
        "How long an exact snapshot of a busy machine holds a zone's lock and each CPU. Aim: 99.9 %"
        f" of the holds take at most {PAUSE_MS} ms. A hypervisor may take a CPU away during a hold:"
        " figures without that time follow, and those of an empty section, which holds the CPUs in"
        " the same way and does no work.",
        ("collector/bench/snapshot_bench.py", "--sim", "1024", "--json"),
        _paused,
    ),
    Section(
        "kills",
        "Recorders killed with SIGKILL",
        "At random moments while they start, record, rotate or end, under a page-fault storm. Half"
        " of the kills hit the whole process group. Aim: each tape is readable, and tracing is off"
        " within a second.",
        ("analyze/lab/kills.py", "--json"),
        _killed,
    ),
    Section(
        "mutated",
        "Damaged inputs",
        "A seed decides the input, its damage and one command that reads it. An input is a tape"
        " without compression, a spool with its tape, a trace.dat, copies of /proc files, or a good"
        " tape with hostile options. Damage: bits, words at the limits of their types, values of"
        " columns, nulls, dictionaries, columns, types, rows, files swapped, and FIFOs, devices,"
        " links, huge files or compressed zeros in place of a file. Each command has 20 s"
        " (more on a busy machine) and 2 GiB. It answers, or refuses the input with one line on"
        " stderr. Everything else is a failure: a signal, a hang, more memory, a traceback, broken"
        " JSON, raw control characters, a changed input, a piece of an output.",
        ("analyze/lab/mutate.py", "--json"),
        _mutated,
    ),
    Section(
        "fuzz",
        "Fuzz targets",
        "libFuzzer under the address and undefined-behaviour sanitizers. Edges and features are"
        " libFuzzer's measures of coverage.",
        ("analyze/lab/fuzz.py", "--json"),
        _fuzzed,
    ),
    Section(
        "faults",
        "Faults tried",
        "Each line is shown by tests, which this page ran.",
        ("analyze/lab/faults.py", "--json"),
        _faults,
    ),
)


def markdown(results: dict[str, Result]) -> str:
    """The page; `results` has the result and the date of each section that was measured."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    machine = f"Linux {platform.release()}, {os.cpu_count()} CPUs, {answer.size(memory)}"
    parts = [_HEAD.format(machine=machine)]
    for section in SECTIONS:
        found = results.get(section.name)
        command = " ".join(section.command)
        parts.append(f"## {section.title}\n\n{textwrap.fill(section.prose, _WIDTH)}\n")
        if found is None:
            parts.append(f"`{command}`: not measured.\n")
        else:
            parts.append(f"`{command}`, {found['date']}:\n\n{section.text(found['result'])}\n")
    return "\n".join(parts)
