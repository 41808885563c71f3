/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kpageflags.h - free blocks and pageblocks from /proc/kpageflags.
 *
 * The file holds one u64 of KPF_* flags per page frame. KPF_BUDDY is on every
 * page of a free block (fs/proc/page.c, stable_page_flags). Two free buddies
 * always merge, so cutting a run of such pages into the largest aligned blocks
 * gives the kernel's own blocks back: their places and orders are facts as of
 * the moment each page was read (the file is not a snapshot).
 *
 * The migratetype of a pageblock is not in the file. The guess: MOVABLE if at
 * least half of its used pages (reserved ones aside) are movable by their flags:
 * on an LRU list, anon, mapped, hugetlb; also if it has no used page, as that is
 * how the kernel starts. Else UNMOVABLE. Slab that can be reclaimed looks like any slab, so
 * RECLAIMABLE is never guessed, nor are HIGHATOMIC, CMA and ISOLATE. A pageblock
 * without one flag on any page is memory that the kernel has not initialised yet.
 */
#pragma once

#include "batch.h"
#include "error.h"

/* Where a zone lies. Of zones that overlap, each gets what lies in its span. */
struct zone_span {
	uint16_t node;
	uint8_t zone; /* canonical */
	uint64_t start_pfn, spanned;
};

/*
 * Read `path` (/proc/kpageflags or a copy) and make the rows of `block_guess` and
 * `pageblock` (snapshot and ts 0), ascending by pfn within each zone. Pageblocks
 * that are nothing but a hole, or not initialised yet, have no row. The caller frees both batches.
 * -ENOENT and the like, -EINVAL (orders out of range), -ENOMEM.
 */
int free_blocks(const char *path, const struct zone_span *zones, int nr_zones, int pageblock_order,
		int max_order, struct batch **blocks, struct batch **pageblocks, struct error *err);
