# SPDX-License-Identifier: Apache-2.0
"""pagetape report: one subcommand per query, built from the query's header."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, did_you_mean, terminal
from pagetape.asking import query
from pagetape.commands import archive_report, options
from pagetape.replaying import NOT_MODELLED

if TYPE_CHECKING:
    import pyarrow as pa

    from pagetape.asking import filters
    from pagetape.schemas.tape import Tape


class _Form(NamedTuple):
    """How a report is printed."""

    as_json: bool
    wide: bool
    csv: bool
    arrow: Path | None
    force: bool


class _Found(NamedTuple):
    """The answer to a report about tapes."""

    answer: answer.Answer
    said: list[str]
    tables: list[pa.Table]  # its rows, if an Arrow file is wanted


class _Asked(NamedTuple):
    """A report with its parameters and filters."""

    q: query.Query
    values: dict[str, Any]
    wanted: filters.Filters
    arrow: bool

    def of(self, tapes: Sequence[Tape]) -> _Found:
        """The answer about one tape, or of a report that compares tapes."""
        import duckdb

        from pagetape.asking import filters, needs
        from pagetape.asking.keeping_database import KeepingDatabase
        from pagetape.tapes import absent

        tables = []
        lacks = [*filter(None, (needs.unmet(self.q, tape) for tape in tapes))]
        of_ours = not any(map(absent.is_foreign, tapes))  # nobody knows what an import left out
        if of_ours and len(lacks) == len(tapes) and not _one_node(self.q, tapes):
            raise click.ClickException(lacks[0])
        try:
            part = filters.part(self.q, tapes, self.values, self.wanted)
            how: dict[str, Any] = {"span": part.span, "only": part.only}
            with KeepingDatabase(tapes, [part.question], part.values, **how) as db:
                if self.arrow:
                    relation = db.relation(part.question, part.values)
                    tables.append(db.evaluate(relation.to_arrow_table))
                found = db.run(part.question, part.values)
        except query.ParameterError as e:
            raise click.UsageError(str(e)) from e
        except duckdb.Error as e:
            if self.wanted.where is None:
                raise
            columns = ", ".join(column.name for column in self.q.columns)
            why = str(e).splitlines()[0]
            words = f"--where '{self.wanted.where}': {why} (columns: {columns})"
            raise click.UsageError(words) from e
        note = _why_empty(self.q, tapes, part) if not found.rows else ""
        if _one_node(self.q, tapes):
            note = "this machine has one node: there is nothing to compare"
        return _Found(found, [*part.said, *filter(None, [*lacks, note])], tables)

    def of_each(self, tapes: Sequence[Tape]) -> _Found:
        """The answers about several tapes, with a column that names the tape of a row. Tapes of
        the wrong kind for the report have a line, unless no tape has a row."""
        import pyarrow as pa

        from pagetape.asking.database import labels

        alone = self._replace(wanted=self.wanted._replace(sort=None))
        rows: list[tuple[Any, ...]] = []
        said: dict[str, list[str]] = {}  # lines, with the tapes that they are about
        wrong: dict[str, list[str]] = {}  # reasons, by what they are without the path
        tables = []
        for label, tape in zip(labels(tapes), tapes, strict=True):
            try:
                found = alone.of([tape])
            except click.UsageError:
                raise
            except click.ClickException as e:
                wrong.setdefault(e.message.replace(str(tape.path), ""), []).append(e.message)
                continue
            rows += [(label, *row) for row in found.answer.rows]
            for line in found.said:
                said.setdefault(line, []).append(label)
            names = pa.array([label] * len(found.answer.rows), pa.utf8())
            tables += [table.add_column(0, "tape", names) for table in found.tables]
        more = " (and {} more)"
        reasons = [of[0] + more.format(len(of) - 1) * (len(of) > 1) for of in wrong.values()]
        if sum(map(len, wrong.values())) == len(tapes):
            raise click.ClickException("; ".join(reasons))
        lines = _about(said, len(tapes))
        columns = ["tape", *(column.name for column in self.q.columns)]
        types = ["VARCHAR", *(column.type for column in self.q.columns)]
        every = answer.Answer(columns, types, rows)
        return _Found(archive_report.in_order(every, self.wanted.sort), [*lines, *reasons], tables)


def _run(asked: _Asked, paths: Sequence[Path], form: _Form, about: dict[str, Any]) -> None:
    """A report about tapes. `about`: keys of the JSON object besides, and `lines`."""
    from pagetape.asking import needs
    from pagetape.asking.database import labels
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import absent, origin
    from pagetape.tapes.kernel_rows import warnings_of
    from pagetape.tapes.loss import Loss

    q, tapes = asked.q, [Tape(path) for path in paths]
    origin.check_together(tapes)
    alone = len(tapes) == 1 and "archive" not in about
    found = asked.of(tapes) if q.several or alone else asked.of_each(tapes)
    if form.arrow is not None:
        _write_arrow(found.tables, form, [*paths])
    said, lines = [*found.said], about.pop("lines", [])
    shown = _limited(found.answer, asked.wanted.limit, said)
    empty = _of_each(tapes, partial(needs.empty, q))
    replay = q.replay if any("replay" in tape.facts for tape in tapes) else ""
    beside = origin.lines(tapes, labels(tapes)) if q.several else []
    said += [*empty, *filter(None, [replay]), *beside, *lines]
    loss = Loss.of_all(tapes)
    tiers = [max(q.tier, tape.facts["replay"]["tier"]) for tape in tapes if "replay" in tape.facts]
    texts = [str(path) for path in paths]
    about = {
        **about,
        **({"tape": texts[0]} if alone and not q.several else {"tapes": texts}),
        "lost": loss.total,
        "anomalies": loss.anomalies,
        "tier": max(tiers, default="recorded"),
        "kernel_warnings": _of_each(tapes, warnings_of),
        "absent": _of_each(tapes, absent.lines),
    }
    if given := asked.wanted.given():
        about["filters"] = given | about.get("filters", {})
    _print(q, form, shown, about, [*said, f"{loss}; tier: {about['tier']}"])


def _limited(found: answer.Answer, limit: int | None, said: list[str]) -> answer.Answer:
    if limit is None or limit >= len(found.rows):
        return found
    said.append(f"{limit} of {answer.amount(len(found.rows), 'row')}")
    return replace(found, rows=found.rows[:limit])


def _run_archive(asked: _Asked, url: str, form: _Form, choice: archive_report.Choice) -> None:
    """A report about an archive: from its index, or about the tapes of a question."""
    q = asked.q
    with archive_report.opened(url, choice) as fleet:
        chosen: dict[str, Any] = {"filters": choice.given()} if choice.given() else {}
        if not (q.name.startswith(query.FLEET) or query.of_index(q.name)):
            about = {"archive": url, "fleet": fleet.totals, "lines": fleet.lines()}
            _run(asked, archive_report.fetched(fleet, choice), form, about | chosen)
            return
        if extra := asked.wanted.given().keys() - {"sort", "limit"}:
            names = ", ".join(f"--{name}" for name in sorted(extra))
            raise click.UsageError(f"{names}: the index has no such parts; pagetape sql {url}")
        found, said = archive_report.counted(fleet, q, asked.values)
        if form.arrow is not None:
            _write_arrow([_table(found)], form, [])
        ordered = archive_report.in_order(found, asked.wanted.sort)
        shown = _limited(ordered, asked.wanted.limit, said)
        lost = fleet.totals["lost"]
        about = {"archive": url, "fleet": fleet.totals, "lost": lost, "tier": "recorded"}
        lost = "unknown" if lost is None else answer.amount(lost, "event")
        _print(q, form, shown, about | chosen, [*said, f"lost: {lost}; tier: recorded"])


def _table(found: answer.Answer) -> pa.Table:
    import pyarrow as pa

    columns = list(zip(*found.rows, strict=True)) or [()] * len(found.columns)
    return pa.table({name: pa.array(c) for name, c in zip(found.columns, columns, strict=True)})


def _print(
    q: query.Query,
    form: _Form,
    found: answer.Answer,
    about: dict[str, Any],
    said: Sequence[str],
) -> None:
    """Print an answer; the last line of `said` is for people only."""
    from pagetape.tapes import output

    warnings, lacking = about.get("kernel_warnings", []), about.pop("absent", [])
    if form.as_json:
        notes = "; ".join(said[:-1])
        answer.emit(
            {
                "name": q.name,
                **about,
                "columns": found.columns,
                "rows": found.objects(),
                **({"absent": lacking} if lacking else {}),
                **({"note": notes} if notes else {}),
            }
        )
        return
    notes_apart = form.csv or form.arrow == output.STDOUT
    if form.csv:
        answer.emit_csv(found)
    elif not notes_apart:
        text = terminal.table(found.columns, found.rows, wide=form.wide)
        terminal.say(f"{text}\n", head=True)
    for line in [*warnings, *lacking, *said[:-1]]:
        answer.say_line(line, err=notes_apart)
    answer.say(said[-1], err=notes_apart)


def _write_arrow(tables: Sequence[pa.Table], form: _Form, inputs: Sequence[Path]) -> None:
    """The rows as an Arrow IPC file, which pandas, polars, R and DuckDB read."""
    import pyarrow as pa

    from pagetape.tapes import output

    assert form.arrow is not None
    with (
        output.whole_file(form.arrow, replace=form.force, mark=b"ARROW1", inputs=inputs) as file,
        pa.ipc.new_file(file, tables[0].schema) as writer,
    ):
        for table in tables:
            writer.write_table(table.cast(tables[0].schema))


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
    """The lines about the tapes; of several tapes, with their names."""
    from pagetape.asking.database import labels

    said: dict[str, list[str]] = {}
    for label, tape in zip(labels(tapes), tapes, strict=True):
        for line in lines(tape):
            said.setdefault(line, []).append(label)
    return _about(said, len(tapes))


def _about(said: Mapping[str, Sequence[str]], tapes: int) -> list[str]:
    """Lines, with the names of the tapes that each is about unless it is about all."""
    found = []
    for line, of in said.items():
        names = ", ".join(of[:3]) + (f" and {len(of) - 3} more" if len(of) > 3 else "")
        found.append(line if len(of) == tapes else f"{names}: {line}")
    return found


def _paragraphs(doc: str) -> str:
    """The prose of a header for click; \b keeps click from wrapping indented lists."""
    parts = doc.split("\n\n")
    return "\n\n".join(f"\b\n  {p.strip()}" if "\n  " in p else p for p in parts)


def _has_cohorts(q: query.Query) -> bool:
    """Whether --by tells cohorts of its answer apart."""
    return query.of_index(q.name) or q.name == "fleet.regressions"


def _command(q: query.Query) -> click.Command:
    def run(tapes: Sequence[Path | options.Archive], **values: Any) -> None:
        from pagetape.asking import filters
        from pagetape.tapes import output

        form = _Form(**{name: values.pop(name) for name in _Form._fields})
        if form.as_json and form.csv:
            raise click.UsageError("--json and --csv exclude each other")
        if form.arrow == output.STDOUT and (form.as_json or form.csv):
            raise click.UsageError("--arrow - is the only output on stdout: omit --json and --csv")
        given: dict[str, Any] = {name: values.pop(f"filter_{name}") for name in _FILTERS}
        by = values.pop("by") if _has_cohorts(q) else None
        most = values.pop("most", archive_report.Choice().most)
        times = {name: given.pop(name) for name in ("since", "until")}
        if url := options.archive_of(tapes):
            choice = archive_report.Choice(given.pop("where"), **times, by=by, most=most)
            asked = _Asked(q, values, filters.Filters(**given), form.arrow is not None)
            _run_archive(asked, url, form, choice)
            return
        if by is not None:
            raise click.UsageError("--by tells cohorts of an archive apart; tapes have none")
        if q.name.startswith(query.FLEET):
            step = "pagetape archive T.tape... URL, then pagetape compact URL, make one"
            raise click.UsageError(f"{tapes[0]}: {q.name} is about an archive, not tapes: {step}")
        given |= {name: options.moment(name, text) for name, text in times.items()}
        asked = _Asked(q, values, filters.Filters(**given), form.arrow is not None)
        _run(asked, [Path(tape) for tape in tapes], form, {})

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
        help=f"{q.title}\n\n{_paragraphs(q.doc)}{_of_archives(q)}\n\n\b\nColumns:\n{columns}\n\n"
        f"\b\nExample:\n  pagetape report {q.name} {_example(q)}",
        params=parameters,
    )
    command.params += [
        click.Option([f"--{name}", f"filter_{name}"], type=kind, metavar=metavar, help=text)
        for name, (kind, metavar, text) in _FILTERS.items()
    ]
    if _has_cohorts(q):
        command.params.append(_by)
    elif not q.name.startswith(query.FLEET):
        command = archive_report.most(command)
    command = options.force(options.memory(options.wide(_csv(_arrow(options.json(command))))))
    return options.sources(command)


def _of_archives(q: query.Query) -> str:
    return f"\n\n{_COHORTS}" if query.of_index(q.name) else ""


def _example(q: query.Query) -> str:
    if q.name.startswith(query.FLEET):
        return "s3://bucket/fleet --since 7d"
    return f"base.tape{' whatif.tape' if q.several else ''}"


_COHORTS = """Of an archive, the index answers, and no tape is read. A row then has, for each count
of a cohort (--by), the sum `nr`, the rate `per_hour` of all hosts together, `hosts_with` (hosts
that have some), and the percentiles p50, p90 and p99 over hosts of each host's rate per hour.
`hosts`, `hours` and `tapes` are those of the cohort that recorded such events, also without one."""

_FILTERS: dict[str, tuple[Any, str, str]] = {
    "since": (
        options.When(),
        "TIME",
        "Only from this time on: 10s, or -10s before the end. Of an archive, tapes that began since"
        " then: 7d ago, or 2026-11-29 (UTC).",
    ),
    "until": (
        options.When(),
        "TIME",
        "Only before this time: 20s, or -5s before the end. Of an archive, tapes that began before"
        " then.",
    ),
    "zone": (str, "NAME", "Only this zone, as NORMAL or DMA32."),
    "node": (click.IntRange(0), "N", "Only this node."),
    "task": (str, "NAME", "Only threads of this name, or the thread with this number."),
    "where": (
        str,
        "SQL",
        "Only rows with this condition on the columns, as 'nr > 10'. Of an archive, only tapes with"
        " this condition on the columns of fleet_tape (pagetape schema fleet_tape), as"
        " \"kernel LIKE '6.12%' AND mem_gb > 256\".",
    ),
    "sort": (str, "COLUMNS", "Order of the rows: names of columns, '-' before it: largest first."),
    "limit": (click.IntRange(0), "N", "Print the first N rows."),
}
_by = click.Option(
    ["--by"],
    metavar="COLUMNS",
    help="Of an archive: one row for each cohort of tapes, by columns of fleet_tape, as kernel.",
)
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
    (placement) or B (modelled feedback). Of several tapes, a report that does not compare them has
    a column `tape`. Of an archive (a directory, or a bucket's URL), --where, --since and --by say
    which tapes count. If nobody read the source of the tape's kernel, the report
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
