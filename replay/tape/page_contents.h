/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_contents.h - what the pageblocks of the record contain: used pages by migratetype.
 *
 * An event of an allocation shows the migratetype of its pages. The fields of struct pageblock
 * that a free run counts them in are filled from the record here.
 */
#pragma once

#include "model/model.h"
#include "tables.h"

struct page_contents {
	uint8_t *pages;           /* [frame] NO_CONTENT, OLD_CONTENT, or HAS_TYPE + migratetype */
	struct pageblock *blocks; /* [pageblock] nr_live, nr_old, old_movable and old_lru count */
};

/* Those of a model in its state at the start. -ENOMEM. */
int page_contents_new(struct page_contents *c, const struct model *m, struct error *err);

/* An event about 2^order pages from `frame`. Only allocations have a migratetype. */
void page_contents_event(struct page_contents *c, const struct model *m, int kind, frame_nr frame,
			 int order, int migratetype);

/* The pageblocks' types are those of the model now. */
void page_contents_end(struct page_contents *c, const struct model *m);
