/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact_for_record.h - a block for a request that the record served and the model cannot.
 *
 * The kernel compacted for the request, or had by luck a block that the model has in pieces. The
 * request takes its pages in the model too; else the model would have more free pages than the
 * kernel from here on. So the pages in the way move, as compaction moves them.
 */
#pragma once

#include "serve.h"

/*
 * A used block of rq->order for the alloc `e`, counted as zone_alloc() counts one; NO_FRAME if no
 * zone has pages that can move, or room for them. Zones are tried in the request's order; in each
 * zone the recorded place comes first, then the place with the fewest pages in the way.
 */
uint32_t compact_for_record(struct serve *s, const struct waiting *e, const struct request *rq);
