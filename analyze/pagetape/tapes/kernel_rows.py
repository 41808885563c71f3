# SPDX-License-Identifier: Apache-2.0
"""The kernel rows: the releases of each row, what it changes, and how sure that is.

The engine has the features of each row (replay/model/kernel.c). replay/kernels.toml has its
releases, and the sources and images that were read for it.

A release without a source that was read is still played, by the row of the releases around it. The
answers about its tapes contain a warning that says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from pagetape import _replay
from pagetape.schemas.tape import Tape

SURE = {"source": "source read", "image": "image seen", "patch": "date of a patch"}

_LONGEST = 64  # characters of a release in a warning

Release = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One entry of replay/kernels.toml, which documents the fields."""

    name: str
    since: list[str]
    before: str | None = None
    source: list[str] = field(default_factory=list)
    image: list[str] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def sure(self) -> str:
        """The best evidence for the row: a key of SURE."""
        return "source" if self.source else "image" if self.image else "patch"


@cache
def known() -> tuple[Row, ...]:
    """The entries, oldest row first."""
    text = (files("pagetape") / "kernels.toml").read_text("utf-8")
    return tuple(Row(**entry) for entry in tomllib.loads(text)["row"])


def _release(text: str) -> Release | None:
    """6.12.117-amd64 as (6, 12, 117), 6.1-rc7 as (6, 1, 0); None for any other text."""
    found = re.match(r"(\d{1,5})\.(\d{1,5})(?!\d)(?:\.(\d{1,5})(?!\d))?", text)
    return tuple(int(number or 0) for number in found.groups()) if found else None


def _series(text: str) -> Release | None:
    """The part of a release that its stable updates share: 6.12, but 2.6.32."""
    release = _release(text)
    return release and release[: 3 if release[0] == 2 else 2]


@cache
def _looked_at(how: str) -> frozenset[Release | None]:
    """The series of the releases whose source was read, or image was seen."""
    return frozenset(_series(text) for row in known() for text in getattr(row, how))


def release(tape: Tape) -> str | None:
    """The kernel's version; Debian's release string lacks its last number."""
    debian = re.search(r" Debian (\d+\.\d+\.\d+)", tape.facts.get("version") or "")
    return debian[1] if debian else tape.facts.get("kernel")


def of_release(text: str | None) -> str | None:
    """The row of a release; None without one."""
    with suppress(_replay.EngineError):
        return _replay.kernel_for_release(text) if text else None
    return None


def warning_about(text: str) -> str | None:
    """The reason why no row is sure to have the rules of a release; None if one is."""
    series = _series(text)
    said = text[:_LONGEST]
    if series is None or of_release(text) is None:
        return f"'{said}' is not a release that pagetape knows"
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
    rules = f"played by the rules of {row}" if row else "no rules"
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


def _spans() -> dict[str, list[dict[str, str | None]]]:
    """The releases of each row: from one, until another that has the next row."""
    starts = sorted((_release(text), text, row.name) for row in known() for text in row.since)
    spans: dict[str, list[dict[str, str | None]]] = {}
    ends = [text for _, text, _ in starts[1:]] + [None]
    for (_, start, name), end in zip(starts, ends, strict=True):
        spans.setdefault(name, []).append({"from": start, "until": end})
    return spans


def described() -> list[dict[str, Any]]:
    """Each row with its releases, its changes and how sure they are, oldest first."""
    features = {feature["name"]: feature["doc"] for feature in _replay.features()}
    values = {row["name"]: row for row in _replay.kernels()}
    spans = _spans()
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
                "sure": SURE[row.changes.get(name, row.sure)],
            }
            for name, doc in features.items()
            if before and values[before][name] != values[row.name][name]
        ]
        found.append(
            {
                "name": row.name,
                "doc": values[row.name]["doc"],
                "releases": spans[row.name],
                "sure": SURE[row.sure],
                "source": row.source,
                "image": row.image,
                "changed_from": before,
                "changes": changes,
                "note": row.note or None,
            }
        )
    return found
