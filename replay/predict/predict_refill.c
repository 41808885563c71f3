// SPDX-License-Identifier: Apache-2.0
/* A refill of a PCP, or a page past it. */
#include "predict.h"

#include "model/buddy.h"
#include "model/vmstat_diff.h"
#include "model/scan_effects.h"
#include "model/zone.h"

#include <limits.h>

/* A page for one request, past the PCP; `alloc` is its event if that is soon, or NULL. */
static void take_direct(struct validate *v, struct zone *zone, struct request *rq,
			const struct pick *pick, const struct window_event *alloc)
{
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	bool exact = take_pick(v, zone, rq, &mode, pick);

	vmstat_diff_add(v->m, zone, -(1 << rq->order));
	vmstat_diff_add_cma(v->m, zone, frame_block(v->m, pick->frame)->migratetype,
			    -(1 << rq->order));
	if (alloc)
		emit_direct(&v->score, alloc, 0);
	v->whereabouts.pushed[pick->frame] = alloc ? 0 : (uint32_t)pick->last->at;
	v->m->frames[pick->frame].list = exact ? AWAITS_ALLOC : AWAITS_ALLOC_MISSED;
	zone_pcp(v->m, zone, pick->last->cpu)->touched = true;
	consume(pick);
}

/* The parts of a burst of events under the zone's lock. */
struct burst {
	struct zone *zone;
	struct pick first;
	struct window_event *last;
	int nr;
	bool mixes;                /* a pageblock gets a second migratetype */
	const struct stamp *stamp; /* of its refill, or NULL */
};

/* The type that a burst asked for: a request for MOVABLE takes CMA pages too. */
static int asked_type(const struct pick *pick)
{
	return pick->migratetype == MIGRATETYPE_CMA ? MIGRATETYPE_MOVABLE : pick->migratetype;
}

static void read_burst(const struct validate *v, struct window_event *first, struct burst *burst)
{
	struct model *m = v->m;
	struct pick pick;

	*burst = (struct burst){.zone = frame_zone(m, first->frame)};
	burst->stamp = stamp_before(v, burst->zone, NULL, first, STAMP_KIND_REFILL);
	for (struct window_event *s = first; s && burst->nr < BURST_MAX;
	     s = window_next(&v->window, s)) {
		if (!is_taking(s) || s->taken || s->order != first->order || s->pid != first->pid ||
		    event_depth(s) != event_depth(first) || frame_zone(m, s->frame) != burst->zone)
			break;
		if (burst->nr && stamp_before(v, burst->zone, burst->last, s, STAMP_KIND_REFILL))
			break;
		read_pick(v, s, &pick);
		if (!burst->nr)
			burst->first = pick;
		else if (asked_type(&pick) != asked_type(&burst->first))
			break;
		burst->mixes |= pick.extfrag && pick.extfrag->fallback_order < m->pageblock_order;
		burst->nr++;
		burst->last = s = pick.last;
	}
}

/* Up to `size` pages of the burst go onto the list. */
static void take_refill(struct validate *v, struct burst *burst, struct pcp *pcp,
			struct request *rq, int size)
{
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	struct pick pick = burst->first;
	uint32_t last = NO_FRAME;

	for (int i = 0; i < size; i++) {
		if (i)
			read_pick(v, window_next(&v->window, pick.last), &pick);
		v->nr_picked = i;
		take_pick(v, burst->zone, rq, &mode, &pick);
		vmstat_diff_taken(v->m, burst->zone, frame_block(v->m, pick.frame)->migratetype,
				  rq->order);
		/* The record may take a page twice, as rows of other kernels read it. */
		if (last != NO_FRAME && v->m->frames[last].state != FRAME_PCP)
			last = NO_FRAME;
		pcp_add_refilled(v->m, pcp, rq, pick.frame, last);
		v->whereabouts.pushed[pick.frame] = 0;
		consume(&pick);
		last = pick.frame;
	}
	vmstat_diff_refill(v->m, burst->zone, size, rq->order);
	v->nr_picked = 0;
	pcp->touched = true;
	pcp_lock_after_burst(&v->whereabouts, pick.last, burst->zone);
}

/*
 * A refill without a following alloc was for alloc_pages_bulk: it takes the first pages, whose next
 * event is a free.
 */
static void take_bulk(struct validate *v, struct burst *burst, struct pcp *pcp,
		      const struct request *rq, int size)
{
	struct pick pick = burst->first;
	int type = rq->migratetype;

	if (!rule_is_on(RULE_take_bulk))
		return;
	for (; size-- && pick.zone_locked && pcp_first(v->m, pcp, rq) == pick.frame &&
	       next_event_of(&v->whereabouts.next_events, pick.zone_locked->at) == NEXT_IS_FREE;) {
		take_unseen(v, pick.frame, type, 0);
		if (size)
			read_pick(v, window_next(&v->window, pick.last), &pick);
	}
}

/* A refill: its size, its pages, and the alloc that gets the first page. */
static void predict_pcp_refill(struct validate *v, struct burst *burst, struct pcp *pcp,
			       struct request *rq, struct window_event *alloc)
{
	const struct stamp *stamp = burst->stamp;
	struct pcp before = *pcp;
	int want = stamp ? follow_refill(v, pcp, stamp, rq->order)
			 : pcp_refill_size(v->m, burst->zone, pcp, rq->order);
	/*
	 * If no alloc follows the burst, it may be several refills, each used up without an event.
	 */
	int size = alloc || burst->nr < want ? burst->nr : want;
	bool exact;

	before.count -= pages_gone(v, pcp);
	take_refill(v, burst, pcp, rq, size);
	exact = size == want || (size < want && !could_take(v->m, burst->zone, rq));
	count_size(&v->score, burst->first.last, burst->zone,
		   &(struct size_check){DECISION_REFILL_SIZE, want, size, exact});
	if (!exact) {
		tune_refill(v, burst->zone, pcp, &before, &burst->first, size);
		repaired(&v->score);
	}
	if (!alloc) {
		emit_block(&v->score, INFERRED_KIND_REFILL, burst->first.frame, rq->order,
			   rq->migratetype, 0);
		take_bulk(v, burst, pcp, rq, size);
		return;
	}
	emit_early_alloc(&v->score, alloc);
	pcp_remove(v->m, pcp, alloc->frame);
	v->m->frames[alloc->frame].state = FRAME_USED;
	v->m->frames[alloc->frame].list = 0;
	alloc->taken = alloc->exact = true;
}

/*
 * How the CPU's refill finds pages by now: a fallback stays with its way, until a page of the own
 * lists shows that another refill has begun.
 */
static enum rmqueue_mode *mode_of(struct validate *v, const struct pick *pick)
{
	struct boundary_refill *last = &v->boundary_refills[pick->last->cpu];
	const struct boundary_refill next = {last->mode, pick->last->pid,
					     frame_zone(v->m, pick->frame)->number, pick->order,
					     (uint8_t)asked_type(pick)};
	bool continues = pick->extfrag && last->pid == next.pid && last->zone == next.zone &&
			 last->order == next.order && last->migratetype == next.migratetype;

	*last = next;
	if (!continues)
		last->mode = RMQUEUE_NORMAL;
	return &last->mode;
}

void predict_boundary_refill(struct validate *v, struct window_event *first)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, first->frame);
	struct window_event asked = *first;
	struct pick pick;
	struct request rq;

	read_pick(v, first, &pick);
	asked.frame = pick.frame;
	asked.migratetype = (uint8_t)asked_type(&pick);
	asked.gfp_flags = refill_gfp(asked.migratetype, asked.flags);
	page_contents_event(&v->score.contents, m, EVENT_KIND_ALLOC, pick.frame, pick.order,
			    asked.migratetype);
	emit_asked_node(&v->score, &asked);
	rq = request_of(m, &asked);
	rq.flags = zone_scan_effects(
		m, &rq, zone, pick.extfrag && pick.extfrag->fallback_order < m->pageblock_order);
	take_pick(v, zone, &rq, mode_of(v, &pick), &pick);
	vmstat_diff_taken(m, zone, frame_block(m, pick.frame)->migratetype, rq.order);
	vmstat_diff_refill(m, zone, 1, rq.order);
	m->frames[pick.frame].list = 0;
	zone_pcp(m, zone, first->cpu)->touched = true;
	consume(&pick);
}

void predict_refill(struct validate *v, struct window_event *first)
{
	struct model *m = v->m;
	struct burst burst;
	struct request rq;
	struct window_event *alloc;
	struct pcp *pcp;
	frame_nr entry;
	list_nr list;
	const struct departure *preempted;
	struct window_event late;

	pcp_lock_release(&v->whereabouts, first);
	read_burst(v, first, &burst);
	alloc = find_alloc(&v->whereabouts, burst.last, burst.first.frame, first->order,
			   ALLOC_WITHIN);
	preempted = alloc ? NULL : refilled_for(&v->whereabouts, burst.first.frame, burst.last);
	if (preempted) {
		late = event_of_departure(preempted, first->cpu);
		alloc = &late;
	}
	rq = request_of(m, alloc ? alloc : first);
	rq.migratetype = (uint8_t)asked_type(&burst.first);
	predict_list_order(v, &rq, burst.zone);
	rq.flags = zone_scan_effects(m, &rq, burst.zone, burst.mixes);
	if (!pcp_allowed(m, rq.order) || rq.migratetype > MIGRATETYPE_RECLAIMABLE) {
		take_direct(v, burst.zone, &rq, &burst.first, alloc);
		return;
	}
	pcp = zone_pcp(m, burst.zone, first->cpu);
	list = pcp_list(m, pcp, rq.order, rq.migratetype);
	entry = m->frames[list].next;
	if (m->kernel->pcp_miss_to_buddy && is_stamped(v, first) && !burst.stamp) {
		accuracy_repair(&v->score.accuracy, burst.zone, REPAIR_CAUSE_LOCKED_ALLOC,
				1ull << rq.order);
		take_direct(v, burst.zone, &rq, &burst.first, alloc);
		return;
	}
	if (burst.nr == 1 && pcp->batch > 1 && m->kernel->pcp_miss_to_buddy &&
	    ((entry != list && !burst.stamp) ||
	     pcp_lock_taken(&v->whereabouts, first, burst.zone) ||
	     could_take(m, burst.zone, &rq))) {
		accuracy_repair(&v->score.accuracy, burst.zone, REPAIR_CAUSE_LOCKED_ALLOC,
				1ull << rq.order);
		take_direct(v, burst.zone, &rq, &burst.first, alloc);
		return;
	}
	if (entry != list)
		take_drained_unseen(v, pcp,
				    burst.stamp ? pcp->count - burst.stamp->count : INT_MAX);
	for (entry = m->frames[list].next; entry != list && m->kernel->pcp_lists != PCP_LISTS_1;
	     entry = m->frames[list].next)
		take_inferred(v, first, pcp, entry, rq.migratetype);
	if (alloc) {
		pcp->free_count >>= 1;
		pcp->free_factor >>= 1;
	}
	predict_pcp_refill(v, &burst, pcp, &rq, alloc);
	if (preempted)
		m->frames[preempted->frame].list = AWAITS_ALLOC;
}
