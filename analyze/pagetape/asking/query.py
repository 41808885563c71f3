# SPDX-License-Identifier: Apache-2.0
"""Queries: .sql files whose header is their documentation and their contract.

A header is the comment block at the head of the file:

    -- Title, one sentence.
    --
    -- Prose: what the report is for, which column to read first.
    --
    -- Tapes: several
    --
    -- Nodes: several
    --
    -- Tier: A
    --
    -- Parameters:
    --   interval_ms  BIGINT = 1000  Width of one row.
    --
    -- Columns:
    --   nr  BIGINT  How many.

A query with the line `Tapes: several` compares tapes, the first being the base; the others
take one tape. A query with `Nodes: several` compares the nodes of a machine, and says so on a
machine of one node. `Tier` is the tier of the numbers when the tape is a prediction: A is
placement, B needs modelled feedback, - is for queries about recordings only.

    queries/<group>/<name>.sql  the report <group>.<name>
    queries/views/              views for all queries
    queries/macros/             macros for all queries: one statement each, without columns
    queries/internal/           queries that pagetape itself needs: no reports
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

_SECTION = re.compile(r"(Parameters|Columns):")
_SEVERAL = "Tapes: several"
_NODES = "Nodes: several"
_TIER = re.compile(r"Tier: ([AB-])")
_PARAMETER = re.compile(
    r"(?P<name>\w+) +(?P<type>[A-Z]+(?:\[\])?)(?: = (?P<default>\S+))?  +(?P<doc>.+)"
)
_COLUMN = re.compile(r"(?P<name>\w+) +(?P<type>[A-Z]+(?:\[\])?)  +(?P<doc>.+)")

_PYTHON: dict[str, Callable[[str], Any]] = {
    "BIGINT": int,
    "INTEGER": int,
    "UTINYINT": int,
    "DOUBLE": float,
    "VARCHAR": str,
}


# The start of a query's error() about a parameter with a bad value.
REFUSAL = "Invalid Input Error: bad parameter: "


class ParameterError(ValueError):
    """The query does not take this value; the message lists the values it takes."""


class HeaderError(ValueError):
    """The header of a .sql file breaks the format: a bug of pagetape."""


@dataclass(frozen=True)
class Parameter:
    """A value that the user may choose; the default None stands for no choice."""

    name: str
    type: str
    default: Any
    doc: str

    @property
    def convert(self) -> Callable[[str], Any]:
        """The function that makes a value from text."""
        return _PYTHON[self.type]


@dataclass(frozen=True)
class Column:
    """A column of the answer."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True)
class Query:
    """One .sql file."""

    name: str
    title: str
    doc: str
    tier: str  # "A", "B", "-", or "" for a view
    several: bool  # compares tapes
    nodes: bool  # compares the nodes of a machine
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    sql: str


def _entries(pattern: re.Pattern[str], lines: Sequence[str]) -> list[re.Match[str]]:
    """One match per entry; a line indented deeper continues the one before."""
    texts: list[str] = []
    for line in lines:
        if line.startswith("   ") and texts:
            texts[-1] += " " + line.strip()
        else:
            texts.append(line.strip())
    matches = [pattern.fullmatch(text) for text in texts]
    bad = [text for text, match in zip(texts, matches, strict=True) if match is None]
    if bad:
        raise HeaderError(f"cannot read '{bad[0]}'")
    return [match for match in matches if match is not None]


def parse(name: str, text: str) -> Query:
    """The query in `text`; HeaderError if its header is not in the format."""
    lines = text.splitlines()
    comment = [line[3:] for line in lines[: next(i for i, x in enumerate(lines) if x[:2] != "--")]]
    if len(comment) < 3 or not comment[0].endswith(".") or comment[1]:
        raise HeaderError(f"{name}: a header begins with a sentence and an empty line")
    prose: list[str] = []
    sections: dict[str, list[str]] = {"Parameters": [], "Columns": []}
    tier, here = "", prose
    for line in comment[2:]:
        if match := _SECTION.fullmatch(line):
            here = sections[match[1]]
        elif match := _TIER.fullmatch(line):
            tier = match[1]
        elif line or here is prose:
            here.append(line)
    try:
        parameters = tuple(
            Parameter(
                m["name"],
                m["type"],
                None if m["default"] is None else _PYTHON[m["type"]](m["default"]),
                m["doc"],
            )
            for m in _entries(_PARAMETER, sections["Parameters"])
        )
        columns = tuple(Column(**m.groupdict()) for m in _entries(_COLUMN, sections["Columns"]))
    except HeaderError as e:
        raise HeaderError(f"{name}: {e}") from e
    body = "\n".join(lines[len(comment) :]).strip()
    marks = (_SEVERAL, _NODES)
    several, nodes = (mark in comment for mark in marks)
    text = "\n".join(line for line in prose if line not in marks).strip()
    return Query(name, comment[0], text, tier, several, nodes, parameters, columns, body)


_NO_REPORTS = ("views", "macros", "internal", "tests", "__pycache__")


def _queries() -> Traversable:
    return files("pagetape").joinpath("queries")


def _tree(directory: Traversable, prefix: str) -> list[Query]:
    found: list[Query] = []
    for entry in sorted(directory.iterdir(), key=lambda e: e.name):
        if entry.is_dir() and entry.name not in _NO_REPORTS:
            found += _tree(entry, f"{prefix}{entry.name}.")
        elif entry.name.endswith(".sql"):
            name = prefix + entry.name.removesuffix(".sql")
            found.append(parse(name, entry.read_text("utf-8")))
    return found


@cache
def reports() -> dict[str, Query]:
    """Every report by name."""
    return {q.name: q for q in _tree(_queries(), "")}


@cache
def views() -> tuple[Query, ...]:
    """The views that all queries can use."""
    return tuple(_tree(_queries().joinpath("views"), ""))


@cache
def macros() -> tuple[Query, ...]:
    """The macros that all queries can use; each `sql` is the statement that makes one."""
    return tuple(_tree(_queries().joinpath("macros"), ""))


@cache
def internal() -> dict[str, Query]:
    """The queries that pagetape itself needs, by name; those in folders as folder.name."""
    return {q.name: q for q in _tree(_queries().joinpath("internal"), "")}
