/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact_for_record.h - a block for a request that the record served and the model cannot.
 *
 * The kernel compacted for it, or found by luck what the model has in pieces. The request
 * takes its pages in the model too, else the model has more free pages than the kernel had
 * from here on. So the pages in the way move, as compaction moves them.
 */
#pragma once

#include "serve.h"

/*
 * A used block of rq->order for the alloc `e`, counted as zone_alloc() counts one; NO_FRAME if
 * no zone has pages that can move, or room for them. Tried are the zones in the request's
 * order, in each the recorded place and then what has the fewest pages in the way.
 */
uint32_t compact_for_record(struct serve *s, const struct waiting *e, const struct request *rq);
