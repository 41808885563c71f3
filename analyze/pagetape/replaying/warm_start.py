# SPDX-License-Identifier: Apache-2.0
"""The start of a what-if on a machine that has had the other setting before.

A tape begins with per-CPU lists of the size that its own rules gave them. Under other limits the
kernel's tuning takes seconds and thousands of pages to reach the new size, and larger lists first
take their pages from the zone. A what-if of a switch at the tape's begin has that cost. A run after
a warm-up under the other setting, as those of `pagetape ab` under the value that the machine had
before, does not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.replaying.engine_run import silent
from pagetape.replaying.playback import Playback, Run, Source, in_memory
from pagetape.schemas import TABLES

_LIMITS = ("high_min", "high_max")
_TUNED = ("high", *_LIMITS, "alloc_factor")

List = tuple[int, int, str]  # CPU, node and zone of a per-CPU list


def _lists(rows: pa.Table) -> dict[List, dict[str, Any]]:
    return {(row["cpu"], row["node"], row["zone"]): row for row in rows.to_pylist()}


def _resized(start: pa.Table, end: pa.Table) -> dict[List, dict[str, Any]]:
    """The rows of `end` of the lists that have other limits there than at the start."""
    before = _lists(start)
    return {
        key: row
        for key, row in _lists(end).items()
        if key in before and any(row[name] != before[key][name] for name in _LIMITS)
    }


def tuned(start: pa.Table, end: pa.Table) -> pa.Table:
    """The rows of `pcp` at a start, with the sizes of the same lists in `end`, where a list has
    other limits there."""
    after = _resized(start, end)
    rows = [
        row | {name: after[key][name] for name in _TUNED if key in after}
        for key, row in _lists(start).items()
    ]
    return pa.Table.from_batches([TABLES["pcp"].batch(rows)])


def filled(start: Mapping[str, pa.Table], end: pa.Table) -> dict[str, pa.Table]:
    """`pcp`, `pcp_page` and `free_block` of a start, with as many pages on each list as in `end`,
    where a list has other limits and more pages there.

    The pages come from the free MOVABLE blocks of the zone, the smallest first, as a refill for a
    process takes them. If there are too few, the list gets these. A list with fewer pages in `end`
    stays as it is: the model drains it by the new limit.
    """
    pages, free = [start["pcp_page"]], start["free_block"]
    lists = _lists(start["pcp"])
    for key, later in _resized(start["pcp"], end).items():
        wanted = later["count"] - lists[key]["count"]
        if wanted > 0:
            more, free = _moved(free, key, wanted)
            pages.append(more)
            lists[key]["count"] += len(more)
    return {
        "pcp": pa.Table.from_batches([TABLES["pcp"].batch(list(lists.values()))]),
        "pcp_page": pa.concat_tables(pages),
        "free_block": free,
    }


def _moved(free: pa.Table, key: List, wanted: int) -> tuple[pa.Table, pa.Table]:
    """The rows of `pcp_page` of at most `wanted` pages for a list, and the rows of `free_block`
    without these pages."""
    cpu, node, zone = key
    about = {"snapshot": 0, "node": node, "zone": zone, "migratetype": "MOVABLE"}
    about["ts"] = free["ts"][0].as_py() if len(free) else 0
    blocks = _smallest(free, node, zone, wanted)
    pfns, rest = [], []
    for pfn, order in zip(*blocks.select(["pfn", "page_order"]).to_pydict().values(), strict=True):
        nr = min(wanted, 1 << order)
        pfns.append(pa.array(range(pfn, pfn + nr), pa.uint64()))
        rest += [about | {"pfn": at, "page_order": part} for at, part in _rest(pfn, order, nr)]
        wanted -= nr
    stays = pc.invert(pc.is_in(_numbers(free), blocks["row"].combine_chunks()))
    parts = pa.Table.from_batches([TABLES["free_block"].batch(rest)])
    pages = _pages(about | {"cpu": cpu, "page_order": 0}, pfns)
    return pages, pa.concat_tables([free.filter(stays), parts])


def _smallest(free: pa.Table, node: int, zone: str, wanted: int) -> pa.Table:
    """The smallest free MOVABLE blocks of a zone that together have `wanted` pages, with their
    number as `row`: no more blocks than needed, and all if there are too few."""
    is_movable = pc.and_(
        pc.and_(pc.equal(free["node"], node), pc.equal(free["zone"].cast("utf8"), zone)),
        pc.equal(free["migratetype"].cast("utf8"), "MOVABLE"),
    )
    blocks = free.append_column("row", _numbers(free)).filter(is_movable)
    blocks = blocks.sort_by([("page_order", "ascending"), ("row", "ascending")])
    sizes = pc.shift_left(pa.scalar(1, pa.int64()), blocks["page_order"].cast(pa.int64()))
    return blocks.filter(pc.less(pc.subtract(pc.cumulative_sum(sizes), sizes), wanted))


def _numbers(rows: pa.Table) -> pa.Array:
    return pa.array(range(len(rows)), pa.int64())


def _rest(pfn: int, order: int, nr: int) -> Iterator[tuple[int, int]]:
    """The blocks (pfn, order) that a block is without its first `nr` pages."""
    while nr < 1 << order:
        part = (nr & -nr).bit_length() - 1
        yield pfn + nr, part
        nr += 1 << part


def _pages(about: dict[str, Any], pfns: list[pa.Array]) -> pa.Table:
    """Rows of `pcp_page` that differ in their pfn alone."""
    pages = pa.concat_arrays([pa.array([], pa.uint64()), *pfns])
    one = pa.Table.from_batches([TABLES["pcp_page"].batch([about | {"pfn": 0}])])
    rows = one.take(pa.repeat(pa.scalar(0), len(pages)))
    place = rows.schema.get_field_index("pfn")
    return rows.set_column(place, rows.schema.field(place), pages)


def warmed(source: Source, run: Run) -> Source:
    """The tape as a source whose per-CPU lists are tuned as a warm-up, the same requests under the
    rules of `run`, leaves them.

    They are also filled like that, unless the free pages of the start are guesses.
    """
    warm = in_memory(source, run)
    with Playback(source, run, warm, counted=True) as playback:
        playback.play(silent)
    rows = warm.table("pcp")
    end = rows.filter(pc.equal(rows["snapshot"], pc.max(rows["snapshot"])))
    start = {name: source.at_start(name) for name in ("pcp", "pcp_page", "free_block")}
    made = {} if source.begin else filled(start, end)
    lists = made.get("pcp", start["pcp"])
    return source.with_start(made | {"pcp": tuned(lists, end)})
