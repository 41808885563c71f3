# SPDX-License-Identifier: Apache-2.0
"""What the index and the aggregates of an archive hold of one tape."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import pyarrow.compute as pc

from pagetape.answer import Answer
from pagetape.archive import names
from pagetape.archive.names import Named
from pagetape.asking import archived, query
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
from pagetape.asking.machine_rows import machine
from pagetape.schemas.tape import Tape
from pagetape.tapes import absent, info

Rows = list[dict[str, Any]]

_OF_RUNS = ("reclaim", "stall")

# Columns that the view machine has, too.
_OF_MACHINE = (
    *("host", "kernel", "kernel_row", "arch", "cpus", "nodes"),
    *("pageblock_order", "fallback_unit"),
)

# The report whose rows are those of `reclaim`, and the columns that they take from it.
_RECLAIM = "reclaim.summary"
_OF_REPORT = {
    "what": "what",
    "nr": "runs",
    "pages": "pages",
    "total_ms": "total_ms",
    "max_ms": "max_ms",
}


def _questions() -> dict[str, query.Query]:
    """The query of each aggregate, by table."""
    internal = query.internal()
    found = {name: internal.get(f"archive.{name}") for name in archived.tables() if name != "tape"}
    return {name: q or query.reports()[_RECLAIM] for name, q in found.items()}


def _rows(name: str, found: Answer) -> Rows:
    if name != "reclaim":
        return found.objects()
    return [{new: row[old] for old, new in _OF_REPORT.items()} for row in found.objects()]


class Aggregates:
    """Makes the aggregates of tapes, one after the other. Most queries are planned once."""

    def __init__(self) -> None:
        self._questions = _questions()
        self._db: Database | None = None

    def of(self, tape: Tape) -> dict[str, Rows]:
        """The rows of each aggregate, without the number of the tape; raises TapeError for a tape
        that cannot be read."""
        if self._db is None:
            self._db = Database([tape])
        found = self._of_runs(tape)
        try:
            for name in self._questions.keys() - found.keys():
                found[name] = _rows(name, self._db.run_on(tape, self._questions[name]))
        finally:
            self._db.forget()
        return found

    def _of_runs(self, tape: Tape) -> dict[str, Rows]:
        """The aggregates of runs: DuckDB cannot execute a prepared ASOF join twice."""
        if not any(map(tape.num_rows, ("reclaim", "compaction"))):
            return {name: [] for name in _OF_RUNS}
        questions = [self._questions[name] for name in _OF_RUNS]
        with KeepingDatabase([tape], questions) as db:
            return {
                name: _rows(name, db.run(q)) for name, q in zip(_OF_RUNS, questions, strict=True)
            }

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def _span(tape: Tape) -> tuple[int, int] | None:
    """The trace clock at the begin and the end of what the tape covers: a quiet machine has few
    events, but its recorder read /proc at both ends."""
    moments = [row["ts"] for row in tape.rows("snapshot") if row["ts"]]
    moments += tape.clock or ()
    for name in ("sample", "vmstat"):
        if tape.num_rows(name):
            ends = pc.min_max(tape.table(name)["ts"]).as_py()
            moments += [ts for ts in ends.values() if ts]
    return (min(moments), max(moments)) if moments else None


def _times(facts: dict[str, Any], seconds: float) -> tuple[datetime | None, datetime | None]:
    """Begin and end in UTC; DuckDB's TIMESTAMP has no zone."""
    try:
        at = datetime.fromisoformat(str(facts.get("recorded_at")))
        began = (at.astimezone(UTC) if at.tzinfo else at).replace(tzinfo=None)
        return began, began + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None, None


def _memory(tape: Tape) -> float | None:
    managed = sum(row["managed"] for row in tape.rows("zone") if row["snapshot"] == 0)
    size = int(tape.facts.get("page_size") or 4096)
    return round(managed * size / 2**30, 3) if managed else None


def _recorded(tape: Tape, known: list[str] | None) -> str | None:
    """The tracepoints that could have had events; None if nobody knows. Of an import, those that
    had some."""
    if known is None and "replay" not in tape.facts:
        return " ".join(sorted(absent.seen(tape) or ())) or None
    return None if known is None else " ".join(sorted(known))


def _hashed(text: object) -> str | None:
    return blake2b(str(text).encode(), digest_size=8).hexdigest() if text else None


def _readings(tape: Tape) -> int:
    """How often the machine's counters were read."""
    return len({row["snapshot"] for row in tape.rows("vmstat")}) + tape.num_rows("sample")


def place(named: Named, size: int, etag: str | None) -> dict[str, Any]:
    """What the index says of an object, whatever is in it."""
    return {"identity": named.identity, "date": named.date, "bytes": size, "etag": etag}


def index(tape: Tape) -> dict[str, Any]:
    """The row of the index, without the number of the tape and without place()."""
    facts, about, row = tape.facts, info.summary(tape), machine(tape, "", 0)
    span = _span(tape)
    seconds = (span[1] - span[0]) / 1e9 if span else 0.0
    began, ended = _times(facts, seconds)
    counted = sum(row["events"] for row in tape.rows("event_count"))
    return {
        "machine": names.machine(facts),
        **{name: row[name] for name in _OF_MACHINE},
        "mem_gb": _memory(tape),
        "event_set": facts.get("event_set"),
        "recorded": _recorded(tape, row["recorded"]),
        "snapshot": about["snapshot"],
        "private": (facts.get("private") or {}).get("names"),
        "replayed": "replay" in facts or "validate" in facts,
        "boot": _hashed(facts.get("boot_id")),
        "sysctls": json.dumps(facts.get("sysctls") or {}, sort_keys=True),
        "began": began,
        "ended": ended,
        "hours": seconds / 3600,
        "lost": about["lost"],
        "events": about["stored"] or tape.num_rows("event") + counted,
        "page_events": tape.num_rows("event") + counted,
        "counters": _readings(tape) > 1,
    }
