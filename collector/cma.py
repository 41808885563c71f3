# SPDX-License-Identifier: Apache-2.0
"""The pageblocks of the CMA area, which /proc/kpageflags does not name.

/proc/pagetypeinfo has the number of each zone's CMA pageblocks, and their free blocks by order.
An area is contiguous: the run of so many pageblocks whose free blocks have these orders is it.
Of runs that fit equally well, it is the highest, because memblock reserves an area from the top
of memory (cma_declare_contiguous_nid, 6.12). No free block crosses its bounds. Zones with more
than one area fit no run, and keep their guessed types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
    wanted: dict[Zone, dict[int, int]] = defaultdict(dict)
    for row in areas:
        if row["migratetype"] == "CMA":
            wanted[row["node"], row["zone"]][row["page_order"]] = row["nr_free"]
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
        start = _best_run(blocks, free[zone], wanted[zone], nr, most, pageblock_order)
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


def _best_run(
    blocks: list[int],
    free: dict[int, dict[int, int]],
    wanted: dict[int, int],
    nr: int,
    most: float,
    pageblock_order: int,
) -> int | None:
    """The index in `blocks` where the run of `nr` begins that misses at most `most` pages."""
    if nr > len(blocks):
        return None
    misfits = [0] * (len(blocks) - nr + 1)
    for order, number in wanted.items():
        sums = list(accumulate((free.get(b, {}).get(order, 0) for b in blocks), initial=0))
        for start in range(len(misfits)):
            misfits[start] += abs(sums[start + nr] - sums[start] - number) << order
    within = {  # pageblocks that a free block enters from the one before
        block + further
        for block, orders in free.items()
        for further in range(1, 1 << max(max(orders) - pageblock_order, 0))
    }
    runs = [
        (-misfit, start)
        for start, misfit in enumerate(misfits)
        if misfit <= most
        and blocks[start + nr - 1] - blocks[start] == nr - 1
        and within.isdisjoint((blocks[start], blocks[start] + nr))
    ]
    return max(runs)[1] if runs else None
