// SPDX-License-Identifier: Apache-2.0
#include "compact_for_record.h"

#include "model/buddy.h"
#include "model/force_state.h"
#include "model/zone.h"
#include "model/zonelist.h"

#include <assert.h>

/* Number of used pages in a range of 2^order, or -1 if some cannot move. */
static int pages_to_move(const struct serve *s, uint32_t start, int order)
{
	const struct model *m = s->model;
	const struct pageblock *block = frame_block(m, start);
	int pages = 0;

	if (block->migratetype != MIGRATETYPE_MOVABLE || block->old_lru < block->nr_old ||
	    m->frames[start].state == FRAME_TAIL)
		return -1;
	for (frame_nr frame = start; frame < start + (1u << order);) {
		const struct frame *f = &m->frames[frame];
		bool used = f->state != FRAME_FREE && f->state != FRAME_PCP;

		if (f->state == FRAME_PCP && f->order > order)
			return -1;
		if (used && (f->order || serve_is_freed_with_others(s, frame) ||
			     (f->state != FRAME_USED_MOVABLE && f->state != FRAME_OLD)))
			return -1;
		pages += used;
		frame += 1u << f->order;
	}
	return pages;
}

/* Used pages of a pageblock by its counts: a lower bound. */
static int used_pages(const struct pageblock *block)
{
	return block->nr_old + block->nr_live[MIGRATETYPE_UNMOVABLE] +
	       block->nr_live[MIGRATETYPE_MOVABLE] + block->nr_live[MIGRATETYPE_RECLAIMABLE];
}

/*
 * The place in a pageblock with the fewest pages in the way of a block of 2^order, if fewer than
 * `*fewest`.
 */
static uint32_t look_at(const struct serve *s, uint32_t start, int order, int *fewest)
{
	uint32_t best = NO_FRAME, end = start + (1u << s->model->pageblock_order);

	for (; start < end; start += 1u << order) {
		int pages = pages_to_move(s, start, order);

		if (pages < 0 || pages >= *fewest)
			continue;
		*fewest = pages;
		best = start;
	}
	return best;
}

/*
 * The place of a block in a zone: the recorded one, else the one with the fewest pages in the way.
 */
static uint32_t find_place(const struct serve *s, const struct zone *zone, uint32_t recorded,
			   int order)
{
	const struct model *m = s->model;
	uint32_t pages = 1u << m->pageblock_order, best = NO_FRAME;
	int fewest = INT32_MAX;

	/* Fewer free pages than this leave no room outside for the pages in the way. */
	if (zone->nr_free_pages < 1ull << order)
		return NO_FRAME;
	if (recorded - zone->start < zone->end - zone->start && !(recorded & ((1u << order) - 1)) &&
	    pages_to_move(s, recorded, order) >= 0)
		return recorded;
	for (uint32_t start = block_start(m, zone->start + pages - 1); start + pages <= zone->end;
	     start += pages) {
		uint32_t place;

		if (order == m->pageblock_order && used_pages(frame_block(m, start)) >= fewest)
			continue;
		place = look_at(s, start, order, &fewest);
		best = place == NO_FRAME ? best : place;
	}
	return best;
}

/* A target for a moving page: a free MOVABLE page, as compaction finds it, else any free page. */
static uint32_t take_target(struct model *m, const struct zone *zone)
{
	frame_nr page = last_chunk(m, zone, 0, MIGRATETYPE_MOVABLE);

	for (int type = 0; type < NR_MIGRATETYPE && page == NO_FRAME; type++)
		page = last_chunk(m, zone, 0, type);
	assert(page != NO_FRAME);
	force_used(m, page, 0);
	return page;
}

/* A used page moves; its old place becomes unused. */
static void move_page(struct serve *s, const struct zone *zone, uint32_t from, uint32_t name)
{
	struct model *m = s->model;
	uint32_t to = take_target(m, zone);

	zone_mark_live(m, to, 0, MIGRATETYPE_MOVABLE);
	if (name != NO_FRAME)
		page_map_set(&s->pages, name, 0, to + 1, true);
	if (m->frames[from].state == FRAME_OLD)
		zone_forget_old(m, from, 0);
	else
		zone_unmark_live(m, from, 0);
}

/* Take the free pages of the range off their lists, and move the others. */
static void clear_out(struct serve *s, const struct zone *zone, uint32_t start, int order)
{
	struct model *m = s->model;
	uint32_t end = start + (1u << order), from = block_start(m, start);

	for (frame_nr frame = start; frame < end; frame += 1u << m->frames[frame].order) {
		const struct frame *f = &m->frames[frame];

		if (f->state == FRAME_FREE || f->state == FRAME_PCP)
			force_used(m, frame, f->order < order ? f->order : order);
	}
	page_map_names(&s->pages, from, s->pages.names);
	for (frame_nr frame = start; frame < end; frame += 1u << m->frames[frame].order) {
		const struct frame *f = &m->frames[frame];

		if (f->state == FRAME_USED)
			continue;
		move_page(s, zone, frame, s->pages.names[frame - from]);
		zone_counters(m, zone)->block_moves++;
	}
	force_used(m, start, order);
}

/* A block of 2^order, used, of a zone that a request may use, or NO_FRAME. */
static uint32_t make_block_in(struct serve *s, struct zone *zone, const struct request *rq,
			      uint32_t recorded, int order)
{
	uint32_t place;

	if (zone->type > rq->class_zone)
		return NO_FRAME;
	place = find_place(s, zone, recorded, order);
	if (place == NO_FRAME)
		return NO_FRAME;
	clear_out(s, zone, place, order);
	zone_counters(s->model, zone)->blocks_made++;
	return place;
}

/*
 * A block of 2^order, used, or NO_FRAME: in the zone where the record's compaction made one, else
 * in the first zone of the request that can have one.
 */
static uint32_t make_block(struct serve *s, const struct request *rq, uint32_t recorded, int order)
{
	struct model *m = s->model;
	const struct zonelist *list = zonelist_of(m, rq);
	const struct zone *compacted = frame_zone(m, recorded);
	uint32_t place = NO_FRAME;

	for (int i = 0; i < list->nr && place == NO_FRAME; i++)
		if (list->zones[i] == compacted)
			place = make_block_in(s, list->zones[i], rq, recorded, order);
	for (int i = 0; i < list->nr && place == NO_FRAME; i++)
		place = make_block_in(s, list->zones[i], rq, recorded, order);
	return place;
}

frame_nr compact_for_record(struct serve *s, const struct waiting *e, const struct request *rq)
{
	uint32_t place;

	if (rq->order > s->model->pageblock_order)
		return NO_FRAME;
	place = make_block(s, rq, e->frame, rq->order);
	if (place != NO_FRAME)
		zone_hand_out(s->model, rq, place);
	return place;
}

bool compact_block_for_record(struct serve *s, const struct waiting *e, const struct request *rq)
{
	struct model *m = s->model;
	int order = m->pageblock_order;
	uint32_t place = make_block(s, rq, block_start(m, e->frame), order);

	if (place == NO_FRAME)
		return false;
	buddy_put(m, frame_zone(m, place), place, order, frame_block(m, place)->migratetype, NULL);
	return true;
}
