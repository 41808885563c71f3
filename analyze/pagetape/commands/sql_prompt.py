# SPDX-License-Identifier: Apache-2.0
"""The prompt of `pagetape sql`: statements, dot commands, and completion of names."""

import contextlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

import duckdb
import pyarrow as pa

from pagetape import answer, did_you_mean, terminal
from pagetape.asking import query
from pagetape.asking.machine_rows import DISTANCE, MACHINE
from pagetape.schemas import TABLES
from pagetape.schemas.tape import TapeError

_HELP = (
    (".tables", "list the tables and views"),
    (".schema TABLE", "show the columns of a table or view"),
    (".help", "show this list"),
    ("SELECT ...;", "run a statement; a semicolon ends it, on this line or a later one"),
    ("Tab", "complete the name of a table, view or column"),
    ("Ctrl-C, Ctrl-D", "discard the statement; leave"),
)
_FACTS = {
    "machine": ("The facts of each tape's machine, one row per tape.", MACHINE),
    "node_distance": ("Distances between the nodes of each tape's machine.", DISTANCE),
}


def names() -> dict[str, str]:
    """Each table and view with its first sentence."""
    found = {table.name: table.doc.partition(". ")[0].rstrip(".") for table in TABLES.values()}
    found |= {view.name: view.title.rstrip(".") for view in query.views()}
    return found | {name: doc.rstrip(".") for name, (doc, _) in _FACTS.items()}


def _doc(field: "pa.Field[Any]") -> str:
    metadata: dict[bytes, bytes] = field.metadata or {}
    return metadata.get(b"doc", b"").decode()


def columns(name: str) -> list[tuple[str, str, str]]:
    """Name, type and meaning of the columns of a table or view; KeyError if there is none."""
    if name in _FACTS:
        return [(f.name, str(f.type), _doc(f)) for f in _FACTS[name][1]]
    if name in TABLES:
        first = ("tape", "VARCHAR", "Name of the tape.")
        return [first, *((c.name, c.type, c.doc) for c in TABLES[name].columns)]
    views = {view.name: view for view in query.views()}
    return [(c.name, c.type, c.doc) for c in views[name].columns]


def completions(word: str) -> list[str]:
    """The names that begin so, sorted; behind `TABLE.`, the columns of that table."""
    table, point, column = word.rpartition(".")
    if word.startswith("."):
        known = [name.split()[0] for name, _ in _HELP if name.startswith(".")]
        return sorted(name for name in known if name.startswith(word))
    if point:
        if table not in names():
            return []
        return sorted(f"{table}.{c[0]}" for c in columns(table) if c[0].startswith(column))
    every = {c[0] for name in names() for c in columns(name)}
    return sorted(name for name in {*names(), *every} if name.startswith(word))


def _complete(word: str, state: int) -> str | None:
    return next(iter(completions(word)[state:]), None)


def _readline() -> None:
    """Give input() line editing, a history of this session, and completion."""
    with contextlib.suppress(ImportError):
        readline = import_module("readline")
        readline.set_completer(_complete)
        readline.set_completer_delims(" \t\n\"'`,;()=<>+-*/%|&!")
        readline.parse_and_bind("tab: complete")


def _command(line: str, wide: bool) -> None:
    """Run a dot command."""
    word, _, rest = line.rstrip("; ").partition(" ")
    name = rest.strip()
    if word == ".help":
        answer.say(answer.table(("input", "effect"), _HELP))
    elif word == ".tables":
        terminal.say(terminal.table(("table", "meaning"), names().items(), wide=wide), head=True)
    elif word == ".schema" and name in names():
        heads = ("column", "type", "meaning")
        terminal.say(terminal.table(heads, columns(name), wide=wide), head=True)
    elif word == ".schema":
        near = did_you_mean.hint(name, names()) or "; .tables lists the tables"
        answer.say(f"no table named '{name}'{near}", err=True)
    else:
        known = [text.split()[0] for text, _ in _HELP if text.startswith(".")]
        near = did_you_mean.hint(word, known) or "; .help lists the commands"
        answer.say(f"no such command '{word}'{near}", err=True)


def run(execute: Callable[[str], None], wide: bool) -> None:
    """Read statements from the terminal until Ctrl-D, and pass each to `execute`."""
    _readline()
    answer.say("Tables: .tables  Columns: .schema event  Help: .help  Exit: Ctrl-D", err=True)
    statement = ""
    while True:
        try:
            line = input("... " if statement else "pagetape> ")
        except EOFError:
            answer.say("")
            return
        except KeyboardInterrupt:
            answer.say("")
            statement = ""
            continue
        if not statement and line.lstrip().startswith("."):
            _command(line.strip(), wide)
            continue
        statement = f"{statement}\n{line}".strip()
        if not statement.endswith(";"):
            continue
        try:
            execute(statement)
        except (duckdb.Error, TapeError) as e:
            answer.say(str(e), err=True)
        except KeyboardInterrupt:
            answer.say("interrupted", err=True)
        statement = ""
