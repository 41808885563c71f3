# SPDX-License-Identifier: Apache-2.0
"""Reports about an archive: from its aggregates, or over the tapes that a condition names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pagetape import answer, console
from pagetape.asking import query
from pagetape.commands import options

if TYPE_CHECKING:
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

    def refuse(self) -> None:
        """Raise bad usage if something was chosen: tapes are no archive."""
        if given := self.given():
            names = ", ".join(f"--{name}" for name in given)
            raise click.UsageError(f"{names}: chooses tapes of an archive; give its URL")


def chosen(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a Choice but --by, as the parameter `choice`."""

    @functools.wraps(command)
    def run(
        where: str | None, since: str | None, until: str | None, most: int, **values: Any
    ) -> None:
        command(choice=Choice(where, since, until, most=most), **values)

    return which(most(run))


def which(command: Callable[..., None]) -> Callable[..., None]:
    """The options --where, --since and --until."""
    when = "Of an archive, only tapes that began {}: 7d ago, or 2026-11-29 (UTC)."
    for option in (
        click.option("--until", type=options.When(), metavar="TIME", help=when.format("before")),
        click.option("--since", type=options.When(), metavar="TIME", help=when.format("since")),
        click.option(
            "--where",
            metavar="SQL",
            help="Of an archive, only tapes with this condition on the columns of fleet_tape, as"
            " \"kernel LIKE '6.12%'\".",
        ),
    ):
        command = option(command)
    return command


by = click.option(
    "--by",
    metavar="COLUMNS",
    help="Of an archive: tell cohorts apart by these columns of fleet_tape.  [default: kernel]",
)
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
    from pagetape.fleet import regressions

    if q.name == regressions.REPORT:
        return regressions.answer(fleet, q, values)
    if not query.of_index(q.name):
        return fleet.run(q, values), fleet.lines()
    found, lines = fleet.counts(q.name)
    return found, [*fleet.lines(), *lines]


def page(url: str, choice: Choice) -> str:
    """The HTML page of an archive."""
    from pagetape.asking import query
    from pagetape.fleet import regressions
    from pagetape.pages.fleet_page import Overview, fleet_page

    reports = query.reports()

    def report(fleet: Fleet, name: str) -> answer.Answer:
        q = reports[name]
        return fleet.run(q, {p.name: p.default for p in q.parameters})

    with opened(url, choice) as fleet:
        q = reports[regressions.REPORT]
        compared, lines = regressions.answer(fleet, q, {p.name: p.default for p in q.parameters})
        return fleet_page(
            Overview(
                url,
                fleet.lines(),
                report(fleet, "fleet.coverage"),
                regressions.percentiles(fleet),
                compared,
                lines[len(fleet.lines()) :],
                report(fleet, "fleet.outliers"),
                report(fleet, "fleet.trend"),
            )
        )


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
