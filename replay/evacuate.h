/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evacuate.h - compaction's work in the model: pages move so that a pageblock is free.
 */
#pragma once

#include "feedback.h"

/*
 * From the low end of a zone on, move the pages out of pageblocks that hold only MOVABLE
 * pages of order 0, to free pages at its high end, until a block of `order` can be
 * served. `row` has the budget in pages and the share that fails, which adds up in
 * `failing` until it is a page. Whether the order can be served.
 */
bool evacuate(struct feedback *fb, struct zone *zone, int order, const struct service_row *row,
	      double *failing);
