/* SPDX-License-Identifier: Apache-2.0 */
/*
 * force_used.h - put the model right by force: pages to where the tape says they are.
 */
#pragma once

#include "model.h"

/* Where the model holds a page: the enum of the table miss. */
enum place { PLACE_FREE, PLACE_PCP, PLACE_USED, PLACE_UNKNOWN };
enum place place_of(const struct model *m, uint32_t frame);

/*
 * Make 2^order pages from `head` one used block, wherever they are: on free lists (what
 * remains of a chunk goes to the heads of its type's lists), on PCP lists, or used.
 */
void force_used(struct model *m, uint32_t head, int order);

/* Undo buddy_take_smallest(): the chunk is whole again, and first on its list. */
void put_back(struct model *m, uint32_t head, int order);

/* __isolate_free_page, of 2^order pages that were free: most of a pageblock makes it MOVABLE. */
void retype_isolated(struct model *m, uint32_t head, int order);

/* Cut a list like a deck of cards: `first` comes first. */
void rotate_list(struct model *m, uint32_t list, uint32_t first);

/* A page's block has this migratetype, whatever the model thought: so have its free pages. */
void retype_block(struct model *m, uint32_t frame, int migratetype);
