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
 * Free CMA pages have a counter of their own (NR_FREE_CMA_PAGES), with differences of their own:
 * cma_diff. A refill compares the two counters (__rmqueue).
 *
 * Changes of nr_free_pages without an event enter the counter at once.
 */
#pragma once

#include "model.h"

enum { VMSTAT_DIFF_MOST = 125 }; /* pages, the largest threshold */

/*
 * Set the thresholds of a zone. `recorded` is the threshold in the snapshot; 0: none. While kswapd
 * is awake, zones whose min watermark the differences of all CPUs could hide have another one
 * (set_pgdat_percpu_threshold, 2.6.38 to 7.2).
 */
void vmstat_diff_init(const struct model *m, struct zone *zone, uint32_t recorded);
/* Set a PCP's difference to the recorded one. */
void vmstat_diff_load(struct zone *zone, struct pcp *pcp, int recorded);
/*
 * Change the zone's counter by `pages`, through the differences of its CPUs, as far as these may
 * be.
 */
void vmstat_diff_shift(struct model *m, struct zone *zone, int pages);
/* Give a PCP the recorded difference at the cost of those of other CPUs, as far as these may be. */
void vmstat_diff_take(struct model *m, struct zone *zone, struct pcp *pcp, int recorded);
/* Pages by which it may change up as well as down. */
int vmstat_diff_room(const struct model *m, const struct zone *zone);
/* Switch the thresholds when the kswapd of a node of the tape wakes or sleeps. */
void vmstat_diff_kswapd(struct model *m, int node, bool awake);

/* Add `pages` to a CPU's difference, in one step as the kernel does, and to the sum of the zone's.
 */
static inline void vmstat_diff_step(int8_t *diff, int32_t *sum, int32_t threshold, int32_t pages)
{
	int32_t after = *diff + pages;

	if (after > threshold || after < -threshold)
		after = 0;
	*sum += after - *diff;
	*diff = (int8_t)after;
}

/* Change nr_free_pages by `pages` on the CPU of m->now. */
static inline void vmstat_diff_add(const struct model *m, struct zone *zone, int32_t pages)
{
	vmstat_diff_step(&zone_pcp(m, zone, m->now.cpu)->vmstat_diff, &zone->vmstat_diff,
			 zone->stat_threshold, pages);
}

/* Change nr_free_cma, if the pages are of that type. */
static inline void vmstat_diff_add_cma(const struct model *m, struct zone *zone, int migratetype,
				       int32_t pages)
{
	if (migratetype == MIGRATETYPE_CMA)
		vmstat_diff_step(&zone_pcp(m, zone, m->now.cpu)->cma_diff, &zone->cma_diff,
				 zone->stat_threshold, pages);
}

/*
 * A refill takes a block; the end of a refill that took `nr` blocks. The kernel counts each block
 * (account_freepages, 6.10), or all at the end (rmqueue_bulk, before). CMA blocks are always
 * counted one by one.
 */
static inline void vmstat_diff_taken(const struct model *m, struct zone *zone, int migratetype,
				     int order)
{
	if (m->kernel->counts_each_page)
		vmstat_diff_add(m, zone, -(1 << order));
	vmstat_diff_add_cma(m, zone, migratetype, -(1 << order));
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
	zone->cma_diff -= pcp->cma_diff;
	pcp->vmstat_diff = pcp->cma_diff = 0;
}

/* The zone's counter of free pages (zone_page_state). */
static inline uint64_t zone_listed_free(const struct zone *zone)
{
	int64_t pages = (int64_t)zone->nr_free_pages - zone->vmstat_diff;

	return pages > 0 ? (uint64_t)pages : 0;
}

/* The same with the pages that reclaim owes, as watermarks see it. */
static inline uint64_t zone_counted_free(const struct zone *zone)
{
	return zone_listed_free(zone) + zone->owed;
}

/* The same for free CMA pages. */
static inline uint64_t zone_counted_cma(const struct zone *zone)
{
	int64_t pages = (int64_t)zone->nr_free_cma - zone->cma_diff;

	return pages > 0 ? (uint64_t)pages : 0;
}
