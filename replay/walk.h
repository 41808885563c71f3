/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - the walk over a zonelist, up to the page (get_page_from_freelist).
 */
#pragma once

#include "zone.h"

/* One walk of a zonelist. */
struct walk {
	const struct zonelist *list;
	struct zone *preferred;
	struct zone *served; /* where it found the frame it returned */
	int mark;            /* WMARK_* */
	bool local_only;     /* NOFRAGMENT gives way before the walk leaves the node */
};

/* A used block of the request's order from one zone, if it is above the mark; or NO_FRAME. */
uint32_t walk_zone(struct model *m, struct zone *zone, struct request *rq, const struct walk *walk);

/* The same from the first zone that has one: local but mixed beats remote and unmixed. */
uint32_t walk_zones(struct model *m, struct request *rq, struct walk *walk);
