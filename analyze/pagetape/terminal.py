# SPDX-License-Identifier: Apache-2.0
"""Text for a terminal: tables that fit its width, and colour.

Output that is not a terminal gets whole tables without colour.
"""

import functools
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from pagetape import answer

_NARROW = 20  # columns that a wrapped cell has at least


def width() -> int | None:
    """The columns of the terminal on stdout; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured() -> bool:
    """Whether stdout shows colour: a terminal, without NO_COLOR."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, wide: bool = False) -> str:
    """answer.table() for stdout: it fits a terminal, unless `wide`."""
    limit = None if wide else width()
    return answer.table(columns, rows) if limit is None else fitted(columns, rows, limit)


def fitted(columns: Sequence[str], rows: Iterable[Sequence[Any]], limit: int) -> str:
    """A table of at most `limit` characters a line, if its first column permits.

    Long texts are wrapped. If that is not enough, the last columns are left out, and a line
    below the table names them.
    """
    values = [list(row) for row in rows]
    needs = [
        max(len(answer.visible(column)), *(len(answer.cell(row[i])) for row in values), 0)
        for i, column in enumerate(columns)
    ]
    least = [min(need, _NARROW) if _text(values, i) else need for i, need in enumerate(needs)]
    count = len(columns)
    while count > 1 and sum(least[:count]) + 2 * (count - 1) > limit:
        count -= 1
    widths = _shared(needs[:count], least[:count], limit - 2 * (count - 1))
    if widths == needs:
        return answer.table(columns, values)
    lines = [line for row in values for line in _wrapped(row[:count], widths)]
    heads = _wrapped(columns[:count], widths)
    text = answer.table(heads[0], [*heads[1:], *lines])
    if count == len(columns):
        return text
    left = [answer.visible(column) for column in columns[count:] if column]
    note = f"not shown, too wide: {', '.join(left)} (--wide shows all columns)"
    return f"{text}\n{textwrap.fill(note, max(limit, _NARROW), break_long_words=False)}"


def _text(values: Sequence[Sequence[Any]], column: int) -> bool:
    return any(not isinstance(row[column], int | float | None) for row in values)


def _shared(needs: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
    """The widths of the columns: the widest gives way first, down to its least."""
    found = list(needs)
    while sum(found) > limit:
        able = [i for i in range(len(found)) if found[i] > least[i]]
        if not able:
            break
        found[max(able, key=lambda i: found[i])] -= 1
    return found


def _wrapped(row: Sequence[Any], widths: Sequence[int]) -> list[list[Any]]:
    """One row as lines; a value that fits remains what it is, a wrapped one leaves '' below it."""
    cells: list[list[Any]] = []
    for value, wide in zip(row, widths, strict=True):
        text = answer.cell(value)
        cells.append([value] if len(text) <= wide else textwrap.wrap(text, wide) or [""])
    height = max(map(len, cells))
    return [[cell[i] if i < len(cell) else _Blank() for cell in cells] for i in range(height)]


class _Blank(int):
    """A place below a value: blank, and flush with numbers."""

    def __str__(self) -> str:
        return ""


def say(text: str, *, head: bool = False, words: Mapping[str, str] | None = None) -> None:
    """Print lines on stdout, in colour if it shows colour.

    `head`: the first line is the head of a table. `words`: colours by regular expression.
    """
    if not coloured():
        answer.say(text)
        return
    lines = answer.visible(text, keep="\n").split("\n")
    for pattern, name in (words or {}).items():
        paint = functools.partial(_painted, colour=name)
        lines = [re.sub(pattern, paint, line) for line in lines]
    if head:
        lines[0] = click.style(lines[0], bold=True)
    answer.say_painted("\n".join(lines))


def _painted(found: re.Match[str], colour: str) -> str:
    return click.style(found[0], fg=colour, bold=True)
