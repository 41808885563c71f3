/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lru.h - which pages in use at the start were on an LRU list, as their frees show.
 *
 * Whether a fallback claims a pageblock depends on how many of its pages are on such a list.
 * Of pages older than the tape only /proc/kpageflags tells, and that is read before the tape
 * begins, under load long before. But a page of which the tape shows nothing before it is
 * freed in a batch (mm_page_free_batched: release_pages(), 2.6.32 to 6.18) was on one.
 */
#pragma once

#include "model/model.h"
#include "tables.h"

struct lru_found {
	uint8_t *
		first; /* [frame] LRU_UNSEEN, LRU_SETTLED, or LRU_FREED + order of the first free */
	uint16_t *pages; /* [pageblock] so many were on an LRU list */
	uint64_t read, begin;
};

/* For the pages of a model as it stands at the start, which is row `begin`. -ENOMEM. */
int lru_new(struct lru_found *l, const struct model *m, uint64_t begin, struct error *err);
void lru_free(struct lru_found *l);

/* The next rows of `event`. */
void lru_read(struct lru_found *l, const struct model *m, const struct event_columns *columns,
	      size_t rows);

/* So many old pages of a frame's pageblock, at least, are on an LRU list. */
void lru_learn(const struct model *m, uint32_t frame, uint32_t pages);
