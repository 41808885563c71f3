// SPDX-License-Identifier: Apache-2.0
#include "serve.h"

#include "buddy.h"
#include "make_block.h"
#include "memory.h"
#include "pcp.h"
#include "policy_stack.h"
#include "prefer.h"
#include "seize.h"
#include "zone.h"

#include <errno.h>
#include <stdlib.h>

/* frame.list of a used page that was taken without an event: one may still come. */
enum { UNHEARD = UINT16_MAX };

int serve_init(struct serve *s, struct model *model, struct anomalies anomalies, struct error *err)
{
	struct policy *owner = model->policies->owner.alloc_unit;
	struct alloc_unit unit;

	*s = (struct serve){.model = model, .anomalies = anomalies, .undone_at = UINT64_MAX};
	s->names = calloc(1u << model->pageblock_order, sizeof(*s->names));
	s->map = memory_new(model->nr_frames * sizeof(*s->map));
	if (!s->map || !s->names)
		return fail(err, ENOMEM, "no memory for a map of %u page frames", model->nr_frames);
	owner->ops->alloc_unit(owner, &unit);
	if (unit.order && units_new(&s->units, model, &unit, err))
		return -ENOMEM;
	return huge_new(&s->huge, model, err);
}

void serve_free(struct serve *s)
{
	units_free(s->units);
	huge_free(s->huge);
	free(s->names);
	if (s->model)
		memory_free(s->map, s->model->nr_frames * sizeof(*s->map));
}

/* A request, of a page of the model, that cannot be as the record says. */
__attribute__((cold)) static void report_anomaly(struct serve *s, const struct waiting *e, int kind,
						 int action)
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

static bool map_has_page(uint32_t place)
{
	return place != MAP_UNSEEN && place < MAP_UNSERVED;
}

static void map_set(struct serve *s, uint32_t frame, int order, uint32_t place, bool served)
{
	s->map[frame] = place;
	for (uint32_t i = 1; i < 1u << order; i++)
		s->map[frame + i] = served ? place + i : place;
}

/* Which rows a free leaves in the model's own events. */
enum { ROW_FREE = 1, ROW_FREE_BATCHED = 2 };

static inline void free_block(struct serve *s, uint32_t head, int order, int rows)
{
	struct model *m = s->model;

	if (rows & ROW_FREE)
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, head), order);
	if (rows & ROW_FREE_BATCHED)
		events_free_batched(m->events, &m->now, (int64_t)frame_pfn(m, head));
	zone_free(m, head, order);
}

bool serve_shares(const struct serve *s, uint32_t page)
{
	return (s->units && units_have(s->units, page)) || (s->huge && huge_has(s->huge, page));
}

/* Free one page that is freed only with others. */
static void free_shared(struct serve *s, uint32_t page, int rows)
{
	struct model *m = s->model;
	int order = m->pageblock_order;
	uint32_t head = s->huge && huge_has(s->huge, page)
				? huge_give_back(s->huge, page)
				: units_give_back(s->units, m, page, &order);

	if (head != NO_FRAME)
		free_block(s, head, order, rows);
}

/* Free one recorded page wherever the model has it; false if it has it nowhere. */
static bool free_page(struct serve *s, uint32_t frame, int rows)
{
	struct model *m = s->model;
	uint32_t place = s->map[frame];

	s->map[frame] = MAP_FREED;
	if (map_has_page(place) && serve_shares(s, place - 1)) {
		free_shared(s, place - 1, rows);
		return true;
	}
	if (map_has_page(place)) {
		block_carve(m, place - 1, 0);
		free_block(s, place - 1, 0, rows);
		return true;
	}
	if (place == MAP_UNSEEN && m->frames[frame].state == FRAME_OLD) {
		free_block(s, frame, 0, rows);
		return true;
	}
	return false;
}

static bool all_old(const struct serve *s, uint32_t frame, int order)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		if (s->map[frame + i] != MAP_UNSEEN ||
		    s->model->frames[frame + i].state != FRAME_OLD)
			return false;
	return !(frame & ((1u << order) - 1));
}

/* Whether a recorded block is, or is part of, a huge page that the model has in pieces. */
static bool in_pieces(const struct serve *s, const struct waiting *e)
{
	if (!s->huge || !*huge_pieces(s->huge, e->frame))
		return false;
	for (uint32_t i = 1; i < 1u << e->order; i++)
		if (s->map[e->frame + i] != s->map[e->frame] + i)
			return true;
	return false;
}

/* A free of pages that are not one block of the model: page by page. */
__attribute__((cold)) static void free_pieces(struct serve *s, const struct waiting *e, int rows)
{
	uint32_t first = s->map[e->frame], pages = 1u << e->order, freed = 0;
	int kind = ANOMALY_KIND_ORDER_MISMATCH;
	bool known = in_pieces(s, e);

	for (uint32_t i = 0; i < pages; i++)
		freed += free_page(s, e->frame + i, rows);
	if ((!freed && first == MAP_UNSERVED) || (known && freed))
		return;
	if (first == MAP_FREED)
		kind = ANOMALY_KIND_FREE_OF_FREE;
	else if (freed < pages)
		kind = ANOMALY_KIND_FREE_UNKNOWN;
	report_anomaly(s, e, kind, freed ? ANOMALY_ACTION_FREED_BY_PAGE : ANOMALY_ACTION_IGNORED);
}

/* A free takes effect. */
static void commit_free(struct serve *s, const struct waiting *e, int rows)
{
	struct model *m = s->model;
	uint32_t place = s->map[e->frame];

	if (map_has_page(place) && serve_shares(s, place - 1) && !e->order) {
		s->map[e->frame] = MAP_FREED;
		free_shared(s, place - 1, rows);
	} else if (map_has_page(place)) {
		if (serve_shares(s, place - 1) || in_pieces(s, e) ||
		    !block_carve(m, place - 1, e->order)) {
			free_pieces(s, e, rows);
			return;
		}
		map_set(s, e->frame, e->order, MAP_FREED, false);
		free_block(s, place - 1, e->order, rows);
	} else if (all_old(s, e->frame, e->order)) {
		map_set(s, e->frame, e->order, MAP_FREED, false);
		free_block(s, e->frame, e->order, rows);
	} else {
		free_pieces(s, e, rows);
	}
}

/* The same page by page, of a huge page that the model has in pieces. */
static void tell_pieces(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;

	for (uint32_t i = 0; i < 1u << e->order; i++) {
		uint32_t place = serve_place(s, e->frame + i);

		if (place != NO_FRAME)
			events_free(m->events, &m->now, (int64_t)frame_pfn(m, place), 0);
	}
}

/* The free of a batch, or of none, is reported without an effect. */
static void tell_free(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	uint32_t place;

	if (!m->events)
		return;
	place = s->map[e->frame];
	if (map_has_page(place) && serve_shares(s, place - 1))
		return;
	if (in_pieces(s, e))
		tell_pieces(s, e);
	else if (map_has_page(place))
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, place - 1), e->order);
	else if (all_old(s, e->frame, e->order))
		events_free(m->events, &m->now, (int64_t)frame_pfn(m, e->frame), e->order);
}

static void commit_batched(struct serve *s, struct waiting *e)
{
	uint32_t place = s->map[e->frame];

	if (e->batched) {
		commit_free(s, e, ROW_FREE_BATCHED);
	} else if (map_has_page(place)) {
		/* Its free was lost, or this is a kernel that reports no other. */
		e->order = serve_shares(s, place - 1) ? 0 : s->model->frames[place - 1].order;
		commit_free(s, e, ROW_FREE | ROW_FREE_BATCHED);
	}
}

/*
 * The record hands out pages that the model holds as used since before the start, so
 * they were free after all: on a PCP list, if the snapshot could not see all of those.
 */
static void reveal_old(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	struct zone *zone = frame_zone(m, e->frame);
	uint64_t pages = 1ull << e->order;

	if (!all_old(s, e->frame, e->order))
		return;
	zone_forget_old(m, e->frame, e->order);
	if (pcp_allowed(m, e->order) && zone->pcp_unseen >= pages &&
	    e->migratetype <= MIGRATETYPE_RECLAIMABLE) {
		zone->pcp_unseen -= pages;
		pcp_push(m, zone_pcp(m, zone, e->moment.cpu), e->frame, e->order, e->migratetype,
			 frame_block(m, e->frame)->migratetype, false);
		return;
	}
	free_direct(m, zone, e->frame, e->order);
	report_anomaly(s, e, ANOMALY_KIND_ALLOC_OF_USED, ANOMALY_ACTION_FREED_BY_PAGE);
}

/* The record hands out pages whose free it never showed. */
__attribute__((noinline)) static void free_missed(struct serve *s, const struct waiting *e)
{
	bool missed = false;

	for (uint32_t i = 0; i < 1u << e->order; i++)
		if (map_has_page(s->map[e->frame + i]))
			missed |= free_page(s, e->frame + i, ROW_FREE);
	if (missed)
		report_anomaly(s, e, ANOMALY_KIND_ALLOC_OF_USED, ANOMALY_ACTION_FREED_BY_PAGE);
}

/* The node a request asks first: its CPU's, unless it or its thread is bound to another. */
static uint16_t preferred_node(const struct model *m, const struct waiting *e)
{
	uint16_t local = m->cpu_nodes[e->moment.cpu], bound;
	bool interrupts = e->moment.flags & (CONTEXT_SOFTIRQ | CONTEXT_HARDIRQ | CONTEXT_NMI);

	if (e->frame == NO_FRAME)
		return local;
	if (!(e->gfp_flags & GFP_THISNODE) &&
	    (interrupts || !prefers_landed(m->landed, e->moment.pid)))
		return local;
	bound = frame_zone(m, e->frame)->node;
	return told_node(m, bound) == told_node(m, local) ? local : bound;
}

/* The record takes pages off the lists: what the model knew otherwise of them is over. */
static inline void make_free(struct serve *s, const struct waiting *e)
{
	/* As nearly all are: of one page, whose free was seen. */
	if (!e->order && s->map[e->frame] == MAP_FREED)
		return;
	free_missed(s, e);
	if (s->map[e->frame] == MAP_UNSEEN && s->model->frames[e->frame].state == FRAME_OLD)
		reveal_old(s, e);
}

void serve_make_free(struct serve *s, const struct waiting *e)
{
	make_free(s, e);
}

uint32_t serve_take_captured(struct serve *s, const struct waiting *e)
{
	uint32_t place = serve_place(s, e->frame);

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

struct request serve_asked(const struct model *m, const struct waiting *e)
{
	return (struct request){
		.gfp_flags = e->gfp_flags,
		.order = e->order,
		.migratetype = e->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(e->gfp_flags),
		.node = preferred_node(m, e),
	};
}

void serve_settle(struct serve *s, const struct waiting *e, uint32_t head)
{
	if (head != NO_FRAME) {
		map_set(s, e->frame, e->order, head + 1, true);
		return;
	}
	map_set(s, e->frame, e->order, MAP_UNSERVED, false);
	report_anomaly(s, e, ANOMALY_KIND_NO_FREE_PAGE, ANOMALY_ACTION_LEFT_UNMAPPED);
}

/* An alloc of a page that the model has in a huge page, if it is one. */
static bool swallow(struct serve *s, const struct waiting *e)
{
	uint32_t page = huge_swallow(s->huge, e);

	if (page == NO_FRAME)
		return false;
	make_free(s, e);
	serve_settle(s, e, page);
	return true;
}

/*
 * An alloc whose page had left its list before without an event, as it seemed: it has it.
 */
static bool has_page(struct serve *s, const struct waiting *e)
{
	uint32_t place = serve_place(s, e->frame);
	struct frame *f;

	if (place == NO_FRAME || serve_shares(s, place))
		return false;
	f = &s->model->frames[place];
	if (!frame_is_live(f->state) || f->list != UNHEARD || f->order != e->order)
		return false;
	f->list = 0;
	events_alloc(s->model->events, &s->model->now, (int64_t)frame_pfn(s->model, place),
		     e->order, e->gfp_flags, e->migratetype);
	return true;
}

/* A block for a request that the record served: if need be, pages move for it. */
static uint32_t alloc_recorded(struct serve *s, const struct waiting *e, struct request *rq)
{
	struct model *m = s->model;
	uint32_t head;

	rq->makes_room = rq->order && s->makes_blocks;
	head = zone_alloc(m, rq);
	if (head != NO_FRAME || !rq->makes_room)
		return head;
	head = make_block(s, e, rq);
	if (head != NO_FRAME)
		return head;
	rq->makes_room = false;
	return zone_alloc(m, rq);
}

/* An alloc; `told`: its event is written as well. */
static void commit_alloc(struct serve *s, const struct waiting *e, bool told)
{
	struct model *m = s->model;
	struct request rq = serve_asked(m, e);
	int order = e->order;
	uint32_t head;

	if (s->huge && !order && swallow(s, e))
		return;
	head = s->nr_captured ? serve_take_captured(s, e) : NO_FRAME;
	if (head == NO_FRAME) {
		make_free(s, e);
		head = s->units && !order ? units_alloc(s->units, m, &rq, &order)
					  : alloc_recorded(s, e, &rq);
	}
	if (told && order >= 0)
		events_alloc(m->events, &m->now,
			     head == NO_FRAME ? NO_PFN : (int64_t)frame_pfn(m, head), order,
			     e->gfp_flags, e->migratetype);
	serve_settle(s, e, head);
}

/* The event of an alloc that has run already. */
static bool tell_early(struct serve *s, const struct waiting *e)
{
	for (int i = 0; i < s->nr_early; i++) {
		uint32_t place;

		if (s->early[i] != s->at)
			continue;
		place = s->map[e->frame];
		s->early[i] = s->early[--s->nr_early];
		if (map_has_page(place) && serve_shares(s, place - 1))
			return true;
		events_alloc(s->model->events, &s->model->now,
			     map_has_page(place) ? (int64_t)frame_pfn(s->model, place - 1) : NO_PFN,
			     e->order, e->gfp_flags, e->migratetype);
		return true;
	}
	return false;
}

/*
 * A free chunk of `type`, of `order` and more, in a frame's pageblock: the smallest there; or
 * NO_FRAME.
 */
static uint32_t chunk_near(const struct model *m, uint32_t frame, int order, int type)
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
 * Free pages for those that the record took off the free lists: the same ones, or such as
 * compaction would have found instead: in their pageblock, else of their type, at the end
 * of a list. A single page is of another type before there is none. They are one used block;
 * NO_FRAME if there are none.
 */
static uint32_t take_like(struct model *m, uint32_t frame, int order, int type)
{
	static const uint8_t others[] = {MIGRATETYPE_MOVABLE, MIGRATETYPE_RECLAIMABLE,
					 MIGRATETYPE_UNMOVABLE};
	struct zone *zone = frame_zone(m, frame);
	uint32_t head = block_head(m, frame);

	if (m->frames[head].state == FRAME_FREE && m->frames[head].order >= order) {
		seize(m, frame, order);
		return frame;
	}
	head = chunk_near(m, frame, order, type);
	if (head == NO_FRAME)
		head = last_chunk(m, zone, order, type);
	for (size_t i = 0; i < sizeof(others) && head == NO_FRAME && !order; i++)
		head = last_chunk(m, zone, order, others[i]);
	if (head != NO_FRAME)
		seize(m, head, order);
	return head;
}

/* Compaction takes free pages, in smaller pieces where there are none of the order. */
static void isolate(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	uint32_t head;

	make_free(s, e);
	head = take_like(m, e->frame, e->order, e->migratetype);
	if (head != NO_FRAME) {
		zone_mark_live(m, head, e->order, MIGRATETYPE_MOVABLE);
		map_set(s, e->frame, e->order, head + 1, true);
	} else if (e->order) {
		struct waiting half = *e;

		half.order--;
		isolate(s, &half);
		half.frame += 1u << half.order;
		isolate(s, &half);
	} else {
		map_set(s, e->frame, 0, MAP_UNSERVED, false);
		report_anomaly(s, e, ANOMALY_KIND_NO_FREE_PAGE, ANOMALY_ACTION_LEFT_UNMAPPED);
	}
}

/*
 * A list is cut so that a block comes first, if it is on that list here; but entries that
 * were put there later stay before it.
 */
static void cut(struct model *m, const struct untold *u)
{
	struct frame *frames = m->frames;
	const struct frame *f = &frames[u->frame];
	uint32_t later[UINT8_MAX], list;
	int nr = 0;

	if (f->state != FRAME_FREE || f->order != u->order || f->list != u->migratetype)
		return;
	list = free_list(frame_zone(m, u->frame), f->order, f->list);
	while (nr < u->behind && frames[list].next != u->frame) {
		later[nr] = frames[list].next;
		list_del(frames, later[nr++]);
	}
	rotate_list(m, list, u->frame);
	while (nr)
		list_add_head(frames, list, later[--nr]);
}

/* Whether what the record tells of the tuning of PCPs holds for those of the run. */
static bool tuned_alike(const struct model *m)
{
	return m->kernel->pcp_tuning != PCP_FIXED && m->node_parts == 1 && m->zone_parts == 1 &&
	       m->policies->owner.pcp_limits == m->policies->all[0];
}

/* Each of what it tells holds from here on; but how many pages are drained, for one free. */
static void tune(struct serve *s, const struct untold *u, struct zone *zone, struct pcp *pcp)
{
	bool adaptive = s->model->kernel->pcp_tuning == PCP_AUTO;

	if (u->tells & TELLS_HIGH && adaptive)
		pcp->high = u->high;
	if (u->tells & TELLS_FREE_COUNT && adaptive)
		pcp->free_count = u->free_count;
	if (u->tells & TELLS_ALLOC_FACTOR && adaptive)
		pcp->alloc_factor = u->alloc_factor;
	if (u->tells & TELLS_FREE_FACTOR && !adaptive)
		pcp->free_factor = u->free_factor;
	if (u->tells & TELLS_BELOW_HIGH)
		zone->below_high = u->below_high;
	if (u->tells & TELLS_RECLAIM_ACTIVE)
		zone->reclaim_active = u->reclaim_active;
	if (u->tells & TELLS_PAGES && u->at == s->at)
		s->model->told_drain = u->pages;
}

/* An entry that was next on its list is last there: if it stands here as there. */
static void move_to_end(struct model *m, const struct untold *u)
{
	const struct frame *f = &m->frames[u->frame];

	if (f->order != u->order)
		return;
	if (f->state == FRAME_FREE && f->list == u->migratetype) {
		list_del(m->frames, u->frame);
		list_add_tail(m->frames, free_list(frame_zone(m, u->frame), f->order, f->list),
			      u->frame);
	} else if (f->state == FRAME_PCP) {
		list_del(m->frames, u->frame);
		list_add_head(m->frames, pcp_list(m, &m->pcps[f->list], f->order, u->migratetype),
			      u->frame);
	}
}

/* Pages go back to the buddy, and no event tells. */
static void free_untold(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	const struct frame *f = &m->frames[e->frame];
	bool locked = m->pcp_locked;

	/* The record's, and the model's, have it on a PCP list. */
	if (f->state == FRAME_PCP && f->order == e->order && serve_place(s, e->frame) == NO_FRAME) {
		pcp_remove(m, &m->pcps[f->list], e->frame);
		free_direct(m, frame_zone(m, e->frame), e->frame, e->order);
		return;
	}
	m->pcp_locked = true;
	commit_free(s, e, 0);
	m->pcp_locked = locked;
}

/* A refill for a request that no event tells of: first without mixing types. */
static void refill(struct serve *s, const struct waiting *e, struct zone *zone, struct pcp *pcp)
{
	struct model *m = s->model;
	struct request rq = {
		.gfp_flags = e->gfp_flags,
		.order = e->order,
		.migratetype = e->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(e->gfp_flags),
		.node = preferred_node(m, e),
	};
	int before = pcp->count;

	if (!pcp_allowed(m, rq.order) || rq.migratetype > MIGRATETYPE_RECLAIMABLE)
		return;
	rq.flags = zone_passes(m, &rq, zone, false);
	pcp_refill(m, zone, pcp, &rq);
	rq.flags = 0;
	if (pcp->count == before)
		pcp_refill(m, zone, pcp, &rq);
}

/* A free block leaves its list for the alloc that waits for it; if the model has it. */
static void capture(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	uint32_t head;

	make_free(s, e);
	head = block_head(m, e->frame);
	if (m->frames[head].state != FRAME_FREE || m->frames[head].order < e->order ||
	    s->nr_captured == SERVE_CAPTURED_MAX)
		return;
	seize(m, e->frame, e->order);
	map_set(s, e->frame, e->order, e->frame + 1, true);
	s->captured[s->nr_captured++] = e->frame;
}

/* No event told of the alloc that ran: one may still. */
static void mark_unheard(struct serve *s, const struct waiting *e)
{
	uint32_t place = serve_place(s, e->frame);

	if (place == NO_FRAME || serve_shares(s, place))
		return;
	s->model->frames[place].list = UNHEARD;
	s->nr_unheard++;
}

/* What no event tells, but other events prove. */
void serve_untold(struct serve *s, const struct untold *u)
{
	struct model *m = s->model;
	struct waiting e = {
		.moment = {m->now.ts, u->pid, u->cpu, 0},
		.frame = u->frame,
		.gfp_flags = u->gfp_flags,
		.kind = EVENT_KIND_ALLOC,
		.order = u->order,
		.migratetype = u->migratetype,
	};
	struct zone *zone = frame_zone(m, u->frame);
	struct pcp *pcp = zone_pcp(m, zone, u->cpu);
	int free_count, free_factor;

	m->now = e.moment;
	switch (u->kind) {
	case UNTOLD_KIND_EARLY_ALLOC:
	case UNTOLD_KIND_DIRECT_ALLOC:
		/* A fault that asks for a huge page keeps its turn: what it does depends on it. */
		if (s->nr_early == SERVE_EARLY_MAX || (s->huge && huge_is_try(s->huge, &e)))
			return;
		s->early[s->nr_early++] = u->told_at;
		m->pcp_locked = u->kind == UNTOLD_KIND_DIRECT_ALLOC;
		commit_alloc(s, &e, false);
		m->pcp_locked = false;
		break;
	case UNTOLD_KIND_ALLOC:
		/* alloc_pages_bulk takes entries without a word to the PCP's tuning */
		free_count = pcp->free_count;
		free_factor = pcp->free_factor;
		commit_alloc(s, &e, false);
		mark_unheard(s, &e);
		pcp->free_count = free_count;
		pcp->free_factor = free_factor;
		break;
	case UNTOLD_KIND_DIRECT_FREE:
		m->pcp_locked = u->at == s->at;
		break;
	case UNTOLD_KIND_TUNED:
		if (tuned_alike(m))
			tune(s, u, zone, pcp);
		break;
	case UNTOLD_KIND_ISOLATED:
		isolate(s, &e);
		break;
	case UNTOLD_KIND_CUT:
		cut(m, u);
		break;
	case UNTOLD_KIND_CAPTURED:
		capture(s, &e);
		break;
	case UNTOLD_KIND_UNDONE_FREE:
		s->undone_at = u->at;
		break;
	case UNTOLD_KIND_MOVED:
		move_to_end(m, u);
		break;
	case UNTOLD_KIND_FREE:
		free_untold(s, &e);
		break;
	case UNTOLD_KIND_REFILL:
		refill(s, &e, zone, pcp);
		break;
	default:
		pcp_drain_piece(m, zone, pcp,
				u->tells & TELLS_PAGES ? u->pages : pcp_piece(m, pcp));
	}
}

/* A request that failed in the record: it tried every zone, and marked those that are low. */
static void tell_failure(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;

	zone_mark_tried(m, e->moment.cpu, e->gfp_flags, e->order);
	events_alloc(m->events, &m->now, NO_PFN, e->order, e->gfp_flags, e->migratetype);
}

void serve_request(struct serve *s, struct waiting *e)
{
	if (s->undone_at == s->at && e->kind != EVENT_KIND_ALLOC) {
		tell_free(s, e);
		return;
	}
	switch (e->kind) {
	case EVENT_KIND_ALLOC:
		if (s->nr_early && tell_early(s, e))
			break;
		if (s->huge && huge_is_try(s->huge, e))
			serve_try(s, e);
		else if (e->frame == NO_FRAME)
			tell_failure(s, e);
		else if (!s->nr_unheard || !has_page(s, e))
			commit_alloc(s, e, true);
		break;
	case EVENT_KIND_FREE:
		if (e->batched)
			tell_free(s, e);
		else
			commit_free(s, e, ROW_FREE);
		break;
	default:
		commit_batched(s, e);
	}
}
