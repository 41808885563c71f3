# SPDX-License-Identifier: Apache-2.0
"""pagetape report: one subcommand per query, built from the query's header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, did_you_mean, terminal
from pagetape.asking import query
from pagetape.commands import options
from pagetape.replaying.playback import NOT_MODELLED

if TYPE_CHECKING:
    from pagetape.schemas.tape import Tape


def _run(
    q: query.Query, paths: Sequence[Path], as_json: bool, wide: bool, values: dict[str, Any]
) -> None:
    from pagetape.asking.database import Database
    from pagetape.schemas.tape import Tape
    from pagetape.tapes.loss import Loss

    tapes = [Tape(path) for path in paths]
    with Database(tapes) as db:
        try:
            found = db.run(q, values)
        except query.ParameterError as e:
            raise click.UsageError(str(e)) from e
    note = _why_empty(q, tapes) if not found.rows else ""
    loss = Loss.of_all(tapes)
    tiers = [max(q.tier, tape.facts["replay"]["tier"]) for tape in tapes if "replay" in tape.facts]
    tier = max(tiers, default="recorded")
    warnings = _warnings(tapes)
    if _one_node(q, tapes):
        note = "this machine has one node: there is nothing to compare"
    if as_json:
        answer.emit(
            {
                "name": q.name,
                **({"tapes": list(map(str, paths))} if q.several else {"tape": str(paths[0])}),
                "columns": found.columns,
                "rows": found.objects(),
                "lost": loss.total,
                "anomalies": loss.anomalies,
                "tier": tier,
                "kernel_warnings": warnings,
                **({"note": note} if note else {}),
            }
        )
        return
    terminal.say(f"{terminal.table(found.columns, found.rows, wide=wide)}\n", head=True)
    for line in [*warnings, *([note] if note else [])]:
        answer.say_line(line)
    answer.say(f"{loss}; tier: {tier}")


def _one_node(q: query.Query, tapes: Sequence[Tape]) -> bool:
    return q.nodes and all(len(tape.facts.get("nodes") or []) < 2 for tape in tapes)


def _why_empty(q: query.Query, tapes: Sequence[Tape]) -> str:
    """Why a report has no rows; ClickException if a tape is of the wrong kind for it."""
    from pagetape.asking import needs

    if not _one_node(q, tapes):
        for tape in tapes:
            if lack := needs.lacking(q, tape):
                raise click.ClickException(lack)
    return "no rows: nothing of the kind is on this tape"


def _warnings(tapes: Sequence[Tape]) -> list[str]:
    """What the tapes say about their kernel rows; of several tapes, each with its name."""
    from pagetape.asking.database import labels
    from pagetape.tapes.kernel_rows import warnings_of

    if len(tapes) == 1:
        return warnings_of(tapes[0])
    return [
        f"{label}: {line}"
        for label, tape in zip(labels(tapes), tapes, strict=True)
        for line in warnings_of(tape)
    ]


def _paragraphs(doc: str) -> str:
    """The prose of a header for click; \b keeps click from wrapping indented lists."""
    parts = doc.split("\n\n")
    return "\n\n".join(f"\b\n  {p.strip()}" if "\n  " in p else p for p in parts)


def _command(q: query.Query) -> click.Command:
    def run(
        as_json: bool,
        wide: bool,
        tape: Path | None = None,
        tapes: Sequence[Path] = (),
        **values: Any,
    ) -> None:
        _run(q, tapes if tape is None else [tape], as_json, wide, values)

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
    return (options.tapes if q.several else options.tape)(options.wide(options.json(command)))


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
