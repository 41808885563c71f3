// SPDX-License-Identifier: Apache-2.0
/* Huge pages that the model has no block for: split into pages, as faults would. */
#include "serve_internal.h"

#include "model/events.h"
#include "model/zonelist.h"

/* A zeroed page of a process, as faults ask for it (GFP_HIGHUSER_MOVABLE). */
#define GFP_SINGLE                                                                                 \
	(GFP_HIGHMEM | GFP_MOVABLE | GFP_IO | GFP_FS | GFP_ZERO | GFP_DIRECT_RECLAIM |             \
	 GFP_KSWAPD_RECLAIM | GFP_COMP | GFP_HARDWALL)

/* The record's huge page, in single pages. */
static void serve_pieces(struct serve *s, const struct waiting *e)
{
	struct model *m = s->model;
	struct waiting piece = *e;

	piece.order = 0;
	*huge_pieces(s->huge, e->frame) = true;
	for (uint32_t i = 0; i < 1u << e->order; i++) {
		struct request rq;
		frame_nr page;

		piece.frame = e->frame + i;
		rq = serve_asked(s, &piece);
		rq.gfp_flags = GFP_SINGLE;
		page = zone_alloc(m, &rq);
		events_alloc(m->events, &m->now,
			     page == NO_FRAME ? NO_PFN : (int64_t)frame_pfn(m, page), 0, GFP_SINGLE,
			     e->migratetype);
		serve_settle(s, &piece, page);
		zone_counters(m, zone_preferred(m, &rq))->thp_pieces++;
	}
}

static void give_back(struct serve *s, frame_nr head)
{
	struct model *m = s->model;

	events_free(m->events, &m->now, (int64_t)frame_pfn(m, head), m->pageblock_order);
	zone_free_as(m, head, m->pageblock_order, &s->request.free);
}

/*
 * The record allocates a huge page. Returns the block captured for it, if the fault has no huge
 * page yet and the policy allows the node; else NO_FRAME.
 */
static uint32_t take_recorded(struct serve *s, const struct waiting *e, const struct request *rq,
			      bool wanted)
{
	struct model *m = s->model;
	frame_nr head = s->nr_captured ? serve_take_captured(s, e) : NO_FRAME;

	if (head == NO_FRAME || !wanted || !huge_may_have(s->huge, rq, frame_zone(m, head)->node)) {
		serve_make_free(s, e);
		return NO_FRAME;
	}
	events_alloc(m->events, &m->now, (int64_t)frame_pfn(m, head), e->order, e->gfp_flags,
		     e->migratetype);
	return head;
}

void serve_try(struct serve *s, const struct waiting *e)
{
	struct huge *h = s->huge;
	struct huge_fault *fault = huge_fault_of(h, e->moment.pid);
	struct request rq = serve_asked(s, e);
	bool first = e->gfp_flags & GFP_THISNODE, got = e->frame != NO_FRAME;
	bool last = got || !first || !(e->gfp_flags & GFP_DIRECT_RECLAIM);
	int nr_tries = h->plan.nr_tries;
	frame_nr head;

	if (first) {
		head = huge_begin(h, fault, e->moment.pid);
		if (head != NO_FRAME)
			give_back(s, head);
	}
	head = fault->head;
	if (got) {
		uint32_t recorded = take_recorded(s, e, &rq, head == NO_FRAME);

		head = head == NO_FRAME ? recorded : head;
	}
	if (head == NO_FRAME)
		head = huge_alloc(h, &rq, first ? 0 : nr_tries - 1, last ? nr_tries : nr_tries - 1);
	fault->waits = !last;
	huge_requests_add(&s->huge_requests, e, head != NO_FRAME);
	if (head != NO_FRAME && fault->head == NO_FRAME && !got)
		huge_open(h, fault, head);
	if (!last)
		return;
	if (head == NO_FRAME)
		huge_count_failure(h, &rq);
	else
		huge_count_success(h, &rq, head);
	if (!got)
		return;
	huge_close(h, fault);
	*huge_pieces(h, e->frame) = false;
	if (head != NO_FRAME)
		serve_settle(s, e, head);
	else
		serve_pieces(s, e);
}
