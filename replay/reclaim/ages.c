// SPDX-License-Identifier: Apache-2.0
#include "ages.h"

#include "node.h"
#include "model/memory.h"

#include <errno.h>

enum {
	OLD_RUN = 4, /* of pages in a row */
	UNSEEN = 32, /* freed pages by the zones' sizes, for what few recorded ones do not show */
};

int ages_load(struct ages *ages, struct arrays *arrays, const struct reclaimable_columns *columns,
	      size_t rows, struct error *err)
{
	if (grow(arrays, &ages->kinds, &ages->kinds_room, ages->nr_kinds + rows,
		 sizeof(*ages->kinds), err))
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++)
		if (is_valid(columns->gfp_flags_valid, i))
			ages->kinds[ages->nr_kinds++] = columns->gfp_flags[i];
		else if (is_valid(columns->pages_valid, i))
			ages->files = columns->pages[i];
	return 0;
}

int ages_start(struct ages *ages, const struct model *m, const struct page_map *pages, bool every,
	       struct error *err)
{
	size_t nr = (size_t)m->nr_frames + (size_t)m->nr_zones;

	ages->model = m;
	ages->pages = pages;
	ages->every = every;
	ages->old = arrays_new(m->arrays, (size_t)m->nr_zones, sizeof(*ages->old));
	ages->old_next = arrays_new(m->arrays, (size_t)m->nr_nodes, sizeof(*ages->old_next));
	if (every || ages->nr_kinds)
		ages->ring = arrays_new(m->arrays, nr, sizeof(*ages->ring));
	if (arrays_error(m->arrays, err) || !ages->ring)
		return arrays_error(m->arrays, NULL);
	for (frame_nr head = m->nr_frames; head < nr; head++)
		ages->ring[head].next = ages->ring[head].prev = head;
	return 0;
}

void ages_spread_old(struct ages *ages, const uint64_t *freed)
{
	const struct model *m = ages->model;
	double left = ages->files > ages->found ? (double)(ages->files - ages->found) : 0, all = 0;

	for (int i = 0; i < m->nr_zones; i++)
		all += (double)m->zones[i].managed;
	for (int i = 0; i < m->nr_zones && all > 0; i++) {
		double its = (double)m->zones[i].managed, of_node = 0, freed_there = 0;

		for (int j = 0; j < m->nr_zones; j++)
			if (m->zones[j].node == m->zones[i].node) {
				of_node += (double)m->zones[j].managed;
				freed_there += (double)freed[j];
			}
		if (of_node > 0) /* of its node's part, by size, that of its freed pages */
			its = of_node * ((double)freed[i] + UNSEEN * its / of_node) /
			      (freed_there + UNSEEN);
		ages->old[i] = (uint64_t)(left * its / all + 0.5);
	}
}

static void drop(struct ages *ages, frame_nr frame)
{
	struct aged_page *page = &ages->ring[frame];

	ages->ring[page->prev].next = page->next;
	ages->ring[page->next].prev = page->prev;
	page->age = 0;
}

static bool is_reclaimable(const struct ages *ages, uint32_t gfp_flags, int migratetype)
{
	bool found = ages->every;

	if (migratetype != MIGRATETYPE_MOVABLE)
		return false;
	for (size_t i = 0; i < ages->nr_kinds && !found; i++)
		found = ages->kinds[i] == gfp_flags;
	return found;
}

void ages_allocated(struct ages *ages, frame_nr frame, uint32_t gfp_flags, int migratetype)
{
	uint32_t place, head, last;

	if (!ages->ring)
		return;
	if (ages->ring[frame].age)
		drop(ages, frame);
	place = page_map_place(ages->pages, frame);
	if (place == NO_FRAME || !is_reclaimable(ages, gfp_flags, migratetype))
		return;
	head = ages->model->nr_frames + (uint32_t)frame_zone(ages->model, place)->number;
	last = ages->ring[head].prev;
	ages->ring[frame] = (struct aged_page){head, last, ++ages->additions};
	ages->ring[last].next = ages->ring[head].prev = frame;
}

/* Whether the model has the recorded block as a whole, in use by a movable request. */
static bool is_whole(const struct ages *ages, frame_nr frame)
{
	const struct model *m = ages->model;
	uint32_t place = page_map_place(ages->pages, frame), nr;

	if (place == NO_FRAME || page_map_is_shared(ages->pages, place) ||
	    m->frames[place].state != FRAME_USED_MOVABLE)
		return false;
	nr = 1u << m->frames[place].order;
	if (m->nr_frames - frame < nr)
		return false;
	for (uint32_t i = 1; i < nr; i++)
		if (page_map_place(ages->pages, frame + i) != place + i)
			return false;
	return true;
}

frame_nr ages_take(struct ages *ages, int node, int class_zone)
{
	const struct model *m = ages->model;
	uint32_t oldest;

	if (!ages->ring)
		return NO_FRAME;
	do {
		oldest = NO_FRAME;
		for (int i = 0; i < m->nr_zones; i++) {
			frame_nr frame = ages->ring[m->nr_frames + (uint32_t)i].next;

			if (is_in_class(&m->zones[i], node, class_zone) && frame < m->nr_frames &&
			    (oldest == NO_FRAME || ages->ring[frame].age < ages->ring[oldest].age))
				oldest = frame;
		}
		if (oldest != NO_FRAME)
			drop(ages, oldest);
	} while (oldest != NO_FRAME && !is_whole(ages, oldest));
	return oldest;
}

/*
 * The page at a place of the permutation, or NO_FRAME. It goes from run to run of pages in a row: a
 * file's pages are read ahead together and leave the list together.
 */
static frame_nr old_at(const struct ages *ages, uint32_t place, uint32_t places)
{
	const uint32_t odd = 0x9e3779b1u;
	uint32_t run = place / OLD_RUN * odd & (places / OLD_RUN - 1);
	frame_nr frame = run * OLD_RUN + place % OLD_RUN;

	if (frame >= ages->model->nr_frames || ages->model->frames[frame].state != FRAME_OLD ||
	    ages->pages->map[frame] != MAP_UNSEEN || !frame_block(ages->model, frame)->old_movable)
		return NO_FRAME;
	return frame;
}

frame_nr ages_take_old(struct ages *ages, int node, int class_zone)
{
	const struct model *m = ages->model;
	uint32_t *next = &ages->old_next[node][class_zone], places = OLD_RUN;
	bool left = false;

	for (int i = 0; i < m->nr_zones; i++)
		left |= ages->old[i] && is_in_class(&m->zones[i], node, class_zone);
	while (places < m->nr_frames)
		places <<= 1;
	while (left && *next < places) {
		frame_nr frame = old_at(ages, (*next)++, places);
		const struct zone *zone = frame == NO_FRAME ? NULL : frame_zone(m, frame);

		if (!zone || !is_in_class(zone, node, class_zone) || !ages->old[zone->number])
			continue;
		ages->old[zone->number]--;
		return frame;
	}
	return NO_FRAME;
}
