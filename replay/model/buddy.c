// SPDX-License-Identifier: Apache-2.0
#include "buddy.h"

#include "flips.h"
#include "vmstat_diff.h"

#include <assert.h>

static void count_free(struct zone *zone, int order, int migratetype, int sign)
{
	uint64_t pages = (uint64_t)sign << order;

	zone->nr_free[order][migratetype] += (uint32_t)sign;
	zone->nr_free_pages += pages;
	if (migratetype == MIGRATETYPE_CMA)
		zone->nr_free_cma += pages;
	else if (migratetype == MIGRATETYPE_HIGHATOMIC)
		zone->nr_free_highatomic += pages;
}

void free_list_add(struct model *m, struct zone *zone, frame_nr head, int order, int migratetype,
		   bool to_tail)
{
	list_nr list = free_list(zone, order, migratetype);
	struct frame *f = &m->frames[head];

	f->list = (uint16_t)migratetype;
	f->order = (uint8_t)order;
	f->state = FRAME_FREE;
	if (to_tail)
		list_add_tail(m->frames, list, head);
	else
		list_add_head(m->frames, list, head);
	count_free(zone, order, migratetype, 1);
}

void free_list_del(struct model *m, struct zone *zone, frame_nr head)
{
	const struct frame *f = &m->frames[head];

	assert(f->state == FRAME_FREE);
	list_del(m->frames, head);
	count_free(zone, f->order, f->list, -1);
}

void buddy_take(struct model *m, struct zone *zone, frame_nr chunk, int order, int migratetype)
{
	int high = m->frames[chunk].order;

	free_list_del(m, zone, chunk);
	while (high > order) {
		high--;
		free_list_add(m, zone, chunk + (1u << high), high, migratetype, false);
	}
	m->frames[chunk].order = (uint8_t)order;
	m->frames[chunk].state = FRAME_USED;
}

void report_zone_locked(struct model *m, frame_nr frame, int order, int migratetype)
{
	int refill = -1;

	if (m->kernel->percpu_refill)
		refill = pcp_allowed(m, order) && migratetype <= MIGRATETYPE_RECLAIMABLE;
	events_zone_locked(m->events, &m->now,
			   frame == NO_FRAME ? NO_PFN : (int64_t)frame_pfn(m, frame), order,
			   migratetype, refill);
}

frame_nr buddy_take_smallest(struct model *m, struct zone *zone, int order, int migratetype)
{
	for (int o = order; o <= m->max_order; o++) {
		frame_nr chunk;

		if (!zone->nr_free[o][migratetype])
			continue;
		chunk = flip_first(m, free_list(zone, o, migratetype), FLIP_ZONE_LOCKED);
		buddy_take(m, zone, chunk, order, migratetype);
		if (m->kernel->zone_locked == ZONE_LOCKED_LIST)
			report_zone_locked(m, chunk, order, migratetype);
		return chunk;
	}
	return NO_FRAME;
}

void set_block_type(struct model *m, frame_nr head, int order, int migratetype)
{
	uint32_t first = head >> m->pageblock_order;
	uint32_t last = (head + (1u << order) - 1) >> m->pageblock_order;

	for (uint32_t b = first; b <= last; b++)
		m->blocks[b].migratetype = (uint8_t)migratetype;
}

static bool mergeable(int migratetype)
{
	return migratetype <= MIGRATETYPE_RECLAIMABLE;
}

bool may_merge(const struct model *m, frame_nr buddy, int migratetype)
{
	int ours = migratetype, theirs = frame_block(m, buddy)->migratetype;

	switch ((enum kernel_merge)m->kernel->merge) {
	case MERGE_ANY:
		return true;
	case MERGE_ISOLATE_APART:
		return ours == theirs ||
		       (ours != MIGRATETYPE_ISOLATE && theirs != MIGRATETYPE_ISOLATE);
	case MERGE_MERGEABLE:
	case MERGE_RETYPE_FIRST:
	case MERGE_RETYPE:
		break;
	}
	return ours == theirs || (mergeable(ours) && mergeable(theirs));
}

/* Whether the buddy of the merged block is free: then the page goes to the tail
 * (buddy_merge_likely). */
static bool merge_likely(const struct model *m, frame_nr head, int order)
{
	const struct frame *other;

	if (!m->kernel->tail_on_likely_merge || order >= m->max_order - 1)
		return false;
	other = &m->frames[(head & ~(1u << order)) ^ (2u << order)];
	return other->state == FRAME_FREE && other->order == order + 1;
}

/* compaction_capture, 5.10 to 7.3: the task gets the chunk, no list does. */
static bool try_capture(struct model *m, struct zone *zone, frame_nr head, int order,
			int migratetype, struct capture *c)
{
	if (m->kernel->capture == CAPTURE_NONE || c->frame != NO_FRAME || c->zone != zone ||
	    c->order != order || migratetype == MIGRATETYPE_CMA ||
	    migratetype == MIGRATETYPE_ISOLATE)
		return false;
	/* A small MOVABLE chunk: for nobody (5.10, 6.1), or for MOVABLE requests (6.12). */
	if (order < m->pageblock_order && migratetype == MIGRATETYPE_MOVABLE &&
	    !(m->kernel->capture_movable && c->migratetype == MIGRATETYPE_MOVABLE))
		return false;
	c->frame = head;
	vmstat_diff_add(m, zone, -(1 << order));
	block_set_used(m, head, order);
	if (m->kernel->capture == CAPTURE_TRACED && c->migratetype != migratetype)
		events_extfrag(m->events, &m->now,
			       &(struct extfrag){
				       .pfn = (int64_t)frame_pfn(m, head),
				       .alloc_order = order,
				       .fallback_order = order,
				       .alloc_migratetype = c->migratetype,
				       .fallback_migratetype = migratetype,
			       });
	return true;
}

/* Whether a whole leaked RESERVE pageblock stays unmerged, because the row keeps types apart. */
static bool apart(const struct model *m, frame_nr head, int migratetype)
{
	return m->kernel->merge >= MERGE_MERGEABLE && migratetype != MIGRATETYPE_RESERVE &&
	       frame_block(m, head)->migratetype == MIGRATETYPE_RESERVE;
}

void buddy_put(struct model *m, struct zone *zone, frame_nr head, int order, int migratetype,
	       struct capture *capture)
{
	struct frame *f = m->frames;

	while (order < m->max_order) {
		frame_nr buddy = head ^ (1u << order);

		if (capture && try_capture(m, zone, head, order, migratetype, capture))
			return;
		if (f[buddy].state != FRAME_FREE || f[buddy].order != order)
			break;
		if (order >= m->pageblock_order) {
			if (!may_merge(m, buddy, migratetype) ||
			    (m->kernel->reserve_leaks && apart(m, head, migratetype)))
				break;
			if (m->kernel->merge == MERGE_RETYPE)
				set_block_type(m, buddy, order, migratetype);
			else if (m->kernel->merge == MERGE_RETYPE_FIRST)
				set_block_type(m, buddy, 0, migratetype);
		}
		free_list_del(m, zone, buddy);
		f[head | buddy].state = FRAME_TAIL;
		head &= buddy;
		order++;
	}
	free_list_add(m, zone, head, order, migratetype, merge_likely(m, head, order));
}

void buddy_free(struct model *m, struct zone *zone, frame_nr head, int order, int migratetype,
		struct capture *capture)
{
	vmstat_diff_add(m, zone, 1 << order);
	vmstat_diff_add_cma(m, zone, migratetype, 1 << order);
	buddy_put(m, zone, head, order, migratetype, capture);
}

void buddy_free_direct(struct model *m, struct zone *zone, frame_nr head, int order,
		       struct capture *capture)
{
	uint32_t end = head + (1u << order);

	if (m->kernel->free_by_block && order > m->pageblock_order)
		order = m->pageblock_order;
	for (; head < end; head += 1u << order) {
		m->frames[head].order = (uint8_t)order;
		buddy_free(m, zone, head, order, frame_block(m, head)->migratetype, capture);
	}
}

uint32_t move_free_pages(struct model *m, struct zone *zone, frame_nr start, frame_nr end,
			 int migratetype)
{
	uint32_t moved = 0;

	for (frame_nr frame = start; frame < end;) {
		const struct frame *f = &m->frames[frame];

		if (f->state == FRAME_TAIL) {
			frame++;
			continue;
		}
		if (f->state == FRAME_FREE) {
			free_list_del(m, zone, frame);
			free_list_add(m, zone, frame, f->order, migratetype,
				      m->kernel->move_block_to_tail);
			if (m->kernel->counts_each_page) {
				vmstat_diff_add(m, zone, -(1 << f->order));
				vmstat_diff_add(m, zone, 1 << f->order);
			}
			moved += 1u << f->order;
		}
		frame += 1u << f->order;
	}
	return moved;
}

uint32_t move_block(struct model *m, struct zone *zone, frame_nr frame, int migratetype)
{
	uint32_t start = block_start(m, frame), end = block_end(m, frame);

	if (end > zone->end)
		return 0;
	return move_free_pages(m, zone, start < zone->start ? frame : start, end, migratetype);
}

frame_nr last_chunk(const struct model *m, const struct zone *zone, int order, int type)
{
	for (; order <= m->max_order; order++) {
		list_nr list = free_list(zone, order, type);

		if (!list_empty(m->frames, list))
			return m->frames[list].prev;
	}
	return NO_FRAME;
}
