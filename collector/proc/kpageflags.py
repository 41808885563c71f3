# SPDX-License-Identifier: Apache-2.0
"""Free blocks and pageblocks from page flags, as kpageflags.h describes them.

The kernel computes the flags while they are read, at about 0.1 us per page: those of the machine
are read by several threads at once.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

LIVE = Path("/proc/kpageflags")

_PIECE = 1 << 20  # pages; no block is larger
_THREADS = 8

Span = tuple[int, int, int, int]  # node, zone, first pfn, number of pages


def pieces(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans, cut where no free block and no pageblock is cut."""
    for node, zone, start, spanned in spans:
        end = start + spanned
        while start < end:
            cut = min(end, (start // _PIECE + 1) * _PIECE)
            yield node, zone, start, cut - start
            start = cut


def read(
    path: Path, spans: list[Span], pageblock_order: int, max_order: int
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of block_guess and pageblock, from LIVE or a copy."""
    from pagetape._collector import free_blocks

    def rows(part: list[Span]) -> list[pa.RecordBatch]:
        found = free_blocks(str(path), part, pageblock_order, max_order)
        return [pa.record_batch(batch) for batch in found]

    if path != LIVE:
        free, pageblocks = rows(spans)
        return free, pageblocks
    with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), _THREADS)) as pool:
        parts = [rows([]), *pool.map(lambda piece: rows([piece]), pieces(spans))]
    free, pageblocks = map(pa.concat_batches, zip(*parts, strict=True))
    return free, pageblocks
