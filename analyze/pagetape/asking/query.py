# SPDX-License-Identifier: Apache-2.0
"""Queries: .sql files with a header, which documents the query and declares its columns.

A header is the comment block at the head of the file:

    -- Title, one sentence.
    --
    -- Prose: the purpose of the report, and the column to read first.
    --
    -- Tapes: several
    -- Nodes: several
    -- Events: whole
    -- Rows: few
    -- Needs: event.alloc, free_block or block_guess
    -- Replay: A request counts although the recording served it elsewhere.
    -- Tier: A
    --
    -- Parameters:
    --   interval_ms  BIGINT 1..1000000 = 1000  Width of one row.
    --
    -- Columns:
    --   nr  BIGINT  Number of events.

The last line may name a view instead: `-- Columns: of fleet_event, without the tape`.

A query with the line `Tapes: several` compares tapes, and its first tape is the base. All other
queries take one tape. A query with `Nodes: several` compares the nodes of a machine; on a machine
with one node, the report prints a note. `Events: whole` marks a query that follows pages or locks
from event to event: it needs the events of all tasks and zones. `Rows: few` marks a view whose rows
a command with several queries finds once. `Tier` is the tier of the numbers
if the tape is a prediction: A is placement, B is modelled feedback, - is for queries about
recordings only. `Needs` lists the tables, or kinds of events, without which a tape gives no rows.
`Replay` is a note that the report prints if a tape is a replay.

A parameter that is a number has a range; both limits are allowed.

The answer has the columns of the header, in their order and of their types: parse() puts this
selection around the statement of the file. The statement may so end with `SELECT *`, and have
further columns, which it sorts by.

    queries/<group>/<name>.sql  the report <group>.<name>
    queries/views/              views for all queries
    queries/macros/             macros for all queries: one statement each, without columns
    queries/internal/           queries that pagetape itself runs: no reports
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# Begins the names of rows that one pass over `event` finds (sequences).
SEQUENCE = "sequence_"

_HEAD = re.compile(r"(?:--.*\n)*")
_SECTION = re.compile(r"(Parameters|Columns):")
_SEVERAL = "Tapes: several"
_NODES = "Nodes: several"
_WHOLE = "Events: whole"
_FEW = "Rows: few"
_TIER = re.compile(r"Tier: ([AB-])")
_NEEDS = re.compile(r"Needs: (.+)")
_REPLAY = re.compile(r"Replay: (.+)")
_PARAMETER = re.compile(
    r"(?P<name>\w+) +(?P<type>[A-Z]+(?:\[\])?)(?: (?P<least>\d+)\.\.(?P<most>\d+))?"
    r"(?: = (?P<default>\S+))?  +(?P<doc>.+)"
)
_COLUMNS_OF = re.compile(r"Columns: of (\w+), without the tape")
_ALL_COLUMNS = re.compile(r"(?<!\()\*(,| EXCLUDE| REPLACE| FROM|$)", re.MULTILINE)
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
    """The value of a parameter is not allowed; the message lists the allowed values."""


class HeaderError(ValueError):
    """The header of a .sql file breaks the format: a bug of pagetape."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query; the default None means that the query chooses the value."""

    name: str
    type: str
    default: Any
    doc: str
    least: int | None = None
    most: int | None = None  # None: the parameter is not a number of the user's

    @property
    def convert(self) -> Callable[[str], Any]:
        """The function that converts text to a value."""
        return _PYTHON[self.type]

    def check(self, value: Any) -> None:
        """Raise ParameterError if the value is out of the range."""
        if value is None or self.least is None or self.most is None:
            return
        if not self.least <= value <= self.most:  # NaN is not, either
            name = self.name.replace("_", " ")
            raise ParameterError(f"{name} {value} is not in {self.least} to {self.most}")


@dataclass(frozen=True)
class Column:
    """A column of the answer: its name, DuckDB type and documentation."""

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
    whole: bool  # needs the events of all tasks and zones
    few: bool  # a view with so few rows that they can be held
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    sql: str
    needs: tuple[tuple[str, ...], ...] = ()  # of each, one: a table, or table.kind
    replay: str = ""  # how to read the answer about a replay


def _entries(pattern: re.Pattern[str], lines: Sequence[str]) -> list[re.Match[str]]:
    """One match per entry; a line with deeper indentation continues the previous line."""
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


def _selected(columns: Sequence[Column], statement: str) -> str:
    """The statement with the declared columns and types; that of a macro as it is."""
    if not columns:
        return statement
    listed = [
        f'"{c.name}"' if c.type == "STRUCT" else f'"{c.name}"::{c.type} AS "{c.name}"'
        for c in columns
    ]
    return f"SELECT {', '.join(listed)} FROM (\n{statement}\n)"


def parse(name: str, text: str) -> Query:
    """Parse the query in `text`; raises HeaderError if the header breaks the format."""
    head = _HEAD.match(text)
    assert head is not None
    comment = [line[3:] for line in head[0].splitlines()]
    if len(comment) < 3 or not comment[0].endswith(".") or comment[1]:
        raise HeaderError(f"{name}: the header must begin with a sentence and an empty line")
    prose: list[str] = []
    sections: dict[str, list[str]] = {"Parameters": [], "Columns": []}
    tier, needs, replay, here = "", "", "", prose
    columns: tuple[Column, ...] = ()
    for line in comment[2:]:
        if match := _SECTION.fullmatch(line):
            here = sections[match[1]]
        elif match := _TIER.fullmatch(line):
            tier = match[1]
        elif match := _NEEDS.fullmatch(line):
            needs = match[1]
        elif match := _REPLAY.fullmatch(line):
            replay = match[1]
        elif match := _COLUMNS_OF.fullmatch(line):
            (view,) = (view for view in views() if view.name == match[1])
            columns = tuple(column for column in view.columns if column.name != "tape")
        elif line or here is prose:
            here.append(line)
    try:
        parameters = tuple(
            Parameter(
                m["name"],
                m["type"],
                None if m["default"] is None else _PYTHON[m["type"]](m["default"]),
                m["doc"],
                None if m["least"] is None else int(m["least"]),
                None if m["most"] is None else int(m["most"]),
            )
            for m in _entries(_PARAMETER, sections["Parameters"])
        )
        columns += tuple(Column(**m.groupdict()) for m in _entries(_COLUMN, sections["Columns"]))
    except HeaderError as e:
        raise HeaderError(f"{name}: {e}") from e
    body = _selected(columns, text[head.end() :].strip())
    marks = (_SEVERAL, _NODES, _WHOLE, _FEW)
    several, nodes, whole, few = (mark in comment for mark in marks)
    text = "\n".join(line for line in prose if line not in marks).strip()
    needed = tuple(tuple(each.split(" or ")) for each in needs.split(", ") if each)
    about = (name, comment[0], text, tier, several, nodes, whole, few)
    return Query(*about, parameters, columns, body, needed, replay)


_QUERIES = Path(__file__).parents[1] / "queries"
_NO_REPORTS = ("views", "macros", "internal", "tests", "__pycache__")


def _tree(directory: Path, prefix: str = "") -> dict[str, Path]:
    """The files of queries, by name."""
    found: dict[str, Path] = {}
    for entry in sorted(directory.iterdir()):
        if entry.is_dir() and entry.name not in _NO_REPORTS:
            found |= _tree(entry, f"{prefix}{entry.name}.")
        elif entry.name.endswith(".sql"):
            found[prefix + entry.name.removesuffix(".sql")] = entry
    return found


class _Queries(Mapping[str, Query]):
    """The queries of a directory by name. Each is parsed when it is asked for: a report needs one
    of a hundred."""

    def __init__(self, directory: Path) -> None:
        self._files = _tree(directory)
        self._parsed: dict[str, Query] = {}

    def __getitem__(self, name: str) -> Query:
        if name not in self._parsed:
            self._parsed[name] = parse(name, self._files[name].read_text("utf-8"))
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@cache
def reports() -> Mapping[str, Query]:
    """Every report by name."""
    return _Queries(_QUERIES)


@cache
def views() -> tuple[Query, ...]:
    """The views that all queries can use."""
    return tuple(_Queries(_QUERIES / "views").values())


def words_of(statements: Iterable[str]) -> Counter[str]:
    """How often statements, and the views that they name, have each word, also each table."""
    found = Counter[str]()
    for named, _ in _with_views(statements):
        found += named
    return found


def parts(questions: Iterable[Query], about: str) -> Iterator[set[str]]:
    """The words of each part of queries, and of the views that they name, that names a table: a
    WITH, or the whole statement if that part has all columns."""
    for named, sql in _with_views(question.sql for question in questions):
        for part in sql.split("\n),"):
            if about in (its := set(re.findall(r"\w+", part))):
                yield {*named} if _ALL_COLUMNS.search(part) else its


def _with_views(statements: Iterable[str]) -> Iterator[tuple[Counter[str], str]]:
    """Statements, and the views that they name, each with how often it has each word."""
    texts = {view.name: view.sql for view in views()}
    ahead, seen = [*statements], set[str]()
    while ahead:
        sql = ahead.pop()
        named = Counter(re.findall(r"\w+", sql))
        yield named, sql
        ahead += [texts[name] for name in (named.keys() - seen) & texts.keys()]
        seen |= named.keys()


@cache
def macros() -> tuple[Query, ...]:
    """The macros that all queries can use; each `sql` is the statement that creates the macro."""
    return tuple(_Queries(_QUERIES / "macros").values())


@cache
def internal() -> Mapping[str, Query]:
    """The queries that pagetape itself runs, by name, or by folder.name."""
    return _Queries(_QUERIES / "internal")


FLEET = "fleet."  # begins the names of reports about an archive, and of queries of its aggregates


def of_index(name: str) -> bool:
    """Whether the aggregates of an archive answer a report, without its tapes."""
    return FLEET + name in internal()


def about_tapes() -> dict[str, Query]:
    """The reports about tapes, by name; the others are about an archive."""
    return {name: q for name, q in reports().items() if not name.startswith(FLEET)}
