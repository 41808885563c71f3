/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmstat_diff.h - how far a zone's count of free pages is behind.
 *
 * Watermarks are compared with a counter of the zone (NR_FREE_PAGES) which its CPUs do not
 * change at once: each keeps what it took and gave as a difference of its own, until that is
 * beyond the zone's threshold, or its vmstat worker runs (__mod_zone_page_state and
 * refresh_cpu_vm_stats, 2.6.32 to 6.18). zone->vmstat_diff is the sum of the differences: what the
 * counter has still to gain. Where no snapshot told a threshold it is 0: the counter is exact.
 *
 * What no event recorded, and changes nr_free_pages all the same, the counter has at once.
 */
#pragma once

#include "model.h"

enum { VMSTAT_DIFF_MOST = 125 }; /* pages, the largest threshold */

/*
 * The thresholds of a zone, of which a snapshot told the one that it had then; 0: none. While
 * kswapd is awake it is another one if the differences of all CPUs might hide that the zone is
 * below its min watermark (refresh_zone_stat_thresholds, 2.6.38 to 6.18).
 */
void vmstat_diff_init(const struct model *m, struct zone *zone, uint32_t recorded);
/* A PCP's difference, as a snapshot tells it. */
void vmstat_diff_load(struct zone *zone, struct pcp *pcp, int recorded);
/* The kswapd of a node wakes, or sleeps. */
void vmstat_diff_kswapd(struct model *m, int node, bool awake);

/* The CPU of m->now changes nr_free_pages by so many pages, in one of the kernel's window. */
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
 * A refill takes a block, and has taken `nr`: it is counted for each, or at its end
 * (account_freepages, 6.10; before, rmqueue_bulk).
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

/* Free pages as the counter has them (zone_page_state). */
static inline uint64_t zone_counted_free(const struct zone *zone)
{
	int64_t pages = (int64_t)zone->nr_free_pages - zone->vmstat_diff;

	return pages > 0 ? (uint64_t)pages : 0;
}
