/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_ops.h - hooks from a request into reclaim and compaction.
 *
 * A run with feedback (R1, R2) installs them in struct model. Without them reclaim follows the
 * record. Each hook gets `self` first.
 */
#pragma once

#include "zone.h"

/* enum compact_priority */
enum { COMPACT_PRIO_SYNC_FULL, COMPACT_PRIO_SYNC_LIGHT, COMPACT_PRIO_ASYNC };

/* What a direct compaction came to: of its zones, the one that got furthest counts. */
enum compact_result {
	COMPACT_SKIPPED,  /* no zone has enough free pages */
	COMPACT_DEFERRED, /* it failed too recently */
	COMPACT_COMPLETE, /* it ran, and made no block */
	COMPACT_SUCCESS,
};

struct reclaim_ops {
	void *self;
	/* Wake the kswapd of each node of a zonelist (wake_all_kswapds). */
	void (*wake_all)(void *self, const struct zonelist *list, const struct request *rq);
	/* Wake the kswapd of a zone whose watermark was boosted. */
	void (*wake_boosted)(void *self, const struct zone *zone);
	/*
	 * One try of direct reclaim for a request, at an order that may be above the request's.
	 * Returns whether it freed pages, or found that compaction has enough.
	 */
	bool (*direct)(void *self, const struct zonelist *list, const struct request *rq,
		       int order);
	/* Pages of a zone that reclaim may still free (zone_reclaimable_pages). */
	uint64_t (*reclaimable)(void *self, const struct zone *zone);
	/*
	 * Number of times that the running task reclaimed for a request of that order. Resets it.
	 */
	int (*take_tries)(void *self, int order);
	/*
	 * One try of direct compaction at a COMPACT_PRIO_*, for a request at an order that may be
	 * above its own.
	 */
	enum compact_result (*compact)(void *self, const struct zonelist *list,
				       const struct request *rq, int order, int priority);
	/* Called when a block of this order was allocated after compaction of the zone. */
	void (*compacted)(void *self, const struct zone *zone, int order);
	/*
	 * Reclaim on a nearby node before the scan continues, unless another task reclaims there.
	 * Returns whether that freed pages.
	 */
	bool (*node_reclaim)(void *self, const struct zone *zone, const struct request *rq);
	/*
	 * Let the request wait for kswapd instead of mixing migratetypes, and boost its first zone
	 * by 7 pageblocks, up to `most` pages in all (policy stall). A request waits at most once.
	 */
	void (*stall)(void *self, struct zone *zone, const struct request *rq, int64_t most);
	/* Whether the running request waited. Resets the flag. */
	bool (*stalled)(void *self);
};
