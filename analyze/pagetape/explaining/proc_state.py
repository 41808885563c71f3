# SPDX-License-Identifier: Apache-2.0
"""The memory state of a machine from /proc, for the same check as that of a message."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from pagetape import proc_copies, procfs
from pagetape.explaining.memory_state import Blocks, FreeList, State, Zone, of_row

_LETTERS = {
    "UNMOVABLE": "U",
    "MOVABLE": "M",
    "RECLAIMABLE": "E",
    "HIGHATOMIC": "H",
    "RESERVE": "R",
    "CMA": "C",
    "ISOLATE": "I",
}
_NAMES = {"DMA": "DMA", "DMA32": "DMA32", "NORMAL": "Normal", "HIGHMEM": "HighMem"}
_NAMES |= {"MOVABLE": "Movable", "DEVICE": "Device"}


def read(directory: Path) -> tuple[State, str | None]:
    """The newest state in a directory of /proc files, or of this machine for /proc; its release.

    Raises OSError for files that are not of /proc, and for a directory without zoneinfo.
    """
    is_live = directory.resolve() == Path("/proc")
    proc = procfs.live() if is_live else proc_copies.saved(directory)
    stage = proc.stages[-1]
    rows = proc.rows(stage, 0)
    names = _layout(proc.text("zoneinfo", stage) or "")
    page_kb = int(proc.facts.get("page_size", 4096)) >> 10
    state = State(begun=True, layout=names, page_size_kb=page_kb)
    for row in rows["zone"]:
        zone = _zone(row, names, page_kb)
        state.zones[zone.node or 0, zone.name] = zone
        state.nodes.add(zone.node or 0)
    if not state.zones:
        raise OSError(None, "no zone in zoneinfo", str(directory))
    state.lists = _lists(rows["free_area"], page_kb)
    return state, proc.facts.get("kernel")


def _layout(zoneinfo: str) -> tuple[str, ...]:
    """The zones that the kernel is built with, as far as zoneinfo lists them."""
    found = re.findall(r"^Node \d+, zone +(\S+)", zoneinfo, re.MULTILINE)
    return tuple(name for name in dict.fromkeys(found) if name in _NAMES.values())


def _zone(row: dict[str, Any], names: tuple[str, ...], page_kb: int) -> Zone:
    more = {
        "free": row["free"],
        "present": row["present"],
        "reserved_highatomic": row["nr_reserved_highatomic"],
        "free_highatomic": row["nr_free_highatomic"],
        "free_cma": row["nr_free_cma"] or 0,
    }
    reserve = tuple(row[f"lowmem_reserve_{name.lower()}"] for name in names)
    return of_row(row, _NAMES[row["zone"]], row["boost"] or 0, more, reserve, page_kb)


def _lists(rows: list[dict[str, Any]], page_kb: int) -> dict[tuple[int, str], FreeList]:
    """The free lists of free_area rows; without migratetypes, the types are unknown."""
    numbers: dict[tuple[int, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    types: dict[tuple[int, str, int], str] = defaultdict(str)
    for row in rows:
        key, order = (row["node"], _NAMES[row["zone"]]), row["page_order"]
        numbers[key][order] += row["nr_free"]
        if row["nr_free"]:
            types[*key, order] += _LETTERS.get(row.get("migratetype") or "", "")
    return {
        key: FreeList(
            {
                page_kb << order: Blocks(nr, types[*key, order])
                for order, nr in sorted(found.items())
            },
            None,
            whole=True,
        )
        for key, found in numbers.items()
    }
