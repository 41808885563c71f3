/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_path.h - requests that no zone serves above its low watermark (__alloc_pages_slowpath).
 */
#pragma once

#include "zonelist_scan.h"

/* ALLOC_* that the slow path grants (gfp_to_alloc_flags). */
uint32_t slow_path_rights(const struct model *m, const struct request *rq);

/* The slow path begins: count it, and wake kswapd. */
void slow_path_start(struct model *m, const struct request *rq, const struct zone *preferred);

/* The whole slow path. `nofragment`: mix only as the last resort. A frame, or NO_FRAME. */
uint32_t slow_path_alloc(struct model *m, struct request *rq, struct zonelist_scan *scan,
			 bool nofragment);

/*
 * A recorded request that began direct reclaim, in a run with feedback: wake kswapd and reclaim
 * once if every zone is below its min watermark. Whether that was so.
 */
bool slow_path_reclaim_once(struct model *m, struct request *rq);
