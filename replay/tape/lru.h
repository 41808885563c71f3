/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lru.h - which pages in use at the start were on an LRU list, as their frees show.
 *
 * A fallback claims a pageblock by the number of its pages on such a list. Of pages older than the
 * tape only /proc/kpageflags has that, and it is read before the tape begins, under load long
 * before. But a page without an event before it is freed in a batch (mm_page_free_batched:
 * release_pages(), 2.6.32 to 6.18) was on an LRU list.
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

/* For the pages of a model as it stands at the start, which is row `begin`. -ENOMEM. */
int lru_new(struct lru_found *l, const struct model *m, uint64_t begin, struct error *err);
void lru_free(struct lru_found *l);

/* The next rows of `event`. */
void lru_read(struct lru_found *l, const struct model *m, const struct event_columns *columns,
	      size_t rows);

/* At least so many old pages of a frame's pageblock are on an LRU list. */
void lru_learn(const struct model *m, uint32_t frame, uint32_t pages);
