# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of sequence.h; _sequence.pyi documents them."""

from libc.stdint cimport uintptr_t

include "sequence_api.pxi"


cdef const void *address(object buffer):
    """The memory of a pyarrow.Buffer, which the caller keeps; NULL for None."""
    return NULL if buffer is None else <const void *><uintptr_t>buffer.address


cdef class PageUses:
    cdef page_uses *uses

    def __cinit__(self, dict kinds, object choice, size_t most):
        cdef page_use_choice chosen
        memset(&chosen, 0, sizeof(chosen))
        chosen.every = choice is None
        if choice is not None:
            chosen.migratetype = choice[0]
            chosen.orders[0], chosen.orders[1] = choice[1]
        if page_uses_new(&self.uses, sequence_kinds_of(kinds), chosen, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        page_uses_free(self.uses)

    def read(self, dict columns, dict out):
        cdef sequence_events events = sequence_events_of(columns)
        cdef page_use_rows rows = page_use_rows_of(out)
        cdef long found
        with nogil:
            found = page_uses_read(self.uses, &events, &rows)
        if found < 0:
            raise MemoryError
        return found

    def end(self, size_t nr, dict out):
        cdef page_use_rows rows = page_use_rows_of(out)
        return page_uses_end(self.uses, nr, &rows)


cdef class LockRuns:
    cdef lock_runs *runs

    def __cinit__(self, dict kinds):
        if lock_runs_new(&self.runs, sequence_kinds_of(kinds)) < 0:
            raise MemoryError

    def __dealloc__(self):
        lock_runs_free(self.runs)

    def read(self, dict columns, dict out):
        cdef sequence_events events = sequence_events_of(columns)
        cdef lock_run_rows rows = lock_run_rows_of(out)
        cdef long found
        with nogil:
            found = lock_runs_read(self.runs, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        cdef lock_run_rows rows = lock_run_rows_of(out)
        return lock_runs_end(self.runs, nr, &rows)


cdef class ListDemand:
    cdef list_demand *demand

    def __cinit__(self, dict kinds, uint64_t bin_ns, uint8_t huge_order):
        if list_demand_new(&self.demand, sequence_kinds_of(kinds), bin_ns, huge_order) < 0:
            raise MemoryError

    def __dealloc__(self):
        list_demand_free(self.demand)

    def read(self, dict columns, dict out):
        cdef sequence_events events = sequence_events_of(columns)
        cdef list_demand_rows rows = list_demand_rows_of(out)
        cdef long found
        with nogil:
            found = list_demand_read(self.demand, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        cdef list_demand_rows rows = list_demand_rows_of(out)
        return list_demand_end(self.demand, nr, &rows)


cdef class ZoneFree:
    cdef zone_free *pass_
    cdef object kept  # the buffers of the input

    def __cinit__(self, dict kinds, dict given, str rows, size_t most):
        cdef zone_free_input wanted = zone_free_input_of(given)
        self.kept = given
        wanted.extfrag = kinds["alloc_extfrag"]
        wanted.rows = {
            "none": ROWS_NONE, "changes": ROWS_CHANGES,
            "failures": ROWS_FAILURES, "moments": ROWS_MOMENTS, "low": ROWS_LOW,
        }[rows]
        if zone_free_open(&self.pass_, sequence_kinds_of(kinds), &wanted, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        zone_free_close(self.pass_)

    def read(self, dict columns, dict compaction, dict out):
        cdef sequence_events events = sequence_events_of(columns)
        cdef zone_free_compaction rows = zone_free_compaction_of(compaction)
        cdef zone_free_out found = zone_free_out_of(out)
        cdef long nr_found
        cdef bint wants_events, wants_compaction
        with nogil:
            nr_found = zone_free_read(self.pass_, &events, &rows, &found)
            wants_events = zone_free_wants_events(self.pass_, &events)
            wants_compaction = zone_free_wants_compaction(self.pass_, &rows)
            if wants_events:
                zone_free_next_events(self.pass_)
            if wants_compaction:
                zone_free_next_compaction(self.pass_)
        if nr_found < 0:
            raise MemoryError
        return nr_found, wants_events, wants_compaction

    def result(self, size_t nr_readings):
        cdef zone_free_result_c found = zone_free_result(self.pass_)
        cdef size_t nr = nr_readings + 1
        errors = (<const char *>found.errors)[:nr * sizeof(int64_t)]
        known = (<const char *>found.has_error)[:nr // 8 + 1]
        return bytes(errors), bytes(known), found.locked, found.counted


cdef class EventGroups:
    cdef event_groups *groups
    cdef object recorder

    def __cinit__(self, dict kinds, dict given, size_t most):
        cdef event_groups_choice choice = event_groups_choice_of(given)
        self.recorder = given["recorder"]
        choice.extfrag = kinds["alloc_extfrag"]
        if event_groups_new(&self.groups, sequence_kinds_of(kinds), choice, most) < 0:
            raise MemoryError

    def __dealloc__(self):
        event_groups_free(self.groups)

    def read(self, dict columns, dict out):
        cdef sequence_events events = sequence_events_of(columns)
        cdef event_details details = event_details_of(columns)
        cdef int failed
        with nogil:
            failed = event_groups_read(self.groups, &events, &details)
        if failed < 0:
            raise MemoryError
        return 0

    def end(self, size_t nr, dict out):
        cdef event_group_rows rows = event_group_rows_of(out)
        return event_groups_end(self.groups, nr, &rows)
