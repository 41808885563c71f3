// SPDX-License-Identifier: Apache-2.0
#include "force_state.h"

#include "buddy.h"
#include "pcp.h"

enum place place_of(const struct model *m, frame_nr frame)
{
	switch ((enum frame_state)m->frames[block_head(m, frame)].state) {
	case FRAME_FREE:
		return PLACE_FREE;
	case FRAME_PCP:
		return PLACE_PCP;
	case FRAME_OLD:
		return PLACE_UNKNOWN;
	case FRAME_USED:
	case FRAME_USED_UNMOVABLE:
	case FRAME_USED_MOVABLE:
	case FRAME_USED_RECLAIMABLE:
	case FRAME_TAIL:
		break;
	}
	return PLACE_USED;
}

/* Take `head` and 2^order pages out of a larger free chunk. */
static void cut_out(struct model *m, struct zone *zone, frame_nr chunk, frame_nr head, int order)
{
	int type = m->frames[chunk].list, high = m->frames[chunk].order;

	free_list_del(m, zone, chunk);
	while (high > order) {
		frame_nr upper = chunk + (1u << --high);

		free_list_add(m, zone, head < upper ? upper : chunk, high, type, false);
		chunk = head < upper ? chunk : upper;
	}
}

/* Take an entry off its PCP list. */
static void take_entry(struct model *m, frame_nr entry)
{
	struct frame *f = &m->frames[entry];

	pcp_remove(m, &m->pcps[f->list], entry);
	f->state = FRAME_USED;
}

void force_used(struct model *m, frame_nr head, int order)
{
	struct zone *zone = frame_zone(m, head);
	uint32_t end = head + (1u << order), block;

	for (frame_nr frame = head; frame < end; frame = block + (1u << m->frames[block].order)) {
		const struct frame *f;

		block = block_head(m, frame);
		f = &m->frames[block];
		switch ((enum frame_state)f->state) {
		case FRAME_OLD:
			zone_forget_old(m, block, 0);
			break;
		case FRAME_FREE:
			if (f->order <= order) {
				free_list_del(m, zone, block);
				break;
			}
			cut_out(m, zone, block, head, order);
			block_set_used(m, head, order);
			m->frames[head].list = 0;
			return;
		case FRAME_PCP:
			take_entry(m, block);
			/* fall through */
		case FRAME_USED:
		case FRAME_USED_UNMOVABLE:
		case FRAME_USED_MOVABLE:
		case FRAME_USED_RECLAIMABLE:
		case FRAME_TAIL:
			if (f->order > order) {
				block_carve(m, head, order);
				return;
			}
			break;
		}
	}
	block_set_used(m, head, order);
	m->frames[head].list = 0;
}

void put_back(struct model *m, frame_nr head, int order)
{
	struct zone *zone = frame_zone(m, head);
	int type = m->frames[head].list;
	frame_nr chunk;

	if (m->kernel->drained_type == DRAINED_BLOCK)
		type = frame_block(m, head)->migratetype;
	buddy_free(m, zone, head, order, type, NULL);
	chunk = block_head(m, head);
	list_del(m->frames, chunk);
	list_add_head(m->frames, free_list(zone, m->frames[chunk].order, type), chunk);
}

void move_behind(struct model *m, frame_nr chunk, list_nr prev)
{
	struct frame *f = m->frames;
	list_nr list = free_list(frame_zone(m, chunk), f[chunk].order, f[chunk].list);
	bool is_entry = prev < m->nr_frames && f[prev].state == FRAME_FREE &&
			f[prev].order == f[chunk].order && f[prev].list == f[chunk].list &&
			frame_zone(m, prev) == frame_zone(m, chunk);

	if (prev == chunk || (prev != list && !is_entry))
		return;
	list_del(f, chunk);
	list_add(f, chunk, prev, f[prev].next);
}

/* A free chunk above pageblock order changes as a whole. */
static bool retype_chunk(struct model *m, struct zone *zone, frame_nr chunk, int migratetype)
{
	int order = m->frames[chunk].order;

	if (m->frames[chunk].state != FRAME_FREE || order <= m->pageblock_order)
		return false;
	free_list_del(m, zone, chunk);
	free_list_add(m, zone, chunk, order, migratetype, true);
	set_block_type(m, chunk, order, migratetype);
	return true;
}

void retype_block(struct model *m, frame_nr frame, int migratetype)
{
	struct zone *zone = frame_zone(m, frame);
	uint32_t start = block_start(m, frame), end = block_end(m, frame);
	uint64_t reserved = zone->nr_reserved_highatomic, block = 1ull << m->pageblock_order;
	int was = frame_block(m, frame)->migratetype;

	if (was == migratetype)
		return;
	if (was == MIGRATETYPE_HIGHATOMIC)
		zone->nr_reserved_highatomic -= reserved < block ? reserved : block;
	if (start >= zone->start && retype_chunk(m, zone, block_head(m, start), migratetype))
		return;
	move_free_pages(m, zone, start > zone->start ? start : zone->start,
			end < zone->end ? end : zone->end, migratetype);
	set_block_type(m, frame, 0, migratetype);
}

void retype_blocks(struct model *m, frame_nr frame, int order, int migratetype)
{
	uint32_t end = frame + (order < m->pageblock_order ? 1 : 1u << order);
	uint32_t zone_end = frame_zone(m, frame)->end;

	for (; frame < end && frame < zone_end; frame = block_end(m, frame))
		retype_block(m, frame, migratetype);
}

void retype_isolated(struct model *m, frame_nr head, int order)
{
	uint32_t block = 1u << m->pageblock_order;

	if (order < m->pageblock_order - 1)
		return;
	for (uint32_t f = head; f < head + (1u << order); f += block) {
		if (frame_block(m, f)->migratetype > MIGRATETYPE_RECLAIMABLE)
			continue;
		if (m->kernel->drained_type == DRAINED_BLOCK)
			retype_block(m, f, MIGRATETYPE_MOVABLE);
		else
			set_block_type(m, f, 0, MIGRATETYPE_MOVABLE);
	}
}

void rotate_list(struct model *m, list_nr list, uint32_t first)
{
	struct frame *f = m->frames;

	list_del(f, list);
	list_add(f, list, f[first].prev, first);
}
