/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fallback.h - taking pages from another migratetype's lists.
 */
#pragma once

#include "zone.h"

/*
 * What a refill remembers from page to page, 6.12.117 and later: once it had to
 * steal it does not look at its own list or at claims again. Begins as RMQUEUE_NORMAL.
 */
enum rmqueue_mode {
	RMQUEUE_NORMAL,
	RMQUEUE_CMA,
	RMQUEUE_CLAIM,
	RMQUEUE_STEAL,
};

/*
 * One block of rq->order off the free lists of rq->migratetype or, when they are
 * empty, of another (__rmqueue). Its state is FRAME_USED and its block's type may have
 * changed. NO_FRAME if the zone has none, or only by mixing under ALLOC_NOFRAGMENT.
 */
uint32_t rmqueue_core(struct model *m, struct zone *zone, const struct request *rq,
		      enum rmqueue_mode *mode);
