# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of the exact snapshot; _snapshot.pyi documents them."""

from pagetape._collector import CollectorError
from pagetape.schemas import ZONES

include "_snapshot_api.pxi"
include "arrow_batch.pxi"

Refused = CollectorError

_HINDRANCES = (
    (SNAPSHOT_APART, "apart"),
    (SNAPSHOT_LATE, "late"),
    (SNAPSHOT_MOVED, "moved"),
    (SNAPSHOT_UNMARKED, "unmarked"),
    (SNAPSHOT_RETYPED, "retyped"),
    (SNAPSHOT_CONTRADICTED, "contradicted"),
    (SNAPSHOT_FULL, "full"),
)


cdef dict zone_facts(const snapshot_zone *zone, bint taken):
    return {
        "node": zone.node,
        "zone": ZONES[zone.zone],
        "how": "precopied" if taken else "proc",
        "walk_ns": zone.copy_ns,
        "lock_ns": zone.lock_ns,
        "free_blocks": zone.free_blocks,
    }


cdef list hold_pairs(const freezer_hold *holds, uint32_t nr):
    return [(holds[i].ns, holds[i].ran_ns) for i in range(nr) if holds[i].ns]


cdef dict facts(const snapshot_result *result):
    marked = result.taken and result.cut_pfn
    checks = {
        "list_sums": (result.checks.list_sums, result.checks.list_sums_wrong),
        "free_counters": (result.checks.free_counters, result.checks.free_counters_wrong),
        "pcp_sums": (result.checks.pcp_sums, result.checks.pcp_sums_wrong),
        "list_types": (result.checks.list_types, result.checks.list_types_wrong),
        "places": (result.checks.places, result.checks.places_wrong),
    }
    compared = {name: done for name, (done, wrong) in checks.items()}
    return {
        "exact": bool(result.exact),
        "ts": result.cut_ns,
        "pfn": result.cut_pfn if marked else None,
        "cpu": result.cut_cpu,
        "pid": result.cut_tid,
        "order": result.cut_order if marked else None,
        "cpus": result.cpus,
        "held_cpus": result.held,
        "held_ns": result.held_ns,
        "attempts": result.attempts,
        "meetings": result.meetings,
        "hindered": {name: result.hindered[<int>nr] for nr, name in _HINDRANCES
                     if result.hindered[<int>nr]},
        "checks": compared | {"pcp_types": result.checks.pcp_types},
        "mismatches": {name: wrong for name, (done, wrong) in checks.items() if wrong},
        "pcp_types_differ": result.checks.pcp_types_differ,
        "zones": [zone_facts(&result.zones[z], result.taken) for z in range(result.nr_zones)],
    }


cdef class Snapshot:
    cdef snapshot *c
    cdef printed *printed

    cdef readonly list holds, locks

    def __init__(self):
        cdef error err
        self.close()
        self.holds = []
        self.locks = []
        with nogil:
            check(snapshot_new(&self.c, &err), &err)

    def take(self, uint16_t snapshot, double max_ms=0.2):
        cdef unsigned int max_us = <unsigned int>(max_ms * 1000 + 0.5)
        cdef snapshot_result result
        cdef error err
        if not self.c:
            raise ValueError("the snapshot is closed")
        with nogil:
            check(snapshot_take(self.c, snapshot, max_us, &result, &err), &err)
        tables = []
        for i in range(SNAPSHOT_TABLES):
            name = result.tables[i].table.name.decode()
            tables.append((name, owned(result.tables[i])))
        self.holds = hold_pairs(result.holds, result.nr_holds)
        self.locks = [result.locks[i] for i in range(result.nr_locks)]
        return facts(&result), tables

    def zone_locks(self):
        cdef snapshot_zone_lock_c lock
        cdef uint32_t z = 0
        found = []
        if not self.c:
            raise ValueError("the snapshot is closed")
        while snapshot_zone_lock(self.c, z, &lock):
            found.append((lock.address, lock.node, lock.zone))
            z += 1
        return found

    def hold_only(self, uint64_t ns):
        cdef const freezer_hold *holds
        cdef uint32_t nr
        if not self.c:
            raise ValueError("the snapshot is closed")
        with nogil:
            holds = snapshot_hold_only(self.c, ns, &nr)
        return hold_pairs(holds, nr)

    def print_events(self, token, listed, frees, stamps):
        cdef printed_wanted wanted
        cdef error err
        if not self.c or self.printed:
            raise ValueError("the snapshot is closed, or its programs print already")
        wanted.token = token
        wanted.listed = sum(1 << order for order in listed)
        wanted.frees = frees
        wanted.stamps = stamps
        with nogil:
            check(printed_new(&self.printed, self.c, &wanted, &err), &err)

    def close(self):
        printed_free(self.printed)
        self.printed = NULL
        snapshot_free(self.c)
        self.c = NULL

    def __dealloc__(self):
        printed_free(self.printed)
        snapshot_free(self.c)
