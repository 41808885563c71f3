# SPDX-License-Identifier: Apache-2.0
"""Charts over time, as SVG text.

A series is a list of segments: from, to (both in seconds after the first event) and the value that
holds between them. Nothing is drawn where a series has no segment, so a chart neither extends a
sample to times before it nor a tape beyond its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pagetape.answer import markup
from pagetape.pages import svg

WIDTH, LEFT, HEAD, FOOT = 580, 48, 26, 38
WIDE, TALL = WIDTH - LEFT - 26, 150
DOTTED = 60  # segments of a series; fewer are marked by dots


class Segment(NamedTuple):
    """A value and the time for which it holds."""

    begin: float
    end: float
    value: float


Series = Mapping[str, Sequence[Segment]]  # by CSS class


@dataclass(frozen=True)
class Frame:
    """The axes, which several charts can share: seconds across, `top` and its unit upwards."""

    seconds: float
    top: float
    unit: str
    dots: bool = False  # mark the end of each segment: the time of a sample
    tall: int = TALL  # pixels between the axes
    points: bool = False  # segments begin at samples, between which the value is not known

    @property
    def ticks(self) -> list[float]:
        return svg.steps(self.top)

    @property
    def height(self) -> int:
        return HEAD + self.tall + FOOT

    def x(self, second: float) -> float:
        inside = min(max(second, 0.0), self.seconds)
        return LEFT + WIDE * (inside / self.seconds if self.seconds else 0)

    def y(self, value: float) -> float:
        return HEAD + self.tall * (1 - value / self.ticks[-1])


def equal(values: Sequence[float], interval_s: float, end: float) -> list[Segment]:
    """One segment per interval, the last one up to `end`; none begins after it."""
    return [
        Segment(i * interval_s, min((i + 1) * interval_s, end), value)
        for i, value in enumerate(values)
        if i * interval_s < end
    ]


def grid(frame: Frame) -> list[str]:
    """The grid, and the numbers and the unit upwards."""
    parts = [svg.text(0, 12, frame.unit, kind="axis")]
    for tick in frame.ticks:
        y = frame.y(tick)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            f"{svg.text(LEFT - 6, y + 4, svg.short(tick), anchor='end')}"
        )
    return parts


def axes(frame: Frame) -> list[str]:
    """The grid, and the numbers and units of both axes."""
    parts = grid(frame)
    for tick in svg.steps(frame.seconds, 6):
        if tick <= frame.seconds * 1.001:
            parts.append(svg.text(frame.x(tick), frame.height - 21, f"{tick:g}", anchor="middle"))
    words = "seconds after the first event"
    parts.append(svg.text(LEFT + WIDE / 2, frame.height - 5, words, anchor="middle", kind="axis"))
    return parts


def hover(frame: Frame, begin: float, end: float, words: str) -> str:
    """An invisible rectangle from second `begin` to `end`, with words for who points at it."""
    left, right = frame.x(begin), frame.x(end)
    return (
        f'<rect x="{left:.2f}" y="{HEAD}" width="{right - left:.2f}" height="{frame.tall}" '
        f'class="hover"><title>{markup(words)}</title></rect>'
    )


def _hovers(series: Series, frame: Frame, names: Mapping[str, str]) -> list[str]:
    """The values between each two ends of segments."""
    edges = sorted({edge for line in series.values() for s in line for edge in (s.begin, s.end)})
    at = {name: iter(line) for name, line in series.items()}
    now = {name: next(line, None) for name, line in at.items()}
    parts = []
    for begin, end in pairwise(edges):
        words = []
        for name in series:
            while (segment := now[name]) is not None and segment.end <= begin:
                now[name] = next(at[name], None)
            if segment is not None and segment.begin <= begin:
                words.append(f"{names.get(name, name)} {segment.value:,.0f}")
        if words and frame.x(end) > frame.x(begin):
            when = f"sample at {begin:.2f} s" if frame.points else f"{begin:.2f} to {end:.2f} s"
            parts.append(hover(frame, begin, end, f"{when}: {', '.join(words)} {frame.unit}"))
    return parts


def _points(name: str, segments: Sequence[Segment], frame: Frame) -> str:
    """Dots at the samples, joined by dashes."""
    at = [(frame.x(s.begin), frame.y(s.value)) for s in segments]
    dots = "".join(f'<circle cx="{x:.2f}" cy="{y:.1f}" r="3" class="dot {name}"/>' for x, y in at)
    path = "L".join(f"{x:.2f} {y:.1f}" for x, y in at)
    return f'<path d="M{path}" class="line dashed {name}"/>{dots if len(at) < DOTTED else ""}'


def _line(name: str, segments: Sequence[Segment], frame: Frame) -> str:
    if frame.points:
        return _points(name, segments, frame)
    path, dots, before = "", "", None
    for begin, end, value in segments:
        joined = before is not None and abs(begin - before) < 2e-3
        y = frame.y(value)
        path += f"{'L' if joined else 'M'}{frame.x(begin):.2f} {y:.1f}H{frame.x(end):.2f}"
        before = end
        if frame.dots and len(segments) < DOTTED:
            dots += f'<circle cx="{frame.x(end):.2f}" cy="{y:.1f}" r="3" class="dot {name}"/>'
    return f'<path d="{path}" class="line {name}"/>{dots}'


def _bars(series: Series, frame: Frame) -> list[str]:
    parts = []
    base: dict[float, float] = {}
    for name, segments in series.items():
        path = []
        for begin, end, value in segments:
            if value:
                low = base.get(begin, 0.0)
                base[begin] = low + value
                wide = max((frame.x(end) - frame.x(begin)) * 0.9, 0.6)
                path.append(
                    f"M{frame.x(begin):.2f} {frame.y(low):.1f}V{frame.y(base[begin]):.1f}"
                    f"h{wide:.2f}V{frame.y(low):.1f}z"
                )
        parts.append(f'<path d="{"".join(path)}" class="fill {name}"/>')
    return parts


def chart(
    series: Series, frame: Frame, names: Mapping[str, str] | None = None, *, stacked: bool = False
) -> str:
    """Stepped lines, or stacked bars. `names` are the words for the series when hovered."""
    parts = axes(frame)
    if stacked:
        parts += _bars(series, frame)
    else:
        parts += [_line(name, segments, frame) for name, segments in series.items()]
    parts += _hovers(series, frame, names or {})
    return svg.drawing(WIDTH, frame.height, f"{frame.unit} over time", parts)
