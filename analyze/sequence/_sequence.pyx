# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of sequence.h; _sequence.pyi documents them."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t, uintptr_t
from libc.string cimport memset

cdef extern from "sequence.h" nogil:
    struct sequence_events:
        size_t nr
        const uint64_t *ts
        const uint16_t *cpu
        const int32_t *pid
        const uint8_t *kind
        const uint64_t *pfn
        const uint8_t *pfn_valid
        const uint8_t *page_order
        const uint8_t *page_order_valid
        const uint8_t *migratetype
        const uint8_t *migratetype_valid
        const uint8_t *percpu_refill
        const uint8_t *percpu_refill_valid
    struct sequence_kinds:
        uint8_t alloc
        uint8_t free
        uint8_t free_batched
        uint8_t alloc_zone_locked
        uint8_t pcpu_drain
        uint64_t first_ts
        uint64_t end_ts
    struct page_use_choice:
        bint every
        uint8_t migratetype
        uint8_t orders[2]
    struct page_use_rows:
        uint64_t *pfn
        uint64_t *ts
        uint16_t *cpu
        int32_t *pid
        uint8_t *page_order
        uint8_t *migratetype
        uint64_t *until_ts
        uint8_t *begun
        uint8_t *page_order_valid
        uint8_t *migratetype_valid
        uint8_t *until_valid
        uint8_t *freed
        uint8_t *freed_before
    struct page_uses:
        pass
    int page_uses_new(page_uses **out, sequence_kinds kinds, page_use_choice choice, size_t most)
    void page_uses_free(page_uses *uses)
    long page_uses_read(page_uses *uses, const sequence_events *events, page_use_rows *rows)
    long page_uses_end(page_uses *uses, size_t nr, page_use_rows *rows)
    struct lock_run_rows:
        uint8_t *what
        uint16_t *cpu
        uint64_t *blocks
        uint64_t *from_ts
        uint64_t *until_ts
    struct lock_runs:
        pass
    int lock_runs_new(lock_runs **out, sequence_kinds kinds)
    void lock_runs_free(lock_runs *runs)
    long lock_runs_read(lock_runs *runs, const sequence_events *events, lock_run_rows *rows)
    long lock_runs_end(lock_runs *runs, size_t nr, lock_run_rows *rows)


cdef const void *address(object buffer):
    """The memory of a pyarrow.Buffer, which the caller keeps; NULL for None."""
    return NULL if buffer is None else <const void *><uintptr_t>buffer.address


cdef sequence_kinds kinds_of(dict given):
    cdef sequence_kinds kinds
    kinds.alloc = given["alloc"]
    kinds.free = given["free"]
    kinds.free_batched = given["free_batched"]
    kinds.alloc_zone_locked = given["alloc_zone_locked"]
    kinds.pcpu_drain = given["pcpu_drain"]
    kinds.first_ts, kinds.end_ts = given["span"]
    return kinds


cdef sequence_events events_of(size_t nr, dict columns):
    """Columns by name: pairs of a validity bitmap, or None, and values."""
    cdef sequence_events events
    memset(&events, 0, sizeof(events))
    events.nr = nr
    for name, (valid, values) in columns.items():
        if name == "ts":
            events.ts = <const uint64_t *>address(values)
        elif name == "cpu":
            events.cpu = <const uint16_t *>address(values)
        elif name == "pid":
            events.pid = <const int32_t *>address(values)
        elif name == "kind":
            events.kind = <const uint8_t *>address(values)
        elif name == "pfn":
            events.pfn = <const uint64_t *>address(values)
            events.pfn_valid = <const uint8_t *>address(valid)
        elif name == "page_order":
            events.page_order = <const uint8_t *>address(values)
            events.page_order_valid = <const uint8_t *>address(valid)
        elif name == "migratetype":
            events.migratetype = <const uint8_t *>address(values)
            events.migratetype_valid = <const uint8_t *>address(valid)
        elif name == "percpu_refill":
            events.percpu_refill = <const uint8_t *>address(values)
            events.percpu_refill_valid = <const uint8_t *>address(valid)
    return events


cdef page_use_rows uses_of(dict columns):
    cdef page_use_rows rows
    rows.pfn = <uint64_t *>address(columns["pfn"])
    rows.ts = <uint64_t *>address(columns["ts"])
    rows.cpu = <uint16_t *>address(columns["cpu"])
    rows.pid = <int32_t *>address(columns["pid"])
    rows.page_order = <uint8_t *>address(columns["page_order"])
    rows.migratetype = <uint8_t *>address(columns["migratetype"])
    rows.until_ts = <uint64_t *>address(columns["until_ts"])
    rows.begun = <uint8_t *>address(columns["begun"])
    rows.page_order_valid = <uint8_t *>address(columns["page_order_valid"])
    rows.migratetype_valid = <uint8_t *>address(columns["migratetype_valid"])
    rows.until_valid = <uint8_t *>address(columns["until_valid"])
    rows.freed = <uint8_t *>address(columns["freed"])
    rows.freed_before = <uint8_t *>address(columns["freed_before"])
    return rows


cdef lock_run_rows runs_of(dict columns):
    cdef lock_run_rows rows
    rows.what = <uint8_t *>address(columns["what"])
    rows.cpu = <uint16_t *>address(columns["cpu"])
    rows.blocks = <uint64_t *>address(columns["blocks"])
    rows.from_ts = <uint64_t *>address(columns["from_ts"])
    rows.until_ts = <uint64_t *>address(columns["until_ts"])
    return rows


cdef class PageUses:
    cdef page_uses *uses

    def __cinit__(self, dict kinds, object choice, size_t most):
        cdef page_use_choice chosen
        memset(&chosen, 0, sizeof(chosen))
        chosen.every = choice is None
        if choice is not None:
            chosen.migratetype = choice[0]
            chosen.orders[0], chosen.orders[1] = choice[1]
        if page_uses_new(&self.uses, kinds_of(kinds), chosen, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        page_uses_free(self.uses)

    def read(self, size_t nr, dict columns, dict out):
        cdef sequence_events events = events_of(nr, columns)
        cdef page_use_rows rows = uses_of(out)
        cdef long found
        with nogil:
            found = page_uses_read(self.uses, &events, &rows)
        if found < 0:
            raise MemoryError
        return found

    def end(self, size_t nr, dict out):
        cdef page_use_rows rows = uses_of(out)
        return page_uses_end(self.uses, nr, &rows)


cdef class LockRuns:
    cdef lock_runs *runs

    def __cinit__(self, dict kinds):
        if lock_runs_new(&self.runs, kinds_of(kinds)) < 0:
            raise MemoryError

    def __dealloc__(self):
        lock_runs_free(self.runs)

    def read(self, size_t nr, dict columns, dict out):
        cdef sequence_events events = events_of(nr, columns)
        cdef lock_run_rows rows = runs_of(out)
        cdef long found
        with nogil:
            found = lock_runs_read(self.runs, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        cdef lock_run_rows rows = runs_of(out)
        return lock_runs_end(self.runs, nr, &rows)
