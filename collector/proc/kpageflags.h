/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kpageflags.h - free blocks and pageblocks from /proc/kpageflags.
 *
 * The file holds one u64 of KPF_* flags per page frame. KPF_BUDDY is on every page of a free block
 * (fs/proc/page.c, stable_page_flags). Two free buddies always merge, so a run of such pages, cut
 * into the largest aligned blocks, gives the kernel's own blocks. Each page is read at its own
 * time; the file is not a snapshot.
 *
 * The file lacks the migratetype of a pageblock. The guess is MOVABLE if at least half of its used
 * pages, reserved ones excluded, are movable by their flags (on an LRU list, anon, mapped,
 * hugetlb), or if it has no used page, as after boot. Otherwise UNMOVABLE. RECLAIMABLE is never
 * guessed, because reclaimable slab looks like any slab; nor are HIGHATOMIC, ISOLATE and CMA, which
 * cma.py finds. A pageblock without any flag on any page is not initialised by the kernel.
 */
#pragma once

#include "batch.h"
#include "error.h"

/* The span of a zone. Zones that overlap each get the pages in their span. */
struct zone_span {
	uint16_t node;
	uint8_t zone; /* canonical */
	uint64_t start_pfn, spanned;
};

struct page_layout {
	const struct zone_span *zones;
	int nr_zones, pageblock_order, max_order;
};

/*
 * Read `path` (/proc/kpageflags or a copy) and make the rows of `block_guess` and `pageblock`
 * (snapshot and ts 0), ascending by pfn within each zone. Holes and pageblocks not initialised yet
 * have no row. The caller frees both batches. -ENOENT and the like, -EINVAL (orders or zones out
 * of range, not a regular file), -ENOMEM.
 */
int free_blocks(const char *path, const struct page_layout *layout, struct batch **blocks,
		struct batch **pageblocks, struct error *err);
