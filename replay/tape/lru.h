/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lru.h - finds the pages on an LRU list at the start, from their frees.
 *
 * A claim of a pageblock depends on the number of its pages on an LRU list. For pages older than
 * the tape only /proc/kpageflags has that number, read some time before the tape begins. But a page
 * whose first event is a batched free (mm_page_free_batched: release_pages(), 2.6.32 to 6.18) was
 * on an LRU list at the start.
 */
#pragma once

#include "model/model.h"
#include "tables.h"

struct lru_found {
	uint8_t *
		first; /* [frame] LRU_UNSEEN, LRU_SETTLED, or LRU_FREED + order of the first free */
	uint16_t *pages; /* [pageblock] pages that were on an LRU list */
	uint64_t read, begin;
};

/* For the pages of a model in its state at the start, row `begin`. -ENOMEM. */
int lru_new(struct lru_found *l, const struct model *m, uint64_t begin, struct error *err);
void lru_free(struct lru_found *l);

/* The next rows of `event`. */
void lru_read(struct lru_found *l, const struct model *m, const struct event_columns *columns,
	      size_t rows);

/* Lower bound of the old pages on an LRU list in a frame's pageblock. */
void lru_learn(const struct model *m, frame_nr frame, uint32_t pages);
