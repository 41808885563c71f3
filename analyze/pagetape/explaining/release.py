# SPDX-License-Identifier: Apache-2.0
"""The releases that a kernel message may come from: named in it, or inferred from its fields.

schemas/messages.toml has the fields, schemas/kernels.toml the rules of the releases.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pagetape.gfp_names import NEWEST, OLDEST, Release, facts, number
from pagetape.tapes import kernel_rows


@dataclass(frozen=True)
class Kernel:
    """A range of releases, from `first` until before `last`.

    `named` is the release if the message or the user names it.
    """

    first: Release
    last: Release
    named: str | None = None

    @property
    def words(self) -> str:
        if self.named:
            return self.named
        first = "" if self.first == OLDEST else f"from {_text(self.first)}"
        last = "" if self.last == NEWEST else f"before {_text(self.last)}"
        return " ".join(filter(None, (first, last))) or "unknown"

    @property
    def rows(self) -> list[str]:
        """The kernel rows whose rules the releases have, oldest first; never empty."""
        found = kernel_rows.between(self.first, self.last)
        return found or [kernel_rows.known()[0].name]


def _text(release: Release) -> str:
    return ".".join(map(str, release if release[0] == 2 or release[2] else release[:2]))


def named(text: str) -> Kernel | None:
    """The kernel of a release in words; None if the text is no release."""
    release = number(text)
    if release is None:
        return None
    return Kernel(release, (*release[:2], release[2] + 1), text)


def contradictions(release: Release, fields: Iterable[str]) -> list[str]:
    """Fields that a release no longer prints, or does not print yet.

    The trees for the next release print its fields under the name of the last one.
    """
    seen = set(fields)
    following = (release[0], release[1] + 1, 0)
    return [
        one["name"]
        for one in facts("messages")["field"]
        if one["name"] in seen and not one.get("less")
        if release >= (number(one.get("until", "")) or NEWEST)
        or following < (number(one.get("since", "")) or OLDEST)
    ]


def inferred_from(fields: Iterable[str], era: tuple[Release, Release] = (OLDEST, NEWEST)) -> Kernel:
    """The kernel that prints all these fields, and whose masks are of `era`.

    Where the fields contradict each other, a vendor's kernel printed them: the newest field counts,
    and no later limit.
    """
    seen = set(fields)
    known = [one for one in facts("messages")["field"] if one["name"] in seen]
    first = max([era[0], *(number(one["since"]) or OLDEST for one in known if "since" in one)])
    last = min([era[1], *(number(one["until"]) or NEWEST for one in known if "until" in one)])
    return Kernel(first, last) if first < last else Kernel(first, NEWEST)
