# SPDX-License-Identifier: Apache-2.0
"""pagetape kernels: list the kernel rows."""

from typing import Any

import click

from pagetape import answer
from pagetape.commands import completion, options


def _evidence(row: dict[str, Any]) -> str:
    """'source read (6.12.19, 6.13.7)'."""
    seen = row["source"] or row["image"]
    return f"{row['sure']} ({', '.join(seen)})" if seen else str(row["sure"])


def _text(row: dict[str, Any]) -> str:
    from pagetape.tapes import kernel_rows

    lines = [
        f"{row['name']}: {row['doc']}",
        f"  releases  {kernel_rows.releases(row['name'])}",
        f"  sure      {_evidence(row)}",
    ]
    if row["note"]:
        lines.append(f"  note      {row['note']}")
    if row["changes"]:
        columns = (f"  changed from {row['changed_from']}", "before", "now", "sure", "meaning")
        rows = [
            (f"  {c['feature']}", str(c["before"]), str(c["after"]), c["sure"], c["doc"])
            for c in row["changes"]
        ]
        lines.append(answer.table(columns, rows))
    elif row["changed_from"]:
        lines.append(f"  no change from {row['changed_from']}")
    return "\n".join(lines)


def _rows(kernel: str) -> list[str]:
    """The rows of a release or a series; raises BadParameter for an unknown one."""
    from pagetape import _replay
    from pagetape.tapes import kernel_rows

    try:
        return kernel_rows.within(kernel) or [kernel_rows.asked(kernel)]
    except _replay.EngineError as e:
        raise click.BadParameter(str(e.strerror), param_hint="KERNEL") from e


@click.command("kernels")
@click.argument("kernel", required=False, metavar="[KERNEL]", shell_complete=completion.kernels)
@options.json
def command(kernel: str | None, as_json: bool) -> None:
    """List the kernel rows: the releases of each, what it changed, and how sure that is.

    A row is the rules of one version of the page allocator. With KERNEL, the command lists only the
    row of that release or of that name, or all rows of a series such as 6.12. In a range of
    releases, y stands for any number. The rows are ordered by their base: a stable release with
    backports stands beside its own version.

    \b
    sure, of a row and of each change:
      source read      the rules were read in the source of the releases in brackets
      image seen       functions, types and strings were seen in that kernel's image
      date of a patch  the first release follows from the date of a patch; nobody compared it
    The tape of a release whose source nobody read is played by the row that covers it. The answers
    about that tape say so (`kernel_warnings` in the JSON). With such a KERNEL, the list ends with
    the reason (`warning` in the JSON).

    \b
    Example:
      pagetape kernels 6.12.117
      pagetape kernels --json | jq '.kernels[].name'
    """
    from pagetape.tapes import kernel_rows

    chosen = _rows(kernel) if kernel else None
    rows = [row for row in kernel_rows.described() if chosen is None or row["name"] in chosen]
    warning = kernel_rows.warning_about(kernel) if kernel else None
    if as_json:
        answer.emit({"kernels": rows, "warning": warning})
        return
    answer.say("\n\n".join(map(_text, rows)))
    if warning:
        answer.say("")
        answer.say_line(warning)
