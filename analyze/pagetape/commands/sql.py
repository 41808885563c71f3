# SPDX-License-Identifier: Apache-2.0
"""pagetape sql: DuckDB over one or more tapes."""

import contextlib
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, console, terminal
from pagetape.commands import archive_report, completion, options

if TYPE_CHECKING:
    import duckdb

    from pagetape.asking.database import Database
    from pagetape.indexing.question import Fleet


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
    metavar="T.tape...|URL ['SELECT ...']",
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
@archive_report.chosen
@options.memory
@options.wide
@options.json
def command(
    words: tuple[str, ...],
    csv: bool,
    unsafe: bool,
    choice: archive_report.Choice,
    wide: bool,
    as_json: bool,
) -> None:
    """Query one or more tapes, or an archive, with DuckDB.

    Every table of `pagetape schema` is a view with one more column, `tape`: the name of the
    row's tape. Further views and functions: `machine` has one row of facts per tape; `extfrag` has
    the fallbacks with their kind; gfp_names(gfp_flags) and context_names(flags) name the bits.
    Quote the column "at": it is a keyword. Without a query, the command reads statements from
    stdin, or shows a prompt on a terminal; `.help` there lists its commands, Tab completes names.

    URL is an archive: a directory, or a bucket. The views fleet_* (`pagetape schema fleet_tape`)
    have its index and aggregates. --where, --since and --until choose its tapes. They are fetched
    only if a statement reads other tables; the prompt has the views fleet_* only.

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
    paths = [word for word in words if _is_path(word)]
    statements = [word for word in words if not _is_path(word)]
    if not paths:
        raise click.UsageError("no tape given")
    if len(statements) > 1:
        raise TapeError(2, f"{statements[0]}: no such tape")
    sources = [options.source(path) for path in paths]
    url = options.archive_of(sources)
    if url is None:
        choice.refuse()
    tapes = [] if url else [Tape(Path(one)) for one in sources]
    prompt = not statements and sys.stdin.isatty()
    sql = statements[0] if statements else "" if prompt else sys.stdin.read()
    with ExitStack() as stack:
        if url is None:
            db = Database(tapes, unsafe=unsafe)
        else:
            fleet = stack.enter_context(archive_report.opened(url, choice))
            db = _of_archive(fleet, choice, sql, unsafe=unsafe)
        stack.enter_context(db)
        if prompt:
            sql_prompt.run(lambda sql: _print(db, sql, form._replace(as_json=False)), wide)
            return
        try:
            _print(db, sql, form)
        except duckdb.Error as e:
            raise click.ClickException(_whole(e)) from e


def _of_archive(
    fleet: "Fleet", choice: archive_report.Choice, sql: str, *, unsafe: bool
) -> "Database":
    """A database of what statements read of an archive; of no statement, of its whole index."""
    from pagetape.asking import archived
    from pagetape.indexing import question
    from pagetape.schemas.tape import Tape

    for line in fleet.missing():
        console.report(line)
    tapes = []
    if question.reads_tapes(sql):
        tapes = [Tape(path) for path in archive_report.fetched(fleet, choice)]
    tables = question.tables_of(sql) if sql else {*archived.tables()}
    return fleet.database(tables, tapes, unsafe=unsafe)


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
