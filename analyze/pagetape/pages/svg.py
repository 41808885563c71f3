# SPDX-License-Identifier: Apache-2.0
"""Pictures for the page: heat maps, bars, flame graphs and maps of pageblocks, as SVG text.

Colours are CSS variables of the page, so one picture works in light mode, dark mode and
print. Exact values are in <title> elements, which browsers show on hover.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pagetape.answer import markup


def short(nr: float) -> str:
    """'0', '0.25', '950', '1.2k', '34M': at most four characters."""
    if 0 < abs(nr) < 9.95 and nr != round(nr):
        return f"{nr:.2g}"
    for unit in ("", "k", "M", "G", "T"):
        if abs(nr) < 999.5:
            digits = 1 if unit and abs(nr) < 9.95 else 0
            return f"{nr:.{digits}f}".removesuffix(".0") + unit
        nr /= 1000
    return f"{nr:.0f}P"


def steps(top: float, nr: int = 4) -> list[float]:
    """Round numbers from 0 up to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / nr
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def text(x: float, y: float, words: object, *, anchor: str = "start", kind: str = "") -> str:
    """A piece of text; `kind` is a CSS class."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">'
        f"{markup(str(words))}</text>"
    )


def drawing(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="{markup(label)}">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Axis:
    """One side of a heat map: its title and the label of each row or column."""

    title: str
    labels: Sequence[str]


@dataclass(frozen=True)
class Heat:
    """How a heat map shows its numbers.

    By default, the colour shows the logarithm of the number, and the number is abbreviated. With
    `linear`, the colour is proportional to the number, and the number is printed in full.
    """

    top: int  # number with the full colour
    cell: tuple[int, int] = (86, 34)  # width and height in pixels
    boundary: int | None = None  # column with a line on its left side
    missing: Iterable[tuple[str, str]] = ()  # (row, column) pairs that cannot occur
    linear: bool = False


def heat_map(down: Axis, across: Axis, values: Mapping[tuple[str, str], int], heat: Heat) -> str:
    """Numbers by (row, column), as coloured cells."""
    rows, columns = down.labels, across.labels
    width, height = heat.cell
    left = 16 + 7.4 * max(len(down.title), *map(len, rows))
    head = 36
    impossible = set(heat.missing)
    scale = max(heat.top, 1) if heat.linear else math.log1p(max(heat.top, 1))
    parts = [
        text(left + width * len(columns) / 2, 11, across.title, anchor="middle", kind="axis"),
        text(left - 8, head - 8, down.title, anchor="end", kind="axis"),
    ]
    for j, column in enumerate(columns):
        parts.append(text(left + width * (j + 0.5), head - 8, column, anchor="middle"))
    for i, row in enumerate(rows):
        y = head + height * i
        parts.append(text(left - 8, y + height / 2 + 4, row, anchor="end"))
        for j, column in enumerate(columns):
            x = left + width * j
            if (row, column) in impossible:
                parts.append(_cell(x, y, heat.cell, "none"))
                continue
            nr = values.get((row, column), 0)
            share = (nr if heat.linear else math.log1p(nr)) / scale
            label = f"{down.title} {row}, {across.title} {column}: {nr:,}"
            parts.append(
                f"<g><title>{markup(label)}</title>{_cell(x, y, heat.cell, 'cell', share)}"
            )
            kind = "zero" if nr == 0 else "hot" if share > 0.7 else ""
            words = str(nr) if heat.linear else short(nr)
            parts.append(text(x + width / 2, y + height / 2 + 4, words, anchor="middle", kind=kind))
            parts.append("</g>")
    bottom = head + height * len(rows)
    if heat.boundary is not None and 0 < heat.boundary < len(columns):
        x = left + width * heat.boundary
        parts.append(f'<line x1="{x}" x2="{x}" y1="{head - 4}" y2="{bottom + 4}" class="mark"/>')
    return drawing(
        left + width * len(columns) + 4, bottom + 6, f"{down.title} by {across.title}", parts
    )


def _cell(x: float, y: float, size: tuple[int, int], kind: str, heat: float = 0) -> str:
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{size[0] - 2}" height="{size[1] - 2}" rx="3" '
        f'class="{kind}" style="--heat-share:{100 * heat:.0f}%"/>'
    )


@dataclass(frozen=True)
class Bar:
    """One bar: label, value, CSS class and interval."""

    label: str
    value: float
    kind: str
    interval: tuple[float, float] | None = None


def bars(title: str, values: Sequence[Bar]) -> str:
    """Horizontal bars from zero, with whiskers for known intervals."""
    row, head = 26, 24
    left = 14 + 7.4 * max(len(bar.label) for bar in values)
    width = max(460, left + 260)
    wide = width - left - 64
    top = max(1, *((bar.interval or (0, bar.value))[1] for bar in values))
    parts = [text(0, 14, title, kind="title")]
    for i, bar in enumerate(values):
        y = head + row * i
        x = left + wide * bar.value / top
        within = f" [{bar.interval[0]:,} to {bar.interval[1]:,}]" if bar.interval else ""
        parts.append(
            f"<g><title>{markup(bar.label)}: {bar.value:,}{within}</title>"
            f"{text(left - 8, y + 16, bar.label, anchor='end')}"
            f'<rect x="{left:.1f}" y="{y + 3}" width="{max(x - left, 1):.1f}" height="{row - 8}" '
            f'rx="2" class="bar {bar.kind}"/>'
        )
        end = x
        if bar.interval and bar.interval[0] < bar.interval[1]:
            low, end = (left + wide * limit / top for limit in bar.interval)
            middle = y + row / 2 - 1
            parts.append(
                f'<path d="M{low:.1f} {middle}H{end:.1f}M{low:.1f} {middle - 4}v8'
                f'M{end:.1f} {middle - 4}v8" class="whisker"/>'
            )
        parts.append(text(end + 7, y + 16, short(bar.value)) + "</g>")
    return drawing(width, head + row * len(values) + 4, title, parts)


def icicle(stacks: Sequence[tuple[str, int]], unit: str) -> str:
    """An icicle flame graph: callers above callees; the width of a frame is its count.

    `stacks` are folded stacks, outermost function first, with their counts.
    """
    width, row = 1180, 19
    total = sum(nr for _, nr in stacks)
    parts: list[str] = []
    deepest = 0

    def draw(left: float, depth: int, below: Sequence[tuple[list[str], int]]) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        callees: dict[str, list[tuple[list[str], int]]] = {}
        for (name, *rest), nr in (entry for entry in below if entry[0]):
            callees.setdefault(name, []).append((rest, nr))
        for name, calls in sorted(callees.items()):
            nr = sum(n for _, n in calls)
            wide = width * nr / total
            words = name[: int((wide - 6) / 7.3)] if wide > 20 else ""
            parts.append(
                f"<g><title>{markup(name)}: {nr:,} of {total:,} {markup(unit)}</title>"
                f'<rect x="{left:.2f}" y="{row * depth}" width="{max(wide - 1, 0.5):.2f}" '
                f'height="{row - 1}" class="frame shade{sum(name.encode()) % 3}"/>'
                f"{text(left + 4, row * depth + 13, words)}</g>"
            )
            draw(left, depth + 1, calls)
            left += wide

    draw(0, 0, [(folded.split(";"), nr) for folded, nr in stacks])
    return drawing(width, row * deepest, f"{unit} by stack", parts)


def block_map(lines: Sequence[tuple[str, str]], kinds: Mapping[str, str], width: int) -> str:
    """A square per letter of the lines; `kinds` maps letters to CSS classes.

    A line is the address at its left and at most `width` letters.
    """
    left = 54
    size = (1180 - left) / width
    row = max(size, 16)
    paths: dict[str, list[str]] = {kind: [] for kind in kinds.values()}
    parts = []
    for y, (address, line) in enumerate(lines):
        x = 0
        parts.append(text(left - 8, (y + 0.5) * row + 4, address, anchor="end"))
        for letter, same in groupby(line):
            nr = len(list(same))
            if letter in kinds:
                across, down = nr * size - 1, row - 1
                start = left + x * size
                box = f"M{start:.1f} {y * row:.1f}h{across:.1f}v{down:.1f}h-{across:.1f}z"
                paths[kinds[letter]].append(box)
            x += nr
    for kind, path in paths.items():
        parts.append(f'<path d="{"".join(path)}" class="fill {kind}"/>')
    return drawing(1180, row * len(lines), "pageblocks by address in GiB", parts)
