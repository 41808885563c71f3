/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit.h - single pages out of larger units.
 *
 * Requests of order 0 that one CPU makes for one migratetype, each within a gap of the one
 * before, are served page by page from one block, the unit. It goes back to the allocator
 * as a whole when the last page of it that was asked for is freed; pages that nobody asked
 * for by then, or by the end of the run of requests, are wasted. Where a unit could only be
 * had by reclaim, pages are served one by one.
 */
#pragma once

#include "zone.h"

struct alloc_unit;
struct units;

/* Units for the pages of a model. -ENOMEM. */
int units_new(struct units **out, const struct model *m, const struct alloc_unit *unit,
	      struct error *err);
void units_free(struct units *u);

/*
 * A page for a request of order 0, or NO_FRAME. `order` is that of the block that was taken
 * for it, or -1 if it is of a unit that is there already.
 */
uint32_t units_alloc(struct units *u, struct model *m, struct request *rq, int *order);

/* Whether a used page is of a unit. */
bool units_have(const struct units *u, uint32_t page);

/* A page of a unit is no longer needed: the unit, of that order, to be freed, or NO_FRAME. */
uint32_t units_give_back(struct units *u, struct model *m, uint32_t page, int *order);
