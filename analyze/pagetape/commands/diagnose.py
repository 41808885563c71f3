# SPDX-License-Identifier: Apache-2.0
"""pagetape diagnose: the findings that matter on a tape."""

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, terminal
from pagetape.commands import options

if TYPE_CHECKING:
    from pagetape.diagnosing.diagnosis import Diagnosis
    from pagetape.diagnosing.finding import Finding

_WIDEST = 100  # columns; longer lines are hard to read


def _wrapped(text: str, first: str = "   ") -> str:
    width = _WIDEST
    if sys.stdout.isatty():
        width = min(max(shutil.get_terminal_size().columns, 40), _WIDEST)
    return textwrap.fill(
        answer.visible(text),
        width,
        initial_indent=first,
        subsequent_indent="   " + " " * (len(first) - 3),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _finding(number: int, finding: "Finding") -> str:
    lines = [
        f"{number}. {finding.severity}: {finding.title}",
        _wrapped(finding.text),
        _wrapped(finding.certainty, "   sure: "),
        f"   next: {finding.next}",  # one line, to be copied
        *([f"   what if: {finding.whatif}"] if finding.whatif else []),
    ]
    return "\n".join(lines)


def _text(found: "Diagnosis", every: bool) -> str:
    from pagetape.tapes.loss import Loss

    ill = [f for f in found.examined if f.shown]
    shown = ill if every else found.findings
    kernel = found.tape.facts.get("kernel") or "unknown"
    length = f"{found.seconds:.3f} s of {found.covers}"
    parts = [f"{found.tape.path}: {length} of kernel {kernel}. {found.summary}"]
    parts += [_finding(number, finding) for number, finding in enumerate(shown, 1)]
    if every:
        rest = [f for f in found.examined if not f.shown]
        lines = [
            _wrapped(f"{f.title}: {'cannot be answered: ' * (f.severity == 'unknown')}{f.text}")
            for f in rest
        ]
        parts.append("\n".join(["not shown:", *lines]))
    if found.limits:
        lines = [
            _wrapped(limit.what + (f" ({limit.next})" if limit.next else ""))
            for limit in found.limits
        ]
        parts.append("\n".join(["The tape cannot show everything:", *lines]))
    return "\n\n".join(parts) + f"\n\n{Loss.of(found.tape)}"


def _json(found: "Diagnosis", every: bool) -> dict[str, Any]:
    from pagetape.tapes.loss import Loss

    loss = Loss.of(found.tape)
    run = found.tape.facts.get("replay")
    shown = [f for f in found.examined if f.shown] if every else found.findings
    return {
        "tape": str(found.tape.path),
        "kernel": found.tape.facts.get("kernel"),
        "duration_s": found.seconds,
        "covers": found.covers,
        "lost": loss.total,
        "anomalies": loss.anomalies,
        "tier": run["tier"] if run else "recorded",
        "summary": found.summary,
        "findings": [f.as_json() for f in shown],
        "not_shown": [
            {"id": f.id, "severity": f.severity, "reason": f.text, "evidence": f.evidence}
            for f in found.examined
            if f not in shown
        ],
        "limits": [limit._asdict() for limit in found.limits],
    }


@click.command("diagnose")
@options.tape
@click.option("--all", "every", is_flag=True, help="Show every question, with its reason.")
@options.memory
@options.json
def command(tape: Path, every: bool, as_json: bool) -> None:
    """Show the findings that matter on a tape, at most five, worst first.

    Each finding has its number, the share, what is normal, how sure it is, and the next command.
    Where the order of a task's requests is the cause, "what if" has the replay in which it asks for
    single pages. --all also shows each question without a disease, with its reason. All counts are
    those of the whole tape. The end lists what the recording cannot show.

    JSON: `findings` has id, title, severity (high, medium, low), text, certainty, evidence
    (numbers), next, and whatif where there is one. `not_shown` has the other questions: severity
    `none` is below the threshold, `unknown` is not recorded. `limits` has what the recording cannot
    show.

    \b
    Example:
      pagetape diagnose base.tape --all
    """
    from pagetape.diagnosing.diagnosis import diagnose
    from pagetape.schemas.tape import Tape

    found = diagnose(Tape(tape))
    if as_json:
        answer.emit(_json(found, every))
    else:
        terminal.say(
            _text(found, every),
            words={r"^\d+\. high:": "red", r"^\d+\. medium:": "yellow", r"^\d+\. low:": "cyan"},
        )
