# SPDX-License-Identifier: Apache-2.0
"""pagetape sql: DuckDB over one or more tapes."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, terminal
from pagetape.commands import completion, options

if TYPE_CHECKING:
    import duckdb

    from pagetape.asking.database import Database


class _Form(NamedTuple):
    """How results are printed; at most one of `as_json` and `csv`."""

    as_json: bool = False
    csv: bool = False
    wide: bool = False


def _print(db: "Database", sql: str, form: _Form) -> None:
    """Run all statements of `sql`, and print the result of each as soon as it is there.

    The JSON of several statements comes when the last one has run.
    """
    import duckdb

    results = []
    for number, statement in enumerate(duckdb.extract_statements(sql)):
        found = db.ask(statement.query)
        if not found.rows and found.columns in (["Success"], ["Count"]):  # it has no result
            found = answer.Answer([], [], [])
        if form.as_json:
            results.append({"columns": found.columns, "rows": found.objects()})
        elif found.columns:
            if number:
                answer.say("")
            if form.csv:
                answer.emit_csv(found)
            else:
                terminal.say(terminal.table(found.columns, found.rows, wide=form.wide), head=True)
    if form.as_json:
        empty: dict[str, Any] = {"columns": [], "rows": []}
        answer.emit({"results": results} if len(results) > 1 else next(iter(results), empty))


@click.command("sql")
@click.argument(
    "words",
    metavar="T.tape... ['SELECT ...']",
    nargs=-1,
    required=True,
    shell_complete=completion.tapes,
)
@click.option("--csv", is_flag=True, help="Print CSV.")
@click.option(
    "--unsafe",
    is_flag=True,
    help="Statements may read and write files, and load extensions of DuckDB.",
)
@options.memory
@options.wide
@options.json
def command(words: tuple[str, ...], csv: bool, unsafe: bool, wide: bool, as_json: bool) -> None:
    """Query one or more tapes with DuckDB.

    Every table of `pagetape schema` is a view with one more column, `tape`: the name of the
    row's tape. Further views and functions: `machine` has one row of facts per tape; `extfrag` has
    the fallbacks with their kind; gfp_names(gfp_flags) and context_names(flags) name the bits.
    Quote the column "at": it is a keyword. Without a query, the command reads statements from
    stdin, or shows a prompt on a terminal; `.help` there lists its commands, Tab completes names.

    Statements see the tapes and nothing else of this machine: without --unsafe, COPY, read_csv()
    and ATTACH end in an error.

    The result of each statement is printed; a semicolon separates statements, and an empty line
    their results. The JSON object of one statement has `columns` and `rows` (objects); of several
    statements, it has `results`, a list of such objects.

    \b
    Example:
      pagetape sql a.tape b.tape 'SELECT tape, kind, count(*) FROM event GROUP BY ALL'
    """
    import duckdb

    from pagetape.asking.database import Database
    from pagetape.commands import sql_prompt
    from pagetape.schemas.tape import Tape, TapeError

    if csv and as_json:
        raise click.UsageError("--json and --csv exclude each other")
    form = _Form(as_json, csv, wide)
    paths = [Path(word) for word in words if _is_path(word)]
    statements = [word for word in words if not _is_path(word)]
    if not paths:
        raise click.UsageError("no tape given")
    if len(statements) > 1:
        raise TapeError(2, f"{statements[0]}: no such tape")
    with Database([Tape(path) for path in paths], unsafe=unsafe) as db:
        if not statements and sys.stdin.isatty():
            sql_prompt.run(lambda sql: _print(db, sql, form._replace(as_json=False)), wide)
            return
        sql = statements[0] if statements else sys.stdin.read()
        try:
            _print(db, sql, form)
        except duckdb.Error as e:
            raise click.ClickException(_whole(e)) from e


def _whole(error: "duckdb.Error") -> str:
    """DuckDB's error for one line: with its suggestions and the statement, without the caret."""
    text = " ".join(line for line in str(error).splitlines() if line.strip(" ^"))
    locked = "by configuration" in text or "through configuration" in text
    return f"{text} (pagetape sql --unsafe allows it)" if locked else text


def _is_path(word: str) -> bool:
    """Whether the word is a path, not a statement: it exists, or it has no blank."""
    with contextlib.suppress(OSError):  # a long statement is not a valid file name
        if Path(word).exists():
            return True
    return not any(c.isspace() for c in word)
