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


cdef list_demand_rows demands_of(dict columns):
    cdef list_demand_rows rows
    rows.cpu = <uint16_t *>address(columns["cpu"])
    rows.bin = <uint64_t *>address(columns["bin"])
    rows.pages = <int64_t *>address(columns["pages"])
    return rows


cdef class ListDemand:
    cdef list_demand *demand

    def __cinit__(self, dict kinds, uint64_t bin_ns, uint8_t huge_order):
        if list_demand_new(&self.demand, kinds_of(kinds), bin_ns, huge_order) < 0:
            raise MemoryError

    def __dealloc__(self):
        list_demand_free(self.demand)

    def read(self, size_t nr, dict columns, dict out):
        cdef sequence_events events = events_of(nr, columns)
        cdef list_demand_rows rows = demands_of(out)
        cdef long found
        with nogil:
            found = list_demand_read(self.demand, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        cdef list_demand_rows rows = demands_of(out)
        return list_demand_end(self.demand, nr, &rows)


cdef class EventCounts:
    cdef event_counts *counts

    def __cinit__(self, dict kinds, uint64_t start_ts, uint64_t interval_ns):
        if event_counts_new(&self.counts, kinds_of(kinds), start_ts, interval_ns) < 0:
            raise MemoryError

    def __dealloc__(self):
        event_counts_free(self.counts)

    def read(self, size_t nr, dict columns, dict out):
        cdef sequence_events events = events_of(nr, columns)
        cdef event_count_rows rows
        cdef long found
        rows.interval = <uint64_t *>address(out["interval"])
        rows.kind = <uint8_t *>address(out["kind"])
        rows.page_order = <uint8_t *>address(out["page_order"])
        rows.page_order_valid = <uint8_t *>address(out["page_order_valid"])
        rows.events = <uint64_t *>address(out["events"])
        rows.with_page = <uint64_t *>address(out["with_page"])
        with nogil:
            found = event_counts_read(self.counts, &events, &rows)
        return found

    def end(self, size_t nr, dict out):
        return 0


cdef zone_free_compaction compaction_of(size_t nr, dict columns):
    cdef zone_free_compaction rows
    memset(&rows, 0, sizeof(rows))
    if not nr:
        return rows
    rows.nr = nr
    rows.ts = <const uint64_t *>address(columns["ts"][1])
    rows.pid = <const int32_t *>address(columns["pid"][1])
    rows.kind = <const uint8_t *>address(columns["kind"][1])
    rows.start_pfn = <const uint64_t *>address(columns["start_pfn"][1])
    rows.start_pfn_valid = <const uint8_t *>address(columns["start_pfn"][0])
    rows.nr_taken = <const int64_t *>address(columns["nr_taken"][1])
    rows.nr_taken_valid = <const uint8_t *>address(columns["nr_taken"][0])
    rows.nr_migrated = <const int64_t *>address(columns["nr_migrated"][1])
    rows.nr_migrated_valid = <const uint8_t *>address(columns["nr_migrated"][0])
    return rows


cdef zone_free_out changes_of(size_t room, dict columns):
    cdef zone_free_out rows
    rows.room = room
    rows.why = <uint8_t *>address(columns["why"])
    rows.ts = <uint64_t *>address(columns["ts"])
    rows.free = <int64_t *>address(columns["free"])
    rows.place = <uint32_t *>address(columns["place"])
    rows.number = <uint32_t *>address(columns["number"])
    rows.changes = <uint32_t *>address(columns["changes"])
    rows.reading = <uint8_t *>address(columns["reading"])
    rows.before_ts = <uint64_t *>address(columns["before_ts"])
    rows.before_free = <int64_t *>address(columns["before_free"])
    rows.before_number = <uint32_t *>address(columns["before_number"])
    rows.before_reading = <uint8_t *>address(columns["before_reading"])
    rows.has_before = <uint8_t *>address(columns["has_before"])
    return rows


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

    def read(self, size_t nr, dict columns, size_t nr_compaction, dict compaction, size_t room, dict out):
        cdef sequence_events events = events_of(nr, columns)
        cdef zone_free_compaction rows = compaction_of(nr_compaction, compaction)
        cdef zone_free_out found = changes_of(room, out)
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


cdef event_details details_of(dict columns):
    """As events_of()."""
    cdef event_details details
    memset(&details, 0, sizeof(details))
    for name, (valid, values) in columns.items():
        if name == "flags":
            details.flags = <const uint8_t *>address(values)
        elif name == "gfp_flags":
            details.gfp_flags = <const uint32_t *>address(values)
            details.gfp_flags_valid = <const uint8_t *>address(valid)
        elif name == "fallback_order":
            details.fallback_order = <const uint8_t *>address(values)
            details.fallback_order_valid = <const uint8_t *>address(valid)
        elif name == "fallback_migratetype":
            details.fallback_migratetype = <const uint8_t *>address(values)
            details.fallback_migratetype_valid = <const uint8_t *>address(valid)
        elif name == "change_ownership":
            details.change_ownership = <const uint8_t *>address(values)
            details.change_ownership_valid = <const uint8_t *>address(valid)
    return details


cdef event_group_rows groups_of(dict columns):
    cdef event_group_rows rows
    rows.played = <uint8_t *>address(columns["played"])
    rows.recorder = <uint8_t *>address(columns["recorder"])
    rows.in_interrupt = <uint8_t *>address(columns["in_interrupt"])
    rows.kind = <uint8_t *>address(columns["kind"])
    rows.cpu = <uint16_t *>address(columns["cpu"])
    rows.pid = <int32_t *>address(columns["pid"])
    rows.page_order = <uint8_t *>address(columns["page_order"])
    rows.page_order_valid = <uint8_t *>address(columns["page_order_valid"])
    rows.migratetype = <uint8_t *>address(columns["migratetype"])
    rows.migratetype_valid = <uint8_t *>address(columns["migratetype_valid"])
    rows.gfp_flags = <uint32_t *>address(columns["gfp_flags"])
    rows.gfp_flags_valid = <uint8_t *>address(columns["gfp_flags_valid"])
    rows.percpu_refill = <uint8_t *>address(columns["percpu_refill"])
    rows.percpu_refill_valid = <uint8_t *>address(columns["percpu_refill_valid"])
    rows.fallback_order = <uint8_t *>address(columns["fallback_order"])
    rows.fallback_order_valid = <uint8_t *>address(columns["fallback_order_valid"])
    rows.fallback_migratetype = <uint8_t *>address(columns["fallback_migratetype"])
    rows.fallback_migratetype_valid = <uint8_t *>address(columns["fallback_migratetype_valid"])
    rows.change_ownership = <uint8_t *>address(columns["change_ownership"])
    rows.change_ownership_valid = <uint8_t *>address(columns["change_ownership_valid"])
    rows.events = <uint64_t *>address(columns["events"])
    rows.without_page = <uint64_t *>address(columns["without_page"])
    rows.runs = <uint64_t *>address(columns["runs"])
    rows.first_ts = <uint64_t *>address(columns["first_ts"])
    rows.last_ts = <uint64_t *>address(columns["last_ts"])
    return rows


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

    def read(self, size_t nr, dict columns, dict out):
        cdef sequence_events events = events_of(nr, columns)
        cdef event_details details = details_of(columns)
        cdef int failed
        with nogil:
            failed = event_groups_read(self.groups, &events, &details)
        if failed < 0:
            raise MemoryError
        return 0

    def end(self, size_t nr, dict out):
        cdef event_group_rows rows = groups_of(out)
        return event_groups_end(self.groups, nr, &rows)
