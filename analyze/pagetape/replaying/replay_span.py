# SPDX-License-Identifier: Apache-2.0
"""The events between a tape's exact snapshots: the ones to play.

An exact snapshot shows the state right after a page of the recorder left its free list. The
alloc_zone_locked event of that page marks the instant, the *cut*: it is the last such event of
the snapshot's CPU, thread and page that is not later than the snapshot. The kernel reports the
allocation itself, with an `alloc` of the same page, only afterwards.

    start   The state already contains the events up to the cut, and that `alloc`.
    end     The state contains the events up to the cut, and that `alloc`, and no later ones.

A replay therefore plays the events between the two cuts, without the `alloc` of the start, with
the `alloc` of the end. If the event was not recorded, or is in the previous segment, the cut is
the snapshot's own time. The end is the last snapshot; a replay ignores the snapshots between.

Without an exact snapshot at the start, a replay plays all events, but not those before the first
one of a CPU that lost a thousand or more before it: until then requests of that CPU are missing.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.asking.interval import COUNTS, KINDS
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes.loss import Loss
from pagetape.tapes.machine import has_counts_only
from pagetape.tapes.overwritten import complete_from

Span = tuple[int, int]  # rows of event: the first, and the one after the last

# Search range around a snapshot, ns: longer than a snapshot may occupy a CPU.
_AROUND_NS = 500_000_000


_EXACT = ("exact", "mixed")


@dataclass(frozen=True)
class SnapshotPoint:
    """The rows of one snapshot in the table event."""

    after: int  # rows up to the cut
    alloc: int | None  # row of the later alloc that the state already contains


def exact(tape: Tape, snapshot: int) -> dict[str, Any] | None:
    """The row of `snapshot` with that number, if it is exact in at least one zone."""
    rows: list[dict[str, Any]] = tape.rows("snapshot")
    found = (row for row in rows if row["snapshot"] == snapshot and row["how"] in _EXACT)
    return next(found, None)


def kind(tape: Tape) -> str:
    """How sure a replay of the recording is: interval.RECORDINGS."""
    if exact(tape, 0) is None:
        return COUNTS if has_counts_only(tape) else KINDS[1]
    return KINDS[Loss.of(tape).total != 0]


def _scalar(name: str, mark: dict[str, Any]) -> pa.Scalar:
    """A value of the mark with the type of the column of event; pyarrow guesses int64."""
    return pa.scalar(mark[name], TABLES["event"].arrow.field(name).type)


def _rows(table: pa.Table, mark: dict[str, Any]) -> list[tuple[int, str]]:
    """The events of the marked page, by the marking thread on its CPU: row and kind."""
    mask = pa.scalar(True)
    for name in ("pfn", "cpu", "pid"):
        mask = pc.and_kleene(mask, pc.equal(table[name], _scalar(name, mark)))
    rows = pc.indices_nonzero(pc.fill_null(mask, False))
    return list(zip(rows.to_pylist(), table["kind"].take(rows).to_pylist(), strict=True))


def find(tape: Tape, mark: dict[str, Any]) -> SnapshotPoint:
    """The cut of the snapshot with the row `mark` among the tape's events."""
    base, near = tape.around("event", mark["ts"] - _AROUND_NS, mark["ts"] + _AROUND_NS)
    before = pc.sum(pc.less_equal(near["ts"], _scalar("ts", mark))).as_py() or 0
    events = _rows(near, mark)
    cuts = [row for row, kind in events if kind == "alloc_zone_locked" and row < before]
    after = cuts[-1] + 1 if cuts else before
    alloc = next((row for row, kind in events if kind == "alloc" and row >= after), None)
    return SnapshotPoint(base + after, None if alloc is None else base + alloc)


def spans(tape: Tape) -> list[Span]:
    """The rows of event to play, in order; an empty list stands for all rows."""
    return list(_spans(tape))


@lru_cache(maxsize=4)
def _spans(tape: Tape) -> list[Span]:
    """Found once: the events around both snapshots are decoded for it."""
    last = pc.max(tape.table("snapshot")["snapshot"]).as_py()
    start, end = exact(tape, 0), exact(tape, last) if last else None
    rows = tape.num_rows("event")
    if start is None:
        since = complete_from(tape)
        if since is None:
            return []
        base, near = tape.around("event", since, since)
        return [
            (base + (pc.sum(pc.less(near["ts"], _scalar("ts", {"ts": since}))).as_py() or 0), rows)
        ]
    first = find(tape, start)
    last = find(tape, end) if end else SnapshotPoint(rows, None)
    found = [(first.after, max(first.after, last.after))]
    if first.alloc is not None and first.alloc < last.after:
        found = [(first.after, first.alloc), (first.alloc + 1, last.after)]
    if last.alloc is not None:
        found.append((last.alloc, last.alloc + 1))
    return found
