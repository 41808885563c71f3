# SPDX-License-Identifier: Apache-2.0
"""Free blocks and guessed pageblocks from page flags."""

import os
import struct
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagetape import kpageflags
from pagetape._collector import CollectorError, free_blocks
from pagetape.schemas import TABLES

LRU, SLAB, BUDDY, MMAP, ANON, HEAD, TAIL, NOPAGE, RESERVED = (
    1 << bit for bit in (5, 7, 10, 11, 12, 15, 16, 20, 32)
)
USED = 0  # a page with no flag: a kernel allocation

Row = dict[str, Any]


def read(
    path: Path,
    flags: list[int],
    zones: list[tuple[int, int, int, int]] | None = None,
    pageblock_order: int = 3,
    max_order: int = 4,
) -> tuple[list[Row], list[Row]]:
    """Rows of (block_guess, pageblock) for flags from pfn 0 on; one zone by default."""
    path.write_bytes(struct.pack(f"={len(flags)}Q", *flags))
    spans = [(0, 1, 0, len(flags))] if zones is None else zones
    batches = [
        pa.record_batch(batch)
        for batch in free_blocks(str(path), spans, pageblock_order, max_order)
    ]
    for name, batch in zip(("block_guess", "pageblock"), batches, strict=True):
        batch.validate(full=True)
        assert batch.schema.equals(TABLES[name].arrow)
    return batches[0].to_pylist(), batches[1].to_pylist()


def merge_buddies(free: set[int], max_order: int) -> set[tuple[int, int]]:
    """The (pfn, order) blocks of the buddy allocator: buddies merge while both are free."""
    blocks = {(pfn, 0) for pfn in free}
    for order in range(max_order):
        for pfn in sorted(pfn for pfn, o in blocks if o == order):
            buddy = pfn ^ 1 << order
            if pfn < buddy and (pfn, order) in blocks and (buddy, order) in blocks:
                blocks -= {(pfn, order), (buddy, order)}
                blocks.add((pfn, order + 1))
    return blocks


@given(st.lists(st.booleans(), max_size=200))
def test_free_blocks_are_those_of_a_buddy_allocator(free: list[bool]) -> None:
    with TemporaryDirectory() as directory:
        blocks, _ = read(Path(directory) / "flags", [BUDDY if one else USED for one in free])
    found = [(row["pfn"], row["page_order"]) for row in blocks]
    assert found == sorted(found)
    assert set(found) == merge_buddies({pfn for pfn, one in enumerate(free) if one}, 4)


def test_blocks_do_not_cross_zones(tmp_path: Path) -> None:
    zones = [(0, 0, 0, 4), (1, 2, 4, 12)]
    blocks, _ = read(tmp_path / "flags", [BUDDY] * 16, zones)
    assert [(r["node"], r["zone"], r["pfn"], r["page_order"]) for r in blocks] == [
        (0, "DMA", 0, 2),
        (1, "NORMAL", 4, 2),
        (1, "NORMAL", 8, 3),
    ]


def test_a_run_longer_than_one_read_is_cut_once(tmp_path: Path) -> None:
    blocks, pageblocks = read(
        tmp_path / "flags", [USED] + [BUDDY] * 100_000, pageblock_order=9, max_order=10
    )
    assert sum(1 << row["page_order"] for row in blocks) == 100_000
    assert sum(row["page_order"] == 10 for row in blocks) == 96
    assert len(pageblocks) == 196


@settings(deadline=None)
@given(
    flags=st.lists(st.sampled_from([BUDDY, USED, LRU]), min_size=1, max_size=100),
    first=st.integers(0, 20),
    next_zone=st.integers(0, 60),
)
def test_pieces_of_zones_have_the_blocks_of_the_whole(
    flags: list[int], first: int, next_zone: int
) -> None:
    zones = [(0, 1, first, next_zone), (1, 2, first + next_zone, 100)]
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kpageflags, "_PIECE", 16)
        path = Path(directory) / "flags"
        whole = read(path, flags, zones)
        found = [read(path, flags, [piece]) for piece in kpageflags.pieces(zones)]
    assert whole == tuple([*chain(*rows)] for rows in zip(*found, strict=True))


def test_pageblock_types_are_guessed_from_their_pages(tmp_path: Path) -> None:
    blocks = [
        [BUDDY] * 8,
        [LRU] * 4 + [SLAB] * 3 + [BUDDY],
        [LRU] * 3 + [SLAB] * 4 + [BUDDY],
        [ANON, MMAP, USED, BUDDY, BUDDY, BUDDY, BUDDY, BUDDY],
        [RESERVED] * 8,
        [NOPAGE] * 8,
        [NOPAGE] * 7 + [SLAB],
        [USED] * 8,
        [USED] * 7 + [SLAB],
        [SLAB | ANON] * 6 + [LRU] * 2,  # bits of a slab page that mean something else
    ]
    _, rows = read(tmp_path / "flags", [flag for block in blocks for flag in block])
    assert [(row["pfn"], row["migratetype"], row["nr_movable"]) for row in rows] == [
        (0, "MOVABLE", 0),
        (8, "MOVABLE", 4),
        (16, "UNMOVABLE", 3),
        (24, "MOVABLE", 1),
        (32, "MOVABLE", 0),
        (48, "UNMOVABLE", 0),
        (64, "UNMOVABLE", 0),
        (72, "UNMOVABLE", 2),
    ]
    assert all(row["guessed"] and row["isolated"] is None for row in rows)


def test_tails_are_on_the_lru_as_their_head_is(tmp_path: Path) -> None:
    flags = [LRU | HEAD, TAIL, TAIL, TAIL, HEAD, TAIL, LRU, USED]
    _, (row,) = read(tmp_path / "flags", flags)
    assert row["nr_movable"] == 5


def test_a_zone_that_starts_within_a_pageblock(tmp_path: Path) -> None:
    blocks, rows = read(tmp_path / "flags", [USED] + [BUDDY] * 15, [(0, 0, 1, 15)])
    assert [(row["pfn"], row["page_order"]) for row in blocks] == [(1, 0), (2, 1), (4, 2), (8, 3)]
    assert [row["pfn"] for row in rows] == [0, 8]


def test_a_truncated_file_gives_its_pages(tmp_path: Path) -> None:
    blocks, rows = read(tmp_path / "flags", [BUDDY] * 12, [(0, 0, 0, 1000), (1, 0, 2000, 10)])
    assert [(row["pfn"], row["page_order"]) for row in blocks] == [(0, 3), (8, 2)]
    assert len(rows) == 2


def test_impossible_arguments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "none"
    with pytest.raises(CollectorError, match="none: No such file"):
        free_blocks(str(path), [], 9, 10)
    with pytest.raises(CollectorError, match=r"pageblock order 21 is not in 0\.\.20"):
        free_blocks(str(path), [], 21, 10)
    with pytest.raises(CollectorError, match=r"max order -1 is not in 0\.\.20"):
        free_blocks(str(path), [], 9, -1)


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(CollectorError, match="not a regular file"):
            free_blocks(str(path), [(0, 1, 0, 8)], 3, 4)


def test_holes_of_a_file_are_pages_without_flags(tmp_path: Path) -> None:
    far = 1 << 36  # pages: half a terabyte of flags
    path = tmp_path / "flags"
    with path.open("wb") as file:
        file.write(struct.pack("=5Q", *[BUDDY] * 4, SLAB))
        file.seek(8 * far)
        file.write(struct.pack("=16Q", *[SLAB] * 8, *[BUDDY] * 8))
    found = free_blocks(str(path), [(0, 1, 0, 2 * far)], 3, 4)
    blocks, pageblocks = [pa.record_batch(batch).to_pylist() for batch in found]
    assert [(row["pfn"], row["page_order"]) for row in blocks] == [(0, 2), (far + 8, 3)]
    assert [row["pfn"] for row in pageblocks] == [0, far, far + 8]


def test_zones_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="a zone of 8 pages from pfn 9223372036854775808 on"):
        read(tmp_path / "flags", [BUDDY], [(0, 1, 1 << 63, 8)])
    with pytest.raises(CollectorError, match="more than 16 zones overlap"):
        read(tmp_path / "flags", [BUDDY] * 64, [(0, 1, 0, 64)] * 20)
