# SPDX-License-Identifier: Apache-2.0
"""The pageblocks of the CMA area, which /proc/kpageflags does not name.

/proc/pagetypeinfo has the number of each zone's CMA pageblocks, and their free blocks by order.
An area is contiguous: the run of so many pageblocks whose free blocks have these orders is it,
while the zone's other free blocks have the orders of the other types. Of runs that fit equally
well, it is the highest, because memblock reserves an area from the top of memory
(cma_declare_contiguous_nid, 6.12). No free block crosses its bounds. Zones with more than one area
fit no run, and keep their guessed types.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Zone = tuple[int, str]

# The files are read one after the other: the share of an area's pages that may differ in between.
_MISFIT = 1 / 32


def marked(
    pageblocks: pa.RecordBatch,
    free_blocks: pa.RecordBatch,
    areas: Iterable[Row],
    counts: Iterable[Row],
    pageblock_order: int,
) -> pa.RecordBatch:
    """The `pageblocks` of kpageflags with the type CMA where the area of a zone is.

    `free_blocks` are those of kpageflags, `areas` and `counts` those of pagetypeinfo.
    """
    nr_blocks = {
        (row["node"], row["zone"]): row["nr_blocks"]
        for row in counts
        if row["migratetype"] == "CMA" and row["nr_blocks"]
    }
    if not nr_blocks:
        return pageblocks
    import pyarrow.compute as pc  # 9 MB, which a machine without an area saves

    wanted: dict[Zone, Counter[int]] = defaultdict(Counter)
    others: dict[Zone, Counter[int]] = defaultdict(Counter)
    for row in areas:
        listed = wanted if row["migratetype"] == "CMA" else others
        listed[row["node"], row["zone"]][row["page_order"]] += row["nr_free"]
    rows: dict[Zone, list[int]] = defaultdict(list)
    where = zip(pageblocks["node"].to_pylist(), pageblocks["zone"].to_pylist(), strict=True)
    for number, zone in enumerate(where):
        rows[zone].append(number)
    free = _free_by_block(free_blocks, nr_blocks, pageblock_order)
    pfns = pageblocks["pfn"].to_pylist()
    found: set[int] = set()
    for zone, nr in nr_blocks.items():
        blocks = [pfns[row] >> pageblock_order for row in rows[zone]]
        most = (nr << pageblock_order) * _MISFIT
        fits = _misfits(blocks, free[zone], wanted[zone], others[zone], nr)
        start = _best_run(blocks, free[zone], fits, most, pageblock_order)
        if start is not None:
            found.update(rows[zone][start : start + nr])
    types = pageblocks["migratetype"]
    cma = pa.array([row in found for row in range(len(types))])
    values = pc.if_else(cma, "CMA", types.cast(pa.utf8())).cast(types.type)
    place = pageblocks.schema.get_field_index("migratetype")
    return pageblocks.set_column(place, pageblocks.schema.field(place), values)


def _free_by_block(
    free_blocks: pa.RecordBatch, zones: Iterable[Zone], pageblock_order: int
) -> dict[Zone, dict[int, dict[int, int]]]:
    """Of each zone and pageblock: its free blocks by order; one of several is in the first."""
    found: dict[Zone, dict[int, dict[int, int]]] = {zone: {} for zone in zones}
    columns = (free_blocks[name].to_pylist() for name in ("node", "zone", "page_order", "pfn"))
    for node, zone, order, pfn in zip(*columns, strict=True):
        if (node, zone) in found:
            block = found[node, zone].setdefault(pfn >> pageblock_order, {})
            block[order] = block.get(order, 0) + 1
    return found


def _misfits(
    blocks: list[int],
    free: dict[int, dict[int, int]],
    wanted: Counter[int],
    others: Counter[int],
    nr: int,
) -> list[tuple[int, int]]:
    """Of each run of `nr` of the `blocks`: pages that differ inside, and in the whole zone."""
    misfits = [(0, 0)] * (len(blocks) - nr + 1)
    for order in wanted | others:
        sums = list(accumulate((free.get(b, {}).get(order, 0) for b in blocks), initial=0))
        for start, (inside, whole) in enumerate(misfits):
            there = sums[start + nr] - sums[start]
            differ = abs(there - wanted[order]) << order
            rest = abs(sums[-1] - there - others[order]) << order
            misfits[start] = inside + differ, whole + differ + rest
    return misfits


def _best_run(
    blocks: list[int],
    free: dict[int, dict[int, int]],
    misfits: list[tuple[int, int]],
    most: float,
    pageblock_order: int,
) -> int | None:
    """The index in `blocks` where the run begins that misses at most `most` pages."""
    nr = len(blocks) - len(misfits) + 1
    within = {  # pageblocks that a free block enters from the one before
        block + further
        for block, orders in free.items()
        for further in range(1, 1 << max(max(orders) - pageblock_order, 0))
    }
    runs = [
        (-whole, start)
        for start, (inside, whole) in enumerate(misfits)
        if inside <= most
        and blocks[start + nr - 1] - blocks[start] == nr - 1
        and within.isdisjoint((blocks[start], blocks[start] + nr))
    ]
    return max(runs)[1] if runs else None
