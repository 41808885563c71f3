# SPDX-License-Identifier: Apache-2.0
"""pagetape validate: the model's decisions beside the kernel's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pagetape import answer, console
from pagetape.commands import options
from pagetape.replaying import kernels
from pagetape.replaying.validate_run import DECISIONS
from pagetape.replaying.validation import END_STATE, validate
from pagetape.schemas.tape import Tape
from pagetape.tapes.loss import Loss


def _shares(found: dict[str, Any], parts: tuple[tuple[str, str, str], ...]) -> list[list[object]]:
    return [
        [words, found[nr], found[exact], answer.share(found[exact], found[nr])]
        for words, nr, exact in parts
    ]


def _divergence(first: dict[str, Any], *, explain: bool) -> str:
    got, expected = (
        "nothing" if first[name] is None else str(first[name]) for name in ("got", "expected")
    )
    line = (
        f"first divergence: event {first['at']:,} ({first['ts'] / 1e9:.6f} s), CPU {first['cpu']},"
        f" node {first['node']} {first['zone']}, {first['decision']}:"
        f" expected {expected}, got {got} ({first['cause']})"
    )
    return "\n".join([line, *(f"  {told}" for told in first["explanation"])]) if explain else line


def _text(found: dict[str, Any], *, explain: bool) -> str:
    parts = [
        f"kernel {found['kernel']}: {answer.amount(found['events'], 'event')}",
        answer.table(("decision", "recorded", "exact", "%"), _shares(found, DECISIONS)),
        f"unknown: {found['unknown']:,} decisions; "
        f"inferred: {answer.amount(found['inferred_untraced'], 'untraced page')}",
    ]
    if repairs := {cause: nr for cause, nr in found["repairs"].items() if nr}:
        rows = sorted(repairs.items(), key=lambda repair: -repair[1])
        parts.append(answer.table(("repaired", "times"), rows))
    if end := found["end_state"]:
        parts.append(answer.table(("at the end", "recorded", "same", "%"), _shares(end, END_STATE)))
    if first := found["first_divergence"]:
        parts.append(_divergence(first, explain=explain))
    else:
        parts.append("no divergence")
    return "\n\n".join(parts)


@click.command("validate")
@options.tape
@options.kernel
@click.option("--explain", is_flag=True, help="Tell what led to the first divergence.")
@click.option(
    "-o",
    "--output",
    "out",
    type=options.PATH,
    metavar="OUT.tape",
    help="Keep what was found, for the model.* reports.",
)
@options.force
@options.json
def command(
    tape: Path, kernel: str, explain: bool, out: Path | None, force: bool, as_json: bool
) -> None:
    """How exactly the model foresees what the kernel did, one decision ahead.

    At every recorded decision - which page, how many to refill, which to drain, whom to
    fall back to - the model says what it expects, is scored, and takes over what was
    recorded. A decision the tape had not yet told enough about is unknown, neither exact
    nor wrong. Where a recording begins without an exact snapshot, most are at first.
    Repairs put the model right about what no event tells; each is counted by cause.

    \b
    Example:
      pagetape validate base.tape --explain
      pagetape validate base.tape -o found.tape
      pagetape report model.exactness found.tape
    """
    source = Tape(tape)
    console.report(kernels.note(source, kernel))
    with console.progress("validate") as bar:
        found = validate(source, kernel, out, replace=force, progress=bar)
    loss = Loss.of(source)
    if as_json:
        answer.emit(found | {"lost": loss.total, "output": str(out) if out else None})
        return
    total = Loss(loss.total, loss.by_cpu, sum(found["anomalies"].values()))
    click.echo(f"{_text(found, explain=explain)}\n\n{total}")
