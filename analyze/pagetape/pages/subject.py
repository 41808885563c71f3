# SPDX-License-Identifier: Apache-2.0
"""One tape with the answers of the reports that its page shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagetape.asking import query
from pagetape.asking.comparison import Side
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
from pagetape.diagnosing.diagnosis import Diagnosis, diagnose, queries
from pagetape.schemas.tape import Tape
from pagetape.tapes.info import describe

STACKS = 500  # different ones, in a flame graph
GRID_LINES = 64  # of addresses, in the picture of fallbacks
BLOCKS = 128  # pageblocks in a line of the map
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """One tape with the answers the page shows."""

    label: str
    info: dict[str, Any]
    side: Side
    answers: dict[str, Rows]
    diagnosis: Diagnosis | None  # of a recording

    @property
    def seconds(self) -> float:
        return float(self.info["duration_s"])

    def tier(self, least: str = "A") -> str:
        """The tier of numbers whose tier is at least `least`."""
        return "recorded" if self.side.run is None else f"tier {max(least, self.side.run['tier'])}"


_PLAIN = (
    "extfrag.by_migratetype",
    "extfrag.by_order",
    "extfrag.by_task",
    "extfrag.by_zone",
    "frag.indices",
    "frag.by_migratetype",
    "frag.over_time",
    "reclaim.summary",
    "pcp.by_cpu",
    "alloc.by_task",
    "samples.rates",
    "zone_lock",
    "loss",
)


_OVER_TIME = ("extfrag.over_time", "events.over_time")
_OTHER = ("extfrag.by_stack", "metrics", "frag.pageblocks", "frag.map")


def opened(tape: Tape, interval_ms: int) -> KeepingDatabase:
    """A database for subject(); the answers of the report `metrics` take no pass of their own."""
    reports = query.reports()
    asked = [reports[name] for name in (*_PLAIN, *_OVER_TIME, *_OTHER)]
    asked += [] if "replay" in tape.facts else queries()
    return KeepingDatabase([tape], asked, {"interval_ms": interval_ms})


def subject(db: Database, label: str, side: Side, interval_ms: int) -> Subject:
    """The answers about the one tape of `db`."""
    (tape,) = db.tapes
    reports = query.reports()
    answers = {name: db.run(reports[name]).objects() for name in _PLAIN}
    top = {"top": STACKS}
    answers["extfrag.by_stack"] = db.run(reports["extfrag.by_stack"], top).objects()
    known = db.run(reports["frag.pageblocks"]).objects()
    answers["frag.map"] = [
        row | {"snapshot": nr}
        for nr in sorted({row["snapshot"] for row in known})
        for row in db.run(reports["frag.map"], {"width": BLOCKS, "snapshot": nr}).objects()
    ]
    for name in _OVER_TIME:
        answers[name] = db.run(reports[name], {"interval_ms": interval_ms}).objects()
    grid = {"interval_ms": interval_ms, "lines": GRID_LINES}
    answers["fallback_grid"] = db.run(query.internal()["fallback_grid"], grid).objects()
    lengths = query.internal()["list_lengths"]
    answers["list_lengths"] = db.run(lengths, {"interval_ms": interval_ms}).objects()
    found = diagnose(tape, db) if side.run is None else None
    return Subject(label, describe(tape), side, answers, found)
