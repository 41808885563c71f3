/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ages.h - pages of the model by age, for reclaim beyond the recorded pages.
 *
 * The record's reclaim frees few of the pages on the LRU lists. When the model's reclaim needs more
 * than those, the kernel would take the next pages of the lists. The oldest are pages from before
 * the start of the tape, which no event shows: as many as were on the LRU lists of files then, less
 * those that the record's reclaim freed, on each node by its size, because each has lists of its
 * own, and in its zones as the pages that it freed. Their place on the lists is unknown, so they
 * are taken by a fixed permutation of short runs of pages.
 *
 * After those come pages with the gfp flags of a request whose page reclaim freed on the record
 * (table reclaimable), the oldest first. No event shows that a page was used again, so this is the
 * order of an inactive list without second chances.
 *
 * A page has the key of page_map.h, its recorded frame, so it keeps its age when it moves.
 */
#pragma once

#include "tables.h"
#include "model/model.h"
#include "model/page_map.h"

struct ages {
	const struct model *model;
	const struct page_map *pages;
	bool every;      /* every MOVABLE page */
	uint32_t *kinds; /* gfp flags of the requests */
	size_t nr_kinds, kinds_room;
	/* [recorded frame], then one head for each zone: rings, the oldest page after the head. */
	struct aged_page {
		uint32_t next, prev;
		uint32_t age; /* number of its addition, from 1; 0: in no ring */
	} *ring;
	uint32_t additions;
	uint64_t files; /* pages of files from before the start */
	uint64_t found; /* of these, those that the record's reclaim freed */
	uint64_t *old;  /* [zone] the others that are left */
	/* [node][class] the next place in the permutation: a low class passes by higher zones */
	uint32_t (*old_next)[NR_ZONE];
};

/* Load rows of the table reclaimable. -ENOMEM. */
int ages_load(struct ages *ages, struct arrays *arrays, const struct reclaimable_columns *columns,
	      size_t rows, struct error *err);
/* Call after the last row. `every`: every MOVABLE page is reclaimable. -ENOMEM. */
int ages_start(struct ages *ages, const struct model *m, const struct page_map *pages, bool every,
	       struct error *err);
/* Call after the start: `freed` has the pages of each zone that the record's reclaim freed. */
void ages_spread_old(struct ages *ages, const uint64_t *freed);

/* A request of the record was served, or had no page in the model. */
void ages_allocated(struct ages *ages, frame_nr frame, uint32_t gfp_flags, int migratetype);

/*
 * Take the oldest block out of those of a node's zones up to `class_zone` that the model still has
 * as a whole: its recorded frame, or NO_FRAME.
 */
frame_nr ages_take(struct ages *ages, int node, int class_zone);
/* Take a page from before the start, out of the same zones, or NO_FRAME. */
frame_nr ages_take_old(struct ages *ages, int node, int class_zone);
