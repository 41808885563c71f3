# SPDX-License-Identifier: Apache-2.0
"""pagetape validate: compare the model's decisions with the kernel's."""

import dataclasses
from pathlib import Path
from typing import Any

import click

from pagetape import answer, console
from pagetape.commands import model_options, options


def _decisions(found: dict[str, Any]) -> list[list[object]]:
    """A row per kind of decision. An unknown decision counts as not exact."""
    from pagetape.replaying.validate_run import DECISIONS

    return [
        [words, found[nr], found[exact], found[unknown], answer.share(found[exact], found[nr])]
        for words, nr, exact, unknown in DECISIONS
        if found[nr] is not None
    ]


def _beyond(found: dict[str, Any]) -> list[str]:
    """One line about the decisions that the tape does not show; none if it shows all."""
    from pagetape.replaying.validate_run import DECISIONS
    from pagetape.tapes import zone_events

    beyond = [words for words, nr, _, _ in DECISIONS if found[nr] is None]
    return [f"{', '.join(beyond)}: {zone_events.NEEDS_PAGE}"] if beyond else []


def _end_state(end: dict[str, Any]) -> list[list[object]]:
    from pagetape.replaying.validation import END_STATE

    return [
        [words, end[nr], end[same], answer.share(end[same], end[nr])]
        for words, nr, same in END_STATE
        if end[nr] is not None
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
    return "\n".join([line, *(f"  {text}" for text in first["explanation"])]) if explain else line


def _text(found: dict[str, Any], *, explain: bool) -> str:
    from pagetape.replaying import hindsight
    from pagetape.tapes import kernel_rows

    parts = [
        "\n".join(
            [
                f"kernel {kernel_rows.named(found['kernel'])}: "
                f"{answer.amount(found['events'], 'event')}",
                *found["kernel_warnings"],
            ]
        ),
        answer.table(("decision", "recorded", "exact", "unknown", "%"), _decisions(found)),
        *_beyond(found),
        f"unknown: {found['unknown']:,} decisions"
        + (
            f"; inferred: {answer.amount(found['inferred_untraced'], 'untraced page')}"
            if found["inferred_untraced"] is not None
            else ""
        ),
    ]
    if repairs := {cause: nr for cause, nr in found["repairs"].items() if nr}:
        rows = sorted(repairs.items(), key=lambda repair: -repair[1])
        parts.append(answer.table(("repaired", "times"), rows))
    if coverage := found["hindsight"]:
        parts.append(f"a replay's start: {hindsight.words(coverage)}")
    if end := found["end_state"]:
        parts.append(answer.table(("at the end", "recorded", "same", "%"), _end_state(end)))
    if use := found["recorded_use"]:
        parts.append(
            f"requests: {use['lower_zone']:,} served by a lower zone, {use['remote_node']:,} by"
            f" another node; {use['below_low']:,} found every zone below its low watermark,"
            f" {use['below_min']:,} below min"
        )
    if first := found["first_divergence"]:
        parts.append(_divergence(first, explain=explain))
    else:
        parts.append("no divergence")
    return "\n\n".join(parts)


@click.command("validate")
@options.tape
@model_options.kernel
@click.option("--explain", is_flag=True, help="Explain the first divergence of model and kernel.")
@options.output(
    "OUT.tape", "Store the results as a tape, for the model.* reports.  [default: print them only]"
)
@options.force
@options.json
def command(
    tape: Path, kernel: str, explain: bool, out: Path | None, force: bool, as_json: bool
) -> None:
    """Measure how exactly the model predicts the kernel's decisions, one step ahead.

    At every recorded decision (page, refill size, drained pages, fallback migratetype) the
    model makes a prediction. The prediction is scored, and the model takes over the recorded
    result. A decision is unknown, neither exact nor wrong, if the tape has not yet shown the
    state that the decision depends on.
    Without an exact snapshot at the start, most early decisions are unknown. Repairs correct the
    model where no event recorded a change; the output counts them by cause.

    \b
    Example:
      pagetape validate base.tape --explain
      pagetape validate base.tape -o found.tape
      pagetape report model.exactness found.tape
    """
    from pagetape.replaying import kernels
    from pagetape.replaying.validation import validate
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import absent, origin, output
    from pagetape.tapes.loss import Loss

    source = Tape(tape)
    loss = Loss.of(source)  # an unreadable tape leaves no output
    if out is not None:
        output.check_free(out, replace=force, inputs=[tape])
        console.report(origin.replaced(out, source))
    console.report(absent.of_event_set(source))
    with console.progress("validate") as bar:
        found = validate(source, kernel, out, replace=force, progress=bar)
    console.report(kernels.note(source, kernel))
    if as_json:
        answer.emit(found | {"lost": loss.total, "output": str(out) if out else None})
        return
    total = dataclasses.replace(loss, kinds=found["anomalies"])
    answer.say(f"{_text(found, explain=explain)}\n\n{total}")
