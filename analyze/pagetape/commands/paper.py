# SPDX-License-Identifier: Apache-2.0
"""pagetape paper: what the authors of a paper published, beside this machine and the model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, console, terminal
from pagetape.commands import completion, model_options, options

if TYPE_CHECKING:
    from pagetape.asking.papers import Paper
    from pagetape.schemas.tape import Tape


@click.command("paper")
@click.argument("name", metavar="[NAME]", required=False)
@click.argument(
    "tapes", metavar="[T.tape...]", type=options.TAPE, nargs=-1, shell_complete=completion.tapes
)
@click.option(
    "--table",
    "wanted",
    multiple=True,
    metavar="TEXT",
    help="Only tables whose name contains this text. Repeatable.",
)
@options.output("F.html", "Also write the tables as an HTML page.")
@model_options.members(
    "members",
    "Members of the ensemble of each column: all columns have the same seeds. 0: no model.",
    default=32,
)
@options.memory
@options.wide
@options.json
def command(
    name: str | None,
    tapes: tuple[Path, ...],
    wanted: tuple[str, ...],
    out: Path | None,
    members: int,
    wide: bool,
    as_json: bool,
) -> None:
    """Print the tables of a paper: published, recorded on each tape, and modelled.

    Without NAME the command lists the papers. Without a tape it prints the published figures, and
    what a tape needs for each.

    A recorded value stands in the column whose rules the tape's kernel has. The modelled columns
    of a paper are one sweep with the same seeds, against a baseline of their own; brackets hold
    80 % intervals. The verdict says whether the model finds the published sign. A cell without a
    value has a reason.

    Figures relative to a baseline, as 100 to 20, need a tape of each side.

    \b
    Example:
      pagetape paper nofragment base.tape --table extfrag
    """
    from pagetape.asking import papers
    from pagetape.pages.document import MARK
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import output

    if name is None:
        if wanted or out is not None:
            raise click.UsageError("--table and -o need the NAME of a paper")
        _list(as_json, wide)
        return
    if name not in papers.names():
        raise click.UsageError(f"no paper named '{name}'; there are {', '.join(papers.names())}")
    paper = _chosen(papers.paper(name), wanted)
    if out is not None:
        output.check_file_free(out, replace=True, mark=MARK, inputs=tapes)
    opened = [Tape(path) for path in tapes]
    for tape in opened:
        if "replay" in tape.facts:
            raise click.ClickException(
                f"{tape.path}: is a replay: give the recording, the command plays it itself"
            )
    found = _result(paper, opened, members)
    if out is not None:
        from pagetape.pages.paper_page import paper_page

        with output.whole_file(out, replace=True, mark=MARK, inputs=tapes) as file:
            file.write(paper_page(found).encode())
    if as_json:
        answer.emit(found)
    elif out != output.STDOUT:
        terminal.say(_text(found, wide), words={"^inert: .*|no difference shown": "yellow"})


def _list(as_json: bool, wide: bool) -> None:
    from pagetape.asking import papers

    found = [papers.paper(name) for name in papers.names()]
    if as_json:
        answer.emit(
            {
                "papers": [
                    {
                        "name": p.name,
                        "title": p.about["title"],
                        "figures": len(p.figures),
                        "tables": p.tables,
                    }
                    for p in found
                ]
            }
        )
        return
    rows = [(p.name, len(p.figures), p.about["title"]) for p in found]
    terminal.say(terminal.table(("paper", "figures", "title"), rows, wide=wide), head=True)


def _chosen(paper: Paper, wanted: Sequence[str]) -> Paper:
    """The paper with the tables that the caller wants."""
    if not wanted:
        return paper
    kept = [t for t in paper.tables if any(text.lower() in t.lower() for text in wanted)]
    if not kept:
        names = "; ".join(paper.tables)
        raise click.UsageError(f"no table of {paper.name} has '{', '.join(wanted)}': {names}")
    return paper.only(kept)


def _result(paper: Paper, tapes: Sequence[Tape], members: int) -> dict[str, Any]:
    """The JSON object."""
    from pagetape.asking.database import labels
    from pagetape.asking.papers import NEVER_PUBLISHED
    from pagetape.replaying import paper_model
    from pagetape.tapes.kernel_rows import warnings_of
    from pagetape.tapes.loss import Loss

    played = []
    for tape in tapes:
        with console.progress(tape.path.name) as bar:
            played.append(paper_model.play(paper, tape, members, bar))
    names = labels(tapes)
    rows = paper_model.rows(paper, tapes, names, played)
    return {
        "paper": paper.name,
        **{key: paper.about[key] for key in ("title", "question", "load", "here")},
        "tapes": [
            {
                "tape": label,
                "path": str(tape.path),
                "kernel": tape.facts.get("kernel"),
                "cpus": tape.facts.get("cpus"),
                "nodes": len(tape.facts.get("nodes") or []) or None,
                "reclaim": run.mode,
                "members": members,
                "lost": Loss.of(tape).total,
                "kernel_warnings": warnings_of(tape),
            }
            for tape, label, run in zip(tapes, names, played, strict=True)
        ],
        "stacks": {name: list(specs) for name, specs in paper_model.stacks(paper).items()},
        "baseline": paper.about["baseline"],
        "rows": [row for row in rows if row["source"] != NEVER_PUBLISHED],
        "unpublished": [row for row in rows if row["source"] == NEVER_PUBLISHED],
    }


def _text(found: dict[str, Any], wide: bool) -> str:
    from pagetape.replaying import paper_model

    parts = [
        f"{found['paper']}: {found['title']}",
        found["question"],
        f"Load: {found['load']}.",
        "",
    ]
    tapes = found["tapes"]
    if tapes:
        parts.insert(3, f"Here: {found['here']}")
    for tape in tapes or [{}]:
        if tape:
            parts += [_about(tape), *tape["kernel_warnings"], ""]
        rows = [*found["rows"], *found["unpublished"]]
        kept = [row for row in rows if row.get("tape") == tape.get("tape")]
        for table, same in itertools.groupby(kept, key=lambda row: row["table"]):
            lines = [*same]
            text = terminal.table(*paper_model.printed(lines), wide=wide)
            parts += [paper_model.heading(table, lines), text, ""]
    if tapes:
        stacks = (f"  {name}: {' + '.join(of)}" for name, of in found["stacks"].items())
        parts += [f"Stacks of the modelled columns, the baseline is {found['baseline']}:", *stacks]
    return "\n".join(parts).rstrip("\n")


def _about(tape: dict[str, Any]) -> str:
    lost = "unknown" if tape["lost"] is None else f"{tape['lost']:,}"
    cpus = answer.amount(tape["cpus"] or 0, "CPU")
    nodes = answer.amount(tape["nodes"] or 1, "node")
    return (
        f"tape {tape['tape']}: {tape['kernel'] or 'unknown kernel'}, {cpus}, {nodes};"
        f" {tape['members']} members under {tape['reclaim']}; events lost: {lost}"
    )
