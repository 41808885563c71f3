/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_map.h - the model's place of each recorded page.
 *
 * The key is the recorded pfn of an allocation. A free finds the model's page by it. The model's
 * reclaim and compaction identify the pages that they take or move by it.
 */
#pragma once

#include "model.h"

/* map[frame] for the recorded pfn of that frame: the model's frame + 1, or one of these. */
enum {
	MAP_UNSEEN = 0, /* no event yet */
	MAP_UNSERVED = UINT32_MAX - 1,
	MAP_FREED = UINT32_MAX,
};

struct page_map {
	const struct model *model;
	uint32_t *map;
	uint32_t *names;  /* [frame of a pageblock] room for page_map_names() */
	uint32_t *owners; /* [place] its frame; NULL until the first page_map_name() */
	uint32_t *room;   /* memory for owners; NULL: pages of this run do not move */
	/*
	 * Whether a used page of the model is part of a batch or group, which is freed as a whole.
	 */
	bool (*is_shared)(const void *self, frame_nr page);
	/*
	 * Split the batch of a shared page: each used page is then freed by itself, the others are
	 * free. Returns false if it stays whole. NULL: none can be split.
	 */
	bool (*split)(void *self, frame_nr page);
	/* Split batches of a zone until about so many pages are free. Returns the number. */
	int64_t (*split_some)(void *self, const struct zone *zone, int64_t pages);
	/* The block at `from` moves to `to`: so does its batch, if it is one. */
	void (*move_batch)(void *self, frame_nr from, frame_nr to);
	void *self;
};

/* For the frames of a model. -ENOMEM. */
int page_map_new(struct page_map *pages, const struct model *m, struct error *err);

/* Prepare for page_map_name(), because pages will move. Before the first request. -ENOMEM. */
int page_map_allow_moves(struct page_map *pages, struct error *err);

/*
 * Set the place, a value of the map, of the recorded block at `frame`. `served`: page i of the
 * block is at place + i; otherwise every page gets `place`.
 */
void page_map_set(struct page_map *pages, frame_nr frame, int order, uint32_t place, bool served);

/*
 * The recorded frame of a page of the model, or NO_FRAME. Needs page_map_allow_moves(). The first
 * call reads the whole map.
 */
frame_nr page_map_name(struct page_map *pages, frame_nr page);

/* The same for each page of the model's pageblock at `start`. */
void page_map_names(struct page_map *pages, uint32_t start, uint32_t *names);

static inline bool map_has_page(uint32_t place)
{
	return place != MAP_UNSEEN && place < MAP_UNSERVED;
}

/* The model's frame of a recorded page, or NO_FRAME. */
static inline frame_nr page_map_place(const struct page_map *pages, frame_nr frame)
{
	uint32_t place = pages->map[frame];

	return map_has_page(place) ? place - 1 : NO_FRAME;
}

static inline bool page_map_is_shared(const struct page_map *pages, frame_nr page)
{
	return pages->is_shared && pages->is_shared(pages->self, page);
}
