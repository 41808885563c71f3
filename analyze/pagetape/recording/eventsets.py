# SPDX-License-Identifier: Apache-2.0
"""Event sets: the tracepoints that a recording enables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagetape.recording.stack_events import StackEvent

ZONE = "zone"
CHEAP = "cheap"
PROC = "proc"
LOCK = "lock"  # alone, or beside another set
AUTO = "auto"  # zone where BPF reports the frees, else cheap: printed.py

SETS = {
    "page": "every page allocated and freed, refills and drains of the per-CPU lists, fallbacks",
    ZONE: "all, but of the page events only those of the buddy allocator: refills, drains,"
    " fallbacks, frees past the per-CPU lists",
    CHEAP: "only rare events (fallbacks, kswapd, direct reclaim, compaction runs, OOM kills)",
    "all": "page, and all of reclaim, compaction, migration, watermark changes, vmstat ticks",
    LOCK: "waits for the locks of zones, with BPF; also beside another set: page,lock",
    PROC: "none: zoneinfo, buddyinfo, pagetypeinfo and vmstat of /proc every --interval; needs no"
    " root, but for pagetypeinfo",
}

# Tapes of these sets cannot be replayed: they need no exact snapshot, and no stamps.
RARE = (CHEAP, LOCK)

# Kinds of page events of the set `zone`. Of `free`, it holds only those past the per-CPU lists:
# printed.py.
_ZONE = {"alloc_zone_locked", "pcpu_drain", "alloc_extfrag", "free"}

# Rare events that show fragmentation, reclaim and stalls.
_CHEAP = {
    "event": {"alloc_extfrag"},
    "reclaim": {
        "wakeup_kswapd",
        "kswapd_wake",
        "kswapd_sleep",
        "kswapd_reclaim_fail",
        "kswapd_clear_hopeless",
        "balance_pgdat_begin",
        "balance_pgdat_end",
        "direct_reclaim_begin",
        "direct_reclaim_end",
        "node_reclaim_begin",
        "node_reclaim_end",
        "throttled",
        "setup_wmarks",
        "setup_lowmem_reserve",
        "totalreserve",
        "mark_victim",
    },
    "compaction": {
        "begin",
        "end",
        "try_to_compact_pages",
        "wakeup_kcompactd",
        "kcompactd_wake",
        "kcompactd_sleep",
    },
}


@dataclass(frozen=True)
class Contents:
    """What a session records."""

    events: Sequence[str]  # "system:event"
    event_set: str  # their name
    sample_s: float  # seconds between samples of /proc; 0: no samples
    stacks: tuple[StackEvent, ...] = ()  # events whose kernel stacks are recorded
    numa_maps: bool = False  # memory policies of processes
    stamps: str = "auto"  # on, off, or auto: where BPF can be used
    locks: bool = False  # contention of the zones' locks


@dataclass(frozen=True)
class Plan:
    """How a recorder gets the events of a set: its tracepoints, and their filters."""

    events: Sequence[str]
    filters: Mapping[str, str] = field(default_factory=dict)  # ftrace's, by event
    note: str | None = None  # for the user
    facts: Mapping[str, str] = field(default_factory=dict)  # for the tape
    undo: Callable[[], None] | None = None  # after the recording
    zone_locks: Sequence[tuple[int, int, int]] = ()  # address, node, number of the zone


def tracepoints(which: str, *, locks: bool = False) -> list[str]:
    """The "system:event" names of an event set; `locks`: with those of the set lock."""
    from pagetape.schemas import TABLES  # not for the first words of `record`

    if which == PROC:
        return []
    tables = {"page": ("event",), LOCK: ()}.get(which, ("event", "reclaim", "compaction"))
    tables += ("lock_event",) if locks or which == LOCK else ()
    return [
        tracepoint
        for name in tables
        for kind in TABLES[name].kinds
        if which != "cheap" or kind.name in _CHEAP.get(name, {kind.name})
        if which != ZONE or name != "event" or kind.name in _ZONE
        for tracepoint in kind.tracepoints
    ]
