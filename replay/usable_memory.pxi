# SPDX-License-Identifier: Apache-2.0
# The watermark test of one zone; part of _replay.pyx.

cdef dict ENUMS = {
    name: {label: n for n, label in enumerate(TABLES["free_area"].column(name).labels)}
    for name in ("zone", "migratetype")
}
cdef tuple MARKS = ("wmark_min", "wmark_low", "wmark_high")


cdef void fill_reserves(zone *z, dict given, uint64_t unknown) except *:
    cma, free_highatomic = given.get("nr_free_cma"), given.get("nr_free_highatomic")
    reserved = given.get("nr_reserved_highatomic")
    if free_highatomic is None and reserved == 0:
        free_highatomic = 0
    z.nr_free_cma = unknown if cma is None else cma
    z.nr_free_highatomic = unknown if free_highatomic is None else free_highatomic
    z.nr_reserved_highatomic = unknown if reserved is None else reserved


cdef void fill_zone(zone *z, dict given) except *:
    z.type = ENUMS["zone"][given["zone"]]
    z.nr_free_pages = given["free"]
    fill_reserves(z, given, 0)
    z.boost = given.get("boost") or 0
    for n, name in enumerate(MARKS):
        z.wmark[n] = given[name]
    for name, n in ENUMS["zone"].items():
        z.lowmem_reserve[n] = given[f"lowmem_reserve_{name.lower()}"]


def usable_memory(str release, dict zone_row, dict wanted, blocks=(), bint has_highmem=False):
    cdef model m
    cdef zone z
    cdef request rq
    cdef error err
    cdef int64_t unusable
    cdef dict found
    memset(&m, 0, sizeof(m))
    memset(&z, 0, sizeof(z))
    memset(&rq, 0, sizeof(rq))
    check(c_kernel_for_release(&m.kernel, release.encode(), &err), &err)
    m.max_order = MAX_PAGE_ORDER
    m.has_highmem = has_highmem
    fill_zone(&z, zone_row)
    for order, type_, nr in blocks:
        if not 0 <= order <= MAX_PAGE_ORDER:
            raise ValueError(f"there are no blocks of order {order}")
        z.nr_free[order][ENUMS["migratetype"][type_]] += nr
    rq.gfp_flags, rq.order = wanted["gfp_flags"], wanted["page_order"]
    rq.migratetype = ENUMS["migratetype"][wanted["migratetype"]]
    rq.class_zone = gfp_class_zone(&m, rq.gfp_flags)
    rq.flags = slow_path_rights(&m, &rq)
    unusable = unusable_pages(&m, &z, &rq)
    found = {
        "allowed": z.type <= rq.class_zone,
        "pages": <int64_t>z.nr_free_pages - unusable - z.lowmem_reserve[rq.class_zone],
        "block": bool(zone_has_chunk(&m, &z, &rq)),
        "above": bool(watermark_fast(&m, &z, &rq, WMARK_MIN)),
    }
    fill_reserves(&z, zone_row, 1)
    found["exact"] = unusable_pages(&m, &z, &rq) == unusable
    return found
