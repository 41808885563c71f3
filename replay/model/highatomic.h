/* SPDX-License-Identifier: Apache-2.0 */
/*
 * highatomic.h - the HIGHATOMIC reserve: pageblocks for high-order atomic requests (4.4).
 */
#pragma once

#include "zone.h"

/* Reserve the pageblock that a high-order atomic request got (reserve_highatomic_pageblock). */
void reserve_highatomic(struct model *m, struct zone *zone, frame_nr frame, int order);

/*
 * Release one reserved pageblock of the first allowed zone that has more than one, or any with
 * `force` (unreserve_highatomic_pageblock). Returns whether pages moved.
 */
bool unreserve_highatomic(struct model *m, const struct zonelist *list, const struct request *rq,
			  bool force);
