// SPDX-License-Identifier: Apache-2.0
/* Inferred rows that are requests of a free run. */
#include "rewrite.h"
#include "serve_internal.h"

#include "model/buddy.h"
#include "model/scan_effects.h"
#include "model/pcp.h"
#include "model/policy_stack.h"
#include "model/force_state.h"
#include "model/watermark.h"
#include "model/vmstat_diff.h"
#include "model/zone.h"

/* The smallest free chunk of `type` and at least `order` in a frame's pageblock, or NO_FRAME. */
static uint32_t chunk_near(const struct model *m, frame_nr frame, int order, int type)
{
	uint32_t end = block_end(m, frame), head = block_head(m, block_start(m, frame));
	uint32_t best = NO_FRAME;

	for (; head < end; head += 1u << m->frames[head].order) {
		const struct frame *f = &m->frames[head];

		if (f->state == FRAME_FREE && f->order >= order && f->list == type &&
		    (best == NO_FRAME || f->order < m->frames[best].order))
			best = head;
	}
	return best;
}

/*
 * Free pages in place of those that the record took off the free lists. In order of choice: the
 * same pages, others in their pageblock, others of their type at the end of a list, as compaction
 * would find them. A single page may have another type. They become one used block. NO_FRAME if
 * there are none.
 */
static uint32_t take_like(struct model *m, frame_nr frame, int order, int type)
{
	static const uint8_t others[] = {MIGRATETYPE_MOVABLE, MIGRATETYPE_RECLAIMABLE,
					 MIGRATETYPE_UNMOVABLE};
	struct zone *zone = frame_zone(m, frame);
	frame_nr head = block_head(m, frame);

	if (m->frames[head].state == FRAME_FREE && m->frames[head].order >= order) {
		force_used(m, frame, order);
		return frame;
	}
	head = chunk_near(m, frame, order, type);
	if (head == NO_FRAME)
		head = last_chunk(m, zone, order, type);
	for (size_t i = 0; i < sizeof(others) && head == NO_FRAME && !order; i++)
		head = last_chunk(m, zone, order, others[i]);
	if (head != NO_FRAME)
		force_used(m, head, order);
	return head;
}

/* Compaction takes free pages, in smaller pieces where no chunk has the order. */
static void isolate(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	frame_nr head;

	serve_make_free(s, e);
	head = take_like(m, e->frame, e->order, e->migratetype);
	if (head != NO_FRAME) {
		retype_isolated(m, head, e->order);
		zone_mark_live(m, head, e->order, MIGRATETYPE_MOVABLE);
		page_map_set(&s->pages, e->frame, e->order, head + 1, true);
		if (s->compacts_for_record)
			serve_migration_target(s, e->moment.pid, e->frame, e->order);
	} else if (e->order) {
		struct waiting half = *e;

		half.order--;
		isolate(s, &half);
		half.frame += 1u << half.order;
		isolate(s, &half);
	} else {
		page_map_set(&s->pages, e->frame, 0, MAP_UNSERVED, false);
		serve_report(s, e, ANOMALY_KIND_NO_FREE_PAGE, ANOMALY_ACTION_LEFT_UNMAPPED);
	}
}

/*
 * The pageblock of a free block, or another free one of whole pageblocks, gets another type. A
 * HIGHATOMIC pageblock is released however few of its pages are free.
 */
static void retype(struct model *m, const struct inferred *u)
{
	int was = frame_block(m, u->frame)->migratetype;
	frame_nr chunk = block_head(m, u->frame);
	const struct frame *f = &m->frames[chunk];

	if (was == u->migratetype)
		return;
	if (was == MIGRATETYPE_HIGHATOMIC) {
		retype_block(m, u->frame, u->migratetype);
		return;
	}
	if (was > MIGRATETYPE_RECLAIMABLE)
		return;
	if (f->state != FRAME_FREE || f->order < u->order)
		chunk = u->order < m->pageblock_order
				? NO_FRAME
				: last_chunk(m, frame_zone(m, u->frame), m->pageblock_order, was);
	if (chunk != NO_FRAME)
		retype_block(m, chunk, u->migratetype);
}

/* The block of a free list that is nearest to a frame, or NO_FRAME. */
static uint32_t nearest_block(const struct model *m, list_nr list, frame_nr frame)
{
	enum { LOOK_AT = 4096 };
	uint32_t best = NO_FRAME, least = UINT32_MAX, entry = m->frames[list].next;

	for (int n = 0; entry != list && n < LOOK_AT; entry = m->frames[entry].next, n++) {
		uint32_t distance = entry > frame ? entry - frame : frame - entry;

		if (distance >= least)
			continue;
		least = distance;
		best = entry;
	}
	return best;
}

/*
 * Compaction cuts a list so that a block comes first: here the same block, or the nearest one of
 * the list, because the searches of compaction choose by pfn. Entries added later stay before it.
 */
static void cut(struct model *m, const struct inferred *u)
{
	struct frame *frames = m->frames;
	const struct frame *f = &frames[u->frame];
	list_nr list = free_list(frame_zone(m, u->frame), u->order, u->migratetype);
	uint32_t later[UINT8_MAX], first = u->frame;
	int nr = 0;

	if (f->state != FRAME_FREE || f->order != u->order || f->list != u->migratetype)
		first = nearest_block(m, list, u->frame);
	if (first == NO_FRAME)
		return;
	while (nr < u->behind && frames[list].next != first) {
		later[nr] = frames[list].next;
		list_del(frames, later[nr++]);
	}
	rotate_list(m, list, first);
	while (nr)
		list_add_head(frames, list, later[--nr]);
}

/* Whether recorded tuning of PCPs holds for those of the run. */
static bool tuned_alike(const struct model *m)
{
	return m->kernel->pcp_tuning != PCP_FIXED && m->node_parts == 1 && m->zone_parts == 1 &&
	       !m->policies->changes_pcps;
}

/* The fields apply from here on; the number of drained pages applies to one free. */
static void tune(struct serve *s, const struct inferred *u, struct zone *zone, struct pcp *pcp)
{
	bool adaptive = s->model->kernel->pcp_tuning == PCP_AUTO;

	if (u->fields & FIELD_HIGH && adaptive)
		pcp->high = u->high;
	if (u->fields & FIELD_FREE_COUNT && adaptive)
		pcp->free_count = u->free_count;
	if (u->fields & FIELD_ALLOC_FACTOR && adaptive)
		pcp->alloc_factor = u->alloc_factor;
	if (u->fields & FIELD_FREE_FACTOR && !adaptive)
		pcp->free_factor = u->free_factor;
	if (u->fields & FIELD_BELOW_HIGH)
		zone->below_high = u->below_high;
	if (u->fields & FIELD_RECLAIM_ACTIVE)
		zone->reclaim_active = u->reclaim_active;
	if (u->fields & FIELD_PAGES && u->at == s->at)
		s->request.free.drain_pages = u->pages;
}

/*
 * Move the next entry of a list to the end, if the model's entry has the same place as the recorded
 * one.
 */
static void move_to_end(struct model *m, const struct inferred *u)
{
	const struct frame *f = &m->frames[u->frame];

	if (f->order != u->order)
		return;
	if (f->state == FRAME_FREE && f->list == u->migratetype) {
		list_del(m->frames, u->frame);
		list_add_tail(m->frames, free_list(frame_zone(m, u->frame), f->order, f->list),
			      u->frame);
	} else if (f->state == FRAME_PCP && m->pcp_lists[f->order][u->migratetype] != NO_PCP_LIST) {
		list_del(m->frames, u->frame);
		list_add_head(m->frames, pcp_list(m, &m->pcps[f->list], f->order, u->migratetype),
			      u->frame);
	}
}

/* Pages go back to the buddy without an event. */
static void free_inferred(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	const struct frame *f = &m->frames[e->frame];
	bool locked = s->request.free.pcp_locked;

	/* The page is on a PCP list in both the record and the model. */
	if (f->state == FRAME_PCP && f->order == e->order &&
	    page_map_place(&s->pages, e->frame) == NO_FRAME) {
		pcp_remove(m, &m->pcps[f->list], e->frame);
		buddy_free_direct(m, frame_zone(m, e->frame), e->frame, e->order, NULL);
		return;
	}
	s->request.free.pcp_locked = true;
	serve_commit_free(s, e, 0);
	s->request.free.pcp_locked = locked;
}

/* A refill without an event: first without mixing types. */
static void refill(struct serve *s, const struct waiting *e, struct zone *zone, struct pcp *pcp)
{
	struct model *m = s->model;
	struct request rq = serve_asked(s, e);
	int before = pcp->count;

	if (!pcp_allowed(m, rq.order) || rq.migratetype > MIGRATETYPE_RECLAIMABLE)
		return;
	rq.flags = zone_scan_effects(m, &rq, zone, false);
	pcp_refill(m, zone, pcp, &rq);
	rq.flags = 0;
	if (pcp->count == before)
		pcp_refill(m, zone, pcp, &rq);
}

/* A free block leaves its list for the alloc that waits for it, if the model has it. */
static void capture(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	frame_nr head;

	serve_make_free(s, e);
	head = block_head(m, e->frame);
	if (m->frames[head].state != FRAME_FREE || m->frames[head].order < e->order ||
	    s->nr_captured == SERVE_CAPTURED_MAX)
		return;
	force_used(m, e->frame, e->order);
	page_map_set(&s->pages, e->frame, e->order, e->frame + 1, true);
	s->captured[s->nr_captured++] = e->frame;
}

/* The alloc just played had no event; the event may follow. */
static void mark_awaits_alloc(struct serve *s, const struct waiting *e)
{
	uint32_t place = page_map_place(&s->pages, e->frame);

	if (place == NO_FRAME || serve_is_freed_with_others(s, place))
		return;
	s->model->frames[place].list = AWAITS_ALLOC;
	s->nr_awaiting_alloc++;
}

/* Whether the node of a zone is at its limit of dirty pages. */
static void learn_dirty(struct model *m, const struct zone *zone, bool dirty)
{
	uint64_t bit = 1ull << (tape_node(m, zone->node) & 63), *nodes = &m->record->dirty_nodes;

	*nodes = dirty ? *nodes | bit : *nodes & ~bit;
}

/* An alloc that happened before its event. */
static void alloc_early(struct serve *s, const struct inferred *u, const struct waiting *e)
{
	bool locked = s->request.free.pcp_locked; /* of the free that comes next */

	/*
	 * A fault that asks for a huge page runs at its event: its outcome depends on it. So does a
	 * request that becomes another one.
	 */
	if (s->nr_early == SERVE_EARLY_MAX || (s->huge && huge_is_try(s->huge, e)) ||
	    (s->rewrites && rewrites_fit(s->rewrites, e)))
		return;
	s->early[s->nr_early++] = u->event_row;
	s->request.free.pcp_locked = u->kind == INFERRED_KIND_DIRECT_ALLOC;
	serve_alloc(s, e, false);
	s->request.free.pcp_locked = locked;
}

/* An alloc without an event: alloc_pages_bulk takes entries and leaves the PCP's tuning alone. */
static void alloc_unrecorded(struct serve *s, const struct waiting *e, struct pcp *pcp)
{
	int free_count = pcp->free_count;
	uint8_t free_factor = pcp->free_factor;

	serve_alloc(s, e, false);
	mark_awaits_alloc(s, e);
	pcp->free_count = free_count;
	pcp->free_factor = free_factor;
}

/* Rows about the request that comes next; false for other kinds. */
static bool note_request(struct serve *s, const struct inferred *u)
{
	switch (u->kind) {
	case INFERRED_KIND_LANDED:
		s->request.landed_frame = u->frame;
		return true;
	case INFERRED_KIND_DIRECT_FREE:
		s->request.free.pcp_locked = u->at == s->at;
		return true;
	case INFERRED_KIND_PUT_OFF:
		s->request.free.drain_waits = u->at == s->at;
		return true;
	case INFERRED_KIND_UNDONE_FREE:
		s->undone_at = u->at;
		return true;
	}
	return false;
}

/* Rows about the state of the model; false for other kinds. */
static bool learn(struct serve *s, const struct inferred *u, struct zone *zone, struct pcp *pcp)
{
	switch (u->kind) {
	case INFERRED_KIND_TUNED:
		if (tuned_alike(s->model))
			tune(s, u, zone, pcp);
		return true;
	case INFERRED_KIND_RETYPED:
		retype(s->model, u);
		return true;
	case INFERRED_KIND_DIRTY:
	case INFERRED_KIND_CLEAN:
		learn_dirty(s->model, zone, u->kind == INFERRED_KIND_DIRTY);
		return true;
	case INFERRED_KIND_TOUCHED:
		pcp->touched = true;
		return true;
	case INFERRED_KIND_UNBOOSTED:
		unboost_zone(s->model, zone);
		return true;
	case INFERRED_KIND_COUNTED_MORE:
		vmstat_diff_shift(s->model, zone, u->pages);
		return true;
	case INFERRED_KIND_COUNTED_LESS:
		vmstat_diff_shift(s->model, zone, -u->pages);
		return true;
	}
	return false;
}

/* Rows that move pages. */
static void move_pages(struct serve *s, const struct inferred *u, const struct waiting *e,
		       struct zone *zone, struct pcp *pcp)
{
	struct model *m = s->model;

	switch (u->kind) {
	case INFERRED_KIND_EARLY_ALLOC:
	case INFERRED_KIND_DIRECT_ALLOC:
		alloc_early(s, u, e);
		break;
	case INFERRED_KIND_ALLOC:
		alloc_unrecorded(s, e, pcp);
		break;
	case INFERRED_KIND_ISOLATED:
		isolate(s, e);
		break;
	case INFERRED_KIND_CUT:
		cut(m, u);
		break;
	case INFERRED_KIND_CAPTURED:
		capture(s, e);
		break;
	case INFERRED_KIND_OVERFLOW:
		pcp_drain_put_off(m, zone, pcp);
		break;
	case INFERRED_KIND_MOVED:
		move_to_end(m, u);
		break;
	case INFERRED_KIND_FREE:
		free_inferred(s, e);
		break;
	case INFERRED_KIND_LATE_FREE:
		serve_commit_free(s, e, 0);
		s->request.free.drain_pages = -1;
		break;
	case INFERRED_KIND_REFILL:
		refill(s, e, zone, pcp);
		break;
	case INFERRED_KIND_DRAIN:
		pcp_drain_piece(m, zone, pcp,
				u->fields & FIELD_PAGES ? u->pages : pcp_piece(m, pcp));
		break;
	}
}

_Static_assert(NR_INFERRED_KIND == 25, "serve_inferred() plays every kind of inferred row");

void serve_inferred(struct serve *s, const struct inferred *u)
{
	struct model *m = s->model;
	const struct waiting e = {
		.moment = {m->now.ts, u->pid, u->cpu, 0},
		.frame = u->frame,
		.gfp_flags = u->gfp_flags,
		.kind = EVENT_KIND_ALLOC,
		.order = u->order,
		.migratetype = u->migratetype,
	};
	struct zone *zone = frame_zone(m, u->frame);
	struct pcp *pcp = zone_pcp(m, zone, u->cpu);

	m->now = e.moment;
	if (u->fields & FIELD_RAN_ON)
		m->now.cpu = u->ran_on;
	if (!note_request(s, u) && !learn(s, u, zone, pcp))
		move_pages(s, u, &e, zone, pcp);
}
