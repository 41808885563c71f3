# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of sequence.h; _sequence.pyi documents them."""

from libc.stdint cimport uintptr_t
from libc.string cimport memset

include "sequence_api.pxi"


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


cdef void fill(void *members, str struct, dict out) except *:
    """Set the members of `struct`, which are pointers, to the buffers of their names."""
    for i, name in enumerate(POINTERS[struct]):
        (<const void **>members)[i] = address(out[name])


cdef void fill_input(void *members, str struct, dict columns) except *:
    """The same to columns by name: pairs of a validity bitmap, or None, and values. NULL without
    such a column."""
    for i, name in enumerate(POINTERS[struct]):
        column = columns.get(name.removesuffix("_valid"), (None, None))
        (<const void **>members)[i] = address(column[not name.endswith("_valid")])


cdef sequence_events events_of(size_t nr, size_t nr_groups, dict columns):
    cdef sequence_events events
    events.nr, events.nr_groups = nr, nr_groups
    fill_input(&events.ts, "sequence_events", columns)
    return events


cdef class PageUses:
    cdef page_uses *uses

    def __cinit__(self, dict kinds, object choice, bint unended, size_t most):
        cdef page_use_choice chosen
        memset(&chosen, 0, sizeof(chosen))
        chosen.unended = unended
        chosen.every = choice is None
        if choice is not None:
            chosen.migratetype = choice[0]
            chosen.orders[0], chosen.orders[1] = choice[1]
        if page_uses_new(&self.uses, kinds_of(kinds), chosen, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        page_uses_free(self.uses)

    def read(self, size_t nr, size_t nr_groups, dict columns, dict out):
        cdef sequence_events events = events_of(nr, nr_groups, columns)
        cdef page_use_rows rows
        cdef long found
        fill(&rows, "page_use_rows", out)
        with nogil:
            found = page_uses_read(self.uses, &events, &rows)
        if found < 0:
            raise MemoryError
        return found

    def end(self, size_t nr, dict out):
        cdef page_use_rows rows
        fill(&rows, "page_use_rows", out)
        return page_uses_end(self.uses, nr, &rows)


cdef class LockRuns:
    cdef lock_runs *runs

    def __cinit__(self, dict kinds):
        if lock_runs_new(&self.runs, kinds_of(kinds)) < 0:
            raise MemoryError

    def __dealloc__(self):
        lock_runs_free(self.runs)

    def read(self, size_t nr, size_t nr_groups, dict columns, dict out):
        cdef sequence_events events = events_of(nr, nr_groups, columns)
        cdef lock_run_rows rows
        cdef long found
        fill(&rows, "lock_run_rows", out)
        with nogil:
            found = lock_runs_read(self.runs, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        cdef lock_run_rows rows
        fill(&rows, "lock_run_rows", out)
        return lock_runs_end(self.runs, nr, &rows)


cdef class ListDemand:
    cdef list_demand *demand

    def __cinit__(self, dict kinds, uint64_t bin_ns, uint8_t huge_order):
        if list_demand_new(&self.demand, kinds_of(kinds), bin_ns, huge_order) < 0:
            raise MemoryError

    def __dealloc__(self):
        list_demand_free(self.demand)

    def read(self, size_t nr, size_t nr_groups, dict columns, dict out):
        cdef sequence_events events = events_of(nr, nr_groups, columns)
        cdef list_demand_rows rows
        cdef long found
        fill(&rows, "list_demand_rows", out)
        with nogil:
            found = list_demand_read(self.demand, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        cdef list_demand_rows rows
        fill(&rows, "list_demand_rows", out)
        return list_demand_end(self.demand, nr, &rows)


cdef class EventCounts:
    cdef event_counts *counts

    def __cinit__(self, dict kinds, uint64_t start_ts, uint64_t interval_ns):
        if event_counts_new(&self.counts, kinds_of(kinds), start_ts, interval_ns) < 0:
            raise MemoryError

    def __dealloc__(self):
        event_counts_free(self.counts)

    def read(self, size_t nr, size_t nr_groups, dict columns, dict out):
        cdef sequence_events events = events_of(nr, nr_groups, columns)
        cdef event_count_rows rows
        cdef long found
        fill(&rows, "event_count_rows", out)
        with nogil:
            found = event_counts_read(self.counts, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        return 0


ROWS = {
    "changes": ROWS_CHANGES, "failures": ROWS_FAILURES, "moments": ROWS_MOMENTS, "low": ROWS_LOW
}


cdef class ZoneFree:
    cdef zone_free *pass_
    cdef object kept  # the buffers of the input

    def __cinit__(self, dict kinds, dict given, rows, size_t most):
        cdef zone_free_input wanted
        memset(&wanted, 0, sizeof(wanted))
        self.kept = given
        wanted.nr_ranges, start, end, place = given["ranges"]
        wanted.range_start = <const uint64_t *>address(start)
        wanted.range_end = <const uint64_t *>address(end)
        wanted.range_place = <const uint32_t *>address(place)
        wanted.nr_readings, ts, free, of = given["readings"]
        wanted.reading_ts = <const uint64_t *>address(ts)
        wanted.reading_free = <const int64_t *>address(free)
        wanted.reading_place = <const uint32_t *>address(of)
        wanted.nr_moments, moments = given["moments"]
        wanted.moments = <const uint64_t *>address(moments)
        wanted.nr_listed, pfns, orders = given["listed"]
        wanted.listed_pfn = <const uint64_t *>address(pfns)
        wanted.listed_order = <const uint8_t *>address(orders)
        wanted.nr_places, low = given["places"]
        wanted.low = <const int64_t *>address(low)
        wanted.extfrag = kinds["alloc_extfrag"]
        compaction = given["compaction"]
        wanted.isolate_freepages = compaction["isolate_freepages"]
        wanted.fast_isolate_freepages = compaction["fast_isolate_freepages"]
        wanted.begin = compaction["begin"]
        wanted.migratepages = compaction["migratepages"]
        wanted.has_lists = <const uint8_t *>address(given["has_lists"])
        wanted.fallback_is_page = given["fallback_is_page"]
        wanted.captures = given["captures"]
        wanted.exact_start = given["exact_start"]
        wanted.unseen = given["unseen"]
        for one in rows:
            wanted.rows |= ROWS[one]
        if zone_free_open(&self.pass_, kinds_of(kinds), &wanted, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        zone_free_close(self.pass_)

    def read(self, size_t nr, size_t nr_groups, dict columns, size_t nr_compaction, dict compaction,
             size_t nr_found, size_t room, dict out):
        cdef sequence_events events = events_of(nr, nr_groups, columns)
        cdef zone_free_compaction rows
        cdef zone_free_out found
        cdef long nr_rows
        cdef bint wants_events, wants_compaction
        rows.nr, found.nr, found.room = nr_compaction, nr_found, room
        fill_input(&rows.ts, "zone_free_compaction", compaction)
        fill(&found.why, "zone_free_out", out)
        with nogil:
            nr_rows = zone_free_read(self.pass_, &events, &rows, &found)
            wants_events = zone_free_wants_events(self.pass_, &events)
            wants_compaction = zone_free_wants_compaction(self.pass_, &rows)
            if wants_events:
                zone_free_next_events(self.pass_)
            if wants_compaction:
                zone_free_next_compaction(self.pass_)
        if nr_rows < 0:
            raise MemoryError
        return nr_rows, wants_events, wants_compaction

    def result(self, size_t nr_readings):
        cdef zone_free_result_c found = zone_free_result(self.pass_)
        cdef size_t nr = nr_readings + 1
        errors = (<const char *>found.errors)[:nr * sizeof(int64_t)]
        known = (<const char *>found.has_error)[:nr // 8 + 1]
        return bytes(errors), bytes(known), found.locked, found.counted


cdef class EventGroups:
    cdef event_groups *groups
    cdef object recorder

    def __cinit__(self, dict kinds, tuple played, int interrupt, tuple recorder, size_t most):
        cdef event_groups_choice choice
        choice.since, choice.until = played
        choice.interrupt = interrupt
        choice.extfrag = kinds["alloc_extfrag"]
        choice.nr_recorder, self.recorder = recorder
        choice.recorder = <const int32_t *>address(self.recorder)
        if event_groups_new(&self.groups, kinds_of(kinds), choice, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        event_groups_free(self.groups)

    def read(self, size_t nr, size_t nr_groups, dict columns, dict out):
        cdef sequence_events events = events_of(nr, nr_groups, columns)
        cdef int failed
        with nogil:
            failed = event_groups_read(self.groups, &events)
        if failed < 0:
            raise MemoryError
        return 0

    def end(self, size_t nr, dict out):
        cdef event_group_rows rows
        fill(&rows, "event_group_rows", out)
        return event_groups_end(self.groups, nr, &rows)
