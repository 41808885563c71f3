/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_batch.h - single pages out of larger alloc_batches.
 *
 * Requests of order 0 that one CPU makes for one migratetype, each within a gap of the one
 * before, are served page by page from one block, the batch. It goes back to the allocator
 * as a whole when the last page of it that was asked for is freed; pages that nobody asked
 * for by then, or by the end of the run of requests, are wasted. Where a batch could only be
 * had by reclaim, pages are served one by one.
 */
#pragma once

#include "model/zone.h"

struct alloc_batch;
struct alloc_batches;

/* Batches for the pages of a model. -ENOMEM. */
int alloc_batches_new(struct alloc_batches **out, const struct model *m,
		      const struct alloc_batch *batch, struct error *err);
void alloc_batches_free(struct alloc_batches *u);

/*
 * A page for a request of order 0, or NO_FRAME. `order` is that of the block that was taken
 * for it, or -1 if it is of a batch that is there already.
 */
uint32_t alloc_batches_alloc(struct alloc_batches *u, struct model *m, struct request *rq,
			     int *order);

/* Whether a used page is of a batch. */
bool alloc_batches_have(const struct alloc_batches *u, uint32_t page);

/* A page of a batch is no longer needed: the batch, of that order, to be freed, or NO_FRAME. */
uint32_t alloc_batches_give_back(struct alloc_batches *u, struct model *m, uint32_t page,
				 int *order);
