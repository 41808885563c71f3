/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zonelist_scan.h - the walk over a zonelist, up to the page (get_page_from_freelist).
 */
#pragma once

#include "zone.h"

/* One walk of a zonelist. */
struct zonelist_scan {
	const struct zonelist *list;
	struct zone *preferred;
	struct zone *served; /* where it found the frame it returned */
	int mark;            /* WMARK_* */
	bool local_only;     /* NOFRAGMENT gives way before the walk leaves the node */
};

/* A used block of the request's order from one zone, if it is above the mark; or NO_FRAME. */
uint32_t scan_zone(struct model *m, struct zone *zone, struct request *rq,
		   const struct zonelist_scan *scan);

/* The same from the first zone that has one: local but mixed beats remote and unmixed. */
uint32_t scan_zones(struct model *m, struct request *rq, struct zonelist_scan *scan);
