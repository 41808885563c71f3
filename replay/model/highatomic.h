/* SPDX-License-Identifier: Apache-2.0 */
/*
 * highatomic.h - the HIGHATOMIC reserve: pageblocks kept for high-order atomic requests (4.4).
 */
#pragma once

#include "zone.h"

/* What a high-order atomic request got stays with its kind (reserve_highatomic_pageblock). */
void reserve_highatomic(struct model *m, struct zone *zone, uint32_t frame, int order);

/*
 * One block of the first allowed zone that has one goes back; if not forced, that has more
 * than one (unreserve_highatomic_pageblock). Whether that moved pages.
 */
bool unreserve_highatomic(struct model *m, const struct zonelist *list, const struct request *rq,
			  bool force);
