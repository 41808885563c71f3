/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buddy.h - the free lists: split, merge, move.
 *
 * The kernel holds the zone lock for each of these; the caller counts the holds. Allocations take
 * from the head of a list.
 */
#pragma once

#include "model.h"

static inline list_nr free_list(const struct zone *zone, int order, int migratetype)
{
	return zone->heads + (list_nr)(order * NR_MIGRATETYPE + migratetype);
}

static inline void list_add(struct frame *f, frame_nr frame, uint32_t prev, uint32_t next)
{
	f[frame].prev = prev;
	f[frame].next = next;
	f[prev].next = frame;
	f[next].prev = frame;
}

static inline void list_add_head(struct frame *f, frame_nr head, frame_nr frame)
{
	list_add(f, frame, head, f[head].next);
}

static inline void list_add_tail(struct frame *f, frame_nr head, frame_nr frame)
{
	list_add(f, frame, f[head].prev, head);
}

static inline void list_del(struct frame *f, frame_nr frame)
{
	f[f[frame].prev].next = f[frame].next;
	f[f[frame].next].prev = f[frame].prev;
}

static inline bool list_empty(const struct frame *f, frame_nr head)
{
	return f[head].next == head;
}

/* Put a block, whose tails are set, on a free list; take a block off its list. */
void free_list_add(struct model *m, struct zone *zone, frame_nr head, int order, int migratetype,
		   bool to_tail);
void free_list_del(struct model *m, struct zone *zone, frame_nr head);

/*
 * Take a free chunk off its list, split it down to `order` and put the upper halves on the
 * lists of `migratetype` (expand, all versions). The lower half is the caller's.
 */
void buddy_take(struct model *m, struct zone *zone, frame_nr chunk, int order, int migratetype);

/*
 * The head of the smallest list of `migratetype` that serves `order`, split (__rmqueue_smallest).
 * Emits the zone_locked event if the row fires it here. NO_FRAME if every list is empty.
 */
frame_nr buddy_take_smallest(struct model *m, struct zone *zone, int order, int migratetype);

/*
 * Whether a block of at least a pageblock, freed to `migratetype`, merges with its free
 * buddy (__free_one_page, 2.6.32 to 6.18).
 */
bool may_merge(const struct model *m, frame_nr buddy, int migratetype);

/* Compaction takes the first suitable chunk that is freed in its zone (compaction_capture, 5.1). */
struct capture {
	const struct zone *zone;
	int order, migratetype;
	frame_nr frame; /* the chunk, or NO_FRAME */
};

/*
 * Free a block to the list of `migratetype`, merging (__free_one_page). `capture` belongs to the
 * task that frees, or is NULL.
 */
void buddy_free(struct model *m, struct zone *zone, frame_nr head, int order, int migratetype,
		struct capture *capture);

/* The same without a change of vmstat_diff: to load a snapshot, or to undo. */
void buddy_put(struct model *m, struct zone *zone, frame_nr head, int order, int migratetype,
	       struct capture *capture);

/* Free a block past the PCP, to the migratetype of its pageblock (free_one_page). */
void buddy_free_direct(struct model *m, struct zone *zone, frame_nr head, int order,
		       struct capture *capture);

/* Move the free blocks that begin in [start, end) to another list; returns pages. */
uint32_t move_free_pages(struct model *m, struct zone *zone, frame_nr start, frame_nr end,
			 int migratetype);

/* The pageblock of a frame, as a range of frames, and whether all of it is in the zone. */
static inline frame_nr block_start(const struct model *m, frame_nr frame)
{
	return frame & ~((1u << m->pageblock_order) - 1);
}

static inline frame_nr block_end(const struct model *m, frame_nr frame)
{
	return block_start(m, frame) + (1u << m->pageblock_order);
}

static inline bool block_inside(const struct model *m, const struct zone *zone, frame_nr frame)
{
	return block_start(m, frame) >= zone->start && block_end(m, frame) <= zone->end;
}

/*
 * Move the free blocks of a frame's pageblock to another list. A pageblock that reaches beyond
 * the end of the zone moves none; one that begins before its start moves those from the frame
 * on (move_freepages_block, 2.6.31 to 6.8). Returns pages.
 */
uint32_t move_block(struct model *m, struct zone *zone, frame_nr frame, int migratetype);

/* Set the migratetype of every pageblock of a block. */
void set_block_type(struct model *m, frame_nr head, int order, int migratetype);

/* The chunk at the tail of the smallest list of `type` from `order` on, or NO_FRAME. */
frame_nr last_chunk(const struct model *m, const struct zone *zone, int order, int type);

/* Emit mm_page_alloc_zone_locked; frame NO_FRAME gives a null pfn. */
void report_zone_locked(struct model *m, frame_nr frame, int order, int migratetype);

/* Orders whose pages go through the PCP. */
static inline bool pcp_allowed(const struct model *m, int order)
{
	return m->pcp_lists[order][MIGRATETYPE_MOVABLE] != NO_PCP_LIST;
}
