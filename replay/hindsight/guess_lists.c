// SPDX-License-Identifier: Apache-2.0
#include "hindsight_run.h"

/* Whether a free chunk of this order begins at a frame, on a list of `type`. */
static bool is_chunk(const struct hindsight *h, frame_nr frame, int order, int type)
{
	return order >= 0 && frame < h->m->nr_frames && h->chunks[frame].order == order + 1 &&
	       h->chunks[frame].migratetype == type;
}

/*
 * Whether a split left the chunk beside another one of `type`: the upper halves of a chunk that is
 * split go to the lists of one type (expand, 2.6.31 to 6.8).
 */
static bool was_split_off(const struct hindsight *h, frame_nr frame, int order, int type)
{
	uint32_t half = (1u << order) / 2;

	return frame & (1u << order) && (is_chunk(h, frame - half, order - 1, type) ||
					 is_chunk(h, frame + 2 * half, order + 1, type));
}

/* A chunk of the zone to move from the lists of one type to those of another, or NO_FRAME. */
static frame_nr chunk_to_move(const struct hindsight *h, const struct zone *zone, int order,
			      int from, int to)
{
	uint32_t found = NO_FRAME;

	for (frame_nr frame = zone->start; frame < zone->end; frame++) {
		if (!is_chunk(h, frame, order, from) || h->chunks[frame].listed)
			continue;
		if (was_split_off(h, frame, order, to))
			return frame;
		found = found == NO_FRAME ? frame : found;
	}
	return found;
}

/* Events have shown that chunks were on other lists than those of their pageblocks. */
static void count_shown(struct hindsight *h)
{
	for (frame_nr frame = 0; frame < h->m->nr_frames; frame++) {
		const struct start_chunk *chunk = &h->chunks[frame];
		int type = h->blocks[frame >> h->m->pageblock_order].migratetype;
		int64_t *missing;

		if (!chunk->order || chunk->migratetype == type)
			continue;
		missing = h->free_areas[frame_zone(h->m, frame)->number][chunk->order - 1];
		missing[type]++;
		missing[chunk->migratetype]--;
	}
}

void guess_lists(struct hindsight *h)
{
	const struct model *m = h->m;

	if (!h->areas_by_type || m->kernel->drained_type == DRAINED_BLOCK)
		return;
	count_shown(h);
	for (int i = 0; i < m->nr_zones * (m->max_order + 1); i++) {
		const struct zone *zone = &m->zones[i / (m->max_order + 1)];
		int order = i % (m->max_order + 1), from, to;
		int64_t *missing = h->free_areas[zone->number][order];

		for (from = 0; from <= MIGRATETYPE_RECLAIMABLE; from++)
			for (to = 0; to <= MIGRATETYPE_RECLAIMABLE; to++)
				while (missing[from] < 0 && missing[to] > 0) {
					frame_nr frame = chunk_to_move(h, zone, order, from, to);

					if (frame == NO_FRAME)
						break;
					h->chunks[frame].migratetype = (uint8_t)to;
					missing[from]++;
					missing[to]--;
				}
	}
}
