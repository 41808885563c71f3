# SPDX-License-Identifier: Apache-2.0
"""Pieces of the pages that commands write: tables of options, policies and settings.

A piece stands between `<!-- begin options: COMMAND -->` and `<!-- end options -->`, or between
`<!-- begin policies -->` and `<!-- end policies -->`, `settings` likewise. PAGETAPE_BLESS=1 writes
it.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from pagetape import cli
from pagetape.ab.switch import SWITCHES, Switch

DOCS = Path(__file__).parents[2] / "docs"
PIECE = re.compile(r"<!-- begin (\w+)(?:: ([^>]*))? -->\n(.*?)<!-- end (\w+) -->\n", re.DOTALL)
DEVELOPERS = ("CONTRIBUTING", "design", "how-good")
WRITERS = ("options", "policies", "settings")  # programs outside this test write the others
ALWAYS = ("--json", "--wide", "--force", "-h, --help")  # of nearly every command

Run = Callable[..., Any]


def options(pagetape: Run, command: str) -> str:
    """The options of a command as a table, in the words of its --help."""
    text = pagetape(*command.split(), "--help").out.partition("\nOptions:\n")[2]
    found: list[list[str]] = []
    for line in text.splitlines():
        if option := re.match(r"  (-\S.*?)(?:  +(\S.*))?$", line):
            found.append([option[1], " ".join((option[2] or "").split())])
        elif line.startswith("    "):
            found[-1][1] = " ".join(f"{found[-1][1]} {line}".split())
        else:
            break
    rows = [
        f"| `{option}` | {effect.replace('|', chr(92) + '|')} |"
        for option, effect in found
        if option not in ALWAYS
    ]
    return "\n".join(["| option | effect |", "| --- | --- |", *rows]) + "\n"


def values(param: dict[str, Any]) -> str:
    """A parameter with its default, and the names that it takes."""
    names = param["values"]
    taken = f" ({', '.join(names)})" if 0 < len(names) < 10 else ""
    return f"`{param['name']}={param['default']}`{taken}"


def policies(pagetape: Run, _argument: str) -> str:
    """Every policy with its parameters, kernels and tier."""
    rows = [
        f"| `{policy['name']}` | {', '.join(map(values, policy['params'])) or 'none'} "
        f"| {policy['kernel']} | {policy['tier']} |"
        for policy in pagetape("policies", "--json").json["policies"]
    ]
    head = [
        "| policy | parameters with defaults | from kernel | tier |",
        "| --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def prediction(switch: Switch) -> str:
    """The policy that predicts a value of the setting, and the reclaim mode."""
    if switch.policy is None:
        return "none"
    value, recorded = switch.values[max(1, switch.gap.stop)], switch.values[0]
    policy = switch.policy.partition(",")[0].replace("={value}", "")
    return f"`{policy}`, {switch.reclaim(str(value), str(recorded))}"


def settings(_pagetape: Run, _argument: str) -> str:
    """Every setting that `ab` changes."""
    rows = [
        f"| `{switch.name}` | {switch.doc} | {prediction(switch)} | {', '.join(switch.metrics)} |"
        for switch in SWITCHES
    ]
    head = ["| NAME | meaning | prediction | compared |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


PIECES = [
    (page, name, argument)
    for page in sorted(DOCS.glob("*.md"))
    for name, argument, _, _ in PIECE.findall(page.read_text())
]


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_each_begin_has_its_end(page: Path) -> None:
    text = page.read_text()
    found = [(begin, end) for begin, _, _, end in PIECE.findall(text)]
    assert all(begin == end for begin, end in found)
    ends = re.findall(r"<!-- end \w", text)  # the laboratory's tables end without a name
    assert text.count("<!-- begin ") == len(ends) == len(found)


@pytest.mark.parametrize(
    ("page", "name", "argument"),
    [piece for piece in PIECES if piece[1] in WRITERS],
    ids=lambda part: part.stem if isinstance(part, Path) else part,
)
def test_a_piece_is_what_the_command_prints(
    page: Path, name: str, argument: str, pagetape: Run
) -> None:
    written = {"options": options, "policies": policies, "settings": settings}[name](
        pagetape, argument
    )
    text = page.read_text()
    (there,) = (p for p in PIECE.finditer(text) if (p[1], p[2] or "") == (name, argument))
    if os.environ.get("PAGETAPE_BLESS"):
        page.write_text(text[: there.start(3)] + written + text[there.end(3) :])
    else:
        assert there[3] == written, "run make golden, then read git diff"


def test_each_kind_of_piece_stands_on_some_page() -> None:
    assert {name for _, name, _ in PIECES} >= set(WRITERS)


def every_option(group: click.Group) -> set[str]:
    """The options of each command, and those of its own commands."""
    context = click.Context(group)
    found: set[str] = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        found |= {option for param in command.params for option in param.opts}
        if isinstance(command, click.Group):
            found |= every_option(command)
    return found


def test_the_pages_name_no_option_that_is_not_there() -> None:
    """Pages for developers name options of other programs, too."""
    there = every_option(cli.pagetape) | {"--help"}
    for page in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))):
        if page.stem not in DEVELOPERS:
            assert set(re.findall(r"`(--[a-z-]+)", page.read_text())) <= there, page.name
