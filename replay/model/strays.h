/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strays.h - recorded pages that the model has in another zone, and exchanges of their places.
 *
 * Reclaim frees pages of one node, up to a class zone (shrink_node and isolate_lru_folios, 6.18):
 * where it frees is a fact of the reclaim, which pages it frees is not. The model may have a page
 * that reclaim freed on the record on another node. Its free would then leave the node as short as
 * before. So the page first exchanges its place with a page there that the record has in another
 * zone. Only single MOVABLE pages take part, as reclaim frees those of its LRU lists.
 */
#pragma once

#include "page_map.h"

struct strays {
	const struct model *model;
	struct page_map *pages;
	uint32_t *next; /* [recorded frame] the next in its list; itself: in no list */
	struct stray_list {
		uint32_t first, last; /* recorded frames, or NO_FRAME */
	} *lists;                     /* [zone of the model's pages] */
};

/* For a map, which must outlive it. -ENOMEM. */
int strays_new(struct strays *strays, struct page_map *pages, struct error *err);

/* A recorded page, a single one, has a new place in the model. Before strays_new() no effect. */
void strays_note(struct strays *strays, frame_nr frame);

/*
 * A recorded page is to be on a node of the model, in a zone up to `class_zone`: exchange its place
 * with the oldest stray page there. Does nothing if the page is there, or cannot be exchanged.
 */
void strays_exchange(struct strays *strays, frame_nr frame, int node, int class_zone);
