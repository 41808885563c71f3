# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of this machine, or the reason why a snapshot is not exact.

The lists are copied without a lock and brought to one instant in a fraction of a millisecond, while
all CPUs meet. In some virtual machines the CPUs cannot meet for so short a time: then they have
longer. A snapshot that fails is tried again for a while.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pagetape import libraries
from pagetape.schemas import TABLES

if TYPE_CHECKING:
    from pagetape import _snapshot

Row = dict[str, Any]

# For how long a snapshot may hold a zone's lock or a CPU, ms: at first, and if the CPUs did not
# meet in that time. A guest of QEMU without KVM needs the longer one.
MAX_MS = (0.2, 10.0)

# So long a failed snapshot is tried again, s, with a pause before each try. What hinders it often
# passes: another guest that takes the CPUs, a burst of page faults, a process that exits.
RETRY_S = 2.0
_PAUSE_S = 0.1

# What hindered a snapshot, by its kind in the facts.
_HINDRANCES = {
    "apart": "a hypervisor or a real-time task had a CPU",
    "late": "the lists changed too much",
    "moved": "an interrupt changed a list",
    "unmarked": "no free block for the allocation that marks the instant",
    "retyped": "a pageblock changed its type without an event",
    "contradicted": "the lists and the counters disagreed",
    "full": "more free blocks than the programs have room for",
}


@dataclass(frozen=True)
class Flags:
    """What kpageflags shows of each page, from one reading of the whole file."""

    blocks: dict[str, pa.RecordBatch]  # block_guess and pageblock; empty if nothing was read
    pageblock_order: int
    ts: int  # trace clock: its begin if it came before the lists, else its end


NO_FLAGS = Flags({}, 0, 0)


@dataclass(frozen=True)
class Exact:
    """The result of an exact snapshot: its exact tables, and the reason for missing ones."""

    facts: Row  # of _snapshot.Snapshot.take(); empty if there is none
    tables: dict[str, pa.RecordBatch]
    why: str | None  # None if it is exact

    @property
    def how(self) -> str:
        """exact, or proc."""
        return "exact" if self.why is None else "proc"

    def rows(self, number: int) -> dict[str, list[Row]]:
        """Rows of snapshot_zone and snapshot_check."""
        if not self.facts:
            return {}
        differing = self.facts["mismatches"] | {"pcp_types": self.facts["pcp_types_differ"]}
        return {
            "snapshot_zone": [
                zone
                | {
                    "snapshot": number,
                    "how": zone["how"] if self.why is None else "proc",
                    "why": self.why,
                    **dict.fromkeys(("lists_moved", "pcps_moved", "pcps_refused"), 0),
                }
                for zone in self.facts["zones"]
            ],
            "snapshot_check": [
                {
                    "snapshot": number,
                    "name": name,
                    "compared": compared,
                    "differing": differing.get(name, 0),
                }
                for name, compared in self.facts["checks"].items()
            ],
        }

    def joined(self, flags: Flags) -> dict[str, pa.RecordBatch]:
        """The tables of this snapshot, completed with `flags`."""
        tables = dict(self.tables)
        if "pageblock" in flags.blocks:
            tables["pageblock"] = _with_contents(tables, flags)
        return tables


def _with_contents(tables: dict[str, pa.RecordBatch], flags: Flags) -> pa.RecordBatch:
    """Pageblocks with nr_movable of the flags, and whether they are of the lists' instant."""
    import pyarrow.compute as pc  # 9 MB, which a recording of rare events saves

    blocks, read = tables["pageblock"], flags.blocks["pageblock"]
    movable = read["nr_movable"].take(pc.index_in(blocks["pfn"], value_set=read["pfn"]))
    numbers = pc.shift_right(blocks["pfn"], pa.scalar(flags.pageblock_order, pa.uint64()))
    then, now = (
        _free_pages(listed, flags.pageblock_order, numbers)
        for listed in (tables["free_block"], flags.blocks["block_guess"])
    )
    stable = pc.if_else(pc.is_valid(movable), pc.equal(then, now), pa.scalar(None, pa.bool_()))
    columns = {
        "nr_movable": movable,
        "stable": stable.cast(pa.uint8()),
        "flags_ts": pa.repeat(pa.scalar(flags.ts, pa.uint64()), blocks.num_rows),
    }
    for name, values in columns.items():
        place = TABLES["pageblock"].arrow.get_field_index(name)
        blocks = blocks.set_column(place, blocks.schema.field(place), values)
    return blocks


def _free_pages(blocks: pa.RecordBatch, pageblock_order: int, numbers: pa.Array) -> pa.Array:
    """The free pages of each pageblock of `numbers`, from free blocks of any order."""
    import pyarrow.compute as pc

    parts = []
    for order in pc.unique(blocks["page_order"]).to_pylist():
        pfns = blocks["pfn"].filter(pc.equal(blocks["page_order"], order))
        first = pc.shift_right(pfns, pa.scalar(pageblock_order, pa.uint64()))
        for further in range(1 << max(order - pageblock_order, 0)):
            place = pc.add(first, pa.scalar(further, pa.uint64()))
            pages = pa.repeat(pa.scalar(1 << min(order, pageblock_order)), len(place))
            parts.append(pa.table({"number": place, "pages": pages}))
    if not parts:
        return pa.repeat(pa.scalar(0, pa.int64()), len(numbers))
    sums = pa.concat_tables(parts).group_by("number").aggregate([("pages", "sum")])
    place = pc.index_in(numbers, value_set=sums["number"].combine_chunks())
    return pc.fill_null(sums["pages_sum"].combine_chunks().take(place), 0)


def _why(facts: Row, max_ms: float) -> str:
    """The reason why a snapshot is not exact."""
    if facts["mismatches"]:
        counts = (f"{kind} {nr}" for kind, nr in facts["mismatches"].items())
        return f"its checks failed: {', '.join(counts)}"
    said = (
        f"the CPUs did not meet at one instant of the lists: {facts['meetings']} attempts of at"
        f" most {max_ms:g} ms"
    )
    if facts["hindered"]:
        often = Counter[str](facts["hindered"]).most_common()
        said += f" ({', '.join(f'{_HINDRANCES[kind]}: {nr}' for kind, nr in often)})"
    if facts["cpus"] > 1 and not facts["held_cpus"]:
        said += " (without CAP_SYS_NICE the snapshot cannot hold the CPUs still)"
    return said


def _with_cost(facts: Row, before: Row | None) -> Row:
    """These facts, with the longest holds of this try and of the failed ones before it, and with
    what hindered them all."""
    if before is None:
        return facts
    zones = [
        zone | {"lock_ns": max(zone["lock_ns"], failed["lock_ns"])}
        for zone, failed in zip(facts["zones"], before["zones"], strict=True)
    ]
    return facts | {
        "held_ns": max(facts["held_ns"], before["held_ns"]),
        "meetings": facts["meetings"] + before["meetings"],
        "hindered": dict(Counter(facts["hindered"]) + Counter(before["hindered"])),
        "zones": zones,
    }


class ExactSnapshots:
    """Exact snapshots with BPF, if this build and this machine support them.

    `max_ms` limits each hold of a zone's lock and of a CPU; None: MAX_MS, one after the other.
    Create it before the recording, call take() during the recording, and close() after it:
    loading and unloading allocate megabytes.
    """

    def __init__(self, max_ms: float | None = None) -> None:
        self._max_ms = (max_ms,) if max_ms else MAX_MS
        self._patient = True  # the last snapshot succeeded: a failure may pass
        self._loaded: _snapshot.Snapshot | None = None
        self.refused: str | None = None  # the reason why exact snapshots are unavailable
        try:
            from pagetape import _snapshot
        except ImportError as e:
            self.refused = libraries.missing(e) or str(e)
            return
        try:
            self._loaded = _snapshot.Snapshot()
        except OSError as e:  # a CollectorError
            self.refused = e.strerror

    def _tries(self) -> Iterator[float]:
        """The `max_ms` of each try; waits before those that repeat the last one."""
        yield from self._max_ms
        until = time.monotonic() + RETRY_S
        while self._patient and time.monotonic() < until:
            time.sleep(_PAUSE_S)
            yield self._max_ms[-1]

    def take(self, number: int) -> Exact:
        """A snapshot now, if this machine allows it."""
        if self._loaded is None:
            return Exact({}, {}, self.refused)
        before: Row | None = None
        for max_ms in self._tries():
            try:
                facts, batches = self._loaded.take(number, max_ms)
            except OSError as e:
                return Exact({}, {}, e.strerror)
            before = facts = _with_cost(facts, before)
            why = None if facts["exact"] else _why(facts, max_ms)
            if why is None or facts["mismatches"]:
                break
        self._patient = why is None
        return Exact(facts, {name: pa.record_batch(rows) for name, rows in batches}, why)

    def zone_locks(self) -> list[tuple[int, int, int]]:
        """The address, node and zone number of each zone's lock; none if BPF cannot be used."""
        return [] if self._loaded is None else self._loaded.zone_locks()

    def print_events(
        self, token: int, listed: Sequence[int], *, frees: bool, stamps: bool
    ) -> str | None:
        """Print frees and stamps as events (printed.py), until close(); returns why not, or
        None."""
        if self._loaded is None:
            return self.refused
        try:
            self._loaded.print_events(token, listed, frees, stamps)
        except OSError as e:
            return str(e.strerror)
        return None

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
