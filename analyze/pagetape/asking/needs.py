# SPDX-License-Identifier: Apache-2.0
"""Why a report has no rows: the tape lacks a table that the report reads, or nothing happened."""

import re
from typing import NamedTuple

from pagetape.asking.query import SEQUENCE, Query, views
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import absent, zone_events


class Source(NamedTuple):
    """Where a table comes from."""

    of: str  # what the tape must be, or hold
    command: str  # makes it; {tape} is the path of the tape at hand


_REPLAY = Source("a replay", "pagetape replay {tape} -o run.tape")
_LOCKS = Source(
    "a replay with a model of the zone lock",
    "pagetape replay {tape} --policy zone_lock -o run.tape",
)
_RESERVE = Source(
    "a replay with MIGRATE_RESERVE", "pagetape replay {tape} --policy reserve -o run.tape"
)
_VALIDATION = Source("a tape of validate", "pagetape validate {tape} -o checked.tape")
_RECLAIM = Source(
    "events of reclaim and compaction: a recording, or a replay with --reclaim R1",
    "pagetape record --events all -o new.tape",
)
_SAMPLES = Source(
    "samples of /proc: a recording with --sample", "pagetape record --sample 1s -o new.tape"
)
_STAMPED = Source(
    "samples of /proc in which each file has its own time",
    "pagetape record --sample 1s -o new.tape",
)
# The most special ones first: a report names the first that the tape lacks.
_SOURCES = {
    "lock_wait": _LOCKS,
    "zone_lock": _LOCKS,
    "reserve": _RESERVE,
    "lock_event": Source(
        "waits for the zones' locks", "pagetape record --events page,lock -o new.tape"
    ),
    "anomaly": _REPLAY,
    "block_mix": _REPLAY,
    "compaction": _RECLAIM,
    "counter": _REPLAY,
    "event": Source("page events", "pagetape record --events page -o new.tape"),
    "exactness": _VALIDATION,
    "miss": _VALIDATION,
    "pcp_occupancy": _REPLAY,
    "reclaim": _RECLAIM,
    "repair": _VALIDATION,
    "sample": _SAMPLES,
    "stamp": Source("stamps: a recording with BPF", "pagetape record --stamps on -o new.tape"),
    "sample_latency": Source(
        "latencies of the recorded command", "pagetape record -o new.tape -- pagetape load kbuild"
    ),
    "stack": Source("kernel stacks", "pagetape record --stacks extfrag -o new.tape"),
}

# What a report may list as a need of its own, by kind of event or table; table.began: values that
# have an instant. An older recorder stamped a sample once, before up to 15 s of reading.
_PAGES = "pagetape record --events page -o new.tape"
_NEEDED = {
    "event.alloc": Source("events of every allocation", _PAGES),
    "event.free": Source("events of every free", _PAGES),
    "event.alloc_zone_locked": Source("events of the per-CPU lists", _PAGES),
    "event.alloc_extfrag": Source(
        "events of fallbacks", "pagetape record --events cheap -o new.tape"
    ),
    "reclaim.lru_shrink_inactive": Source(
        "events of the scans of reclaim", "pagetape record --events all -o new.tape"
    ),
    "free_count.began": _STAMPED,
    "sample.began": _STAMPED,
    "free_area": Source("the free lists of a snapshot", _PAGES),
    "free_block": Source("the place of free blocks", _PAGES),
    "pageblock": Source("the type of each pageblock", _PAGES),
    "vmstat": Source("a snapshot of /proc/vmstat", "pagetape record --events proc -o new.tape"),
    "zone": Source("a snapshot of the zones", _PAGES),
}

# A tape that can have such rows has none if nothing of the kind happened.
_HAPPENS = {"anomaly": "replay", "miss": "validate", "repair": "validate"}


def named(sql: str) -> list[str]:
    """The names behind FROM and JOIN in a statement: tables, views and parts of its own."""
    return re.findall(r"\b(?:FROM|JOIN)\s+([a-z_]+)", sql)


def tables(q: Query) -> set[str]:
    """The tables that a query reads, also through views."""
    known = {view.name: view.sql for view in views()}
    found: set[str] = set()
    ahead = [q.sql]
    while ahead:
        for name in named(ahead.pop()):
            if name.startswith(SEQUENCE):
                found.add("event")
            elif name in TABLES:
                found.add(name)
            elif name in known and name not in found:
                found.add(name)
                ahead.append(known[name])
    return found & set(TABLES)


def _measured(tape: Tape, table: str) -> bool:
    """Whether the tape would have rows of the table if something had happened."""
    if table in _HAPPENS:
        return _HAPPENS[table] in tape.facts
    made = {point for kind in TABLES[table].kinds for point in kind.tracepoints}
    if not made or "validate" in tape.facts:
        return False
    if "replay" in tape.facts:
        return table == "event"
    wanted = tape.facts.get("events")
    if wanted is None:  # an imported recording: of its switches, only the events are known
        points = absent.seen(tape)
        return points is None or bool(made & points)
    return bool(made & set(wanted))


def _has(tape: Tape, need: str) -> bool:
    """Whether the tape has rows of a table, or recorded a kind of event, even if none happened."""
    table, _, kind = need.partition(".")
    if not kind:
        return tape.num_rows(table) > 0 or _measured(tape, table)
    if kind == "began":
        rows = tape.batches(table, ["began"])
        return "replay" in tape.facts or any(part["began"].null_count < len(part) for part in rows)
    if table == "event" and tape.num_rows("event_count"):  # a run of a sweep
        return kind == "alloc_extfrag"
    if need == "event.free" and zone_events.is_zone(tape) and "replay" not in tape.facts:
        return False  # it has frees past the lists only
    if "replay" in tape.facts and table != "event" and tape.facts["replay"]["reclaim"] != "R0":
        return True
    wanted = tape.facts.get("events")
    points = next(k.tracepoints for k in TABLES[table].kinds if k.name == kind)
    known = absent.seen(tape) if wanted is None else set(wanted)
    if known is None or "replay" in tape.facts or "validate" in tape.facts:
        return tape.num_rows(table) > 0
    return not known.isdisjoint(set(points) - set(tape.facts.get("skipped_events", [])))


def unmet(q: Query, tape: Tape) -> str | None:
    """The first need of a report's header that the tape lacks, with the command that makes it: rows
    without it would be counts of what nobody recorded."""
    for needs in q.needs:
        if not any(_has(tape, need) for need in needs):
            source = _NEEDED.get(needs[0]) or _SOURCES[needs[0].partition(".")[0]]
            return _needs(q, tape, source)
    return None


def lacking(q: Query, tape: Tape) -> str | None:
    """What the tape lacks for a report without rows, with the command that makes it.

    A table of the lock model or of MIGRATE_RESERVE is needed for itself. Of the others a report
    may do without some: the tape lacks something if it has none of them.
    """
    if lack := unmet(q, tape):
        return lack
    if q.needs and all(any(tape.num_rows(n) for n in of if n in TABLES) for of in q.needs):
        return None  # rows of each: what else the report reads is beside them
    listed = {need for needs in q.needs for need in needs}
    read = [table for table in _SOURCES if table in tables(q) - listed]
    without = [t for t in read if tape.num_rows(t) == 0 and not _measured(tape, t)]
    if not without or (_SOURCES[without[0]] not in (_LOCKS, _RESERVE) and len(without) < len(read)):
        return None
    return _needs(q, tape, _SOURCES[without[0]])


def empty(q: Query, tape: Tape) -> list[str]:
    """Lines about kinds of event without which a report has rows, but nothing in some columns."""
    return [
        f"not recorded: {_NEEDED[first].of}; what the report counts of them is empty or 0"
        for first, *others in q.needs
        if first in _NEEDED and not _has(tape, first) and any(_has(tape, other) for other in others)
    ]


def _needs(q: Query, tape: Tape, source: Source) -> str:
    foreign = "event" in source.of and absent.is_foreign(tape)
    hedge = ", and this import has none (not recorded, or none happened)" if foreign else ""
    return (
        f"{tape.path}: {q.name} needs {source.of}{hedge}: {source.command.format(tape=tape.path)}"
    )
