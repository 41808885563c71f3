/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_ops.h - hooks by which a request reaches reclaim and compaction.
 *
 * A run with feedback (R1, R2) installs them in struct model. Without them reclaim happens
 * as recorded. Each hook gets `self` first.
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
	/* One try of direct reclaim for a request. Whether it freed pages. */
	bool (*direct)(void *self, const struct zonelist *list, const struct request *rq);
	/* How often the running task already reclaimed for a request of that order. Resets it. */
	int (*take_tries)(void *self, int order);
	/*
	 * One try of direct compaction at a COMPACT_PRIO_*. Whether a zone now has a block of the
	 * request's order.
	 */
	bool (*compact)(void *self, const struct zonelist *list, const struct request *rq,
			int priority);
	/* A block of this order was handed out after compaction of the zone. */
	void (*compacted)(void *self, const struct zone *zone, int order);
	/* Reclaim on a nearby node before the scan goes on. Whether that freed pages. */
	bool (*node_reclaim)(void *self, const struct zone *zone, const struct request *rq);
	/*
	 * The request waits for kswapd rather than mix migratetypes, and the zone is boosted
	 * by up to `boost` pages (policy stall). A request waits once.
	 */
	void (*stall)(void *self, struct zone *zone, const struct request *rq, int64_t boost);
	/* Whether the running request waited so. Resets it. */
	bool (*stalled)(void *self);
};
