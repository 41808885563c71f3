# SPDX-License-Identifier: Apache-2.0
"""Reports about an archive: from its aggregates, or over the tapes that a condition names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, console
from pagetape.commands import options

if TYPE_CHECKING:
    from pagetape.asking import query
    from pagetape.indexing.question import Fleet


class Choice(NamedTuple):
    """Which tapes of an archive, as the command line has it."""

    where: str | None = None
    since: str | None = None
    until: str | None = None
    by: str | None = None
    most: int = 50

    def given(self) -> dict[str, Any]:
        """What was chosen, for JSON."""
        found = {"where": self.where, "since": self.since, "until": self.until, "by": self.by}
        return {name: value for name, value in found.items() if value is not None}


most = click.option(
    "--most",
    type=click.IntRange(1),
    default=Choice().most,
    show_default=True,
    metavar="N",
    help="Of an archive: fetch at most N tapes, if its index cannot answer.",
)


@contextmanager
def opened(url: str, choice: Choice) -> Iterator[Fleet]:
    """The tapes of an archive; a bad choice is bad usage."""
    from pagetape.archive.store import open_store
    from pagetape.indexing.question import Fleet, Refused, Wanted

    wanted = Wanted(
        choice.where,
        options.utc("since", choice.since),
        options.utc("until", choice.until),
        tuple(name.strip() for name in (choice.by or "").split(",") if name.strip()),
    )
    try:
        with Fleet(open_store(url), wanted) as fleet:
            yield fleet
    except Refused as e:
        raise click.UsageError(str(e)) from e


def fetched(fleet: Fleet, choice: Choice) -> list[Path]:
    """The tapes of a question on this machine."""
    objects = fleet.objects(choice.most)
    size = sum(one.size for one in objects)
    what = f"fetching {answer.amount(len(objects), 'tape')}, {answer.size(size)}"
    with console.progress(what) as progress:
        return fleet.index.copies.paths(objects, progress)


def counted(
    fleet: Fleet, q: query.Query, values: dict[str, Any]
) -> tuple[answer.Answer, list[str]]:
    """The answer to a report that reads no tape, and lines about it."""
    from pagetape.indexing import question

    if not question.answered(q.name):
        return fleet.run(q, values), fleet.lines()
    found, lines = fleet.counts(q.name)
    return found, [*fleet.lines(), *lines]


def in_order(found: answer.Answer, sort: str | None) -> answer.Answer:
    """The rows by columns, each with a '-' before it for descending order; empty cells last."""
    rows = list(found.rows)
    for word in reversed([word.strip() for word in (sort or "").split(",") if word.strip()]):
        name = word.removeprefix("-")
        if name not in found.columns:
            known = ", ".join(found.columns)
            raise click.UsageError(f"no column '{name}' (there are: {known})")
        at = found.columns.index(name)
        full = [row for row in rows if row[at] is not None]
        full.sort(key=lambda row: row[at], reverse=word.startswith("-"))
        rows = full + [row for row in rows if row[at] is None]
    return replace(found, rows=rows)
