# SPDX-License-Identifier: Apache-2.0
"""pagetape explain: why the kernel logged a memory failure."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click

from pagetape import answer
from pagetape.commands import completion, options


def _check_kernel(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    from pagetape.explaining import release

    if text is not None and release.named(text) is None:
        raise click.BadParameter(f"'{text}' is no release of a kernel (example: 6.12.0)")
    return text


@click.command("explain")
@click.argument("files", metavar="[FILE...|-]", nargs=-1, type=options.PATH)
@click.option(
    "--proc",
    type=options.PATH,
    metavar="DIR",
    help="Explain a request in the state of /proc, or of copies of its files (zoneinfo, buddyinfo,"
    " pagetypeinfo, version), instead of a message.",
)
@click.option(
    "--order", type=click.IntRange(0, 15), default=0, help="With --proc: order of the request."
)
@click.option(
    "--gfp",
    "mask",
    metavar="MASK",
    default="GFP_KERNEL",
    help="With --proc: gfp mask of the request, names joined by | or a number.",
)
@click.option(
    "--kernel",
    metavar="RELEASE",
    callback=_check_kernel,
    shell_complete=completion.kernels,
    help="Release of the kernel that wrote the messages.  [default: as the messages show it]",
)
@options.json
def command(
    files: tuple[Path, ...],
    proc: Path | None,
    order: int,
    mask: str,
    kernel: str | None,
    as_json: bool,
) -> None:
    """Explain kernel messages about memory: what failed, and by which term of the kernel's sum.

    FILE is a log from dmesg, journalctl, syslog or /dev/kmsg, or a report that somebody pasted,
    also quoted or folded; '-' is standard input. Neither root nor a tape is needed. The command
    finds page allocation failures, OOM kills, and failures of slab caches, vmalloc and cma_alloc.

    FILE may be a tape instead: then the command explains its failed requests, by the free pages
    that the page events show at each moment and by the reading of /proc nearest to it.

    For each one it prints the class, the request, and the sum of each zone that the request may
    take: free pages, less those that it may not use, against the watermark by the rules of the
    kernel's release. Cut, mixed and missing lines are named; no figure is guessed. Where the
    messages do not show the cause, the class is cannot_tell. With --proc, the class of a request
    that would get its pages is passes.

    \b
    Example:
      dmesg | pagetape explain -
      pagetape explain /var/log/kern.log --json
      pagetape explain mail.txt --kernel 5.10.200
      pagetape explain base.tape
      pagetape explain --proc /proc --order 4 --gfp GFP_KERNEL
    """
    from pagetape.explaining import explanation, words

    if bool(files) == (proc is not None):
        raise click.UsageError("give FILE or --proc DIR (this machine: dmesg | pagetape explain -)")
    if proc is not None:
        try:
            found = explanation.of_proc(proc, order, mask, kernel)
        except ValueError as e:
            raise click.BadParameter(str(e), param_hint="--gfp") from e
    elif tapes := [path for path in files if _is_tape(path)]:
        if len(files) > 1:
            raise click.UsageError("give one tape, or logs")
        found = _of_tape(tapes[0], kernel)
    else:
        with ExitStack() as stack:
            logs = [(str(path), _opened(path, stack)) for path in files]
            found = explanation.of_logs(logs, kernel)
    if as_json:
        answer.emit(found)
        return
    shown = words.first_of_each(found["reports"])
    answer.say("\n\n".join("\n".join(words.lines(one)) for one in shown) or _none(found))
    for line in [*_totals(found), *found.get("absent", [])]:
        answer.say(line)


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    return sys.stdin.buffer if str(path) == "-" else stack.enter_context(path.open("rb"))


def _is_tape(path: Path) -> bool:
    return path.suffix == ".tape" and path.exists()


def _of_tape(path: Path, kernel: str | None) -> dict[str, Any]:
    """The explanations of a tape's failed requests. Raises ClickException if it records none."""
    from pagetape.asking import needs, query
    from pagetape.asking.database import Database
    from pagetape.explaining import explanation
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import absent
    from pagetape.tapes.loss import Loss

    tape, question = Tape(path), query.internal()["explain.failures"]
    with Database([tape]) as db:
        rows = db.run(question, {"most": explanation.MOST}).objects()
    if not rows and (why := needs.lacking(question, tape)):
        raise click.ClickException(why.replace(question.name, "explain"))
    found = explanation.of_failures(rows, str(path), tape.facts, kernel)
    return found | {"absent": absent.lines(tape), "lost": Loss.of(tape).total}


def _none(found: dict[str, Any]) -> str:
    if "lines" not in found:
        return "no request failed"
    return f"no report of a memory failure in {answer.amount(found['lines'], 'message')}"


def _totals(found: dict[str, Any]) -> list[str]:
    counts = (
        ("more_reports", "more report, not explained", "more reports, not explained"),
        ("lost", "lost event", "lost events"),
        ("suppressed", "suppressed message", "suppressed messages"),
        ("dropped_messages", "message dropped by printk", "messages dropped by printk"),
    )
    return [answer.amount(found[key], one, many) for key, one, many in counts if found.get(key)]
