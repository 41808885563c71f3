/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fallback.h - taking pages from another migratetype's lists.
 */
#pragma once

#include "zone.h"

/*
 * The state of a refill from page to page, 6.12.117 and later: after a steal it tries neither
 * its own list nor a claim again. Begins as RMQUEUE_NORMAL.
 */
enum rmqueue_mode {
	RMQUEUE_NORMAL,
	RMQUEUE_CMA,
	RMQUEUE_CLAIM,
	RMQUEUE_STEAL,
};

/*
 * One block of rq->order off the free lists of rq->migratetype or, when they are
 * empty, of another (__rmqueue). Its state is FRAME_USED, and the type of its pageblock may
 * have changed. NO_FRAME if the zone has none, or if ALLOC_NOFRAGMENT forbids the mixing.
 */
uint32_t rmqueue_core(struct model *m, struct zone *zone, const struct request *rq,
		      enum rmqueue_mode *mode);
