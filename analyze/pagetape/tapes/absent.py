# SPDX-License-Identifier: Apache-2.0
"""What the events of an imported recording leave out, in words.

A foreign recorder says neither which events it had switched on, nor its filters. A kind, an order
or a CPU without an event was left out, or had none: both readings are given.
"""

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.answer import amount
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import cpu_nodes, zone_events
from pagetape.tapes.loss import Loss
from pagetape.tapes.machine import has_counts_only

_FREES = ("free", "free_batched")


def of_page_events(tape: Tape) -> bool:
    """Whether the tape has page events, or its recorder had switched some on."""
    wanted = tape.facts.get("events")
    if tape.num_rows("event") or tape.num_rows("event_count"):
        return True
    made = {point for kind in TABLES["event"].kinds for point in kind.tracepoints}
    return wanted is not None and not made.isdisjoint(wanted)


def seen(tape: Tape) -> set[str] | None:
    """Tracepoints, as kmem:mm_page_free, with events on the tape; None if nothing lists them."""
    rows = tape.rows("tracepoint")
    if not rows:
        return None
    return {f"{row['system']}:{row['name']}" for row in rows if row["events"] and row["stored"]}


def is_foreign(tape: Tape) -> bool:
    """Whether another recorder than pagetape made the recording."""
    return not ("events" in tape.facts or "replay" in tape.facts or "validate" in tape.facts)


def lines(tape: Tape) -> list[str]:
    """One line for each thing that is absent; of pagetape's own recordings and replays only for the
    event sets zone and proc. The facts of an import have what its input lacks."""
    return [*_lines(tape, _kinds(tape)), *_limits(tape)]


def beside_kinds(tape: Tape) -> list[str]:
    """The lines without kinds of events."""
    return [*_lines(tape, []), *_limits(tape)]


def _limits(tape: Tape) -> list[str]:
    """What the recorder or the import found to be missing."""
    limits, made = tape.facts.get("limits") or [], tape.facts.get("import")
    return [f"made from {made['of']}: {'; '.join(limits)}"] if made and limits else limits


_ZONE = (
    "event set zone: no events of what the per-CPU lists serve, nor of blocks that compaction"
    " isolated"
)


_PROC = (
    "/proc over time, no events: nothing is known of single allocations, fallbacks, stalls and"
    " tasks, nor of what happened between two readings, but for counters"
)


_NODES = (
    "no nodes of the CPUs: a replay takes for each CPU the node whose free lists it took most"
    " blocks from"
)

_COUNTS = (
    "no kpageflags of the start: its free blocks are known by number, order and migratetype; a"
    " replay finds their places by later events, or guesses them"
)


def of_event_set(tape: Tape) -> str | None:
    """What the event set zone leaves out, with the name of the tape; None for another set."""
    return f"{tape.path}: {_ZONE}" if zone_events.is_zone(tape) else None


def _lines(tape: Tape, kinds: list[str]) -> list[str]:
    if zone_events.is_zone(tape):
        return [_ZONE]
    if zone_events.is_of_proc(tape):
        return [_PROC]
    if not is_foreign(tape):
        return []
    unreadable = [
        f"{amount(row['events'], 'event')} of {row['name']} are counted, not stored:"
        f" {row['unreadable']}"
        for row in tape.rows("tracepoint")
        if row["unreadable"] and row["events"]
    ]
    found = ["; ".join(unreadable)] if unreadable else []
    if not tape.num_rows("event"):
        return [
            *found,
            "no page events (kmem:mm_page_*): nothing can be said about allocations, frees,"
            " fallbacks and the per-CPU lists, and nothing can be replayed",
        ]
    if has_counts_only(tape):
        found.append(_COUNTS)
    if cpu_nodes.is_unknown(tape):
        found.append(_NODES)
    orders = _orders(tape)
    if without := list(filter(None, [", ".join(kinds), *_cpus(tape)])):
        found.append(f"no event of {' or of '.join(without)}: not recorded, or none happened")
    return found + orders + ([] if orders else _other_times(tape))


def _kinds(tape: Tape) -> list[str]:
    """Kinds of page events without an event; not those that are rare on any machine."""
    points = seen(tape)
    if not is_foreign(tape) or not points or not tape.num_rows("event"):
        return []
    return [
        kind.tracepoints[0]
        for kind in TABLES["event"].kinds
        if kind.name not in ("free_batched", "alloc_extfrag")
        and points.isdisjoint(kind.tracepoints)
    ]


def _orders(tape: Tape) -> list[str]:
    """Orders below the smallest one of the allocations and frees: those of a filter."""
    lowest: int | None = None
    nr = 0
    wanted = pa.array(["alloc", *_FREES])
    for batch in tape.batches("event", ("kind", "page_order")):
        those = batch.filter(pc.is_in(batch["kind"].cast(pa.utf8()), value_set=wanted))
        orders = those["page_order"].drop_null()
        if not len(orders):
            continue
        nr += len(orders)
        least = pc.min(orders).as_py()
        lowest = least if lowest is None else min(least, lowest)
        if lowest == 0:
            return []
    if lowest is None:
        return []
    orders_words = "order 0" if lowest == 1 else f"orders 0 to {lowest - 1}"
    return [
        f"no allocation or free of {orders_words} among {nr:,}: a filter left them out, or none"
        " happened; counts and shares are those of the higher orders"
    ]


def _cpus(tape: Tape) -> list[str]:
    """The CPUs without an event, if others have some."""
    read: dict[int, int] = {}
    for row in tape.rows("ring"):
        read[row["cpu"]] = read.get(row["cpu"], 0) + row["read"]
    without = sorted(cpu for cpu, nr in read.items() if not nr)
    if not without or len(without) == len(read):
        return []
    shown = ", ".join(map(str, without[:8])) + ", ..." * (len(without) > 8)
    return [f"{amount(len(without), 'CPU')} of {len(read)} ({shown})"]


# Copies of /proc that begin or end with the trace count as many pages as its events, nearly.
_MOST_RATIO = 2
_ALLOC = "mm_page_alloc"
_SLACK = 20_000  # pages, also of the commands that copy


def _other_times(tape: Tape) -> list[str]:
    """Copies of /proc that are much older or newer than the begin and the end of the trace."""
    counted: dict[int, int] = {}
    for row in tape.rows("vmstat"):
        if row["name"].startswith("pgalloc_"):
            counted[row["snapshot"]] = counted.get(row["snapshot"], 0) + row["value"]
    if len(counted) < 2 or Loss.of(tape).total != 0:
        return []
    between = counted[max(counted)] - counted[min(counted)]
    events = sum(row["events"] for row in tape.rows("tracepoint") if row["name"] == _ALLOC)
    if not events or not _far(between, events) or not _far(between, pages := _allocated(tape)):
        return []
    return [
        "the /proc copies are not of the begin and the end of the trace, or it leaves out"
        f" allocations: the kernel allocated {between:,} pages between the copies, the trace has"
        f" {pages:,}"
    ]


def _far(one: int, other: int) -> bool:
    return max(one, other) > _MOST_RATIO * min(one, other) + _SLACK


def _allocated(tape: Tape) -> int:
    """Pages that the allocations of the tape took."""
    pages = 0
    for batch in tape.batches("event", ("kind", "page_order")):
        those = batch.filter(pc.equal(batch["kind"].cast(pa.utf8()), "alloc"))
        orders = pc.value_counts(those["page_order"].drop_null())
        pages += sum(row["counts"] << row["values"] for row in orders.to_pylist())
    return pages
