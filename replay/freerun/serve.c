// SPDX-License-Identifier: Apache-2.0
#include "model/buddy.h"
#include "compact_for_record.h"
#include "model/scan_effects.h"
#include "model/policy_stack.h"
#include "tape/node_preference.h"
#include "serve_internal.h"
#include "model/zone.h"

#include <errno.h>
#include <stdlib.h>

const struct request_facts no_facts = {.free.drain_pages = -1, .landed_frame = NO_FRAME};

static bool is_shared(const void *self, uint32_t page)
{
	return serve_is_freed_with_others(self, page);
}

int serve_init(struct serve *s, struct model *model, struct anomalies anomalies, struct error *err)
{
	struct policy *owner = model->policies->owner.alloc_batch;
	struct alloc_batch batch;
	int ret;

	*s = (struct serve){
		.model = model,
		.anomalies = anomalies,
		.undone_at = UINT64_MAX,
		.request = no_facts,
	};
	ret = page_map_new(&s->pages, model, err);
	if (ret)
		return ret;
	s->pages.is_shared = is_shared;
	s->pages.self = s;
	if (model->kernel->coalesced_frees) {
		s->runs = calloc((size_t)model->nr_cpus, sizeof(*s->runs));
		if (!s->runs)
			return fail(err, ENOMEM, "no memory for %d CPUs", model->nr_cpus);
	}
	owner->ops->alloc_batch(owner, &batch);
	if (batch.order && alloc_batches_new(&s->alloc_batches, model, &batch, err))
		return -ENOMEM;
	return huge_new(&s->huge, model, err);
}

void serve_free(struct serve *s)
{
	alloc_batches_free(s->alloc_batches);
	huge_free(s->huge);
	free(s->runs);
	strays_free(&s->strays);
	page_map_free(&s->pages);
}

void serve_report(struct serve *s, const struct waiting *e, int kind, int action)
{
	anomalies_add(&s->anomalies, &(struct anomaly){
					     .at = s->at,
					     .moment = &e->moment,
					     .pfn = (int64_t)frame_pfn(s->model, e->frame),
					     .order = e->order,
					     .kind = kind,
					     .action = action,
				     });
}

/* The node a request asks first: its CPU's, unless the request or its thread asks for another. */
static uint16_t preferred_node(const struct serve *s, const struct waiting *e)
{
	const struct model *m = s->model;
	uint16_t local = m->cpu_nodes[e->moment.cpu], bound;
	bool interrupts = e->moment.flags & (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI);

	if (e->frame == NO_FRAME)
		return local;
	if (e->frame != s->request.landed_frame && !(e->gfp_flags & GFP_THISNODE) &&
	    (interrupts || !asks_where_it_lands(m->landed, e->moment.pid)))
		return local;
	bound = frame_zone(m, e->frame)->node;
	return tape_node(m, bound) == tape_node(m, local) ? local : bound;
}

uint32_t serve_take_captured(struct serve *s, const struct waiting *e)
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
		.node = preferred_node(s, e),
	};
}

void serve_settle(struct serve *s, const struct waiting *e, uint32_t head)
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
	uint32_t page = huge_swallow(s->huge, e);

	if (page == NO_FRAME)
		return false;
	serve_make_free(s, e);
	serve_settle(s, e, page);
	return true;
}

/* The event of an alloc whose page already left its list as an alloc without an event. */
static bool has_page(struct serve *s, const struct waiting *e)
{
	uint32_t place = page_map_place(&s->pages, e->frame);
	struct frame *f;

	if (place == NO_FRAME || serve_is_freed_with_others(s, place))
		return false;
	f = &s->model->frames[place];
	if (!frame_is_live(f->state) || f->list != AWAITS_ALLOC || f->order != e->order)
		return false;
	f->list = 0;
	events_alloc(s->model->events, &s->model->now, (int64_t)frame_pfn(s->model, place),
		     e->order, e->gfp_flags, e->migratetype);
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
	uint32_t head;

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

/* An alloc; `emit`: its event is written as well. */
void serve_alloc(struct serve *s, const struct waiting *e, bool emit)
{
	struct model *m = s->model;
	struct request rq = serve_asked(s, e);
	int order = e->order;
	bool moved = false;
	uint32_t head;

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

/* The event of an alloc that has already run. */
static bool emit_early(struct serve *s, const struct waiting *e)
{
	for (int i = 0; i < s->nr_early; i++) {
		uint32_t place;

		if (s->early[i] != s->at)
			continue;
		place = s->pages.map[e->frame];
		s->early[i] = s->early[--s->nr_early];
		if (map_has_page(place) && serve_is_freed_with_others(s, place - 1))
			return true;
		events_alloc(s->model->events, &s->model->now,
			     map_has_page(place) ? (int64_t)frame_pfn(s->model, place - 1) : NO_PFN,
			     e->order, e->gfp_flags, e->migratetype);
		return true;
	}
	return false;
}

/* A request that failed in the record: it tried every zone, and marked the low ones. */
static void emit_failure(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;

	if (is_huge_request(e)) {
		struct request rq = serve_asked(s, e);

		huge_requests_add(&s->huge_requests, e, zone_has_block(m, &rq));
	}
	zone_mark_tried(m, e->moment.cpu, e->gfp_flags, e->order);
	events_alloc(m->events, &m->now, NO_PFN, e->order, e->gfp_flags, e->migratetype);
}

void serve_request(struct serve *s, struct waiting *e)
{
	if (s->runs && serve_contig_free(s, e))
		return;
	if (s->undone_at == s->at && e->kind != EVENT_KIND_ALLOC) {
		serve_emit_free(s, e);
		return;
	}
	switch (e->kind) {
	case EVENT_KIND_ALLOC:
		if (s->nr_migrations &&
		    !(e->moment.flags & (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI)))
			serve_migration_end(s, e->moment.pid);
		if (s->nr_early && emit_early(s, e))
			break;
		if (s->huge && huge_is_try(s->huge, e))
			serve_try(s, e);
		else if (e->frame == NO_FRAME)
			emit_failure(s, e);
		else if (!s->nr_awaiting_alloc || !has_page(s, e))
			serve_alloc(s, e, true);
		break;
	case EVENT_KIND_FREE:
		if (e->batched) {
			serve_emit_free(s, e);
			break;
		}
		if (s->nr_migrations)
			serve_migration_free(s, e);
		serve_commit_free(s, e, ROW_FREE);
		break;
	case EVENT_KIND_FREE_BATCHED:
		serve_free_batched(s, e);
		break;
	}
}
