// SPDX-License-Identifier: Apache-2.0
/* An alloc: the request behind its event, and the block that the model gives it. */
#include "serve_internal.h"

#include "compact_for_record.h"
#include "model/zone.h"
#include "tape/node_preference.h"

/* The node a request asks first: its CPU's, unless the request or its thread asks for another. */
static uint16_t preferred_node(const struct serve *s, const struct waiting *e)
{
	const struct model *m = s->model;
	uint16_t local = m->cpu_nodes[e->moment.cpu], bound;
	bool interrupts = e->moment.flags & (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI);

	if (e->frame == NO_FRAME)
		return local;
	if (e->frame != s->request.landed_frame && !(e->gfp_flags & GFP_THISNODE) &&
	    (interrupts || !asks_where_it_lands(m->record->landed, e->moment.pid)))
		return local;
	bound = frame_zone(m, e->frame)->node;
	return tape_node(m, bound) == tape_node(m, local) ? local : bound;
}

frame_nr serve_take_captured(struct serve *s, const struct waiting *e)
{
	uint32_t place = page_map_place(&s->pages, e->frame);

	for (int i = 0; i < s->nr_captured; i++) {
		if (s->captured[i] != e->frame)
			continue;
		s->captured[i] = s->captured[--s->nr_captured];
		if (place == NO_FRAME || s->model->frames[place].order != e->order)
			return NO_FRAME;
		zone_mark_live(s->model, place, e->order, e->migratetype);
		return place;
	}
	return NO_FRAME;
}

struct request serve_asked(const struct serve *s, const struct waiting *e)
{
	return (struct request){
		.gfp_flags = e->gfp_flags,
		.order = e->order,
		.migratetype = e->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(s->model, e->gfp_flags),
		.pcp_locked = s->request.free.pcp_locked,
		.reclaimed = s->request.reclaimed,
		.refill = s->request.refill,
		.refill_zone = s->request.refill ? frame_zone(s->model, e->frame)->number : 0,
		.node = preferred_node(s, e),
	};
}

void serve_settle(struct serve *s, const struct waiting *e, frame_nr head)
{
	if (head != NO_FRAME) {
		page_map_set(&s->pages, e->frame, e->order, head + 1, true);
		if (!e->order)
			strays_note(&s->strays, e->frame);
		return;
	}
	page_map_set(&s->pages, e->frame, e->order, MAP_UNSERVED, false);
	serve_report(s, e, ANOMALY_KIND_NO_FREE_PAGE, ANOMALY_ACTION_LEFT_UNMAPPED);
}

/* Serve an alloc whose page is part of a huge page in the model; false if it is not. */
static bool swallow(struct serve *s, const struct waiting *e)
{
	frame_nr page = huge_swallow(s->huge, e);

	if (page == NO_FRAME)
		return false;
	serve_make_free(s, e);
	serve_settle(s, e, page);
	return true;
}

/*
 * Whether a request mixes migratetypes under vm.defrag_mode without an attempt to make a whole
 * block: one that may wake kswapd, but not reclaim. A request without both rights fails instead
 * (__alloc_pages_slowpath, 7.2).
 */
static bool mixes_at_once(const struct request *rq)
{
	return rq->gfp_flags & GFP_KSWAPD_RECLAIM && !(rq->gfp_flags & GFP_DIRECT_RECLAIM);
}

/*
 * A block for a request that the record served; pages move for it if necessary. `moved`: they did.
 */
static uint32_t alloc_recorded(struct serve *s, const struct waiting *e, struct request *rq,
			       bool *moved)
{
	struct model *m = s->model;
	frame_nr head;

	rq->makes_room = rq->order && s->compacts_for_record;
	rq->whole_first = s->compacts_for_record &&
			  m->kernel->defrag_promotes != DEFRAG_PROMOTES_NEVER &&
			  !mixes_at_once(rq) && rq->migratetype != MIGRATETYPE_MOVABLE;
	head = zone_alloc(m, rq);
	if (head == NO_FRAME && rq->whole_first) {
		compact_block_for_record(s, e, rq);
		*moved = true;
		rq->whole_first = false;
		head = zone_alloc(m, rq);
	}
	if (head != NO_FRAME || !rq->makes_room)
		return head;
	*moved = true;
	head = compact_for_record(s, e, rq);
	if (head != NO_FRAME)
		return head;
	rq->makes_room = false;
	return zone_alloc(m, rq);
}

void serve_alloc(struct serve *s, const struct waiting *e, bool emit)
{
	struct model *m = s->model;
	struct request rq = serve_asked(s, e);
	int order = e->order;
	bool moved = false;
	frame_nr head;

	if (s->huge && !order && swallow(s, e))
		return;
	head = s->nr_captured ? serve_take_captured(s, e) : NO_FRAME;
	if (head == NO_FRAME) {
		serve_make_free(s, e);
		head = s->alloc_batches && !order
			       ? alloc_batches_alloc(s->alloc_batches, m, &rq, &order)
			       : alloc_recorded(s, e, &rq, &moved);
	}
	/* Pages move as direct compaction moves them, which not every request may do. */
	huge_requests_add(&s->huge_requests, e,
			  head != NO_FRAME && (!moved || e->gfp_flags & GFP_DIRECT_RECLAIM));
	if (emit && order >= 0)
		events_alloc(m->events, &m->now,
			     head == NO_FRAME ? NO_PFN : (int64_t)frame_pfn(m, head), order,
			     e->gfp_flags, e->migratetype);
	serve_settle(s, e, head);
}
