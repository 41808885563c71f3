/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watermark.h - watermark tests, and boosts of the watermarks.
 */
#pragma once

#include "vmstat_diff.h"
#include "zone.h"

/*
 * The limit of boost_watermark: `factor` / 10000 of the high watermark, at least a pageblock. 0: no
 * boost, as for small zones if the row exempts them.
 */
int64_t boost_limit(const struct model *m, const struct zone *zone, int64_t factor);

/*
 * Raise a zone's boost by a pageblock, up to `most` pages; count its boosted time until `ts`. A
 * boost acts, and its time counts, only if the tape shows kswapd.
 */
void boost_zone(struct model *m, struct zone *zone, int64_t most);
void boost_zone_times(struct model *m, struct zone *zone, int64_t most, int64_t times);
void count_boosted_time(struct model *m, struct zone *zone, uint64_t ts);

/*
 * Whether the zone stays above `mark` after a request with this order and these ALLOC_* flags, and
 * has a chunk for it (zone_watermark_ok of the row's family).
 */
bool watermark_ok(const struct model *m, const struct zone *zone, const struct request *rq,
		  int64_t mark);

/* The same for `nr_free` free pages instead of the zone's counter (vmstat_diff.h). */
bool watermark_ok_of(const struct model *m, const struct zone *zone, uint64_t nr_free,
		     const struct request *rq, int64_t mark);

/* Whether the zone has a free chunk that the request may take, whatever the marks. */
bool zone_has_chunk(const struct model *m, const struct zone *zone, const struct request *rq);

/* The free pages that the daemons count for an order: all, or whole pageblocks only. */
uint64_t zone_free_for(const struct model *m, const struct zone *zone, int order);

/*
 * Where the work of a zone's kswapd ends (pgdat_balanced, 5.10 to 7.2): at the high watermark. With
 * memory tiering (5.18) at the promo watermark, which leaves room for pages of slower nodes.
 */
int64_t balanced_mark(const struct model *m, const struct zone *zone);

/* MAX_RECLAIM_RETRIES: a kswapd with so many passes in a row in vain is hopeless, and not woken. */
enum { KSWAPD_MAX_FAILURES = 16 };

/* Whether a zone stays above that mark after a request of this order, up to `class_zone`. */
bool zone_balanced(const struct model *m, const struct zone *zone, int order, int class_zone);

/* Pages of a zone reserved against requests without special rights. */
int64_t unusable_pages(const struct model *m, const struct zone *zone, const struct request *rq);

/* The rest of zone_watermark_fast, out of line. */
bool watermark_slow(const struct model *m, const struct zone *zone, const struct request *rq,
		    int wmark);

/* zone_watermark_fast: test order 0 by the plain mark first. Most requests end here. */
static inline bool watermark_fast(const struct model *m, const struct zone *zone,
				  const struct request *rq, int wmark)
{
	int64_t free = (int64_t)zone_counted_free(zone);

	if (!rq->order && m->kernel->watermark != WATERMARK_PER_ORDER) {
		if (m->kernel->fast_counts_highatomic)
			free -= unusable_pages(m, zone, rq);
		else if (rq->migratetype != MIGRATETYPE_MOVABLE)
			free -= (int64_t)zone->nr_free_cma;
		if (free > zone_mark(zone, wmark) + zone->lowmem_reserve[rq->class_zone])
			return true;
	}
	return watermark_slow(m, zone, rq, wmark);
}

/*
 * Begin and end of a pass of a node's kswapd over its zones up to `class_zone`. The end removes the
 * boost that the zones had at the begin (balance_pgdat, 5.0 to 6.18). During the pass the PCPs of
 * these zones stay short (ZONE_RECLAIM_ACTIVE, 5.14).
 */
void kswapd_begin(struct model *m, int node, int class_zone);
/* The kswapd of a node was woken; its pass comes later. */
void kswapd_woken(struct model *m, int node);
void kswapd_end(struct model *m, int node);
/* Remove the boost of a zone. */
void unboost_zone(struct model *m, struct zone *zone);
