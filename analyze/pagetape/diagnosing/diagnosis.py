# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of one tape: every question examined, and the findings that matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pagetape.answer import amount
from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
from pagetape.diagnosing import (
    compaction,
    failures,
    huge_pages,
    kswapd,
    mixing,
    pcp_lists,
    pinned,
    recording,
    stalls,
    watermarks,
)
from pagetape.diagnosing.case import Case
from pagetape.diagnosing.finding import Finding, worst_first
from pagetape.diagnosing.recording import Limit
from pagetape.schemas.tape import Tape
from pagetape.tapes import absent

MOST = 5  # findings shown without --all

_QUESTIONS: tuple[Callable[[Case], Finding], ...] = (
    recording.loss,
    failures.examine,
    stalls.examine,
    mixing.examine,
    kswapd.examine,
    compaction.kcompactd,
    compaction.explicit,
    huge_pages.examine,
    pinned.examine,
    watermarks.examine,
    pcp_lists.too_small,
    pcp_lists.too_large,
)


@dataclass(frozen=True)
class Diagnosis:
    """The answers to all questions about one tape, worst first."""

    tape: Tape
    seconds: float
    covers: str  # what it has for so long: events, snapshots or samples
    examined: list[Finding]
    limits: list[Limit]
    page_events: bool = True  # the tape has some, or their recorder had switched them on

    @property
    def findings(self) -> list[Finding]:
        """The diseases, at most MOST, worst first."""
        return [f for f in self.examined if f.shown][:MOST]

    @property
    def summary(self) -> str:
        """One sentence: how many findings among how many questions."""
        ill = [f for f in self.examined if f.shown]
        unknown = [f for f in self.examined if f.severity == "unknown"]
        answered = amount(len(self.examined) - len(unknown), "question")
        blind = f"; {len(unknown)} cannot be answered from this tape" if unknown else ""
        why = "" if self.page_events else " (it has no page events)"
        if len(unknown) == len(self.examined):
            return f"Nothing can be said: the tape answers none of the questions{why}."
        if ill:
            more = f"; the worst {MOST} follow" if len(ill) > MOST else ""
            return f"{amount(len(ill), 'finding')} from {answered} answered{blind}{why}{more}."
        if not self.page_events:
            return (
                "The tape has no page events, so it shows neither health nor disease of the page"
                f" allocator: {answered} answered without them, nothing above its threshold{blind}."
            )
        return f"No disease: {answered} answered, nothing above its threshold{blind}."


def queries() -> list[query.Query]:
    """The queries that a diagnosis asks."""
    own = [q for name, q in query.internal().items() if name.startswith("diagnose.")]
    return [*own, query.reports()["reclaim.min_free"]]


def _diagnose(tape: Tape, database: Database) -> Diagnosis:
    case = Case(tape, database)
    examined = worst_first([question(case) for question in _QUESTIONS])
    limits = recording.limits(case)
    seen = absent.of_page_events(tape)
    return Diagnosis(tape, case.seconds, case.covers, examined, limits, seen)


def diagnose(tape: Tape, database: Database | None = None) -> Diagnosis:
    """Examine a tape, with a database over it if there is one.

    Raises TapeError if it is unreadable or has impossible values.
    """
    if database is not None:
        return _diagnose(tape, database)
    with KeepingDatabase([tape], queries()) as own:
        return _diagnose(tape, own)
