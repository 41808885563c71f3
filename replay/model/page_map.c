// SPDX-License-Identifier: Apache-2.0
#include "page_map.h"

#include "memory.h"

int page_map_new(struct page_map *pages, const struct model *m, struct error *err)
{
	*pages = (struct page_map){.model = m};
	pages->names = arrays_new(m->arrays, 1u << m->pageblock_order, sizeof(*pages->names));
	pages->map = arrays_map(m->arrays, m->nr_frames, sizeof(*pages->map));
	return arrays_error(m->arrays, err);
}

int page_map_allow_moves(struct page_map *pages, struct error *err)
{
	const struct model *m = pages->model;

	pages->room = arrays_map(m->arrays, m->nr_frames, sizeof(*pages->room));
	return arrays_error(m->arrays, err);
}

void page_map_set(struct page_map *pages, frame_nr frame, int order, uint32_t place, bool served)
{
	pages->map[frame] = place;
	for (uint32_t i = 1; i < 1u << order; i++)
		pages->map[frame + i] = served ? place + i : place;
	if (pages->owners && served)
		for (uint32_t i = 0; i < 1u << order; i++)
			pages->owners[place - 1 + i] = frame + i;
}

/* Invert the whole map. From now on page_map_set() maintains the inverse. */
static void find_owners(struct page_map *pages)
{
	pages->owners = pages->room;
	for (frame_nr frame = 0; frame < pages->model->nr_frames; frame++) {
		uint32_t place = page_map_place(pages, frame);

		if (place != NO_FRAME)
			pages->owners[place] = frame;
	}
}

frame_nr page_map_name(struct page_map *pages, frame_nr page)
{
	const struct model *m = pages->model;
	uint32_t owner;

	if (!pages->owners)
		find_owners(pages);
	/* An owner that released its page stays in the table. */
	owner = pages->owners[page];
	if (page_map_place(pages, owner) == page)
		return owner;
	/* A page used before the start is its own name until it moves. */
	return m->frames[page].state == FRAME_OLD && pages->map[page] == MAP_UNSEEN ? page
										    : NO_FRAME;
}

void page_map_names(struct page_map *pages, uint32_t start, uint32_t *names)
{
	for (uint32_t i = 0; i < 1u << pages->model->pageblock_order; i++)
		names[i] = page_map_name(pages, start + i);
}
