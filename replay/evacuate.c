// SPDX-License-Identifier: Apache-2.0
#include "evacuate.h"

#include "buddy.h"
#include "kcompactd.h"
#include "make_block.h"
#include "seize.h"
#include "zone.h"

#include <string.h>

enum { BUDGET = 2048 }; /* pages, where the record has no run to learn from */

/* Pages that would have to move out of a pageblock, or -1 if some cannot. */
static int pages_to_move(const struct model *m, const struct zone *zone, uint32_t start)
{
	const struct pageblock *block = frame_block(m, start);
	int pages = 0;

	if (block->migratetype != MIGRATETYPE_MOVABLE || !block_inside(m, zone, start) ||
	    block->old_lru < block->nr_old)
		return -1;
	for (uint32_t frame = start; frame < start + (1u << m->pageblock_order);) {
		const struct frame *f = &m->frames[frame];

		if (f->state != FRAME_FREE &&
		    (f->order || (f->state != FRAME_USED_MOVABLE && f->state != FRAME_OLD)))
			return -1;
		pages += f->state != FRAME_FREE;
		frame += 1u << f->order;
	}
	return pages;
}

/* The highest free page below `from` that is not in the pageblock of `start`, or NO_FRAME. */
static uint32_t free_page_below(const struct model *m, const struct zone *zone, uint32_t from,
				uint32_t start)
{
	while (from-- > zone->start) {
		uint32_t head = block_head(m, from);

		if (block_start(m, from) == start)
			return NO_FRAME;
		if (m->frames[head].state == FRAME_FREE)
			return from;
		from = head;
	}
	return NO_FRAME;
}

static void move_page(struct feedback *fb, struct zone *zone, uint32_t from, uint32_t to,
		      uint32_t name)
{
	struct model *m = fb->model;

	seize(m, to, 0);
	zone_mark_live(m, to, 0, MIGRATETYPE_MOVABLE);
	if (name != NO_FRAME)
		fb->reclaim.serve->map[name] = to + 1;
	reclaim_moved(&fb->reclaim, from, to);
	if (m->frames[from].state == FRAME_OLD)
		zone_forget_old(m, from, 0);
	else
		zone_unmark_live(m, from, 0);
	free_direct(m, zone, from, 0);
	node_counters(m, zone->node)->compacted_pages++;
}

/* Move all pages of a pageblock; returns how many moved. */
static int empty_block(struct feedback *fb, struct zone *zone, uint32_t start)
{
	struct model *m = fb->model;
	uint32_t *names = fb->reclaim.serve->names, to = zone->end;
	int moved = 0;

	find_names(fb->reclaim.serve, start, names);
	for (uint32_t from = start; from < start + (1u << m->pageblock_order); from++) {
		const struct frame *f = &m->frames[from];

		if (f->state != FRAME_USED_MOVABLE && f->state != FRAME_OLD)
			continue;
		to = free_page_below(m, zone, to, start);
		if (to == NO_FRAME)
			break;
		move_page(fb, zone, from, to, names[from - start]);
		moved++;
	}
	return moved;
}

bool evacuate(struct feedback *fb, struct zone *zone, int order, const struct service_row *row,
	      double *failing)
{
	struct model *m = fb->model;
	uint32_t pages = 1u << m->pageblock_order;
	int64_t budget = row->moved ? (int64_t)row->moved : BUDGET;
	double share = row->moved + row->failed
			       ? (double)row->failed / (double)(row->moved + row->failed)
			       : 0;

	for (uint32_t start = zone->start & ~(pages - 1); start < zone->end; start += pages) {
		int move = start < zone->start ? -1 : pages_to_move(m, zone, start);

		if (move <= 0)
			continue;
		if (budget < move)
			return false;
		budget -= move;
		*failing += share * move;
		/* A page that does not move spoils the block. */
		if (*failing >= 1) {
			*failing -= 1;
			continue;
		}
		empty_block(fb, zone, start);
		if (compact_suits(m, zone, order, zone->type) == COMPACT_SERVES)
			return true;
	}
	return false;
}
