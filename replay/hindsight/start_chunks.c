// SPDX-License-Identifier: Apache-2.0
/* The free blocks at the start. */
#include "hindsight_run.h"

#include "model/buddy.h"
#include "model/force_state.h"

/* Pages without an event stay as the snapshot has them; the others go where that event shows. */
static void place_pages(struct hindsight *h)
{
	struct model *m = h->m;

	for (frame_nr frame = 0; frame < m->nr_frames; frame++) {
		int place = h->first[frame].place;

		if (place != FIRST_PCP && place != FIRST_USED)
			continue;
		if (place_of(m, frame) == PLACE_FREE) {
			force_used(m, frame, 0);
			h->coverage.contradictions++;
		}
	}
	for (frame_nr frame = 0; frame < m->nr_frames; frame++) {
		if (h->first[frame].place != FIRST_FREE || place_of(m, frame) == PLACE_FREE)
			continue;
		h->coverage.contradictions++;
		force_used(m, frame, 0);
		buddy_put(m, frame_zone(m, frame), frame, 0, frame_block(m, frame)->migratetype,
			  NULL);
	}
}

void build_start(struct hindsight *h)
{
	struct model *m = h->m;

	for (uint32_t b = 0; b < m->nr_frames >> m->pageblock_order; b++)
		if (h->blocks[b].evidence)
			retype_block(m, b << m->pageblock_order, h->blocks[b].migratetype);
	if (h->counts_only)
		place_counts(h);
	place_pages(h);
	if (!h->counts_only)
		guess_types(h);
	for (uint32_t b = 0; b < m->nr_frames >> m->pageblock_order; b++)
		h->blocks[b].migratetype = m->blocks[b].migratetype;
	for (frame_nr head = 0; head < m->nr_frames; head += 1u << m->frames[head].order) {
		const struct frame *f = &m->frames[head];

		if (f->state == FRAME_FREE)
			h->chunks[head] = (struct start_chunk){
				.left = NEVER,
				.order = f->order + 1,
				.migratetype = frame_block(m, head)->migratetype,
			};
	}
}

/* A chunk of the start left its list of `type` at a row, for an allocation. */
static void leaves(struct hindsight *h, const struct seen *s, frame_nr frame, int type)
{
	for (int order = 0; order <= h->m->max_order; order++) {
		frame_nr head = frame & ~((1u << order) - 1);
		struct start_chunk *chunk = &h->chunks[head];
		const struct start_block *block = &h->blocks[head >> h->m->pageblock_order];

		if (chunk->order <= order)
			continue;
		if (chunk->left != NEVER)
			return;
		chunk->left = s->row;
		/* Compaction may have taken the page that a free shows as used: of any list. */
		chunk->listed = s->kind != EVENT_KIND_FREE && block->moved == NEVER;
		if (type == chunk->migratetype)
			return;
		/* It was moved to that list before. */
		if (block->moved != NEVER)
			chunk->left = block->moved;
		else if (h->m->kernel->drained_type != DRAINED_BLOCK)
			chunk->migratetype = (uint8_t)type;
		return;
	}
}

/* 2^order pages are free from here on; chunks that merge with them leave their lists. */
static void becomes_free(struct hindsight *h, const struct seen *s)
{
	struct model *m = h->m;
	frame_nr head;
	int merged;

	force_used(m, s->frame, s->order);
	buddy_put(m, frame_zone(m, s->frame), s->frame, s->order,
		  frame_block(m, s->frame)->migratetype, NULL);
	head = block_head(m, s->frame);
	merged = m->frames[head].order;
	for (int order = s->order; order < merged; order++) {
		frame_nr buddy = (s->frame & ~((1u << order) - 1)) ^ (1u << order);
		struct start_chunk *chunk = &h->chunks[buddy];

		if (chunk->order == order + 1 && chunk->left == NEVER)
			chunk->left = s->row;
	}
}

static void becomes_used(struct hindsight *h, const struct seen *s, int type)
{
	for (uint32_t f = s->frame; f < s->frame + (1u << s->order);
	     f += 1u << h->m->frames[f].order) {
		if (place_of(h->m, f) == PLACE_FREE)
			leaves(h, s, f, type);
		if (h->m->frames[f].state == FRAME_TAIL)
			break;
	}
	force_used(h->m, s->frame, s->order);
}

static void follow_fallback(struct hindsight *h, const struct seen *s)
{
	struct model *m = h->m;
	int order = s->fallback_order > m->pageblock_order ? s->fallback_order : 0;
	uint32_t start = s->frame & ~((1u << order) - 1), end = start + (1u << order);

	leaves(h, s, s->frame, s->fallback_migratetype);
	/* Since 6.10 the event has the page that the request got, and may be the only one. */
	if (m->kernel->fallback >= FALLBACK_CLAIM_OR_SPLIT && place_of(m, s->frame) == PLACE_FREE)
		becomes_used(h, s, s->fallback_migratetype);
	if (!s->owner && m->kernel->fallback != FALLBACK_MOVE)
		return;
	for (uint32_t f = start; f < end; f = block_end(m, f)) {
		h->blocks[f >> m->pageblock_order].moved = s->row;
		if (s->owner)
			retype_block(m, f, s->migratetype);
	}
}

static void follow_free(struct hindsight *h, const struct seen *s)
{
	const struct frame *chunk = &h->m->frames[block_head(h->m, s->frame)];

	if (chunk->state == FRAME_FREE)
		becomes_used(h, s, chunk->list);
	if (!pcp_allowed(h->m, s->order) ||
	    next_event_of(&h->next_events, s->row) == NEXT_FROM_BUDDY)
		becomes_free(h, s);
}

void follow_chunks(struct hindsight *h, const struct seen *s)
{
	switch (s->kind) {
	case EVENT_KIND_ALLOC_ZONE_LOCKED:
	case EVENT_KIND_ALLOC:
		becomes_used(h, s, s->migratetype);
		break;
	case EVENT_KIND_ALLOC_EXTFRAG:
		follow_fallback(h, s);
		break;
	case EVENT_KIND_PCPU_DRAIN:
		becomes_free(h, s);
		break;
	case EVENT_KIND_FREE:
		follow_free(h, s);
		break;
	}
}
