# SPDX-License-Identifier: Apache-2.0
"""pagetape sql: DuckDB over one or more tapes."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from pathlib import Path

import click
import duckdb

from pagetape import answer, terminal
from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.commands import completion, options
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError


def _print(db: Database, sql: str, as_json: bool, wide: bool) -> None:
    found = db.ask(sql)
    if as_json:
        answer.emit({"columns": found.columns, "rows": found.objects()})
    elif found.columns:
        terminal.say(terminal.table(found.columns, found.rows, wide=wide), head=True)


def _prompt(db: Database, wide: bool) -> None:
    """Run statements from the terminal until Ctrl-D; a semicolon ends each statement."""
    with contextlib.suppress(ImportError):
        import_module("readline")  # gives input() line editing
    views = ", ".join([*TABLES, "machine", *(view.name for view in query.views())])
    answer.say(f"Tables: {views}. Columns: DESCRIBE event;  Exit: Ctrl-D", err=True)
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
        statement = f"{statement}\n{line}".strip()
        if not statement.endswith(";"):
            continue
        try:
            _print(db, statement, False, wide)
        except (duckdb.Error, TapeError) as e:
            answer.say(str(e), err=True)
        except KeyboardInterrupt:
            answer.say("interrupted", err=True)
        statement = ""


@click.command("sql")
@click.argument(
    "words",
    metavar="T.tape... ['SELECT ...']",
    nargs=-1,
    required=True,
    shell_complete=completion.tapes,
)
@options.wide
@options.json
def command(words: tuple[str, ...], wide: bool, as_json: bool) -> None:
    """Query one or more tapes with DuckDB.

    Every table of `pagetape schema` is a view with one more column, `tape`: the name of the
    row's tape. Further views and functions: `machine` has one row of facts per tape; `extfrag` has
    the fallbacks with their kind; gfp_names(gfp_flags) and context_names(flags) name the bits.
    Quote the column "at": it is a keyword. Without a query, the command reads statements from
    stdin, or shows a prompt on a terminal.

    \b
    Example:
      pagetape sql a.tape b.tape 'SELECT tape, kind, count(*) FROM event GROUP BY ALL'
    """
    paths = [Path(word) for word in words if _is_path(word)]
    statements = [word for word in words if not _is_path(word)]
    if not paths:
        raise click.UsageError("no tape given")
    if len(statements) > 1:
        raise TapeError(2, f"{statements[0]}: no such tape")
    with Database([Tape(path) for path in paths]) as db:
        if not statements and sys.stdin.isatty():
            _prompt(db, wide)
            return
        sql = statements[0] if statements else sys.stdin.read()
        try:
            _print(db, sql, as_json, wide)
        except duckdb.Error as e:
            raise click.ClickException(_whole(e)) from e


def _whole(error: duckdb.Error) -> str:
    """DuckDB's error for one line: with its suggestions and the statement, without the caret."""
    return " ".join(line for line in str(error).splitlines() if line.strip(" ^"))


def _is_path(word: str) -> bool:
    """Whether the word is a path, not a statement: it exists, or it has no blank."""
    with contextlib.suppress(OSError):  # a long statement is not a valid file name
        if Path(word).exists():
            return True
    return not any(c.isspace() for c in word)
