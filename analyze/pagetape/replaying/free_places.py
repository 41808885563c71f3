# SPDX-License-Identifier: Apache-2.0
"""Other places for free blocks whose own place is a guess, for the members of an ensemble."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import pyarrow as pa

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes.machine import snapshot_rows

_TRIES = 8  # places that are tried for each block


class _Taken:
    """Spans of pages, aligned to their order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = set(spans)
        self._firsts = sorted(pfn for pfn, _ in self._spans)
        self._orders = {order for _, order in self._spans}

    def overlaps(self, pfn: int, order: int) -> bool:
        at = bisect_left(self._firsts, pfn)
        if at < len(self._firsts) and self._firsts[at] < pfn + (1 << order):
            return True
        return any((pfn >> more << more, more) in self._spans for more in self._orders)

    def add(self, pfn: int, order: int) -> None:
        self._spans.add((pfn, order))
        self._orders.add(order)
        insort(self._firsts, pfn)


def _zones(tape: Tape) -> dict[tuple[int, str], tuple[int, int]]:
    """The first pfn and the pfn after the last, by node and zone."""
    table = pa.Table.from_batches(snapshot_rows(tape, "zone", 0), TABLES["zone"].arrow)
    return {
        (row["node"], row["zone"]): (row["start_pfn"], row["start_pfn"] + row["spanned"])
        for row in table.to_pylist()
    }


def _spans(table: pa.Table) -> Iterable[tuple[int, int]]:
    return zip(table["pfn"].to_pylist(), table["page_order"].to_pylist(), strict=True)


def others(
    tape: Tape,
    tables: Mapping[str, pa.Table],
    guessed: Mapping[tuple[Any, ...], list[int]],
    unseen: Callable[[pa.Table], list[int]],
) -> dict[int, list[int]]:
    """First pfns of other places, by row of free_block, of blocks below the pageblock's order.

    `guessed` has rows by (node, zone, migratetype, order), `unseen` the rows of a table of blocks
    without a page that an event shows. No two places overlap or merge, nor does one with a free
    block. They are in pageblocks that have their type by an event, or a free block.
    """
    random, zones = Random(0), _zones(tape)
    pageblock = tape.facts["pageblock_order"]
    taken = _Taken([*_spans(tables["free_block"]), *_spans(tables["pcp_page"])])
    homes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in tables["pageblock"].to_pylist():
        if not row["guessed"] or taken.overlaps(row["pfn"], pageblock):
            homes[row["node"], row["zone"], row["migratetype"]].append(row["pfn"])
    tried: list[tuple[int, int, int]] = []
    for (node, zone, kind, order), rows in guessed.items():
        first, end = zones[node, zone]
        if order >= pageblock or not (blocks := homes[node, zone, kind]):
            continue
        for row in rows * _TRIES:
            pfn = random.choice(blocks) + (random.randrange(1 << (pageblock - order)) << order)
            pair = pfn >> (order + 1) << (order + 1)  # with the buddy it would merge with
            if pfn < first or pfn + (1 << order) > end or taken.overlaps(pair, order + 1):
                continue
            taken.add(pair, order + 1)
            tried.append((row, pfn, order))
    columns = list(zip(*tried, strict=True)) or [(), (), ()]
    table = pa.table(
        {"pfn": pa.array(columns[1], pa.uint64()), "page_order": pa.array(columns[2], pa.uint8())}
    )
    found: dict[int, list[int]] = defaultdict(list)
    for number in unseen(table):
        found[tried[number][0]].append(tried[number][1])
    return dict(found)
