/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact_for_record.h - a block for a request that the record served and the model cannot.
 *
 * The kernel compacted for the request, or had a free block where the model has smaller ones. The
 * request must take its pages in the model as well; otherwise the model has more free pages than
 * the kernel afterwards. So the pages in the way move, as compaction moves them.
 */
#pragma once

#include "serve.h"

/*
 * A used block of rq->order for the alloc `e`, counted as by zone_alloc(). NO_FRAME if no zone has
 * movable pages, or room to move them to. Zones are tried in the request's order; in each zone the
 * recorded place comes first, then the place with the fewest pages in the way.
 */
frame_nr compact_for_record(struct serve *s, const struct waiting *e, const struct request *rq);

/*
 * Make a free pageblock for a request that may not mix. With vm.defrag_mode the kernel compacts
 * until it has one, also for a single page (__alloc_pages_slowpath, 7.2). Zones and places are
 * tried as above. False if no zone can have one.
 */
bool compact_block_for_record(struct serve *s, const struct waiting *e, const struct request *rq);
