# SPDX-License-Identifier: Apache-2.0
"""Manual pages of pagetape, made from Click's commands: roff with the man macros."""

import inspect
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from pagetape import cli

PROGRAM = "pagetape"
STATUS = (
    "0 success; 1 failure; 2 bad usage; 130 interrupted; 141 the reader of the output has gone;"
    " 143 ended by SIGTERM (129: SIGHUP)."
)


def escaped(text: str) -> str:
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in text.split("\n"))


def section(name: str, lines: Iterator[str]) -> Iterator[str]:
    """A section; nothing if it has no lines."""
    found = list(lines)
    if found:
        yield f".SH {name}"
        yield from found


def prose(text: str) -> Iterator[str]:
    """The paragraphs of a help text; those after \\b have their lines as they are."""
    for part in text.split("\n\n"):
        if part.startswith("\b"):
            yield from (".PP", ".nf", escaped(part.removeprefix("\b").strip("\n")), ".fi")
        else:
            yield from (".PP", escaped(" ".join(part.split())))


def listed(pairs: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Names with their meanings."""
    for name, doc in pairs:
        yield from (".TP", f"\\fB{escaped(name)}\\fR", escaped(" ".join(doc.split())))


def parts_of(command: click.Command) -> tuple[str, str]:
    """The description and the example of a command's help."""
    text = inspect.cleandoc(command.help or "")
    text, _, example = text.partition("\b\nExample:\n")
    return text.strip(), inspect.cleandoc(example)


def options(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The options of a command with their help."""
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            yield record


def subcommands(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The subcommands of a group with their titles."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield (
            name,
            cli.COMMANDS[name][1] if command is cli.pagetape else found.get_short_help_str(200),
        )


def page(command: click.Command, ctx: click.Context, doc: str, others: list[str]) -> str:
    """The manual page of one command."""
    words = ctx.command_path
    name = words.replace(" ", "-")
    description, example = parts_of(command)
    usage = " ".join(command.collect_usage_pieces(ctx))
    kind = "REPORTS" if name == f"{PROGRAM}-report" else "COMMANDS"
    lines = [
        f'.TH "{escaped(name.upper())}" "1" "" "pagetape {escaped(version(PROGRAM))}"',
        *section("NAME", iter([f"{escaped(name)} \\- {escaped(doc.rstrip('.'))}"])),
        *section("SYNOPSIS", iter([f"\\fB{escaped(words)}\\fR {escaped(usage)}"])),
        *section("DESCRIPTION", prose(description)),
        *section(kind, listed(subcommands(command, ctx))),
        *section("OPTIONS", listed(options(command, ctx))),
        *section("EXAMPLE", iter([".nf", escaped(example), ".fi"] if example else [])),
        *section("EXIT STATUS", prose(STATUS)),
        *section("SEE ALSO", iter([",\n".join(f"\\fB{escaped(o)}\\fR(1)" for o in others)])),
    ]
    return "\n".join(lines) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """Each page with its file's name."""
    ctx = click.Context(cli.pagetape, info_name=PROGRAM, **cli.pagetape.context_settings)
    names = [f"{PROGRAM}-{name}" for name in cli.COMMANDS]
    title = "record, replay and query the Linux page allocator"
    yield f"{PROGRAM}.1", page(cli.pagetape, ctx, title, names)
    for name, (_, doc) in cli.COMMANDS.items():
        command = cli.pagetape.get_command(ctx, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=ctx, **command.context_settings)
        yield f"{PROGRAM}-{name}.1", page(command, inner, doc, [PROGRAM])


def main(out: Path) -> None:
    """Write all pages into the directory `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (out / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
