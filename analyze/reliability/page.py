# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reliability.md: a section per command of reliability.py."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pagetape import answer

Result = dict[str, Any]

_HEAD = """# Reliability

What does pagetape survive? `make reliability` tries faults on the local machine and writes this
page. Each section names its command and the day it ran. A result that misses its aim is **bold**.

Machine: {machine}.
"""


@dataclass(frozen=True)
class Section:
    """One section: its command prints the JSON object that `text` turns into Markdown."""

    name: str
    title: str
    prose: str
    command: Sequence[str]
    text: Callable[[Result], str]


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


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The figures of a result, with the names of the objects around them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _flat(inner, f"{name} {number}".strip())
    else:
        yield name.replace("_", " "), value


def _figures(result: Result) -> str:
    return grid(("figure", "value"), list(_flat(result)))


def _killed(result: Result) -> str:
    rows = []
    for moment in dict.fromkeys(kill["moment"] for kill in result["each"]):
        each = [kill for kill in result["each"] if kill["moment"] == moment]
        times = [kill["tracing_s"] for kill in each]
        slowest = None if None in times else max(times)
        readable = sum(kill["readable"] for kill in each)
        rows.append(
            [
                f"while it {moment}",
                len(each),
                sum(kill["tape"] for kill in each),
                str(readable) if readable == len(each) else f"**{readable}**",
                sum(kill["events"] > 0 for kill in each),
                "**never**" if slowest is None else slowest,
            ]
        )
    columns = ("killed", "recorders", "tapes", "readable or none", "with events")
    return (
        f"{result['good']} of {result['kills']} as they should be.\n\n"
        f"{grid((*columns, 'tracing on after the kill, s, at most'), rows)}"
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
            None if target["seconds"] is None else target["seconds"] / 60,
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
        "Page faults on all CPUs at full rate, recorded on the disk. Aim: 0 events lost.",
        ("collector/bench/soak_bench.py", "--seconds", "60", "--json"),
        _figures,
    ),
    Section(
        "pauses",
        "Pauses of the snapshot",
        "How long an exact snapshot holds a zone's lock and each CPU. Aim: 99.9 % of them at most"
        " 0.2 ms. The empty section holds the CPUs in the same way and does no work.",
        ("collector/bench/snapshot_bench.py", "--json"),
        _figures,
    ),
    Section(
        "kills",
        "Recorders killed with SIGKILL",
        "At random moments while they start, record or end, under a page-fault storm. Aim: each"
        " tape is readable, and tracing ends within a second.",
        ("analyze/reliability/kills.py", "--json"),
        _killed,
    ),
    Section(
        "mutated",
        "Damaged inputs",
        "A seed decides the input, its damage and one command that reads it. An input is a tape"
        " without compression, a spool with its tape, a trace.dat, copies of /proc files, or a good"
        " tape with hostile options. Damage: bits, words at the limits of their types, values of"
        " columns, nulls, dictionaries, columns, types, rows, files swapped, and FIFOs, devices,"
        " links, huge files or compressed zeros in place of a file. Each command has 20 s and"
        " 2 GiB. It answers, or refuses the input with one line on stderr. Everything else is a"
        " failure: a signal, a hang, more memory, a traceback, broken JSON, raw control characters,"
        " a changed input, a piece of an output.",
        ("analyze/reliability/mutate.py", "--json"),
        _mutated,
    ),
    Section(
        "fuzz",
        "Fuzz targets",
        "libFuzzer under the address and undefined-behaviour sanitizers. Edges and features are"
        " libFuzzer's measures of coverage.",
        ("analyze/reliability/fuzz.py", "--json"),
        _fuzzed,
    ),
    Section(
        "faults",
        "Faults tried",
        "Each line is shown by tests, which this page ran.",
        ("analyze/reliability/faults.py", "--json"),
        _faults,
    ),
)


def markdown(results: dict[str, Result]) -> str:
    """The page; `results` has the result and the date of each section that was measured."""
    with_cpus = f"Linux {platform.release()}"
    parts = [_HEAD.format(machine=with_cpus)]
    for section in SECTIONS:
        found = results.get(section.name)
        command = " ".join(section.command)
        parts.append(f"## {section.title}\n\n{section.prose}\n")
        if found is None:
            parts.append(f"`{command}`: not measured.\n")
        else:
            parts.append(f"`{command}`, {found['date']}:\n\n{section.text(found['result'])}\n")
    return "\n".join(parts)
