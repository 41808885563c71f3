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

struct reclaim_ops {
	void *self;
	/* Wake the kswapd of each node of a zonelist (wake_all_kswapds). */
	void (*wake_all)(void *self, const struct zonelist *list, const struct request *rq);
	/* Wake the kswapd of a zone whose watermark was boosted. */
	void (*wake_boosted)(void *self, const struct zone *zone);
	/* One try of direct reclaim for a request. Returns whether it freed pages. */
	bool (*direct)(void *self, const struct zonelist *list, const struct request *rq);
	/*
	 * Number of times that the running task reclaimed for a request of that order. Resets it.
	 */
	int (*take_tries)(void *self, int order);
	/*
	 * One try of direct compaction at a COMPACT_PRIO_*. Returns whether a zone now has a block
	 * of the request's order.
	 */
	bool (*compact)(void *self, const struct zonelist *list, const struct request *rq,
			int priority);
	/* Called when a block of this order was allocated after compaction of the zone. */
	void (*compacted)(void *self, const struct zone *zone, int order);
	/* Reclaim on a nearby node before the scan continues. Returns whether that freed pages. */
	bool (*node_reclaim)(void *self, const struct zone *zone, const struct request *rq);
	/*
	 * Let the request wait for kswapd instead of mixing migratetypes, and boost the zone by up
	 * to `boost` pages (policy stall). A request waits at most once.
	 */
	void (*stall)(void *self, struct zone *zone, const struct request *rq, int64_t boost);
	/* Whether the running request waited. Resets the flag. */
	bool (*stalled)(void *self);
};
