# SPDX-License-Identifier: Apache-2.0
"""pagetape replay: a tape through the allocator model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pagetape import answer, options, output
from pagetape.loss import Loss
from pagetape.playback import Run, play
from pagetape.schemas.tape import Tape


def _text(result: dict[str, Any]) -> str:
    rows = [(name, t["value"], t["tier"]) for name, t in result["totals"].items()]
    return (
        f"kernel {result['kernel']}, policy {' + '.join(result['policies'])}, "
        f"reclaim {result['reclaim']}: {answer.amount(result['events'], 'event')}\n\n"
        f"{answer.table(('total', 'value', 'tier'), rows)}\n"
    )


@click.command("replay")
@options.tape
@click.option(
    "--kernel",
    default="auto",
    show_default=True,
    metavar="K",
    help="Kernel whose rules to play by; auto is the tape's own.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="SPEC",
    help="name, or name:key=value,key=value; may be given again. Default: mainline.",
)
@click.option(
    "--reclaim",
    type=click.Choice(["R0"]),
    default="R0",
    show_default=True,
    help="R0: pages are freed when the tape says; wakes and boosts are only counted.",
)
@click.option("-o", "--output", "out", type=options.PATH, metavar="OUT.tape", help="Keep the run.")
@options.force
@options.json
def command(
    tape: Path,
    kernel: str,
    policies: tuple[str, ...],
    reclaim: str,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Play a tape through the allocator model; print the run's totals with their tier.

    The requests are the tape's, every decision is the model's. OUT.tape has the
    same tables as the input, so that every report and compare works on it. Tier A
    is placement; B would need feedback that R0 does not model.

    \b
    Example:
      pagetape replay base.tape --policy nofragment:mode=always -o whatif.tape
    """
    source = Tape(tape)
    with output.progress("replay") as bar:
        result = play(source, Run(kernel, policies, reclaim), out, replace=force, progress=bar)
    loss = Loss.of(source)
    if as_json:
        answer.emit(result | {"lost": loss.total, "output": str(out) if out else None})
        return
    lost = Loss(loss.total, loss.by_cpu, result["anomalies"])
    click.echo(f"{_text(result)}\n{lost}")
