# SPDX-License-Identifier: Apache-2.0
"""The kernel rows: the releases of each row, what it changes, and how sure that is.

schemas/kernels.toml has the features of each row, its releases, and the sources and images that
were read for it. The build makes the engine's table of rows and kernels.json of it.

A release without a source that was read is still played, by the row of the releases around it. The
answers about its tapes contain a warning that says so.

A row's name is one release of many, so people read it with its releases: "6.12.117 (6.12.29 to
6.12.y, 6.14.7 to 6.14.y)". As for kernel.org, y stands for any number.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagetape import did_you_mean
from pagetape.gfp_names import Release, number

if TYPE_CHECKING:
    from pagetape.schemas.tape import Tape

_KERNELS = Path(__file__).parents[1] / "schemas/kernels.json"

SURE = {"source": "source read", "image": "image seen", "patch": "date of a patch"}

_LONGEST = 64  # characters of a release in a warning

# A series of releases: 6.12, 6.12.y, or a distribution's release without the stable update, such as
# 6.1.0-44-amd64 or 6.12-generic. Release candidates come before the updates.
_SERIES = r"\d{1,5}\.\d{1,5}(\.[xy]|(?![.\d]|-rc).+|\.0-\d.*)?"

# What a user may mean by a release: two or three numbers, and what a distribution appends.
_FORM = re.compile(r"\d{1,5}\.\d{1,5}(\.(\d{1,5}|[xy])(\.\d.*)?)?((rc|[-+~_]).*)?", re.ASCII)


@dataclass(frozen=True)
class Row:
    """One entry of schemas/kernels.toml, which documents the fields."""

    name: str
    doc: str
    since: list[str]
    before: str | None = None
    source: list[str] = field(default_factory=list)
    image: list[str] = field(default_factory=list)
    less_sure: dict[str, str] = field(default_factory=dict)
    features: dict[str, str | int | bool] = field(default_factory=dict)
    note: str = ""

    @property
    def sure(self) -> str:
        """The best evidence for the row: a key of SURE."""
        return "source" if self.source else "image" if self.image else "patch"


@dataclass(frozen=True)
class Feature:
    """A rule by which rows differ; schemas/kernels.toml documents the fields."""

    name: str
    doc: str
    column: str = ""
    values: list[dict[str, str]] = field(default_factory=list)
    type: str = "yes or no"
    reclaim: bool = False
    fallback: str = ""

    @property
    def first(self) -> str | int | bool:
        """The value before any row sets one."""
        return self.values[0]["name"] if self.values else 0 if self.type == "number" else False


@dataclass(frozen=True)
class Interface:
    """What a recorded kernel shows, from a release on; schemas/kernels.toml documents it."""

    name: str
    since: str
    doc: str


@cache
def _file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_KERNELS.read_bytes())
    return found


@cache
def known() -> tuple[Row, ...]:
    """The entries, oldest row first."""
    return tuple(Row(**entry) for entry in _file()["row"])


@cache
def features() -> tuple[Feature, ...]:
    return tuple(Feature(**entry) for entry in _file()["feature"])


def rules(name: str) -> dict[str, str | int | bool]:
    """The features of a row: its own, and those of the row before."""
    rows = known()
    number = next(n for n, row in enumerate(rows) if row.name == name)
    before = rows[number].before or (rows[number - 1].name if number else None)
    first = {f.name: f.first for f in features()}
    return (rules(before) if before else first) | rows[number].features


@cache
def interfaces() -> tuple[Interface, ...]:
    return tuple(Interface(**entry) for entry in _file()["interface"])


def default_fallback() -> str:
    """The row whose fallbacks the policy `fallback` has without a parameter."""
    return str(_file()["default_fallback"])


def shows(text: str | None, interface: str) -> bool | None:
    """Whether a release has an interface; None for an unknown release."""
    release = number(text or "")
    since = next(one.since for one in interfaces() if one.name == interface)
    return None if release is None else release >= _whole(number(since) or ())


def is_release(text: str) -> bool:
    """Whether the text has the form of a kernel's release."""
    return _FORM.fullmatch(text) is not None


def _series(text: str) -> Release | None:
    """The part of a release that its stable updates share: 6.12, but 2.6.32."""
    release = number(text)
    return release and release[: 3 if release[0] == 2 else 2]


@cache
def _looked_at(how: str) -> frozenset[Release | None]:
    """The series of the releases whose source was read, or image was seen."""
    return frozenset(_series(text) for row in known() for text in getattr(row, how))


def release(tape: Tape) -> str | None:
    """The kernel's version; Debian's release string lacks its last number."""
    debian = re.search(r" Debian (\d+\.\d+\.\d+)", tape.facts.get("version") or "")
    return debian[1] if debian else tape.facts.get("kernel")


def is_preempt_rt(tape: Tape) -> bool:
    """Whether the locks of the tape's kernel sleep; former patches call it PREEMPT RT."""
    words = re.search(r"\bPREEMPT[_ ]RT\b", tape.facts.get("version") or "")
    return bool(words) or (tape.facts.get("config") or {}).get("PREEMPT_RT") == "y"


def of_release(text: str | None) -> str | None:
    """The row of a release; None without one, and before the oldest row."""
    release = number(text or "")
    return next((s.row for s in _all_spans() if release and s.holds(release)), None)


def between(first: Release, last: Release) -> list[str]:
    """The rows of the releases from `first` until before `last`, oldest first."""
    found = [s.row for s in _all_spans() if s.start < last and (s.end is None or first < s.end)]
    return list(dict.fromkeys(found))


def asked(text: str) -> str:
    """The row that a user names by its name or by a release.

    Raises EngineError for an unknown kernel, and for a series of releases with several rows.
    """
    names = [row.name for row in known()]
    if text in names:
        return text
    from pagetape import _replay  # here, so that rows are read without the engine

    if not is_release(text):
        raise _replay.EngineError(
            errno.EINVAL,
            f"'{text[:_LONGEST]}' is no release of a kernel (example: 6.12.0); the rows:"
            f" {' '.join(names)}{did_you_mean.hint(text, names)}",
        )
    if several := _rows_within(text):
        raise _replay.EngineError(
            errno.EINVAL,
            f"'{text[:_LONGEST]}' names several rows: {several}; give one of"
            " them, or a full release",
        )
    try:
        return _replay.kernel_for_release(text)
    except _replay.EngineError as e:
        hint = did_you_mean.hint(text, names)
        raise _replay.EngineError(e.errno, f"{e.strerror}{hint}") from e


def about_name(text: str) -> str | None:
    """One line about a row whose name is also a series of releases with other rows; None for any
    other kernel."""
    if text not in {row.name for row in known()} or not (several := _rows_within(text)):
        return None
    return f"kernel {text} is the row {named(text)}; the rows of that series: {several}"


def within(text: str) -> list[str]:
    """The rows of a series of releases, such as 6.12; empty for a text that names one release."""
    found = re.fullmatch(_SERIES, text)
    series = found and _series(text)
    if not series:
        return []
    return list(dict.fromkeys(span.row for span in _all_spans() if span.within(series)))


def _rows_within(text: str) -> str:
    """The rows of a series in words, with their releases in it; empty unless it has several."""
    rows, series = within(text), _series(text)
    if len(rows) < 2 or series is None:
        return ""
    parts = filter(None, (span.within(series) for span in _all_spans()))
    return ", ".join(f"{part.row} ({part.words})" for part in parts)


def releases(row: str) -> str:
    """The releases of a row in words; empty for a row that this pagetape does not have."""
    return ", ".join(span.words for span in _all_spans() if span.row == row)


def named(row: str) -> str:
    """A row as people read it: its name and its releases."""
    return f"{row} ({words})" if (words := releases(row)) else row


def warning_about(text: str) -> str | None:
    """The reason why no row is sure to have the rules of a release; None if one is."""
    series = _series(text)
    said = text[:_LONGEST]
    if series is None or of_release(text) is None:
        return f"'{said}' is not a release that pagetape knows"
    if text not in {row.name for row in known()} and (several := _rows_within(text)):
        return f"{said} lacks the stable update: it may be {several}"
    if series in _looked_at("source"):
        return None
    short = ".".join(map(str, series))
    if series in _looked_at("image"):
        return f"only the image of {short} was seen, not its source"
    if series > max(filter(None, _looked_at("source") | _looked_at("image"))):
        return f"{said} is newer than any kernel that pagetape knows"
    return f"nobody read the source of {short}"


def warnings(tape: Tape, row: str | None, asked: str = "auto") -> list[str]:
    """One line for each release of a run that no row is sure to fit.

    The releases are that of the tape, and the kernel that the user asked for.
    """
    asked_for = [] if asked == "auto" else [asked]
    releases = dict.fromkeys(text for text in (release(tape), *asked_for) if text)
    rules = f"played by the rules of {named(row)}" if row else "no rules"
    return [f"{rules}: {reason}" for text in releases if (reason := warning_about(text))]


def row_of(tape: Tape) -> str | None:
    """The row that a replayed or validated tape was played by, else the row of its release."""
    for run in _runs(tape):
        return str(run["kernel"])
    return of_release(release(tape))


def warnings_of(tape: Tape) -> list[str]:
    """The warnings of the runs that made a tape, else those about its release."""
    runs = list(_runs(tape))
    if not runs:
        return warnings(tape, of_release(release(tape)))
    found = [run.get("kernel_warnings", warnings(tape, run["kernel"])) for run in runs]
    return list(dict.fromkeys(line for lines in found for line in lines))


def _runs(tape: Tape) -> Iterator[dict[str, Any]]:
    """The facts of the runs that made a tape; none for a recording."""
    for name in ("validate", "replay"):
        if run := tape.facts.get(name):
            yield run


@dataclass(frozen=True)
class _Span:
    """Releases of a row: from one, until another that has the next row (None: the newest)."""

    row: str
    start: Release
    end: Release | None

    def holds(self, release: Release) -> bool:
        return self.start <= release and (self.end is None or release < self.end)

    def within(self, series: Release) -> _Span | None:
        """The part of the span in a series of releases; None without one."""
        first, after = _whole(series), _whole((*series[:-1], series[-1] + 1))
        start = max(self.start, first)
        end = after if self.end is None else min(self.end, after)
        return _Span(self.row, start, end) if start < end else None

    @property
    def words(self) -> str:
        """'6.12.0 to 6.12.28', '6.18.y' for a whole series, '7.3.0 and later'."""
        first = ".".join(map(str, self.start))
        if self.end is None:
            return f"{first} and later"
        *above, after = _trimmed(self.end)  # the first release that is not in it
        last = ".".join(map(str, (*above, after - 1)))
        if len(above) == 2:  # a stable update
            return first if last == first else f"{first} to {last}"
        return f"{last}.y" if first == f"{last}.0" else f"{first} to {last}.y"

    @property
    def limits(self) -> dict[str, str | None]:
        """Its first release, and the first one after it."""
        return {"from": _text(self.start), "until": _text(self.end) if self.end else None}


def _trimmed(release: Release) -> Release:
    """A release without zeros at its end."""
    return release if release[-1] else _trimmed(release[:-1])


def _text(release: Release) -> str:
    """A release as kernel.org writes it: 6.13, but 6.12.29."""
    return ".".join(map(str, (*release[:2], *filter(None, release[2:]))))


def _whole(release: Release) -> Release:
    """A release with three numbers."""
    return (*release, 0, 0)[:3]


@cache
def _all_spans() -> tuple[_Span, ...]:
    """The spans of all rows, oldest first."""
    starts = sorted((_whole(number(text) or ()), row.name) for row in known() for text in row.since)
    ends = [start for start, _ in starts[1:]]
    return tuple(
        _Span(name, start, end) for (start, name), end in zip(starts, [*ends, None], strict=True)
    )


def described() -> list[dict[str, Any]]:
    """Each row with its releases, its changes and how sure they are, oldest first."""
    from pagetape import _replay

    values = {row["name"]: row for row in _replay.kernels()}
    found = []
    last = None
    for row in known():
        before = row.before or last
        last = row.name
        changes = [
            {
                "feature": name,
                "doc": doc,
                "before": values[before][name],
                "after": values[row.name][name],
                "sure": SURE[row.less_sure.get(name, row.sure)],
            }
            for name, doc in ((feature.name, feature.doc) for feature in features())
            if before and values[before][name] != values[row.name][name]
        ]
        found.append(
            {
                "name": row.name,
                "doc": row.doc,
                "releases": [span.limits for span in _all_spans() if span.row == row.name],
                "sure": SURE[row.sure],
                "source": row.source,
                "image": row.image,
                "changed_from": before,
                "changes": changes,
                "note": row.note or None,
            }
        )
    return found
