# SPDX-License-Identifier: Apache-2.0
"""results.json: every measured figure, in tables.

A table has the day, the machine and the command that measured it, columns, and one row a line. Its
name begins with that of its measurement: `kills.moments`. A cell is null, a word or a number; a
list of two is a share in percent and of how many, one of three a median with its interval, and one
of four a recorded value before these three.
"""

import json
import os
import platform
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pagetape import answer
from pagetape.asking.phrase import between

RESULTS = Path(__file__).with_name("results.json")
DECLARED = tomllib.loads(Path(__file__).with_name("lab.toml").read_text("utf-8"))
AIMS: Mapping[str, Mapping[str, float | str]] = DECLARED["aims"]

Table = dict[str, Any]


def read(path: Path = RESULTS) -> dict[str, Table]:
    found: dict[str, Table] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(tables: Mapping[str, Table], path: Path = RESULTS) -> None:
    """Write all tables, with a line for each row."""
    parts = []
    for name, table in sorted(tables.items()):
        head = json.dumps({key: value for key, value in table.items() if key != "rows"})[:-1]
        rows = ",\n".join(f"  {json.dumps(row)}" for row in table["rows"])
        parts.append(f'"{name}": {head}, "rows": [\n{rows}]}}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table of objects, which may lack keys."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return {"columns": columns, "rows": [[row.get(key) for key in columns] for row in rows]}


def _figures(name: str, value: Any) -> Iterator[list[Any]]:
    """A figure, or those inside it, each with its whole name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _figures(f"{name} {key}", inner)
    else:
        yield [name, value]


def tables(result: Any) -> dict[str, Table]:
    """The tables of a program's result. Lists of objects are tables, all else are figures."""
    if _is_rows(result):
        return {"runs": _rows(result)}
    found: dict[str, Table] = {}
    figures: list[list[Any]] = []
    for name, value in result.items():
        if isinstance(value, dict) and value.keys() == {"columns", "rows"}:
            found[name] = value
        elif _is_rows(value):
            if value:
                found[name] = _rows(value)
        else:
            figures += _figures(name, value)
    if figures:
        found["figures"] = {"columns": ["figure", "value"], "rows": figures}
    return found


def stamped(result: Any, measurement: str, command: str) -> dict[str, Table]:
    """The tables of a result by their names in results.json, with day, machine and command."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    machine = f"Linux {platform.release()}, {os.cpu_count()} CPUs, {answer.size(memory)}"
    facts = {"date": time.strftime("%Y-%m-%d"), "machine": machine, "command": command}
    return {f"{measurement}.{name}": facts | table for name, table in tables(result).items()}


def _cell(value: Any) -> str:
    match value:
        case [float() | None as share, int() as of]:
            percent = "-" if share is None else f"{share:.3f}".rstrip("0").rstrip(".") + " %"
            return f"{percent} of {of:,}"
        case [recorded, median, low, high]:
            return f"{_cell(recorded)}; {between(median, low, high)}"
        case [median, low, high]:
            return between(median, low, high)
        case [*values]:
            return (" to " if len(values) == 2 else ", ").join(map(_cell, values))
        case bool() | None:
            return answer.cell(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"
    return str(value).replace("|", "\\|")


def _misses(value: Any, aim: float | str) -> bool:
    if isinstance(aim, str):  # "empty"
        return bool(value)
    return value is None or (isinstance(value, int | float) and value > aim)


def _lines(name: str, table: Table) -> Iterator[str]:
    aims = AIMS.get(name, {})
    for row in table["rows"]:
        cells = []
        for column, value in zip(table["columns"], row, strict=True):
            keys = (f"{row[1]} {column}", column, str(row[0])) if cells else (column,)
            aim = next((aims[key] for key in keys if key in aims), None)
            text = _cell(value)
            cells.append(f"**{text}**" if aim is not None and _misses(value, aim) else text)
        yield "| " + " | ".join(cells) + " |"


def markdown(name: str, table: Table) -> str:
    """A table as Markdown; what misses an aim of lab.toml is bold."""
    head = [table["columns"], ["---"] * len(table["columns"])]
    lines = ["| " + " | ".join(line) + " |" for line in head]
    return "\n".join([*lines, *_lines(name, table)])
