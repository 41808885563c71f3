/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_batch.h - runs of single-page requests, served from larger blocks.
 *
 * Requests of order 0 that one CPU makes for one migratetype, each within a gap of the one before,
 * are served page by page from one block: the batch. The batch goes back to the allocator as a
 * whole when the last page that was asked for is freed. Pages that nobody asked for by then, or by
 * the end of the run of requests, are wasted. Where only reclaim could free a block of that order,
 * pages are served one by one.
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
 * A page for a request of order 0, or NO_FRAME. `order` becomes the order of the block that was
 * taken for it, or -1 if the page is of an open batch.
 */
uint32_t alloc_batches_alloc(struct alloc_batches *u, struct model *m, struct request *rq,
			     int *order);

/* Whether a used page is of a batch. */
bool alloc_batches_have(const struct alloc_batches *u, uint32_t page);

/*
 * A page of a batch is no longer needed. Returns the batch, of that order, if it is to be freed;
 * else NO_FRAME.
 */
uint32_t alloc_batches_give_back(struct alloc_batches *u, struct model *m, uint32_t page,
				 int *order);
