/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fallback.h - taking pages from another migratetype's lists.
 */
#pragma once

#include "zone.h"

/*
 * The state of a refill between its pages, 6.12.117 and later: after a steal the refill skips its
 * own list and claims. Starts as RMQUEUE_NORMAL.
 */
enum rmqueue_mode {
	RMQUEUE_NORMAL,
	RMQUEUE_CMA,
	RMQUEUE_CLAIM,
	RMQUEUE_STEAL,
};

/*
 * One block of rq->order off the free lists of rq->migratetype or, when they are empty, of another
 * (__rmqueue). Its state is FRAME_USED. The type of its pageblock may have changed. NO_FRAME if the
 * zone has no such block, or if ALLOC_NOFRAGMENT forbids to mix.
 */
frame_nr rmqueue_core(struct model *m, struct zone *zone, const struct request *rq,
		      enum rmqueue_mode *mode);

/*
 * Whether the zone's free lists have a page for the request, with ALLOC_NOFRAGMENT only without
 * mixing: of its type, or a whole pageblock.
 */
bool could_take(const struct model *m, const struct zone *zone, const struct request *rq);

/*
 * On kernels that move a chunk before they split it (4.20 to 6.8): the chunk that rmqueue_core
 * would move to the lists of rq->migratetype. NO_FRAME if these have a block, or if nothing may be
 * moved.
 */
frame_nr chunk_to_move(struct model *m, const struct zone *zone, const struct request *rq);

/*
 * On later kernels: the chunk of less than a pageblock whose block rmqueue_core would claim for
 * rq->migratetype, if it may claim by a chunk of `order` only. NO_FRAME if it would claim none.
 */
frame_nr chunk_to_claim(struct model *m, const struct zone *zone, const struct request *rq,
			int order);
