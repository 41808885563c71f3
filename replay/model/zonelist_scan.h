/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zonelist_scan.h - the scan of a zonelist, up to the page (get_page_from_freelist).
 */
#pragma once

#include "zone.h"

/* One scan of a zonelist. */
struct zonelist_scan {
	const struct zonelist *list;
	struct zone *preferred;
	struct zone *served; /* zone of the returned frame */
	int mark;            /* WMARK_* */
	bool local_only;     /* ALLOC_NOFRAGMENT is dropped before the scan leaves the node */
};

/* A used block of the request's order from one zone, if the zone is above the mark; or NO_FRAME. */
frame_nr scan_zone(struct model *m, struct zone *zone, struct request *rq,
		   const struct zonelist_scan *scan);

/*
 * The same from the first zone that can serve the request. A local mixed page beats a remote
 * unmixed one.
 */
frame_nr scan_zones(struct model *m, struct request *rq, struct zonelist_scan *scan);

/* Whether no scan of the request mixes migratetypes before reclaim and compaction have failed. */
bool never_mixes(const struct model *m, const struct request *rq);

/*
 * Whether a zone can serve a request that must not mix migratetypes, on the CPU of m->now. Other
 * requests mix on their own node before they leave it.
 */
bool has_unmixed(const struct model *m, const struct zone *zone, const struct request *rq);

/* Whether the kswapd of a node was woken, or runs: a pass has begun and not ended. */
bool kswapd_awake(const struct model *m, int node);
