# SPDX-License-Identifier: Apache-2.0
"""Exact snapshots of this machine, or the reason why a snapshot is not exact.

Normally the lists are copied without a lock and brought to one instant in a fraction of a
millisecond. In some virtual machines the CPUs cannot meet for so short a time: then the lists are
walked under the lock, if they are short. With `locked`, they are in any case.

A snapshot under the lock may be exact in one zone and not in another: if a zone takes longer than
the allowed time, its lists are read one by one, and each list is exact at its own time. If that
fails too, the zone's free blocks come from /proc/kpageflags.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import libraries
from pagetape.schemas import TABLES

if TYPE_CHECKING:
    from pagetape import _snapshot

Row = dict[str, Any]
Zone = tuple[int, str]  # node and name

# For how long a snapshot may hold a zone's lock and the CPUs, ms: normally, under the lock because
# the normal way failed, and under the lock because the user wants it.
SHORT_MS = 0.2
SECOND_MS = 2.0
LOCKED_MS = 20.0

# Tables without rows of a zone whose lists were not read.
_LISTS = ("free_area", "free_block", "pcp_page")


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
    max_ms: float = 0

    @property
    def how(self) -> str:
        """exact; mixed (exact in some zones); or proc (exact in none, or the checks failed)."""
        if self.why is None:
            return "exact"
        usable = self.facts and not self.facts["mismatches"]
        return "mixed" if usable and any(map(_lists_known, self.facts["zones"])) else "proc"

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
                    "how": zone["how"] if self._has(zone) else "proc",
                    "why": zone_why(zone, self.max_ms),
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

    def _has(self, zone: Row) -> bool:
        return self.how != "proc" and _lists_known(zone)

    def joined(
        self, rows: dict[str, list[Row]], flags: Flags
    ) -> tuple[dict[str, list[Row]], dict[str, pa.RecordBatch]]:
        """Rows and batches of this snapshot, completed with `rows` and `flags` of /proc."""
        blocks = flags.blocks
        missing = [(z["node"], z["zone"]) for z in self.facts["zones"] if not self._has(z)]
        tables = dict(self.tables)
        for name in _LISTS:
            tables[name] = tables[name].filter(pc.invert(_within(tables[name], missing)))
        if "pageblock" in blocks:
            known = pc.invert(_within(tables["pageblock"], missing))
            tables["pageblock"] = _with_contents(tables, flags, known)
        if missing and "block_guess" in blocks:
            guess = blocks["block_guess"]
            tables["block_guess"] = guess.filter(_within(guess, missing))
        areas = [area for area in rows["free_area"] if (area["node"], area["zone"]) in missing]
        return {"vmstat": rows["vmstat"], "free_area": areas}, tables


def _lists_known(zone: Row) -> bool:
    """Whether all free lists of the zone were read."""
    return zone["how"] in ("precopied", "locked", "still") or (
        zone["how"] == "pieces" and not zone["lists_moved"]
    )


def _within(batch: pa.RecordBatch, zones: Iterable[Zone]) -> pa.Array:
    """A mask: the rows of these zones."""
    name = batch["zone"].cast(pa.utf8())
    masks = [pc.and_(pc.equal(batch["node"], n), pc.equal(name, zone)) for n, zone in zones]
    return reduce(pc.or_, masks, pa.repeat(pa.scalar(False), batch.num_rows))


def _with_contents(
    tables: dict[str, pa.RecordBatch], flags: Flags, known: pa.Array
) -> pa.RecordBatch:
    """Pageblocks with nr_movable of the flags, and whether they are of the lists' instant.

    `known` marks the pageblocks of zones whose lists were read.
    """
    blocks, read = tables["pageblock"], flags.blocks["pageblock"]
    movable = read["nr_movable"].take(pc.index_in(blocks["pfn"], value_set=read["pfn"]))
    numbers = pc.shift_right(blocks["pfn"], pa.scalar(flags.pageblock_order, pa.uint64()))
    then, now = (
        _free_pages(listed, flags.pageblock_order, numbers)
        for listed in (tables["free_block"], flags.blocks["block_guess"])
    )
    compared = pc.and_(known, pc.is_valid(movable))
    stable = pc.if_else(compared, pc.equal(then, now), pa.scalar(None, pa.bool_()))
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


def zone_why(zone: Row, max_ms: float) -> str | None:
    """The reason why a zone is not exact, to follow "zone Z"; None if the zone is exact."""
    said = []
    if zone["how"] == "pieces" and zone["free_blocks"]:
        said.append(f"cannot be walked in {max_ms:g} ms ({zone['free_blocks']} free blocks)")
        if zone["lists_moved"]:
            said.append(f"{zone['lists_moved']} of its lists changed while they were read")
    if zone["how"] == "refused":
        said.append("has more free blocks than there is room for")
    if zone["pcps_refused"]:
        said.append(
            f"{zone['pcps_refused']} of its per-CPU lists cannot be walked in {max_ms:g} ms"
        )
    if zone["pcps_moved"]:
        said.append(f"{zone['pcps_moved']} of its per-CPU lists changed while they were read")
    return ", ".join(said) or None


def _why(facts: Row, max_ms: float) -> str:
    """The reason why a snapshot is not exact."""
    if facts["mismatches"]:
        counts = (f"{kind} {nr}" for kind, nr in facts["mismatches"].items())
        return f"its checks failed: {', '.join(counts)}"
    zones = (
        f"zone {zone['zone']} of node {zone['node']}: {why}"
        for zone in facts["zones"]
        if (why := zone_why(zone, max_ms))
    )
    said = "; ".join(zones) or "its instant could not be marked in the trace"
    if facts["cpus"] > 1 and not facts["held_cpus"]:
        said += " (without CAP_SYS_NICE the snapshot cannot hold the CPUs still)"
    return said


class _Loaded:
    """The programs of one way, loaded; or the reason why they are not."""

    def __init__(self, max_ms: float, *, locked: bool) -> None:
        self._max_ms = max_ms
        self._loaded: _snapshot.Snapshot | None = None
        self.refused: str | None = None
        try:
            from pagetape import _snapshot
        except ImportError as e:
            self.refused = libraries.missing(e) or str(e)
            return
        try:
            self._loaded = _snapshot.Snapshot(max_ms, locked)
        except OSError as e:  # a CollectorError
            self.refused = e.strerror

    def take(self, number: int) -> Exact:
        if self._loaded is None:
            return Exact({}, {}, self.refused)
        try:
            facts, batches = self._loaded.take(number)
        except OSError as e:
            return Exact({}, {}, e.strerror)
        why = None if facts["exact"] else _why(facts, self._max_ms)
        tables = {name: pa.record_batch(rows) for name, rows in batches}
        return Exact(facts, tables, why, self._max_ms)

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()


class ExactSnapshots:
    """Exact snapshots with BPF, if this build and this machine support them.

    `max_ms` limits each hold of a zone's lock and of the CPUs; None: the default of the way.
    Create it before the recording, call take() during the recording, and close() after it:
    loading and unloading allocate megabytes. Only the programs of the second way are loaded in
    take(), before the instant of the snapshot.
    """

    def __init__(self, max_ms: float | None = None, *, locked: bool = False) -> None:
        self._max_ms = max_ms
        self._first = _Loaded(max_ms or (LOCKED_MS if locked else SHORT_MS), locked=locked)
        self._second: _Loaded | None = None  # under the lock, if the first way failed once
        self._locked = locked

    @property
    def refused(self) -> str | None:
        """The reason why exact snapshots are unavailable."""
        return self._first.refused

    def take(self, number: int) -> Exact:
        """A snapshot now, as exact as this machine allows."""
        first = self._first.take(number)
        found = first.facts and not first.facts["mismatches"]
        if first.why is None or not found or self._locked:
            return first
        self._second = self._second or _Loaded(self._max_ms or SECOND_MS, locked=True)
        second = self._second.take(number)
        return second if second.why is None else first

    def close(self) -> None:
        self._first.close()
        if self._second is not None:
            self._second.close()
