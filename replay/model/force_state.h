/* SPDX-License-Identifier: Apache-2.0 */
/*
 * force_state.h - force the model's state: move pages to where the tape says they are.
 */
#pragma once

#include "model.h"

/* Where the model has a page: the enum of the table `miss`. */
enum place { PLACE_FREE, PLACE_PCP, PLACE_USED, PLACE_UNKNOWN };
enum place place_of(const struct model *m, uint32_t frame);

/*
 * Make 2^order pages from `head` one used block, whether they are on free lists, on PCP lists
 * or used. The rest of a free chunk goes to the heads of the lists of its migratetype.
 */
void force_used(struct model *m, uint32_t head, int order);

/* Undo buddy_take_smallest(): the chunk is whole again, and at the head of its list. */
void put_back(struct model *m, uint32_t head, int order);

/* __isolate_free_page: 2^order free pages that were most of a pageblock make it MOVABLE. */
void retype_isolated(struct model *m, uint32_t head, int order);

/* Rotate a list so that `first` is at its head. */
void rotate_list(struct model *m, uint32_t list, uint32_t first);

/* Set the migratetype of a frame's pageblock and move its free pages to that type's lists. */
void retype_block(struct model *m, uint32_t frame, int migratetype);
