/* SPDX-License-Identifier: Apache-2.0 */
/*
 * force_state.h - force the model's state: move pages to their recorded places.
 */
#pragma once

#include "model.h"

/* The model's place of a page: the enum of the table `miss`. */
enum place { PLACE_FREE, PLACE_PCP, PLACE_USED, PLACE_UNKNOWN };
enum place place_of(const struct model *m, frame_nr frame);

/*
 * Make 2^order pages from `head` one used block, whether they are on free lists, on PCP lists
 * or used. The rest of a free chunk goes to the heads of the lists of its migratetype.
 */
void force_used(struct model *m, frame_nr head, int order);

/* Undo buddy_take_smallest(): merge the chunk again and put it at the head of its list. */
void put_back(struct model *m, frame_nr head, int order);
/* Move a free chunk behind `prev`, an entry of its list or the list, if `prev` still is that. */
void move_behind(struct model *m, frame_nr chunk, list_nr prev);

/*
 * __isolate_free_page: take 2^order free pages. If they are most of a pageblock, it becomes
 * MOVABLE.
 */
void retype_isolated(struct model *m, frame_nr head, int order);

/* Rotate a list so that `first` is at its head. */
void rotate_list(struct model *m, list_nr list, uint32_t first);

/* Set the migratetype of a frame's pageblock and move its free pages to that type's lists. */
void retype_block(struct model *m, frame_nr frame, int migratetype);
/* The same for the pageblock of a chunk, or for each of a chunk of several. */
void retype_blocks(struct model *m, frame_nr frame, int order, int migratetype);
