# SPDX-License-Identifier: Apache-2.0
"""Pieces of the pages that commands write: tables of policies and settings.

A piece stands between `<!-- begin policies -->` and `<!-- end policies -->`, `settings` likewise.
PAGETAPE_BLESS=1 writes it.
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
PIECE = re.compile(r"<!-- begin (\w+) -->\n(.*?)<!-- end (\w+) -->\n", re.DOTALL)
DEVELOPERS = ("CONTRIBUTING", "design", "how-good")

Run = Callable[..., Any]


def values(param: dict[str, Any]) -> str:
    """A parameter with its default, and the names that it takes."""
    names = param["values"]
    taken = f" ({', '.join(names)})" if 0 < len(names) < 10 else ""
    return f"`{param['name']}={param['default']}`{taken}"


def policies(pagetape: Run) -> str:
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


def settings(_pagetape: Run) -> str:
    """Every setting that `ab` changes."""
    rows = [
        f"| `{switch.name}` | {switch.doc} | {prediction(switch)} | {', '.join(switch.metrics)} |"
        for switch in SWITCHES
    ]
    head = ["| NAME | meaning | prediction | compared |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


WRITERS = {"policies": policies, "settings": settings}  # other programs write the other pieces
PIECES = [
    (page, name)
    for page in sorted(DOCS.glob("*.md"))
    for name, _, _ in PIECE.findall(page.read_text())
]


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_each_begin_has_its_end(page: Path) -> None:
    text = page.read_text()
    found = [(begin, end) for begin, _, end in PIECE.findall(text)]
    assert all(begin == end for begin, end in found)
    ends = re.findall(r"<!-- end \w", text)  # the laboratory's tables end without a name
    assert text.count("<!-- begin ") == len(ends) == len(found)


@pytest.mark.parametrize(
    ("page", "name"),
    [piece for piece in PIECES if piece[1] in WRITERS],
    ids=lambda part: part.stem if isinstance(part, Path) else part,
)
def test_a_piece_is_what_the_command_prints(page: Path, name: str, pagetape: Run) -> None:
    written = WRITERS[name](pagetape)
    text = page.read_text()
    (there,) = (p for p in PIECE.finditer(text) if p[1] == name)
    if os.environ.get("PAGETAPE_BLESS"):
        page.write_text(text[: there.start(2)] + written + text[there.end(2) :])
    else:
        assert there[2] == written, "run make golden, then read git diff"


def test_each_kind_of_piece_stands_on_some_page() -> None:
    assert {name for _, name in PIECES} >= set(WRITERS)


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
