# SPDX-License-Identifier: Apache-2.0
"""The memory state when a request of a tape failed, for the same check as that of a message.

The marks, the reserves and the lists are those of the reading nearest in time. Free pages are
counted from the page events up to the failure, if the tape has those. A figure of a reading that is
farther than NEAR_S, and that changes from event to event, is left out: the check then misses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagetape.explaining.memory_state import ORDER, Blocks, FreeList, State, Zone, of_row

NEAR_S = 0.01  # a reading within this time of the failure shows its state

Row = dict[str, Any]  # of queries/internal/explain/failures.sql


def distance_s(row: Row) -> float | None:
    """How long after the failure its reading is, negative before it; None without a reading."""
    return None if row["zone"] is None else row["state_s"] - row["at_s"]


def is_near(row: Row) -> bool:
    return row["zone"] is not None and abs(row["state_s"] - row["at_s"]) <= NEAR_S


def is_counted(rows: Sequence[Row]) -> bool:
    return all(row["counted"] is not None for row in rows)


def error(row: Row, bound: int) -> int:
    """By how many pages the count may be wrong: at most with bound 1, at least with -1."""
    if row["counted"] is None or not bound:
        return 0
    if row["error_pages"] is None:
        return bound * int(row["widest_pages"] or 0)
    error_pages = int(row["error_pages"])
    return max(-error_pages, 0) if bound > 0 else -max(error_pages, 0)


def state(rows: Sequence[Row], page_kb: int, bound: int = 0) -> State:
    """The state of the zones of one failure. `bound`: 1 for most free pages and the lowest marks,
    -1 for the opposite, as far as the tape leaves them open."""
    found = State(begun=True, page_size_kb=page_kb)
    seen = {_name(row["zone"]) for row in rows}
    low = [name for name in ("DMA", "DMA32") if name in seen]
    high = ["HighMem"] if any(row["has_highmem"] for row in rows) else []
    found.layout = (*low, "Normal", *high, "Movable", "Device")
    for row in rows:
        zone = _zone(row, found.layout, page_kb, bound)
        key = (zone.node or 0, zone.name)
        found.zones[key] = zone
        found.nodes.add(key[0])
        if is_near(row) and row["any_blocks"]:
            found.lists[key] = _list(row, page_kb)
        if "free_cma" not in zone.kb:
            found.counters["free_cma"] = 1  # some, of an unknown number
    return found


def _name(zone: str) -> str:
    return next(name for name in ORDER if name.upper() == zone)


def _zone(row: Row, layout: tuple[str, ...], page_kb: int, bound: int) -> Zone:
    near = is_near(row)
    boost = row["boost"] or 0
    if not near and bound:
        boost = 0 if bound > 0 else max(row["most_boost"] or 0, boost)
    counted = row["counted"]
    free = row["free"] if counted is None else max(counted + error(row, bound), 0)
    more = {"free": free, "reserved_highatomic": row["reserved_highatomic"]}
    for name in ("free_highatomic", "free_cma"):
        if near or row[name] == 0:  # others change from event to event
            more[name] = row[name]
    reserve = tuple(row["lowmem_reserve"][ORDER.index(name)] or 0 for name in layout)
    return of_row(row, _name(row["zone"]), boost, more, reserve, page_kb)


def _list(row: Row, page_kb: int) -> FreeList:
    """The free list of a zone; without migratetypes, the types are unknown."""
    types = {"U": row["common_blocks"], "C": row["cma_blocks"], "H": row["highatomic_blocks"]}
    numbers = _numbers(row["any_blocks"])
    letters = [""] * len(numbers)
    if row["common_blocks"] is not None:
        for letter, pages in types.items():
            for order, nr in enumerate(_numbers(pages or [])):
                letters[order] += letter if nr else ""
    blocks = {page_kb << order: Blocks(nr, letters[order]) for order, nr in enumerate(numbers)}
    return FreeList(blocks, None, whole=True)


def _numbers(pages: Sequence[int]) -> list[int]:
    """Free blocks of each order, from the pages in blocks of at least that order."""
    return [
        (pages - larger) >> order
        for order, (pages, larger) in enumerate(zip(pages, [*pages[1:], 0], strict=True))
    ]
