// SPDX-License-Identifier: Apache-2.0
/* One page that leaves the free lists: predicted by the rules, then taken as recorded. */
#include "predict.h"

#include "model/buddy.h"
#include "model/force_state.h"

void read_pick(const struct validate *v, struct window_event *event, struct pick *pick)
{
	bool fallback_first = v->m->kernel->fallback == FALLBACK_MOVE ||
			      v->m->kernel->fallback == FALLBACK_REMAINDERS_OLD;
	bool fallback = event->kind == EVENT_KIND_ALLOC_EXTFRAG;
	struct window_event *next = window_next(&v->window, event);

	*pick = (struct pick){
		.zone_locked = fallback ? NULL : event,
		.extfrag = fallback ? event : NULL,
		.last = event,
		.frame = event->frame,
		.order = event->order,
		.migratetype = event->migratetype,
	};
	if (!next || !is_taking(next) || next->kind == event->kind || next->order != event->order ||
	    event_depth(next) != event_depth(event) || fallback != fallback_first ||
	    frame_zone(v->m, next->frame) != frame_zone(v->m, event->frame))
		return;
	if (fallback) {
		pick->zone_locked = next;
		pick->frame = next->frame;
	} else {
		if (next->frame != event->frame)
			return;
		pick->extfrag = next;
		pick->migratetype = next->migratetype;
	}
	pick->last = next;
}

static bool fallback_as_recorded(const struct validate *v, const struct pick *pick)
{
	const struct extfrag *e = &v->prediction.extfrag;
	const struct window_event *s = pick->extfrag;

	return v->prediction.fallback && e->pfn == (int64_t)frame_pfn(v->m, s->frame) &&
	       e->alloc_order == s->order && e->fallback_order == s->fallback_order &&
	       e->alloc_migratetype == s->migratetype &&
	       e->fallback_migratetype == s->fallback_migratetype &&
	       e->change_ownership == s->owner;
}

static bool zone_locked_as_recorded(const struct validate *v, const struct pick *pick)
{
	const struct prediction *predicted = &v->prediction;

	return predicted->zone_locked &&
	       predicted->pfn == (int64_t)frame_pfn(v->m, pick->zone_locked->frame) &&
	       predicted->migratetype == pick->zone_locked->migratetype;
}

/* The cause of a page's wrong place in the model, as far as known. */
static int cause_of(enum place place)
{
	switch (place) {
	case PLACE_FREE:
		return REPAIR_CAUSE_ROTATED;
	case PLACE_PCP:
		return REPAIR_CAUSE_LOCKED_FREE;
	case PLACE_USED:
		return REPAIR_CAUSE_MISSED_FREE;
	case PLACE_UNKNOWN:
		break;
	}
	return REPAIR_CAUSE_UNEXPLAINED;
}

/* Compare the model's `frame` with the recorded `pick`, and count both decisions. */
static bool count_pick(struct validate *v, struct zone *zone, const struct pick *pick,
		       frame_nr frame)
{
	bool unknown = is_unknown(&v->score, pick->frame) ||
		       (frame != NO_FRAME && is_guess(&v->score, frame));
	bool lock_exact =
		!pick->zone_locked || (frame == pick->frame && zone_locked_as_recorded(v, pick));
	bool fallback_exact =
		!pick->extfrag || (frame == pick->frame && fallback_as_recorded(v, pick));
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
		accuracy_count(&v->score.accuracy, zone, DECISION_ZONE_LOCKED,
			       unknown ? UNKNOWN : EXACT);
	} else if (pick->zone_locked) {
		miss.event = pick->zone_locked;
		miss.decision = DECISION_ZONE_LOCKED;
		missed(&v->score, &miss);
	}
	if (pick->extfrag && (fallback_exact || unknown)) {
		accuracy_count(&v->score.accuracy, zone, DECISION_EXTFRAG,
			       unknown ? UNKNOWN : EXACT);
	} else if (pick->extfrag) {
		miss.event = pick->extfrag;
		miss.decision = DECISION_EXTFRAG;
		missed(&v->score, &miss);
	}
	if (frame != pick->frame)
		accuracy_repair(&v->score.accuracy, zone, miss.cause, 1ull << pick->order);
	return frame == pick->frame;
}

/* The model took `frame`, and the kernel did not: undo it, and the claim for it. */
static void undo_pick(struct validate *v, frame_nr frame, int order)
{
	const struct extfrag *claim = &v->prediction.extfrag;

	put_back(v->m, frame, order);
	if (v->prediction.fallback && claim->change_ownership)
		retype_blocks(v->m, frame, claim->fallback_order, claim->fallback_migratetype);
}

/*
 * A page leaves the free lists but is not on one in the model. Its free had no event, or bypassed
 * the PCP, while the model put it there or took it off again without an event.
 */
static void emit_freed(struct validate *v, const struct pick *pick)
{
	const struct frame *f = &v->m->frames[pick->frame];
	uint32_t pushed = v->whereabouts.pushed[pick->frame];
	bool in_pcp = f->state == FRAME_PCP || (f->state == FRAME_USED && f->list == NO_ALLOC);

	if (in_pcp && f->order == pick->order && pushed)
		emit_block(&v->score, INFERRED_KIND_DIRECT_FREE, pick->frame, pick->order,
			   pick->migratetype, row_of(&v->whereabouts, pushed));
	else
		emit_block(&v->score, INFERRED_KIND_FREE, pick->frame, pick->order,
			   pick->migratetype, 0);
}

/*
 * The order of the free chunk that a page, isolated in the model, was a part of; below 0: none. All
 * of that chunk is still isolated.
 */
static int isolated_chunk(const struct model *m, frame_nr page)
{
	const struct frame *f = &m->frames[block_head(m, page)], *first;

	if (f->state != FRAME_USED || f->list != ISOLATED)
		return -1;
	if (f->order || f->prev > (uint32_t)m->max_order)
		return f->order;
	first = &m->frames[page & ~((1u << f->prev) - 1)];
	for (uint32_t i = 0; i < 1u << f->prev; i++)
		if (first[i].state != FRAME_USED || first[i].list != ISOLATED || first[i].order ||
		    first[i].next != f->next)
			return -1;
	return (int)f->prev;
}

/* A page leaves the free lists of `type`: so no part of its chunk was isolated. */
static void bring_back(struct validate *v, struct zone *zone, const struct pick *pick, int type)
{
	struct model *m = v->m;
	int order = isolated_chunk(m, pick->frame);
	frame_nr head;

	if (order <= pick->order)
		return;
	head = pick->frame & ~((1u << order) - 1);
	emit_block(&v->score, INFERRED_KIND_FREE, head, order, type, 0);
	force_used(m, head, order);
	buddy_put(m, zone, head, order, type, NULL);
}

/* rmqueue_core, with the claim that the record shows. */
static uint32_t take_by_rules(struct validate *v, struct zone *zone, const struct request *rq,
			      enum rmqueue_mode *mode, const struct pick *pick)
{
	frame_nr frame;

	v->extfrag = pick->extfrag;
	frame = rmqueue_core(v->m, zone, rq, mode);
	v->extfrag = NULL;
	return frame;
}

/*
 * 4.20 to 6.8 move the chunk of a fallback, mostly with all free pages of its pageblock, to the
 * requester's lists, and take a page from there. Make the recorded chunk the one that is moved:
 * chunks that the kernel prefers have vanished, or are behind it on its list. Returns whether the
 * model then took the recorded page.
 */
static bool move_recorded(struct validate *v, struct zone *zone, const struct request *rq,
			  enum rmqueue_mode *mode, const struct pick *pick)
{
	struct model *m = v->m;
	const struct window_event *fallback = pick->extfrag;
	const struct frame *f = &m->frames[fallback->frame];
	frame_nr frame, next = chunk_to_move(m, zone, rq);

	if (!rule_is_on(RULE_move_recorded))
		return false;
	if (f->state != FRAME_FREE || frame_zone(m, fallback->frame) != zone ||
	    f->order != fallback->fallback_order || f->list != fallback->fallback_migratetype)
		return false;
	for (int left = FIRST_ENTRIES; left && next != NO_FRAME && next != fallback->frame;
	     left--) {
		if (m->frames[next].order == f->order && m->frames[next].list == f->list)
			turn_list(v, free_list(zone, f->order, f->list), fallback->frame, 0);
		else
			take_vanished(v, zone, next);
		next = chunk_to_move(m, zone, rq);
	}
	if (next != fallback->frame)
		return false;
	frame = take_by_rules(v, zone, rq, mode, pick);
	if (frame != pick->frame && frame != NO_FRAME)
		put_back(m, frame, rq->order);
	return frame == pick->frame;
}

/*
 * Whether the model would move, or claim, a chunk of another pageblock than that of the page, which
 * the kernel used. It must not: nothing shows the places to which the block's pages would have to
 * go back.
 */
static bool moves_other_block(const struct validate *v, const struct zone *zone,
			      const struct request *rq, const struct pick *pick, frame_nr *chunk)
{
	const struct window_event *extfrag = pick->extfrag;

	*chunk = NO_FRAME;
	if (extfrag && v->m->kernel->fallback == FALLBACK_MOVE)
		*chunk = chunk_to_move(v->m, zone, rq);
	else if (extfrag && extfrag->owner)
		*chunk = chunk_to_claim(v->m, zone, rq, extfrag->fallback_order);
	return *chunk != NO_FRAME && frame_block(v->m, *chunk) != frame_block(v->m, pick->frame);
}

/*
 * 6.10 on: make the recorded chunk the one that is claimed. Returns whether the model then took the
 * recorded page.
 */
static bool claim_recorded(struct validate *v, struct zone *zone, const struct request *rq,
			   enum rmqueue_mode *mode, const struct pick *pick)
{
	const struct model *m = v->m;
	frame_nr chunk = chunk_of_fallback(v, pick->extfrag), frame;

	if (chunk == NO_FRAME || m->kernel->fallback < FALLBACK_CLAIM_OR_SPLIT ||
	    !rule_is_on(RULE_claim_recorded))
		return false;
	turn_list(v, free_list(zone, m->frames[chunk].order, m->frames[chunk].list), chunk, 0);
	frame = take_by_rules(v, zone, rq, mode, pick);
	if (frame != pick->frame && frame != NO_FRAME)
		undo_pick(v, frame, rq->order);
	return frame == pick->frame;
}

/* The model's prediction of a pick: its page, or the chunk of another pageblock. */
static uint32_t predict_pick(struct validate *v, struct zone *zone, const struct request *rq,
			     enum rmqueue_mode *mode, const struct pick *pick, bool *other_block)
{
	frame_nr chunk;

	v->prediction = (struct prediction){0};
	*other_block = moves_other_block(v, zone, rq, pick, &chunk);
	return *other_block ? chunk : take_by_rules(v, zone, rq, mode, pick);
}

/*
 * The model took `frame`, and the kernel another page: perhaps before a chunk that another task
 * frees was on its list. Returns whether the model takes the recorded page then.
 */
static bool take_before_free(struct validate *v, struct zone *zone, const struct request *rq,
			     enum rmqueue_mode *mode, const struct pick *pick, frame_nr frame)
{
	struct model *m = v->m;
	const struct prediction first = v->prediction;
	struct direct_free *late = late_direct_free(v, frame, pick->last);
	struct doubtful_free free;
	list_nr behind;
	bool other_block;
	int type;

	if (!late)
		late = late_direct_free(v, pick->frame, pick->last);
	if (!late || v->whereabouts.late_frees.nr == MAX_LATE_FREES || !rule_is_on(RULE_zone_order))
		return false;
	behind = m->frames[block_head(m, late->free.frame)].prev;
	type = m->frames[block_head(m, late->free.frame)].list;
	unmerge_late(v, late);
	frame = predict_pick(v, zone, rq, mode, pick, &other_block);
	if (frame == pick->frame && !other_block &&
	    (!pick->extfrag || fallback_as_recorded(v, pick))) {
		free = (struct doubtful_free){
			late->free, late->by < UINT64_MAX ? late->by : pick->last->at + 1};
		wait_for_doubtful(&v->whereabouts, &free);
		put_off(v, &late->free);
		late->by = 0;
		return true;
	}
	if (frame != NO_FRAME && !other_block)
		undo_pick(v, frame, rq->order);
	m->frames[late->free.frame].list = (uint16_t)type;
	put_back(m, late->free.frame, late->free.order);
	move_behind(m, block_head(m, late->free.frame), behind);
	v->prediction = first;
	return false;
}

/* Whether the model's chunk for a fallback is larger than the recorded one. */
static bool is_too_large(const struct validate *v, const struct pick *pick)
{
	return pick->extfrag && v->prediction.fallback &&
	       v->prediction.extfrag.fallback_order > pick->extfrag->fallback_order;
}

bool take_pick(struct validate *v, struct zone *zone, const struct request *rq,
	       enum rmqueue_mode *mode, const struct pick *pick)
{
	struct model *m = v->m;
	bool highatomic = pick->zone_locked &&
			  pick->zone_locked->migratetype == MIGRATETYPE_HIGHATOMIC &&
			  m->kernel->zone_locked == ZONE_LOCKED_LIST;
	bool other_block = false;
	frame_nr frame;

	join_before(v, pick->frame, 0, pick->last);
	/* The page of a smaller claim may be of another chunk. */
	if (pick->extfrag && pick->extfrag->fallback_order >= m->pageblock_order)
		join_before(v, pick->frame & ~((1u << pick->extfrag->fallback_order) - 1),
			    pick->extfrag->fallback_order, pick->last);
	v->prediction = (struct prediction){0};
	frame = highatomic ? buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_HIGHATOMIC)
			   : predict_pick(v, zone, rq, mode, pick, &other_block);
	if (frame != NO_FRAME && !other_block && (frame != pick->frame || is_too_large(v, pick))) {
		undo_pick(v, frame, rq->order);
		if (take_before_free(v, zone, rq, mode, pick, frame))
			frame = pick->frame;
		else if (frame == pick->frame)
			frame = predict_pick(v, zone, rq, mode, pick, &other_block);
	}
	if (count_pick(v, zone, pick, frame)) {
		no_guess(&v->score, frame);
		return true;
	}
	/* Up to 6.8 a fallback moves chunks first, and the page may be of another one. */
	if (pick->extfrag && m->kernel->fallback >= FALLBACK_CLAIM_OR_SPLIT)
		bring_back(v, zone, pick, pick->extfrag->fallback_migratetype);
	/* Before the claim: it puts its chunks onto lists that were empty. */
	make_first(v, zone, pick, other_block ? NO_FRAME : frame);
	if ((pick->extfrag && move_recorded(v, zone, rq, mode, pick)) ||
	    (other_block && claim_recorded(v, zone, rq, mode, pick))) {
		no_guess(&v->score, pick->frame);
		repaired(&v->score);
		return false;
	}
	if (pick->extfrag && pick->extfrag->owner)
		retype_blocks(m, pick->extfrag->frame, pick->extfrag->fallback_order,
			      pick->extfrag->migratetype);
	no_guess(&v->score, block_head(m, pick->frame));
	bring_back(v, zone, pick, pick->migratetype);
	if (place_of(m, pick->frame) != PLACE_FREE)
		emit_freed(v, pick);
	if (m->frames[pick->frame].state == FRAME_USED)
		resolve_pending_miss(&v->score, pick->frame, false);
	force_used(m, pick->frame, pick->order);
	m->frames[pick->frame].list = pick->migratetype;
	repaired(&v->score);
	return false;
}

void consume(const struct pick *pick)
{
	if (pick->zone_locked)
		((struct window_event *)pick->zone_locked)->taken = true;
	if (pick->extfrag)
		((struct window_event *)pick->extfrag)->taken = true;
}
