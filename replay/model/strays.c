// SPDX-License-Identifier: Apache-2.0
#include "strays.h"

#include "memory.h"

#include <errno.h>

int strays_new(struct strays *strays, struct page_map *pages, struct error *err)
{
	const struct model *m = pages->model;
	size_t zones = (size_t)m->nr_zones;

	*strays = (struct strays){.model = m, .pages = pages};
	strays->lists = arrays_new(m->arrays, zones, sizeof(*strays->lists));
	strays->next = arrays_new(m->arrays, m->nr_frames, sizeof(*strays->next));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	for (size_t zone = 0; zone < zones; zone++)
		strays->lists[zone] = (struct stray_list){NO_FRAME, NO_FRAME};
	for (frame_nr frame = 0; frame < m->nr_frames; frame++)
		strays->next[frame] = frame;
	return 0;
}

/* The place of a recorded page that may be exchanged, or NO_FRAME. */
static uint32_t place_of(const struct strays *strays, frame_nr frame)
{
	uint32_t place = page_map_place(strays->pages, frame);
	const struct frame *f;

	if (place == NO_FRAME)
		return NO_FRAME;
	f = &strays->model->frames[place];
	return f->state == FRAME_USED_MOVABLE && !f->order &&
			       !page_map_is_shared(strays->pages, place)
		       ? place
		       : NO_FRAME;
}

/* Append the page to the list of the zone of its place. */
static void append(struct strays *strays, frame_nr frame, uint32_t place)
{
	struct stray_list *list = &strays->lists[frame_zone(strays->model, place)->number];

	strays->next[frame] = NO_FRAME;
	if (list->last == NO_FRAME)
		list->first = frame;
	else
		strays->next[list->last] = frame;
	list->last = frame;
}

void strays_note(struct strays *strays, frame_nr frame)
{
	uint32_t place;

	if (!strays->lists || strays->next[frame] != frame)
		return;
	place = place_of(strays, frame);
	if (place != NO_FRAME &&
	    frame_zone(strays->model, place) != frame_zone(strays->model, frame))
		append(strays, frame, place);
}

/* The oldest page of a zone's list that still is there, or NO_FRAME; it leaves the list. */
static uint32_t take(struct strays *strays, const struct zone *zone)
{
	struct stray_list *list = &strays->lists[zone->number];

	while (list->first != NO_FRAME) {
		frame_nr frame = list->first;
		uint32_t place = place_of(strays, frame);

		list->first = strays->next[frame];
		if (list->first == NO_FRAME)
			list->last = NO_FRAME;
		strays->next[frame] = frame;
		if (place != NO_FRAME && frame_zone(strays->model, place) == zone &&
		    frame_zone(strays->model, frame) != zone)
			return frame;
		strays_note(strays, frame);
	}
	return NO_FRAME;
}

void strays_exchange(struct strays *strays, frame_nr frame, int node, int class_zone)
{
	const struct model *m = strays->model;
	uint32_t own, other = NO_FRAME, place;
	const struct zone *zone;

	if (!strays->lists)
		return;
	own = place_of(strays, frame);
	if (own == NO_FRAME)
		return;
	zone = frame_zone(m, own);
	if (zone->node == node && zone->type <= class_zone)
		return;
	for (int i = m->nr_zones - 1; i >= 0 && other == NO_FRAME; i--)
		if (m->zones[i].node == node && m->zones[i].type <= class_zone)
			other = take(strays, &m->zones[i]);
	if (other == NO_FRAME)
		return;
	place = page_map_place(strays->pages, other);
	page_map_set(strays->pages, frame, 0, place + 1, true);
	page_map_set(strays->pages, other, 0, own + 1, true);
	strays_note(strays, other);
}
