# SPDX-License-Identifier: Apache-2.0
"""A tape as a trace for `replay` of the allocator LLFree (github.com/luhsra/llfree-rs, eval/).

The format is documented only by its reader (read in June 2026). Numbers are little endian. The
file consists of pages of 4 KiB. The first page has three numbers of 32 bits: the pages that
follow, the CPUs, the highest pfn. The end of that page, which the reader ignores, has pagetape's
mark. Each other page belongs to one CPU, in the order of time:

    bytes 0-3     the CPU
    bytes 16-     255 entries of 128 bits; an entry with pfn 0 ends the page
        bits 0-37    time in us
        bits 38-61   pfn
        bit 62       1 allocation, 0 free
        bits 63-66   order
        bits 67-95   gfp flags
        bits 96-127  pid

A trace is therefore limited to 64 GiB of memory and 76 hours. The reader accepts 256 CPUs.
"""

import errno
import struct
from collections.abc import Callable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError

MARK = b"pagetape llfree trace"

_PAGE = 4096
_ENTRIES = 255  # per page
_WORDS = _PAGE // 8
_MAX_PFN = (1 << 24) - 1
_MAX_US = (1 << 38) - 1
_MAX_CPUS = 256
_GIB_ORDER = 18
_BITS = TABLES["event"].column("gfp_flags").bits

# The reader's gfp bits from 0 on, by their names on a tape. Its next bit, PAGE_CACHE, is not a
# gfp flag of the kernel.
_GFP = (
    "DMA", "HIGHMEM", "DMA32", "MOVABLE", "RECLAIMABLE", "HIGH", "IO", "FS", "ZERO", "ATOMIC",
    "DIRECT_RECLAIM", "KSWAPD_RECLAIM", "WRITE", "NOWARN", "RETRY_MAYFAIL", "NOFAIL", "NORETRY",
    "MEMALLOC", "COMP", "NOMEMALLOC", "HARDWALL", "THISNODE", "ACCOUNT", "ZEROTAGS",
)  # fmt: skip

_U64 = pa.uint64()


def _gfp(flags: pa.Array) -> pa.Array:
    """The reader's gfp bits for a column of gfp_flags; 0 for null."""
    bits = {bit: _GFP.index(name) for bit, name in enumerate(_BITS) if name in _GFP}
    coded = pc.fill_null(flags, 0).dictionary_encode()
    known = [
        sum(1 << there for here, there in bits.items() if mask >> here & 1)
        for mask in coded.dictionary.to_pylist()
    ]
    return pa.array(known, _U64).take(coded.indices)


def _shifted(values: pa.Array, bits: int) -> pa.Array:
    return pc.shift_left(values.cast(_U64), pa.scalar(bits, _U64))


def _or(first: pa.Array, *others: pa.Array) -> pa.Array:
    for other in others:
        first = pc.bit_wise_or(first, other)
    return first


def _entries(rows: pa.RecordBatch, start: int, base: int) -> pa.Table:
    """The entry of each row: its CPU and two words."""
    ns = pc.subtract(rows["ts"], pa.scalar(start, _U64))
    alloc = pc.equal(rows["kind"].cast(pa.utf8()), "alloc")
    order = rows["page_order"].cast(_U64)
    low = _or(
        pc.divide(ns, pa.scalar(1000, _U64)),
        _shifted(pc.subtract(rows["pfn"], pa.scalar(base, _U64)), 38),
        _shifted(alloc, 62),
        _shifted(order, 63),
    )
    high = _or(
        pc.shift_right(order, pa.scalar(1, _U64)),
        _shifted(_gfp(rows["gfp_flags"]), 3),
        _shifted(rows["pid"].cast(pa.uint32()), 32),
    )
    return pa.table({"cpu": rows["cpu"], "low": low, "high": high})


def _pages(cpu: int, entries: pa.Table) -> bytes:
    """Pages of one CPU; the last may be partly filled."""
    nr = entries.num_rows
    words = pa.arange(0, -(-nr // _ENTRIES) * _WORDS)
    page = pc.divide(words, _WORDS)
    place = pc.subtract(words, pc.multiply(page, _WORDS))
    high = pc.bit_wise_and(place, 1)
    entry = pc.add(pc.multiply(page, _ENTRIES), pc.subtract(pc.shift_right(place, 1), 1))
    # A word of a page is the CPU, 0, or one of the two words of an entry.
    source = pa.chunked_array(
        [pa.array([cpu, 0], _U64), *entries["low"].chunks, *entries["high"].chunks]
    )
    inside = pc.and_(pc.greater_equal(place, 2), pc.less(entry, nr))
    where = pc.if_else(
        inside,
        pc.add(pc.add(entry, pc.multiply(high, nr)), 2),
        pc.if_else(pc.equal(place, 0), 0, 1),
    )
    data: bytes = source.combine_chunks().take(where).buffers()[1].to_pybytes()
    return data


def _used(batch: pa.RecordBatch, base: int) -> pa.RecordBatch:
    """Successful allocations and frees, once each; without the first pfn: 0 would end a page."""
    wanted = pc.is_in(batch["kind"].cast(pa.utf8()), value_set=pa.array(["alloc", "free"]))
    there = pc.not_equal(pc.fill_null(batch["pfn"], base), pa.scalar(base, _U64))
    return batch.filter(pc.and_(wanted, there))


def _bounds(tape: Tape) -> tuple[int, int]:
    """The base pfn and the highest pfn relative to it, from the snapshot; (0, 0) without one.

    The base is the first pfn of the gigabyte where memory begins: 0 except on a private tape.
    """
    zones = tape.rows("zone")
    if not zones:
        return 0, 0
    first = min(zone["start_pfn"] for zone in zones) >> _GIB_ORDER << _GIB_ORDER
    return first, max(zone["start_pfn"] + zone["spanned"] - 1 for zone in zones) - first


class _Trace:
    """Writes a trace to its file. Entries are buffered until they fill a page."""

    def __init__(self, tape: Tape, file: BinaryIO) -> None:
        self._file = file
        self._name = tape.path
        self._start = (tape.clock or (0, 0))[0]
        self._waiting: dict[int, pa.Table] = {}
        self._pages = 0
        self._base, self._max_pfn = _bounds(tape)
        self._cpus = int(tape.facts.get("cpus") or 0)
        self.entries = 0
        file.write(MARK.rjust(_PAGE, b"\0"))

    def add(self, batch: pa.RecordBatch) -> None:
        rows = _used(batch, self._base)
        if not rows.num_rows:
            return
        self._max_pfn = max(self._max_pfn, pc.max(rows["pfn"]).as_py() - self._base)
        self._cpus = max(self._cpus, pc.max(rows["cpu"]).as_py() + 1)
        self._check((pc.max(rows["ts"]).as_py() - self._start) // 1000)
        self.entries += rows.num_rows
        entries = _entries(rows, self._start, self._base)
        for cpu in sorted(pc.unique(entries["cpu"]).to_pylist()):
            mine = entries.filter(pc.equal(entries["cpu"], cpu))
            if cpu in self._waiting:
                mine = pa.concat_tables([self._waiting[cpu], mine])
            full = mine.num_rows // _ENTRIES * _ENTRIES
            self._write(cpu, mine.slice(0, full))
            self._waiting[cpu] = mine.slice(full)

    def _check(self, us: int) -> None:
        """Raise TapeError if the tape exceeds the format's limits."""
        if self._max_pfn > _MAX_PFN:
            why = f"pfn {self._max_pfn}, and LLFree's format ends at {_MAX_PFN} (64 GiB)"
        elif us > _MAX_US:
            why = f"{us / 3.6e9:.0f} hours, and LLFree's format ends at 76"
        elif self._cpus > _MAX_CPUS:
            why = f"{self._cpus} CPUs, and LLFree's replay takes {_MAX_CPUS}"
        else:
            return
        raise TapeError(errno.EOVERFLOW, f"{self._name}: has {why}")

    def _write(self, cpu: int, entries: pa.Table) -> None:
        data = _pages(cpu, entries)
        self._pages += len(data) // _PAGE
        self._file.write(data)

    def finish(self) -> None:
        """Write the buffered entries, and the first page."""
        for cpu, entries in sorted(self._waiting.items()):
            self._write(cpu, entries)
        self._file.seek(0)
        self._file.write(struct.pack("<3I", self._pages, self._cpus, self._max_pfn))


def write(
    tape: Tape, file: BinaryIO, progress: Callable[[float], None] = lambda _share: None
) -> dict[str, int]:
    """Write the tape's trace; returns the number of entries. Raises TapeError beyond a limit."""
    trace = _Trace(tape, file)
    rows, read = tape.num_rows("event"), 0
    try:
        for batch in tape.batches("event"):
            trace.add(batch)
            read += batch.num_rows
            progress(read / rows if rows else 1)
        trace.finish()
    except (pa.ArrowInvalid, struct.error) as e:  # a pid, time or pfn that no kernel has
        why = f"{tape.path}: an event does not fit into the format: {e}"
        raise TapeError(errno.EBADMSG, why) from e
    return {"entries": trace.entries}
