/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_batch.h - runs of single-page requests, served from larger blocks.
 *
 * A run is a series of order-0 requests of one CPU for one migratetype, with at most the policy's
 * gap between two requests (struct alloc_batch). The model serves a run page by page from one
 * block: the batch. The batch is freed as a whole when its last requested page is freed. Pages not
 * requested by then, or by the end of the run, are wasted. Reclaim splits a batch: it frees the
 * pages that nobody uses, and the others are freed one by one from then on. If no zone has a free
 * block of that order without reclaim, pages are served one by one.
 */
#pragma once

#include "model/zone.h"

struct alloc_batch;
struct alloc_batches;

/* Batches for the pages of a model. -ENOMEM. */
int alloc_batches_new(struct alloc_batches **out, const struct model *m,
		      const struct alloc_batch *batch, struct error *err);

/*
 * A page for a request of order 0, or NO_FRAME. `order` becomes the order of the block taken for
 * the request, or -1 if the page is of an open batch.
 */
frame_nr alloc_batches_alloc(struct alloc_batches *u, struct model *m, struct request *rq,
			     int *order);

/* Whether a used page is of a batch. */
bool alloc_batches_have(const struct alloc_batches *u, frame_nr page);

/*
 * Free a page of a batch. Returns the head of the batch, with its order, if the caller must free
 * the batch now; else NO_FRAME.
 */
frame_nr alloc_batches_give_back(struct alloc_batches *u, struct model *m, frame_nr page,
				 int *order);

/* Split the batch of a used page: free its pages that are not in use. Returns their number. */
int64_t alloc_batches_split(struct alloc_batches *u, struct model *m, frame_nr page);

/* The batch at `from` has moved to `to`. */
void alloc_batches_move(struct alloc_batches *u, frame_nr from, frame_nr to);

/*
 * Split batches of a zone that are closed to further requests, until `pages` are free or enough
 * frames were looked at. Returns the pages freed.
 */
int64_t alloc_batches_split_some(struct alloc_batches *u, struct model *m, const struct zone *zone,
				 int64_t pages);
