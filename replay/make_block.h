/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_block.h - a block for a request that the record served and the model cannot.
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
uint32_t make_block(struct serve *s, const struct waiting *e, const struct request *rq);

/*
 * Who names the model's pages of a pageblock: recorded frame by place in it, or NO_FRAME. After
 * serve_moves_pages(); the first time the whole map is read.
 */
void find_names(struct serve *s, uint32_t start, uint32_t *names);
