/* SPDX-License-Identifier: Apache-2.0 */
/*
 * highatomic.h - the HIGHATOMIC reserve: pageblocks for high-order atomic requests (4.4).
 */
#pragma once

#include "zone.h"

/* Reserve the pageblock that a high-order atomic request got (reserve_highatomic_pageblock). */
void reserve_highatomic(struct model *m, struct zone *zone, uint32_t frame, int order);

/*
 * Give one reserved pageblock of the first allowed zone back: of a zone that has more than one,
 * or, with `force`, any (unreserve_highatomic_pageblock). Whether that moved pages.
 */
bool unreserve_highatomic(struct model *m, const struct zonelist *list, const struct request *rq,
			  bool force);
