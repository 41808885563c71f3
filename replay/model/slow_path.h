/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_path.h - what a request does that no zone serves at once (__alloc_pages_slowpath).
 */
#pragma once

#include "zonelist_scan.h"

/* ALLOC_* that the slow path grants (gfp_to_alloc_flags). */
uint32_t slow_path_rights(const struct model *m, const struct request *rq);

/* It begins: it is counted, and wakes kswapd. */
void slow_path_start(struct model *m, const struct request *rq, const struct zone *preferred);

/* All of it; `nofragment`: it may not mix even after reclaim, until last. A frame, or NO_FRAME. */
uint32_t slow_path_alloc(struct model *m, struct request *rq, struct zonelist_scan *scan,
			 bool nofragment);

/*
 * A request that is not served yet, with feedback: wake kswapd and reclaim once if every
 * zone is below its min watermark; whether that was so.
 */
bool slow_path_reclaim_once(struct model *m, struct request *rq);
