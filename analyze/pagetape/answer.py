# SPDX-License-Identifier: Apache-2.0
"""Answers: named columns and rows, as aligned text or as JSON.

The text suits a terminal, diff and mail: no boxes, no colour, numbers flush right. Names on a tape
may hold any character: a task chooses its own. Every text for a terminal or a page goes through
visible(), which leaves none that a terminal or browser obeys.
"""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import click


@dataclass(frozen=True)
class Answer:
    """The result of a query; `types` are DuckDB's names of the columns' types."""

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]

    def objects(self) -> list[dict[str, Any]]:
        """The rows as JSON objects."""
        return [dict(zip(self.columns, map(plain, row), strict=True)) for row in self.rows]


def visible(text: str, keep: str = "") -> str:
    """`text` with an escape for each character without a shape of its own that is not in `keep`.

    These are control characters, marks of direction, separators other than a blank, and bytes of a
    file name that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep or c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    if 0xDC80 <= ord(char) <= 0xDCFF:  # os.fsdecode() of one byte
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def markup(text: str) -> str:
    """`text` as text of an HTML page, also in an attribute."""
    import html

    return html.escape(visible(text))


def say(text: str, *, err: bool = False) -> None:
    """Print one or more lines on stdout, or with `err` on stderr."""
    click.echo(visible(text, keep="\n"), err=err)
    (sys.stderr if err else sys.stdout).flush()


def say_painted(text: str) -> None:
    """Print lines with escape codes of colours on stdout; all else in them must be visible()."""
    click.echo(text, color=True)
    sys.stdout.flush()


def say_line(text: str, *, err: bool = False) -> None:
    """Print one line, whatever the names in it."""
    click.echo(visible(text), err=err)


def dumps(obj: Any, indent: int | None = None) -> str:
    """`obj` as JSON, in one line without `indent`."""
    separators = None if indent else (",", ":")
    return json.dumps(plain(obj), indent=indent, separators=separators)


def plain(value: Any) -> Any:
    """`value` as a JSON value; NaN and infinities become null."""
    if isinstance(value, float):
        return None if math.isnan(value) or math.isinf(value) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value)


def cell(value: Any) -> str:
    """One value as text in one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        # A small number is not 0: two digits of it.
        if 0 < abs(value) < 1e-6:
            return f"{value:.1e}"
        digits = 1 - math.floor(math.log10(abs(value))) if 0 < abs(value) < 0.0005 else 3
        return f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return visible(str(value))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Aligned columns, two spaces apart; a column of numbers is flush right."""
    values = [list(row) for row in rows]
    cells = [list(map(visible, columns)), *([cell(value) for value in row] for row in values)]
    width = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        bool(values) and all(isinstance(row[i], int | float | None) for row in values)
        for i in range(len(columns))
    ]
    return "\n".join(
        "  ".join(
            text.rjust(w) if r else text.ljust(w)
            for text, w, r in zip(line, width, right, strict=True)
        ).rstrip()
        for line in cells
    )


def emit_csv(answer: Answer) -> None:
    """Print the rows as CSV with a head; an unknown value is empty.

    A spreadsheet takes a text that begins with = + - @ for a formula: such a text, as the name of a
    thread may be, gets a ' before it. Numbers stay as they are.
    """
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in ([*answer.columns], *answer.rows):
        writer.writerow(map(_csv_cell, row))
    click.echo(out.getvalue(), nl=False)


def _csv_cell(value: Any) -> str:
    found = plain(value)
    text = "" if found is None else visible(str(found))
    is_formula = text.lstrip().startswith(("=", "+", "-", "@"))
    return f"'{text}" if is_formula and not isinstance(value, Number) else text


def emit(obj: dict[str, Any]) -> None:
    """Print the one JSON object of a command with --json."""
    click.echo(dumps(obj, indent=2))


def duration(seconds: float) -> str:
    """A time in words: '2.41 s', '78.9 ms'."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def amount(nr: int, one: str, many: str = "") -> str:
    """A number with its noun: '1 event', '12,345 events'."""
    return f"{nr:,} {one if nr == 1 else many or one + 's'}"


def share(part: int, whole: int) -> float | None:
    """`part` as a percentage of `whole`, rounded down so that 100 means all; None if whole is 0."""
    return math.floor(1e5 * part / whole) / 1e3 if whole else None


def size(nr: float) -> str:
    """`nr` bytes as text with a decimal unit: '3.2 MB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if nr < 1000:
            return f"{nr:.0f} {unit}" if unit == "bytes" else f"{nr:.1f} {unit}"
        nr /= 1000
    return f"{nr:.1f} TB"


def mib(nr: float) -> str:
    """`nr` bytes of memory as text in MiB: '7.2 MiB', '1,024 MiB'; '0.004 MiB' if it is little."""
    found = nr / (1 << 20)
    if 0 < found < 0.05:
        return f"{found:.1g} MiB"
    return f"{found:,.1f} MiB" if found < 100 else f"{found:,.0f} MiB"


def pages(nr: float, page_size: int, more: str = "") -> str:
    """A number of pages with their MiB, and more about them: '1,234 pages (4.8 MiB)'."""
    about = f"{mib(nr * page_size)}, {more}" if more else mib(nr * page_size)
    return f"{amount(round(nr), 'page')} ({about})"
