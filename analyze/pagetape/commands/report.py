# SPDX-License-Identifier: Apache-2.0
"""pagetape report: one subcommand per query, built from the query's header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, did_you_mean, terminal
from pagetape.asking import query
from pagetape.commands import options
from pagetape.replaying import NOT_MODELLED

if TYPE_CHECKING:
    from pagetape.asking import filters
    from pagetape.asking.database import Database
    from pagetape.schemas.tape import Tape


class _Form(NamedTuple):
    """How a report is printed."""

    as_json: bool
    wide: bool
    csv: bool
    arrow: Path | None
    force: bool


def _run(
    q: query.Query,
    paths: Sequence[Path],
    form: _Form,
    values: dict[str, Any],
    wanted: filters.Filters,
) -> None:
    import duckdb

    from pagetape.asking import filters, needs
    from pagetape.asking.database import labels
    from pagetape.asking.keeping_database import KeepingDatabase
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import origin

    tapes = [Tape(path) for path in paths]
    origin.check_together(tapes)
    try:
        part = filters.part(q, tapes, values, wanted)
        how: dict[str, Any] = {"span": part.span, "only": part.only}
        with KeepingDatabase(tapes, [part.question], part.values, **how) as db:
            if form.arrow is not None:
                _write_arrow(db, part, form, [*paths])
            found = db.run(part.question, part.values)
    except query.ParameterError as e:
        raise click.UsageError(str(e)) from e
    except duckdb.Error as e:
        if wanted.where is None:
            raise
        columns = ", ".join(column.name for column in q.columns)
        why = str(e).splitlines()[0]
        raise click.UsageError(f"--where '{wanted.where}': {why} (columns: {columns})") from e
    note = _why_empty(q, tapes, part) if not found.rows else ""
    if _one_node(q, tapes):
        note = "this machine has one node: there is nothing to compare"
    limit = wanted.limit
    if limit is not None and limit < len(found.rows):
        part.said.append(f"{limit} of {answer.amount(len(found.rows), 'row')}")
        found = replace(found, rows=found.rows[:limit])
    empty = _of_each(tapes, partial(needs.empty, q)) if found.rows else []
    notes = [note, *empty, q.replay if any("replay" in tape.facts for tape in tapes) else ""]
    beside = origin.lines(tapes, labels(tapes))
    _print(q, tapes, form, found, [*part.said, *filter(None, notes), *beside], wanted)


def _print(
    q: query.Query,
    tapes: Sequence[Tape],
    form: _Form,
    found: answer.Answer,
    said: Sequence[str],
    wanted: filters.Filters,
) -> None:
    from pagetape.tapes import absent, output
    from pagetape.tapes.kernel_rows import warnings_of
    from pagetape.tapes.loss import Loss

    loss = Loss.of_all(tapes)
    tiers = [max(q.tier, tape.facts["replay"]["tier"]) for tape in tapes if "replay" in tape.facts]
    tier = max(tiers, default="recorded")
    warnings = _of_each(tapes, warnings_of)
    lacking = _of_each(tapes, absent.lines)
    if form.as_json:
        paths = [str(tape.path) for tape in tapes]
        answer.emit(
            {
                "name": q.name,
                **({"tapes": paths} if q.several else {"tape": paths[0]}),
                "columns": found.columns,
                "rows": found.objects(),
                "lost": loss.total,
                "anomalies": loss.anomalies,
                "tier": tier,
                "kernel_warnings": warnings,
                **({"absent": lacking} if lacking else {}),
                **({"filters": wanted.given()} if wanted.given() else {}),
                **({"note": "; ".join(said)} if said else {}),
            }
        )
        return
    notes_apart = form.csv or form.arrow == output.STDOUT
    if form.csv:
        answer.emit_csv(found)
    elif not notes_apart:
        text = terminal.table(found.columns, found.rows, wide=form.wide)
        terminal.say(f"{text}\n", head=True)
    for line in [*warnings, *lacking, *said]:
        answer.say_line(line, err=notes_apart)
    answer.say(f"{loss}; tier: {tier}", err=notes_apart)


def _write_arrow(db: Database, part: filters.Part, form: _Form, inputs: Sequence[Path]) -> None:
    """The rows as an Arrow IPC file, which pandas, polars, R and DuckDB read."""
    import pyarrow as pa

    from pagetape.tapes import output

    assert form.arrow is not None
    relation = db.relation(part.question, part.values)
    table = db.evaluate(relation.to_arrow_table)
    with (
        output.whole_file(form.arrow, replace=form.force, mark=b"ARROW1", inputs=inputs) as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)


def _one_node(q: query.Query, tapes: Sequence[Tape]) -> bool:
    return q.nodes and all(len(tape.facts.get("nodes") or []) < 2 for tape in tapes)


def _why_empty(q: query.Query, tapes: Sequence[Tape], part: filters.Part) -> str:
    """Why a report has no rows; ClickException if a tape is of the wrong kind for it."""
    from pagetape.asking import needs

    if not _one_node(q, tapes):
        for tape in tapes:
            if lack := needs.lacking(q, tape):
                raise click.ClickException(lack)
    where = "in this part of the tape" if part.said else "on this tape"
    return f"no rows: nothing of the kind is {where}"


def _of_each(tapes: Sequence[Tape], lines: Callable[[Tape], list[str]]) -> list[str]:
    """The lines about the tapes; of several tapes, each with its name."""
    from pagetape.asking.database import labels

    if len(tapes) == 1:
        return lines(tapes[0])
    return [
        f"{label}: {line}"
        for label, tape in zip(labels(tapes), tapes, strict=True)
        for line in lines(tape)
    ]


def _paragraphs(doc: str) -> str:
    """The prose of a header for click; \b keeps click from wrapping indented lists."""
    parts = doc.split("\n\n")
    return "\n\n".join(f"\b\n  {p.strip()}" if "\n  " in p else p for p in parts)


def _command(q: query.Query) -> click.Command:
    def run(tape: Path | None = None, tapes: Sequence[Path] = (), **values: Any) -> None:
        from pagetape.asking import filters
        from pagetape.tapes import output

        form = _Form(**{name: values.pop(name) for name in _Form._fields})
        if form.as_json and form.csv:
            raise click.UsageError("--json and --csv exclude each other")
        if form.arrow == output.STDOUT and (form.as_json or form.csv):
            raise click.UsageError("--arrow - is the only output on stdout: omit --json and --csv")
        wanted = filters.Filters(**{name: values.pop(f"filter_{name}") for name in _FILTERS})
        _run(q, tapes if tape is None else [tape], form, values, wanted)

    columns = "\n".join(f"  {c.name:<22}{c.doc}" for c in q.columns)
    parameters: list[click.Parameter] = [
        click.Option(
            [f"--{p.name.replace('_', '-')}", p.name],
            type=p.convert,
            default=p.default,
            show_default=p.default is not None,
            help=p.doc if p.least is None else f"{p.doc} {p.least} to {p.most}.",
        )
        for p in q.parameters
    ]
    command = click.Command(
        q.name,
        callback=run,
        short_help=q.title,
        help=f"{q.title}\n\n{_paragraphs(q.doc)}\n\n\b\nColumns:\n{columns}\n\n\b\nExample:\n"
        f"  pagetape report {q.name} base.tape{' whatif.tape' if q.several else ''}",
        params=parameters,
    )
    command.params += [
        click.Option([f"--{name}", f"filter_{name}"], type=kind, metavar=metavar, help=text)
        for name, (kind, metavar, text) in _FILTERS.items()
    ]
    command = options.force(options.memory(options.wide(_csv(_arrow(options.json(command))))))
    return (options.tapes if q.several else options.tape)(command)


_FILTERS: dict[str, tuple[Any, str, str]] = {
    "since": (options.Moment(), "TIME", "Only from this time on: 10s, or -10s before the end."),
    "until": (options.Moment(), "TIME", "Only before this time: 20s, or -5s before the end."),
    "zone": (str, "NAME", "Only this zone, as NORMAL or DMA32."),
    "node": (click.IntRange(0), "N", "Only this node."),
    "task": (str, "NAME", "Only threads of this name, or the thread with this number."),
    "where": (str, "SQL", "Only rows with this condition on the columns, as 'nr > 10'."),
    "sort": (str, "COLUMNS", "Order of the rows: names of columns, '-' before it: largest first."),
    "limit": (click.IntRange(0), "N", "Print the first N rows."),
}
_csv = click.option("--csv", is_flag=True, help="Print CSV; the notes go to stderr.")
_arrow = click.option(
    "--arrow",
    type=options.PATH,
    metavar="FILE",
    help="Also write all rows to an Arrow file, for pandas, polars, R or DuckDB. "
    "-: to stdout, and nothing else.",
)


def _refusal(name: str) -> click.Command:
    def run(**_: Any) -> None:
        raise click.ClickException(f"{name}: not modelled: {NOT_MODELLED[name]}")

    return options.tape(options.json(click.Command(name, callback=run, hidden=True)))


class Reports(click.Group):
    """One command per query."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(query.reports())

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in NOT_MODELLED:
            return _refusal(cmd_name)
        q = query.reports().get(cmd_name)
        return _command(q) if q else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = did_you_mean.hint(args[0], query.reports()) or ":"
            ctx.fail(f"no report named '{args[0]}'{near} `pagetape report` lists the reports")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Reports"):
            formatter.write_dl([(q.name, q.title) for q in query.reports().values()])


@click.group("report", cls=Reports, invoke_without_command=True)
@options.wide
@options.json
@click.pass_context
def command(ctx: click.Context, wide: bool, as_json: bool) -> None:
    """Run one report on a tape; without NAME, list the reports.

    Each report ends with the events that the tape lost, the contradictions between tape and
    model (anomalies), and the tier of its numbers: `recorded`, or for a replayed tape A
    (placement) or B (modelled feedback). If nobody read the source of the tape's kernel, the report
    says so and names the kernel row that replays use (`kernel_warnings` in the JSON).

    \b
    Example:
      pagetape report extfrag.by_migratetype base.tape --json
    """
    if ctx.invoked_subcommand:
        return
    found = [(q.name, q.title) for q in query.reports().values()]
    if as_json:
        answer.emit({"reports": [{"name": name, "title": title} for name, title in found]})
    else:
        terminal.say(terminal.table(("report", "answers"), found, wide=wide), head=True)
