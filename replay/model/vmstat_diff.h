/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmstat_diff.h - free pages not yet folded into a zone's counter.
 *
 * Watermarks are compared with a counter of the zone (NR_FREE_PAGES). A CPU changes its own
 * vmstat_diff first, and the counter only when the difference exceeds the zone's threshold or the
 * CPU's vmstat worker runs (__mod_zone_page_state and refresh_cpu_vm_stats, 2.6.32 to 6.18).
 * zone->vmstat_diff is the sum over its CPUs: nr_free_pages less the counter. If the snapshot has
 * no threshold, the threshold is 0 and the counter exact.
 *
 * Changes of nr_free_pages without an event enter the counter at once.
 */
#pragma once

#include "model.h"

enum { VMSTAT_DIFF_MOST = 125 }; /* pages, the largest threshold */

/*
 * Set the thresholds of a zone. `recorded` is the threshold in the snapshot; 0: none. While kswapd
 * is awake the threshold is lower: the differences of all CPUs cannot hide a zone below its min
 * watermark (refresh_zone_stat_thresholds, 2.6.38 to 6.18).
 */
void vmstat_diff_init(const struct model *m, struct zone *zone, uint32_t recorded);
/* Set a PCP's difference to the recorded one. */
void vmstat_diff_load(struct zone *zone, struct pcp *pcp, int recorded);
/* Switch the thresholds when the kswapd of a node of the tape wakes or sleeps. */
void vmstat_diff_kswapd(struct model *m, int node, bool awake);

/* Change nr_free_pages by `pages` on the CPU of m->now, in one step as the kernel does. */
static inline void vmstat_diff_add(const struct model *m, struct zone *zone, int32_t pages)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	int32_t before = pcp->vmstat_diff, after = before + pages;

	if (after > zone->stat_threshold || after < -zone->stat_threshold)
		after = 0;
	pcp->vmstat_diff = (int8_t)after;
	zone->vmstat_diff += after - before;
}

/*
 * A refill takes a block; the end of a refill that took `nr` blocks. The kernel counts each block
 * (account_freepages, 6.10), or all at the end (rmqueue_bulk, before).
 */
static inline void vmstat_diff_taken(const struct model *m, struct zone *zone, int order)
{
	if (m->kernel->counts_each_page)
		vmstat_diff_add(m, zone, -(1 << order));
}

static inline void vmstat_diff_refill(const struct model *m, struct zone *zone, int nr, int order)
{
	if (!m->kernel->counts_each_page)
		vmstat_diff_add(m, zone, -(nr << order));
}

/* The vmstat worker of a PCP's CPU. */
static inline void vmstat_diff_fold(struct zone *zone, struct pcp *pcp)
{
	zone->vmstat_diff -= pcp->vmstat_diff;
	pcp->vmstat_diff = 0;
}

/* The zone's counter of free pages (zone_page_state). */
static inline uint64_t zone_counted_free(const struct zone *zone)
{
	int64_t pages = (int64_t)zone->nr_free_pages - zone->vmstat_diff;

	return pages > 0 ? (uint64_t)pages : 0;
}
