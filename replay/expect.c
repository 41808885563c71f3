// SPDX-License-Identifier: Apache-2.0
#include "buddy.h"
#include "fallback.h"
#include "validate_run.h"
#include "zone.h"

#include <limits.h>

enum {
	ALLOC_WITHIN = 128,      /* events of its CPU from a refill to the alloc that caused it */
	LATE_WITHIN = 512,       /* from an alloc to one whose page was taken before it */
	INTERRUPT_WITHIN = 8192, /* of an interrupt */
	WORKER_WITHIN = 256,     /* from the start of the vmstat worker to its drain */
	BURST_MAX = 8192,        /* pages under one hold of the zone's lock */
	DEPTH_MAX = 65536,       /* entries a page may lie deep in a PCP list */
};

static bool is_taking(const struct step *step)
{
	return step->kind == EVENT_KIND_ALLOC_ZONE_LOCKED || step->kind == EVENT_KIND_ALLOC_EXTFRAG;
}

static struct request request_of(const struct model *m, const struct step *step)
{
	return (struct request){
		.gfp_flags = step->gfp_flags,
		.order = step->order,
		.migratetype = step->migratetype,
		.class_zone = (uint8_t)gfp_class_zone(step->gfp_flags),
		.node = step->gfp_flags & GFP_THISNODE ? frame_zone(m, step->frame)->node
						       : m->cpu_nodes[step->cpu],
	};
}

/* The alloc of a page among the next events of the CPU, or NULL. */
static struct step *find_alloc(const struct validate *v, const struct step *after, uint32_t frame,
			       int order, int within)
{
	for (struct step *s = step_next(&v->steps, after); s && within--;
	     s = step_next(&v->steps, s)) {
		if (s->frame != frame || s->taken)
			continue;
		return s->kind == EVENT_KIND_ALLOC && s->order == order ? s : NULL;
	}
	return NULL;
}

static bool is_guess(const struct validate *v, uint32_t head)
{
	return v->guesses && v->guesses[head / 64] >> head % 64 & 1;
}

/* Whether it depends on what the tape has not told yet where a page is. */
static bool is_unknown(const struct validate *v, uint32_t frame)
{
	uint32_t head;

	if (!v->guesses)
		return false;
	head = block_head(v->m, frame);
	return v->m->frames[head].state == FRAME_OLD || is_guess(v, head);
}

/* A page that a PCP held since before the start shows. */
static void saw_pcp_page(struct validate *v, const struct step *step)
{
	struct zone *zone = frame_zone(v->m, step->frame);
	uint64_t pages = 1ull << step->order;

	if (place_of(v->m, step->frame) == PLACE_UNKNOWN && pcp_allowed(v->m, step->order))
		zone->pcp_unseen -= zone->pcp_unseen < pages ? zone->pcp_unseen : pages;
}

/* The events of one page that leaves the free lists, from `step` on. */
static void read_pick(const struct validate *v, struct step *step, struct pick *pick)
{
	bool fallback_first = v->m->kernel->fallback == FALLBACK_MOVE ||
			      v->m->kernel->fallback == FALLBACK_REMAINDERS_OLD;
	bool fallback = step->kind == EVENT_KIND_ALLOC_EXTFRAG;
	struct step *next = step_next(&v->steps, step);

	*pick = (struct pick){
		.zone_locked = fallback ? NULL : step,
		.extfrag = fallback ? step : NULL,
		.last = step,
		.frame = step->frame,
		.order = step->order,
		.migratetype = step->migratetype,
	};
	if (!next || !is_taking(next) || next->kind == step->kind || next->order != step->order ||
	    step_depth(next) != step_depth(step) || fallback != fallback_first ||
	    frame_zone(v->m, next->frame) != frame_zone(v->m, step->frame))
		return;
	if (fallback) {
		pick->zone_locked = next;
		pick->frame = next->frame;
	} else {
		if (next->frame != step->frame)
			return;
		pick->extfrag = next;
		pick->migratetype = next->migratetype;
	}
	pick->last = next;
}

static bool fallback_as_told(const struct validate *v, const struct pick *pick)
{
	const struct extfrag *e = &v->told.extfrag;
	const struct step *s = pick->extfrag;

	return v->told.fallback && e->pfn == (int64_t)frame_pfn(v->m, s->frame) &&
	       e->alloc_order == s->order && e->fallback_order == s->fallback_order &&
	       e->alloc_migratetype == s->migratetype &&
	       e->fallback_migratetype == s->fallback_migratetype &&
	       e->change_ownership == s->owner;
}

static bool zone_locked_as_told(const struct validate *v, const struct pick *pick)
{
	const struct told *told = &v->told;

	return told->zone_locked &&
	       told->pfn == (int64_t)frame_pfn(v->m, pick->zone_locked->frame) &&
	       told->migratetype == pick->zone_locked->migratetype;
}

/* Why a page was not where the model had it, as far as that can be told. */
static int cause_of(enum place place)
{
	switch (place) {
	case PLACE_FREE:
		return REPAIR_CAUSE_ROTATED;
	case PLACE_PCP:
		return REPAIR_CAUSE_LOCKED_FREE;
	case PLACE_USED:
		return REPAIR_CAUSE_MISSED_FREE;
	default:
		return REPAIR_CAUSE_UNEXPLAINED;
	}
}

/* The model takes `frame`; the record says `pick`. Both decisions are scored. */
static bool score_pick(struct validate *v, struct zone *zone, const struct pick *pick,
		       uint32_t frame)
{
	bool unknown = is_unknown(v, pick->frame) || (frame != NO_FRAME && is_guess(v, frame));
	bool lock_exact =
		!pick->zone_locked || (frame == pick->frame && zone_locked_as_told(v, pick));
	bool fallback_exact = !pick->extfrag || (frame == pick->frame && fallback_as_told(v, pick));
	enum place place = place_of(v->m, pick->frame);
	struct miss miss = {
		.zone = zone,
		.cause = cause_of(place),
		.order = pick->order,
		.migratetype = pick->migratetype,
		.expected = pfn_or_none(v->m, frame),
		.got = frame_pfn(v->m, pick->frame),
		.place = place,
	};

	if (frame == pick->frame)
		miss.cause = REPAIR_CAUSE_UNEXPLAINED;
	if (pick->zone_locked && (lock_exact || unknown)) {
		score(&v->score, zone, DECISION_ZONE_LOCKED, unknown ? UNKNOWN : EXACT);
	} else if (pick->zone_locked) {
		miss.step = pick->zone_locked;
		miss.decision = DECISION_ZONE_LOCKED;
		missed(v, &miss);
	}
	if (pick->extfrag && (fallback_exact || unknown)) {
		score(&v->score, zone, DECISION_EXTFRAG, unknown ? UNKNOWN : EXACT);
	} else if (pick->extfrag) {
		miss.step = pick->extfrag;
		miss.decision = DECISION_EXTFRAG;
		missed(v, &miss);
	}
	if (frame != pick->frame)
		score_repair(&v->score, zone, miss.cause, 1ull << pick->order);
	return frame == pick->frame;
}

/* A claim of the record that the model did not make: the block changes its owner. */
static void retype(struct model *m, const struct step *extfrag)
{
	if (extfrag->owner && extfrag->fallback_order < m->pageblock_order)
		retype_block(m, extfrag->frame, extfrag->migratetype);
}

/* Whether the next that is heard of a page is a free: it was taken, and no event told. */
static bool is_freed_next(const struct validate *v, uint32_t frame)
{
	const struct step *next = steps_of_frame(&v->steps, NULL, frame);

	return next && (next->kind == EVENT_KIND_FREE || next->kind == EVENT_KIND_FREE_BATCHED);
}

/* A free chunk is none: it left its list, and no event told. */
static void take_vanished(struct validate *v, struct zone *zone, uint32_t chunk)
{
	struct frame *f = &v->m->frames[chunk];

	tell_isolated(v, chunk, f->order);
	free_list_del(v->m, zone, chunk);
	f->state = FRAME_USED;
	f->list = ISOLATED;
	no_guess(v, chunk);
	score_repair(&v->score, zone, REPAIR_CAUSE_ISOLATED, 1ull << f->order);
}

/*
 * Whether 2^order pages from `head`, which the model holds as used, at least in part, are free:
 * the next that is heard of them is that they leave the free lists.
 */
static bool is_free_unheard(const struct validate *v, uint32_t head, int order)
{
	const struct model *m = v->m;
	bool proved = false;
	uint32_t frame = block_head(m, head);

	for (; frame < head + (1u << order); frame += 1u << m->frames[frame].order) {
		const struct step *step;

		if (m->frames[frame].state == FRAME_FREE)
			continue;
		step = steps_of_frame(&v->steps, NULL, frame);
		if (m->frames[frame].state == FRAME_PCP || !step ||
		    step->kind != EVENT_KIND_ALLOC_ZONE_LOCKED)
			return false;
		proved = true;
	}
	return proved && frame == head + (1u << order);
}

/*
 * A free chunk is not on its list. Its buddy may be free as well, and no event told: then the
 * two are one chunk of a higher order. Else it is no free chunk any more.
 */
static void resolve_phantom(struct validate *v, struct zone *zone, uint32_t chunk, int type)
{
	struct model *m = v->m;
	int order = m->frames[chunk].order;
	uint32_t buddy = chunk ^ (1u << order);
	const struct step *step = steps_of_frame(&v->steps, NULL, chunk);

	if (order == m->max_order || !step || step->kind != EVENT_KIND_ALLOC_ZONE_LOCKED ||
	    frame_zone(m, buddy) != zone || !is_free_unheard(v, buddy, order)) {
		take_vanished(v, zone, chunk);
		return;
	}
	seize(m, buddy, order);
	free_one(m, zone, buddy, order, type);
	score_repair(&v->score, zone, REPAIR_CAUSE_MISSED_FREE, 1ull << order);
}

/* The kernel found the lists of a type empty from `least` to below `order`. */
static void empty_lists(struct validate *v, struct zone *zone, int least, int order, int type)
{
	enum { LOOK_AT = 64 };
	int left = LOOK_AT;

	for (int o = least; o < order; o++) {
		uint32_t list = free_list(zone, o, type);

		while (!list_empty(v->m->frames, list) && left-- > 0)
			resolve_phantom(v, zone, v->m->frames[list].next, type);
	}
}

/*
 * The kernel took `pick` where the model had other chunks before it on its list, or of a
 * smaller order: those are no free chunks any more, or the list was cut and turned round.
 */
static void make_first(struct validate *v, struct zone *zone, const struct pick *pick)
{
	enum { LOOK_AT = 16 };
	struct model *m = v->m;
	uint32_t chunk = block_head(m, pick->frame), list, entry, next;
	uint32_t buddy = pick->frame ^ (1u << pick->order);
	const struct frame *f = &m->frames[chunk];
	int type, left = LOOK_AT;

	if (pick->extfrag) {
		if (!v->told.fallback && pick->migratetype <= MIGRATETYPE_RECLAIMABLE)
			empty_lists(v, zone, pick->order, m->max_order + 1, pick->migratetype);
		return;
	}
	if (f->state != FRAME_FREE || frame_zone(m, chunk) != zone)
		return;
	type = f->list;
	if (chunk != pick->frame) {
		/* It was taken by itself: so what it would have merged with is not free. */
		tell_isolated(v, buddy, pick->order);
		seize(m, buddy, pick->order);
		m->frames[buddy].list = ISOLATED;
		score_repair(&v->score, zone, REPAIR_CAUSE_ISOLATED, 1ull << pick->order);
		return;
	}
	empty_lists(v, zone, pick->order, f->order, type);
	list = free_list(zone, f->order, type);
	for (entry = m->frames[list].next; entry != chunk && left--; entry = next) {
		next = m->frames[entry].next;
		if (is_freed_next(v, entry))
			take_vanished(v, zone, entry);
	}
	if (m->frames[list].next != chunk)
		rotate_list(m, list, chunk);
}

/* One page off the free lists, as the model would take it and then as recorded. */
static bool take_pick(struct validate *v, struct zone *zone, const struct request *rq,
		      enum rmqueue_mode *mode, const struct pick *pick)
{
	struct model *m = v->m;
	bool highatomic = pick->zone_locked &&
			  pick->zone_locked->migratetype == MIGRATETYPE_HIGHATOMIC &&
			  m->kernel->zone_locked == ZONE_LOCKED_LIST;
	uint32_t frame;
	bool same;

	v->told = (struct told){0};
	v->extfrag = pick->extfrag;
	frame = highatomic ? take_smallest(m, zone, rq->order, MIGRATETYPE_HIGHATOMIC)
			   : rmqueue_core(m, zone, rq, mode);
	v->extfrag = NULL;
	same = score_pick(v, zone, pick, frame);
	if (same) {
		no_guess(v, frame);
		return true;
	}
	if (frame != NO_FRAME)
		put_back(m, frame, rq->order);
	if (pick->extfrag)
		retype(m, pick->extfrag);
	make_first(v, zone, pick);
	no_guess(v, block_head(m, pick->frame));
	if (m->frames[pick->frame].state == FRAME_USED)
		hear_of(v, pick->frame, false);
	seize(m, pick->frame, pick->order);
	m->frames[pick->frame].list = pick->migratetype;
	story_end(v);
	return false;
}

static void consume(const struct pick *pick)
{
	if (pick->zone_locked)
		((struct step *)pick->zone_locked)->taken = true;
	if (pick->extfrag)
		((struct step *)pick->extfrag)->taken = true;
}

/* A page for one request, past the PCP. */
static void take_direct(struct validate *v, struct zone *zone, struct request *rq,
			const struct pick *pick)
{
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	bool exact = take_pick(v, zone, rq, &mode, pick);

	v->m->frames[pick->frame].list = exact ? AWAITS_ALLOC : AWAITS_ALLOC_MISSED;
	zone_pcp(v->m, zone, pick->last->cpu)->touched = true;
	consume(pick);
}

/* An alloc happens before the step that runs; its own event comes later. */
static void tell_early(struct validate *v, const struct step *alloc)
{
	tell_untold(v, (struct untold){0}, alloc);
}

/* The next alloc of a page that the model holds first on its PCP list takes it. */
static void take_head(struct validate *v, struct step *alloc, struct pcp *pcp)
{
	pcp->touched = true;
	pcp->free_count >>= 1;
	pcp->free_factor >>= 1;
	pcp_remove(v->m, pcp, alloc->frame);
	v->m->frames[alloc->frame].state = FRAME_USED;
	v->m->frames[alloc->frame].list = 0;
}

/* An entry left its list without an event, before row `at` of `event`; 0: the one that runs. */
static void take_unseen(struct validate *v, struct pcp *pcp, uint32_t entry, int migratetype,
			uint64_t at)
{
	struct frame *f = &v->m->frames[entry];

	tell_untold(v,
		    (struct untold){
			    .at = at,
			    .kind = UNTOLD_KIND_ALLOC,
			    .cpu = pcp->cpu,
			    .frame = entry,
			    .order = f->order,
			    .migratetype = migratetype > MIGRATETYPE_RECLAIMABLE
						   ? MIGRATETYPE_MOVABLE
						   : (uint8_t)migratetype,
		    },
		    NULL);
	pcp_remove(v->m, pcp, entry);
	f->state = FRAME_USED;
	f->list = NO_ALLOC;
	f->next = NO_FRAME;
	score_repair(&v->score, &v->m->zones[pcp->zone], REPAIR_CAUSE_UNTRACED_ALLOC,
		     1ull << f->order);
}

/*
 * An entry left its list without an event, as it turns out now: it was the first there, so
 * that was before the entry above it was freed onto it. The row of that free, or 0.
 */
static uint64_t left_before(const struct validate *v, uint32_t entry)
{
	uint64_t running = step_number(&v->steps, v->steps.done)->at;
	uint32_t above = v->m->frames[entry].prev;

	if (above >= v->m->nr_frames || !v->pushed[above])
		return 0;
	return running - (uint32_t)(running - v->pushed[above]);
}

/* The same; those above it that came with the same refill were gone by then. */
static void take_buried(struct validate *v, uint32_t entry)
{
	struct model *m = v->m;
	struct pcp *pcp = &m->pcps[m->frames[entry].list];
	int type = frame_block(m, entry)->migratetype;
	uint32_t top = entry, above, next;
	uint64_t at;

	while ((above = m->frames[top].prev) < m->nr_frames && !v->pushed[above])
		top = above;
	at = left_before(v, top);
	for (; top != entry; top = next) {
		next = m->frames[top].next;
		take_unseen(v, pcp, top, type, at);
	}
	take_unseen(v, pcp, entry, type, at);
}

/*
 * An entry stands before the one that was handed out: it was handed out before. Its alloc
 * is still to come, or there is none. Whether the tape proves that, this alloc aside.
 */
static bool take_untold(struct validate *v, const struct step *step, struct pcp *pcp,
			uint32_t entry, int migratetype)
{
	struct zone *zone = &v->m->zones[pcp->zone];
	int order = v->m->frames[entry].order;
	struct step *alloc = find_alloc(v, step, entry, order, LATE_WITHIN);

	if (alloc) {
		tell_early(v, alloc);
		take_head(v, alloc, pcp);
		alloc->taken = alloc->exact = true;
		score_repair(&v->score, zone, REPAIR_CAUSE_LATE_ALLOC, 1ull << order);
		return true;
	}
	take_unseen(v, pcp, entry, migratetype, 0);
	return is_freed_next(v, entry);
}

/* Pages the zone could still give to a refill. */
static bool has_more(const struct model *m, const struct zone *zone, const struct request *rq)
{
	for (int order = rq->order; order <= m->max_order; order++) {
		const uint32_t *nr = zone->nr_free[order];

		if (nr[rq->migratetype])
			return true;
		if (rq->flags & ALLOC_NOFRAGMENT && order < m->pageblock_order)
			continue;
		if (nr[MIGRATETYPE_UNMOVABLE] || nr[MIGRATETYPE_MOVABLE] ||
		    nr[MIGRATETYPE_RECLAIMABLE])
			return true;
	}
	return false;
}

/*
 * The tuning of the PCP, and the mark of the zone, with which a refill would have had the
 * size it had.
 */
static void tune_refill(struct validate *v, struct zone *zone, struct pcp *pcp,
			const struct pcp *before, const struct pick *pick, int size)
{
	const struct model *m = v->m;
	bool below_high = zone->below_high;

	for (int factor = -1; factor <= m->kernel->pcp_scale_max; factor++) {
		for (int flip = 0; flip < 2; flip++) {
			struct pcp guess = *before;

			if (factor >= 0)
				guess.alloc_factor = (uint8_t)factor;
			zone->below_high = flip ? !below_high : below_high;
			if (pcp_refill_size(m, zone, &guess, pick->order) != size)
				continue;
			tell_untold(v,
				    (struct untold){
					    .kind = UNTOLD_KIND_TUNED,
					    .cpu = pcp->cpu,
					    .frame = pick->frame,
					    .order = pick->order,
					    .migratetype = pick->migratetype,
					    .alloc_factor = factor < 0 ? before->alloc_factor
								       : (uint8_t)factor,
					    .below_high = zone->below_high,
				    },
				    NULL);
			pcp->alloc_factor = guess.alloc_factor;
			pcp->high = guess.high;
			return;
		}
	}
	zone->below_high = below_high;
}

static void score_size(struct validate *v, const struct step *step, struct zone *zone,
		       enum decision decision, int expected, int got, bool exact)
{
	struct miss miss = {
		.step = step,
		.zone = zone,
		.decision = decision,
		.cause = REPAIR_CAUSE_PARAMETER,
		.order = step->order,
		.migratetype = step->migratetype,
		.expected = (uint64_t)expected,
		.got = (uint64_t)got,
		.place = PLACE_PCP,
	};

	if (exact) {
		score(&v->score, zone, decision, EXACT);
	} else if (v->guesses && zone->pcp_unseen) {
		score(&v->score, zone, decision, UNKNOWN);
	} else {
		missed(v, &miss);
		score_repair(&v->score, zone, REPAIR_CAUSE_PARAMETER, (uint64_t)got);
	}
}

/* What a burst of events under the zone's lock is made of. */
struct burst {
	struct zone *zone;
	struct pick first;
	struct step *last;
	int nr;
	bool mixes; /* a pageblock gets a second migratetype */
};

static void read_burst(const struct validate *v, struct step *first, struct burst *burst)
{
	struct model *m = v->m;
	struct pick pick;

	*burst = (struct burst){.zone = frame_zone(m, first->frame)};
	for (struct step *s = first; s && burst->nr < BURST_MAX; s = step_next(&v->steps, s)) {
		if (!is_taking(s) || s->taken || s->order != first->order || s->pid != first->pid ||
		    step_depth(s) != step_depth(first) || frame_zone(m, s->frame) != burst->zone)
			break;
		read_pick(v, s, &pick);
		if (!burst->nr)
			burst->first = pick;
		else if (pick.migratetype != burst->first.migratetype)
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
			read_pick(v, step_next(&v->steps, pick.last), &pick);
		take_pick(v, burst->zone, rq, &mode, &pick);
		pcp_add_refilled(v->m, pcp, rq, pick.frame, last);
		v->pushed[pick.frame] = 0;
		consume(&pick);
		last = pick.frame;
	}
	pcp->touched = true;
	pcp_lock_after_burst(v, pick.last, burst->zone);
}

/* A refill: how large, with what, and who gets the first page. */
static void expect_refill(struct validate *v, struct burst *burst, struct pcp *pcp,
			  struct request *rq, struct step *alloc)
{
	struct pcp before = *pcp;
	int want = pcp_refill_size(v->m, burst->zone, pcp, rq->order);
	/* Where no alloc follows all of it, it may be several, each used up without an event. */
	int size = alloc || burst->nr < want ? burst->nr : want;
	bool exact;

	take_refill(v, burst, pcp, rq, size);
	exact = size == want || (size < want && !has_more(v->m, burst->zone, rq));
	score_size(v, burst->first.last, burst->zone, DECISION_REFILL_SIZE, want, size, exact);
	if (!exact) {
		tune_refill(v, burst->zone, pcp, &before, &burst->first, size);
		story_end(v);
	}
	if (!alloc)
		return;
	tell_early(v, alloc);
	pcp_remove(v->m, pcp, alloc->frame);
	v->m->frames[alloc->frame].state = FRAME_USED;
	v->m->frames[alloc->frame].list = 0;
	alloc->taken = alloc->exact = true;
}

void expect_burst(struct validate *v, struct step *first)
{
	struct model *m = v->m;
	struct burst burst;
	struct request rq;
	struct step *alloc;
	struct pcp *pcp;
	uint32_t list, entry;

	pcp_lock_release(v, first);
	read_burst(v, first, &burst);
	alloc = find_alloc(v, burst.last, burst.first.frame, first->order, ALLOC_WITHIN);
	rq = request_of(m, alloc ? alloc : first);
	rq.migratetype = burst.first.migratetype;
	if (rq.migratetype == MIGRATETYPE_CMA)
		rq.migratetype = MIGRATETYPE_MOVABLE;
	rq.flags = zone_passes(m, &rq, burst.zone, burst.mixes);
	if (!pcp_allowed(m, rq.order) || rq.migratetype > MIGRATETYPE_RECLAIMABLE) {
		if (alloc)
			tell_early(v, alloc);
		take_direct(v, burst.zone, &rq, &burst.first);
		return;
	}
	pcp = zone_pcp(m, burst.zone, first->cpu);
	list = pcp_list(m, pcp, rq.order, rq.migratetype);
	entry = m->frames[list].next;
	if (burst.nr == 1 && pcp->batch > 1 && m->kernel->pcp_miss_to_buddy &&
	    (entry != list || pcp_lock_taken(v, first, burst.zone) ||
	     pcp_lock_remote_ended(v, first, burst.zone))) {
		score_repair(&v->score, burst.zone, REPAIR_CAUSE_LOCKED_ALLOC, 1ull << rq.order);
		if (alloc)
			tell_early(v, alloc);
		take_direct(v, burst.zone, &rq, &burst.first);
		return;
	}
	for (; entry != list && m->kernel->pcp_lists != PCP_LISTS_1; entry = m->frames[list].next)
		take_untold(v, first, pcp, entry, rq.migratetype);
	if (alloc) {
		pcp->free_count >>= 1;
		pcp->free_factor >>= 1;
	}
	expect_refill(v, &burst, pcp, &rq, alloc);
}

/* How deep an entry lies in its list: DEPTH_MAX if it is not there. */
static int depth_of(const struct model *m, uint32_t list, uint32_t frame)
{
	int depth = 0;

	for (uint32_t f = m->frames[list].next; f != list && depth < DEPTH_MAX;
	     f = m->frames[f].next, depth++)
		if (f == frame)
			return depth;
	return DEPTH_MAX;
}

/*
 * Take what stands before the page of `miss` on its list. Whether the tape proves all of
 * that already; else a doubt waits for the rest.
 */
static bool take_those_before(struct validate *v, struct step *step, struct pcp *pcp, uint32_t list,
			      struct miss *miss)
{
	struct model *m = v->m;
	struct doubt *doubt = NULL;
	bool inferred = false;

	miss->cause = REPAIR_CAUSE_UNTRACED_ALLOC;
	while (m->frames[list].next != step->frame) {
		uint32_t entry = m->frames[list].next;
		bool proved = take_untold(v, step, pcp, entry, step->migratetype);

		inferred |= m->frames[entry].list == NO_ALLOC;
		if (proved)
			continue;
		if (!doubt)
			doubt = new_doubt(v, miss);
		if (!doubt)
			continue;
		doubt->waiting++;
		m->frames[entry].next = (uint32_t)(doubt - v->doubts);
	}
	v->totals.alloc_inferred += !doubt && inferred;
	return !doubt;
}

/* The recorded page is not what the model has first on the list: take it all the same. */
static void take_misplaced(struct validate *v, struct step *step, struct pcp *pcp, uint32_t list)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	const struct frame *f = &m->frames[step->frame];
	bool unknown = is_unknown(v, step->frame);
	struct miss miss = {
		.step = step,
		.zone = zone,
		.decision = DECISION_ALLOC,
		.cause = REPAIR_CAUSE_UNEXPLAINED,
		.order = step->order,
		.migratetype = step->migratetype,
		.expected = pcp && m->frames[list].next != list ? frame_pfn(m, m->frames[list].next)
								: NONE,
		.got = frame_pfn(m, step->frame),
		.place = place_of(m, step->frame),
	};
	int depth = DEPTH_MAX;

	if (pcp && f->state == FRAME_PCP && &m->pcps[f->list] == pcp && f->order == step->order)
		depth = depth_of(m, list, step->frame);
	if (depth < DEPTH_MAX) {
		bool late = take_those_before(v, step, pcp, list, &miss);

		take_head(v, step, pcp);
		if (unknown || late)
			score(&v->score, zone, DECISION_ALLOC, unknown ? UNKNOWN : EXACT);
		return;
	} else {
		if (miss.place == PLACE_PCP)
			miss.cause = REPAIR_CAUSE_OTHER_CPU_ALLOC;
		else if (miss.place == PLACE_FREE) {
			miss.cause = REPAIR_CAUSE_CAPTURED;
			tell_captured(v, step->frame, step->order, step->at);
		} else if (miss.place == PLACE_USED)
			miss.cause = REPAIR_CAUSE_MISSED_FREE;
		saw_pcp_page(v, step);
		no_guess(v, block_head(m, step->frame));
		seize(m, step->frame, step->order);
		m->frames[step->frame].list = 0;
	}
	if (unknown) {
		score(&v->score, zone, DECISION_ALLOC, UNKNOWN);
		return;
	}
	if (depth == DEPTH_MAX)
		score_repair(&v->score, zone, miss.cause, 1ull << step->order);
	missed(v, &miss);
	story_end(v);
}

/* Whether an alloc's page is the one that its CPU's PCP would hand out. */
static bool is_first(const struct model *m, const struct step *alloc, struct pcp **pcp)
{
	struct request rq = {.gfp_flags = alloc->gfp_flags,
			     .order = alloc->order,
			     .migratetype = alloc->migratetype};

	if (!pcp_allowed(m, alloc->order) || alloc->migratetype > MIGRATETYPE_RECLAIMABLE)
		return false;
	*pcp = zone_pcp(m, frame_zone(m, alloc->frame), alloc->cpu);
	return pcp_first(m, *pcp, &rq) == alloc->frame &&
	       m->frames[alloc->frame].order == alloc->order;
}

/*
 * An interrupt is about to change the PCP. If it interrupted an alloc that has its page
 * already, that page goes first: else the interrupt would be in its way.
 */
static void settle_interrupted(struct validate *v, const struct step *step)
{
	int depth = v->depths[step->cpu], within = INTERRUPT_WITHIN;
	struct step *s = step_next(&v->steps, step);
	struct pcp *pcp;

	v->depths[step->cpu] = step_depth(step);
	if (step_depth(step) <= depth)
		return;
	while (s && within-- && step_depth(s) >= step_depth(step))
		s = step_next(&v->steps, s);
	if (!s || within < 0 || s->kind != EVENT_KIND_ALLOC || s->taken || !is_first(v->m, s, &pcp))
		return;
	tell_early(v, s);
	take_head(v, s, pcp);
	s->taken = s->exact = true;
	score_repair(&v->score, frame_zone(v->m, s->frame), REPAIR_CAUSE_LATE_ALLOC,
		     1ull << s->order);
}

void expect_alloc(struct validate *v, struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	struct frame *f = &m->frames[step->frame];
	struct pcp *pcp = NULL;
	struct request rq;

	pcp_lock_release(v, step);
	if (!step->taken)
		settle_interrupted(v, step);
	if (step->taken) {
		score(&v->score, zone, DECISION_ALLOC, EXACT);
		return;
	}
	if (f->state == FRAME_USED && f->order == step->order && f->list == NO_ALLOC) {
		hear_of(v, step->frame, true);
		score(&v->score, zone, DECISION_ALLOC, EXACT);
		score_repair(&v->score, zone, REPAIR_CAUSE_LATE_ALLOC, 1ull << step->order);
		return;
	}
	if (f->state == FRAME_USED && f->order == step->order && f->list >= AWAITS_ALLOC_MISSED) {
		struct miss miss = {
			.step = step,
			.zone = zone,
			.decision = DECISION_ALLOC,
			.cause = REPAIR_CAUSE_UNEXPLAINED,
			.order = step->order,
			.migratetype = step->migratetype,
			.expected = NONE,
			.got = frame_pfn(m, step->frame),
			.place = PLACE_USED,
		};

		if (f->list == AWAITS_ALLOC)
			score(&v->score, zone, DECISION_ALLOC, EXACT);
		else if (v->guesses)
			score(&v->score, zone, DECISION_ALLOC, UNKNOWN);
		else
			missed(v, &miss);
		f->list = 0;
		return;
	}
	rq = request_of(m, step);
	zone_passes(m, &rq, zone, false);
	if (is_first(m, step, &pcp)) {
		take_head(v, step, pcp);
		score(&v->score, zone, DECISION_ALLOC, EXACT);
		return;
	}
	take_misplaced(v, step, pcp,
		       pcp ? pcp_list(m, pcp, step->order, step->migratetype) : NO_FRAME);
}

/* A recorded victim, freed by force. */
static void drain_by_force(struct validate *v, struct zone *zone, const struct step *step)
{
	struct model *m = v->m;

	saw_pcp_page(v, step);
	seize(m, step->frame, step->order);
	if (m->kernel->drained_type == DRAINED_BLOCK)
		retype_block(m, step->frame, step->migratetype);
	free_one(m, zone, step->frame, step->order, step->migratetype);
	no_guess(v, block_head(m, step->frame));
}

/*
 * The kernel drained another entry of the list than the model's next one, or, emptying all
 * lists, one of a later list. Those before it are on the PCP no more; or, if the tape shows
 * them there later, they stand elsewhere.
 */
static void skip_phantoms(struct validate *v, struct pcp_drain *drain, uint32_t victim,
			  const struct step *step, bool all_lists)
{
	enum { LOOK_AT = 64, SOON = 256 };
	const struct model *m = v->m;
	struct frame *f = m->frames;
	uint32_t list = pcp_list(m, drain->pcp, step->order, step->migratetype);
	int left = LOOK_AT;

	if (f[step->frame].state != FRAME_PCP || &m->pcps[f[step->frame].list] != drain->pcp)
		return;
	for (; victim != step->frame && victim != NO_FRAME && left--;
	     victim = pcp_drain_next(drain, m)) {
		uint32_t here = drain->pcp->heads + (uint32_t)drain->list;
		const struct step *next = steps_of_frame(&v->steps, step, victim);

		/* Its turn comes: this drain went another way for a moment. */
		if ((here != list && !all_lists) ||
		    (next && next->kind == EVENT_KIND_PCPU_DRAIN && next->at - step->at < SOON))
			return;
		if (next &&
		    (next->kind == EVENT_KIND_PCPU_DRAIN || next->kind == EVENT_KIND_ALLOC)) {
			list_del(f, victim);
			list_add_head(f, here, victim);
		} else {
			take_unseen(v, drain->pcp, victim, frame_block(m, victim)->migratetype,
				    left_before(v, victim));
		}
	}
}

/*
 * The events of one drain against what the model would drain, `pages` from `list` on;
 * `told`: there is no telling how many.
 */
static void compare_drain(struct validate *v, struct step *first, struct pcp *pcp, int pages,
			  int list, bool told)
{
	struct model *m = v->m;
	struct zone *zone = &m->zones[pcp->zone];
	struct step *last = first;
	struct pcp_drain drain;
	int drained = 0;
	int piece = m->kernel->drain_all_pieces ? pcp->batch << m->kernel->pcp_scale_max : INT_MAX;

	pcp_drain_begin(&drain, m, pcp, told ? INT_MAX : pages, list);
	for (struct step *s = first; s; s = step_next(&v->steps, s)) {
		uint32_t victim;
		bool unknown, same;

		if (is_captured(v, s) && s->pid == first->pid && !s->taken) {
			expect_capture(v, s);
			s->taken = true;
			continue;
		}
		if (s->kind != EVENT_KIND_PCPU_DRAIN || s->taken || s->pid != first->pid ||
		    frame_zone(m, s->frame) != zone)
			break;
		if (drain.left <= 0 && !told && drained >= pages)
			drain.left = INT_MAX; /* more than predicted */
		victim = pcp_drain_next(&drain, m);
		/* The next CPU's turn. */
		if ((told || drained >= pages) && last != first &&
		    m->frames[s->frame].state == FRAME_PCP &&
		    &m->pcps[m->frames[s->frame].list] != pcp)
			break;
		unknown = is_unknown(v, s->frame) || victim == NO_FRAME;
		same = victim == s->frame && m->frames[victim].order == s->order;
		v->told = (struct told){0};
		if (same) {
			pcp_drain_take(&drain, m, zone, victim);
			no_guess(v, block_head(m, victim));
			score(&v->score, zone, DECISION_DRAIN, EXACT);
		} else {
			struct miss miss = {
				.step = s,
				.zone = zone,
				.decision = DECISION_DRAIN,
				.cause = place_of(m, s->frame) == PLACE_PCP
						 ? REPAIR_CAUSE_UNEXPLAINED
						 : REPAIR_CAUSE_UNTRACED_ALLOC,
				.order = s->order,
				.migratetype = s->migratetype,
				.expected = pfn_or_none(m, victim),
				.got = frame_pfn(m, s->frame),
				.place = place_of(m, s->frame),
			};

			if (v->guesses && unknown)
				score(&v->score, zone, DECISION_DRAIN, UNKNOWN);
			else
				missed(v, &miss);
			skip_phantoms(v, &drain, victim, s, told);
			drain_by_force(v, zone, s);
			drain.left -= 1 << s->order;
			story_end(v);
		}
		drained += 1 << s->order;
		s->taken = true;
		last = s;
		if (told && (pcp->count <= 0 || drained >= piece))
			break;
	}
	pcp_lock_after_burst(v, last, zone);
	pcp->touched = true;
	pcp_lock_remote(v, pcp, last);
	if (!told)
		score_size(v, first, zone, DECISION_DRAIN_SIZE, pages, drained,
			   drained >= pages && drained < pages + (1 << m->pageblock_order) &&
				   drain.left <= 0);
}

/* The drain that follows an event, or NULL. */
static struct step *following_drain(const struct validate *v, const struct step *step,
				    const struct zone *zone)
{
	struct step *next = step_next(&v->steps, step);
	int within = INTERRUPT_WITHIN;

	/* An interrupt may have come between. */
	while (next && within-- && step_depth(next) > step_depth(step))
		next = step_next(&v->steps, next);
	if (!next || step_depth(next) > step_depth(step) || next->kind != EVENT_KIND_PCPU_DRAIN ||
	    next->taken || next->pid != step->pid || frame_zone(v->m, next->frame) != zone)
		return NULL;
	return next;
}

/*
 * Whether something between a free and a drain, not its overflow from `list` on, asked for
 * that drain: then it begins with list 0.
 */
static bool is_drained_aside(const struct validate *v, const struct step *step,
			     const struct step *drain, const struct pcp *pcp, int list)
{
	const struct compactions *c = &v->start.compactions;
	const struct asides *a = &v->start.asides;

	for (size_t i = c->next; i < c->nr && c->rows[i].at <= drain->at; i++)
		if (c->rows[i].at > step->at && c->rows[i].pid == step->pid)
			return true;
	if (a->next < a->nr && a->rows[a->next].at > step->at && a->rows[a->next].at <= drain->at)
		return true;
	/* The list is not empty, for the page just freed is on it. */
	return v->m->kernel->drain_rule == DRAIN_FROM_INDEX &&
	       pcp_list(v->m, pcp, drain->order, drain->migratetype) != pcp->heads + (uint32_t)list;
}

/*
 * Whether a drain that should be of `pages`, and perhaps some of a last entry more, empties
 * the PCP instead, as drain_all_pages does.
 */
static bool empties(const struct validate *v, const struct step *first, const struct pcp *pcp,
		    int pages)
{
	const struct model *m = v->m;
	int drained = 0, before = 0;

	if (v->guesses && m->zones[pcp->zone].pcp_unseen)
		return false;
	for (const struct step *s = first; s; s = step_next(&v->steps, s)) {
		const struct frame *f = &m->frames[s->frame];

		if (s->kind != EVENT_KIND_PCPU_DRAIN || s->pid != first->pid ||
		    (f->state == FRAME_PCP && &m->pcps[f->list] != pcp))
			break;
		before = drained;
		drained += 1 << s->order;
	}
	/* The model may hold some pages too many. */
	return drained >= pcp->count - pcp->count / 8 && (drained < pages || before >= pages);
}

/* What a free of recorded pages finds in the model. */
static void free_unused(struct validate *v, const struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	enum place place = place_of(m, step->frame);

	if (place == PLACE_PCP)
		take_buried(v, block_head(m, step->frame));
	else if (place == PLACE_FREE) {
		tell_isolated(v, step->frame, step->order);
		score_repair(&v->score, zone, REPAIR_CAUSE_ISOLATED, 1ull << step->order);
	}
	no_guess(v, block_head(m, step->frame));
	seize(m, step->frame, step->order);
}

/* An entry of a list that the tape next shows freed: it was handed out, or will be. */
static uint32_t find_departed(const struct validate *v, const struct pcp *pcp, int type)
{
	const struct model *m = v->m;
	uint32_t list = pcp_list(m, pcp, 0, type);

	if (!v->fates.bits)
		return NO_FRAME;
	for (uint32_t entry = m->frames[list].next; entry != list; entry = m->frames[entry].next)
		if (v->pushed[entry] && fate_of(&v->fates, v->pushed[entry]) == FATE_FREE)
			return entry;
	return NO_FRAME;
}

/*
 * The PCP should have overflown, and did not: it holds fewer pages than the model thinks.
 * Take those of its first entries that were taken without an event; whether there are any.
 */
static bool take_proved(struct validate *v, struct pcp *pcp)
{
	enum { LOOK_AT = 16 };
	struct model *m = v->m;
	int before = pcp->count;

	if (v->guesses && m->zones[pcp->zone].pcp_unseen)
		return false;
	for (int type = MIGRATETYPE_UNMOVABLE; type <= MIGRATETYPE_RECLAIMABLE; type++) {
		uint32_t list = pcp_list(m, pcp, 0, type), next;
		int left = LOOK_AT;

		for (uint32_t entry = m->frames[list].next; entry != list && left--; entry = next) {
			next = m->frames[entry].next;
			if (!is_freed_next(v, entry))
				continue;
			take_unseen(v, pcp, entry, type, 0);
		}
	}
	for (int i = 0; i < 3 && pcp->count == before; i++) {
		static const uint8_t types[] = {MIGRATETYPE_MOVABLE, MIGRATETYPE_UNMOVABLE,
						MIGRATETYPE_RECLAIMABLE};
		uint32_t entry = find_departed(v, pcp, types[i]);

		if (entry != NO_FRAME)
			take_unseen(v, pcp, entry, types[i], left_before(v, entry));
	}
	return pcp->count < before;
}

/* The PCP should have overflown, and did not: so it may hold more than the model thinks. */
static void expect_no_drain(struct validate *v, const struct step *step, struct pcp *pcp, int pages)
{
	struct zone *zone = &v->m->zones[pcp->zone];

	score_size(v, step, zone, DECISION_DRAIN_SIZE, pages, 0, false);
	if (v->m->kernel->pcp_tuning != PCP_AUTO)
		return;
	zone->below_high = false;
	if (pcp->high <= pcp->count)
		pcp->high = pcp->count < pcp->high_max ? pcp->count + 1 : pcp->high_max;
}

/* A free that found the PCP's lock taken. */
static void free_past_lock(struct validate *v, const struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);

	score_repair(&v->score, zone, REPAIR_CAUSE_LOCKED_FREE, 1ull << step->order);
	tell_untold(v,
		    (struct untold){
			    .at = step->at,
			    .kind = UNTOLD_KIND_DIRECT_FREE,
			    .cpu = step->cpu,
			    .frame = step->frame,
			    .order = step->order,
			    .migratetype = frame_block(m, step->frame)->migratetype,
		    },
		    NULL);
	free_direct(m, zone, step->frame, step->order);
	no_guess(v, block_head(m, step->frame));
}

void expect_waiting(struct validate *v, int cpu)
{
	struct remote *remote = &v->remotes[cpu];

	if (!remote->waits)
		return;
	remote->waits = false;
	free_past_lock(v, &remote->free);
}

/* A drain where none was due: the PCP's high was lower than the events tell. */
static void tune_high(struct validate *v, struct pcp *pcp, const struct step *step, int high)
{
	tell_untold(v,
		    (struct untold){
			    .kind = UNTOLD_KIND_TUNED,
			    .cpu = pcp->cpu,
			    .frame = step->frame,
			    .order = step->order,
			    .migratetype = frame_block(v->m, step->frame)->migratetype,
			    .high = high,
		    },
		    NULL);
	pcp->high = high;
}

void expect_free(struct validate *v, struct step *step)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, step->frame);
	const struct frame *f = &m->frames[step->frame];
	struct pcp *pcp = zone_pcp(m, zone, step->cpu);
	struct step *drain;
	int pages, list;

	pcp_lock_release(v, step);
	if (is_given_back(v, step)) {
		expect_given_back(v, step);
		return;
	}
	settle_interrupted(v, step);
	if (f->state != FRAME_USED || f->order != step->order)
		free_unused(v, step);
	else
		hear_of(v, step->frame, true);
	pcp->touched = true;
	if (!pcp_takes(m, step->frame, step->order)) {
		free_direct(m, zone, step->frame, step->order);
		no_guess(v, block_head(m, step->frame));
		return;
	}
	if (pcp_lock_taken(v, step, zone)) {
		free_past_lock(v, step);
		return;
	}
	switch (pcp_lock_of_free(v, step, zone)) {
	case REMOTE_HELD:
		free_past_lock(v, step);
		return;
	case REMOTE_COMES:
		v->remotes[step->cpu].waits = true;
		v->remotes[step->cpu].free = *step;
		return;
	default:
		break;
	}
	if (step->kind == EVENT_KIND_FREE_BATCHED)
		pcp_lock_in_batch(v, step, zone);
	v->pushed[step->frame] = (uint32_t)step->at;
	pages = pcp_commit(m, zone, step->frame, step->order, &list);
	drain = following_drain(v, step, zone);
	if (drain && (is_drained_aside(v, step, drain, pcp, list) || empties(v, drain, pcp, pages)))
		drain = NULL;
	if (drain && !pages && !v->guesses)
		tune_high(v, pcp, step, pcp->count);
	if (drain)
		compare_drain(v, drain, pcp, pages, list, false);
	else if (pages && !take_proved(v, pcp))
		expect_no_drain(v, step, pcp, pages);
	if (pages || drain)
		pcp_committed(m, zone);
}

void expect_drain(struct validate *v, struct step *first)
{
	struct model *m = v->m;
	struct zone *zone = frame_zone(m, first->frame);
	const struct frame *f = &m->frames[first->frame];
	struct pcp *pcp = zone_pcp(m, zone, first->cpu);

	if (f->state == FRAME_PCP)
		pcp = &m->pcps[f->list];
	score_repair(&v->score, zone, REPAIR_CAUSE_DRAINED_ELSEWHERE, 1);
	tell_untold(v,
		    (struct untold){
			    .kind = UNTOLD_KIND_DRAIN,
			    .cpu = pcp->cpu,
			    .frame = first->frame,
			    .order = first->order,
			    .migratetype = first->migratetype,
		    },
		    NULL);
	compare_drain(v, first, pcp, 0, 0, true);
	expect_waiting(v, pcp->cpu);
}

void expect_tick(struct validate *v, const struct aside *aside)
{
	struct model *m = v->m;

	if (m->kernel->decay == DECAY_NONE)
		return;
	for (int z = 0; z < m->nr_zones; z++) {
		struct zone *zone = &m->zones[z];
		struct pcp *pcp = zone_pcp(m, zone, aside->where);
		int pages = pcp_decay(m, pcp);
		struct step *s = steps_coming(&v->steps, aside->where);

		if (!pages)
			continue;
		for (int within = WORKER_WITHIN; s && within--; s = step_next(&v->steps, s))
			if (s->kind == EVENT_KIND_PCPU_DRAIN && !s->taken && s->pid == aside->pid &&
			    frame_zone(m, s->frame) == zone)
				break;
		if (s && s->kind == EVENT_KIND_PCPU_DRAIN && s->pid == aside->pid && !s->taken)
			compare_drain(v, s, pcp, pages, 0, false);
	}
}
