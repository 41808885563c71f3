// SPDX-License-Identifier: Apache-2.0
#include "fallback.h"

#include "buddy.h"
#include "flips.h"
#include "policy_stack.h"
#include "watermark.h"

static int fallback_type(struct model *m, const struct zone *zone, int order, int migratetype)
{
	struct policy *owner = m->policies->owner.fallback_type;

	return owner->ops->fallback_type(owner, zone, order, migratetype);
}

/* can_steal_fallback, should_try_claim_block: 2.6.31 to 6.18. */
static bool may_claim(const struct model *m, int order, int migratetype)
{
	if (order >= m->pageblock_order / 2 || migratetype == MIGRATETYPE_RECLAIMABLE)
		return true;
	return m->kernel->fallback_claims_unmovable && migratetype == MIGRATETYPE_UNMOVABLE;
}

/* Smallest order that may be taken from another list. */
static int lowest_order(const struct model *m, const struct request *rq)
{
	bool bound = rq->order < m->pageblock_order || m->kernel->nofragment_any_order;

	return (rq->flags & ALLOC_NOFRAGMENT) && bound ? m->pageblock_order : rq->order;
}

/* boost_watermark and its callers, 5.0 to 6.18: one pageblock more, up to the policy's limit. */
static void boost(struct model *m, struct zone *zone, const struct request *rq, int trigger)
{
	struct policy *owner = m->policies->owner.watermark_boost;
	int64_t most = owner->ops->watermark_boost(owner, m, zone, trigger);

	if (most)
		boost_zone(m, zone, most);
	/* 5.0 wakes kswapd even without a boost. */
	if (rq->gfp_flags & GFP_KSWAPD_RECLAIM &&
	    (most || (m->kernel->boost == BOOST_ANY_ZONE && trigger == m->kernel->boost_trigger)))
		zone->boosted_watermark = true;
}

/* Whether the policy refuses a fallback. A refused one boosts as if it were made. */
static bool refused(struct model *m, struct zone *zone, const struct request *rq, int order)
{
	struct policy *owner = m->policies->owner.refuse_fallback;

	if (order >= m->pageblock_order || !owner->ops->refuse_fallback(owner, m, zone, rq, order))
		return false;
	boost(m, zone, rq, BOOST_EVERY_FALLBACK);
	return true;
}

/* A fallback was made: boost, notify every policy, count, and emit the event. */
static void report_extfrag(struct model *m, frame_nr frame, const struct request *rq, int order,
			   int migratetype, bool owner)
{
	struct zone *zone = frame_zone(m, frame);
	struct counters *counters = zone_counters(m, zone);
	struct policy *p;

	if (order < m->pageblock_order &&
	    frame_block(m, frame)->migratetype != MIGRATETYPE_HIGHATOMIC)
		boost(m, zone, rq, BOOST_EVERY_FALLBACK);
	for_each_policy (m->policies, p)
		if (p->ops->on_fallback)
			p->ops->on_fallback(p, m, zone, rq, order);
	if (order >= m->pageblock_order)
		counters->fallback_whole++;
	else if (owner)
		counters->fallback_claim++;
	else
		counters->fallback_steal++;
	events_extfrag(m->events, &m->now,
		       &(struct extfrag){
			       .pfn = (int64_t)frame_pfn(m, frame),
			       .alloc_order = rq->order,
			       .fallback_order = order,
			       .alloc_migratetype = rq->migratetype,
			       .fallback_migratetype = migratetype,
			       .change_ownership = owner,
		       });
}

static uint32_t count_free_pages(const struct model *m, uint32_t start, uint32_t end)
{
	uint32_t pages = 0;

	for (frame_nr frame = start; frame < end;) {
		const struct frame *f = &m->frames[frame];

		if (f->state == FRAME_TAIL) {
			frame++;
			continue;
		}
		pages += f->state == FRAME_FREE ? 1u << f->order : 0;
		frame += 1u << f->order;
	}
	return pages;
}

/*
 * The used pages of a chunk's block that are movable. In a block that begins before its zone,
 * kernels with this test (up to 6.8) count from the chunk on.
 */
static uint32_t movable_pages(const struct model *m, frame_nr chunk)
{
	const struct pageblock *block = frame_block(m, chunk);
	uint32_t movable = 0, old = 0;

	if (block_start(m, chunk) >= frame_zone(m, chunk)->start)
		return block->nr_live[MIGRATETYPE_MOVABLE] + block->old_movable;
	for (frame_nr frame = chunk; frame < block_end(m, chunk); frame++) {
		enum frame_state state = m->frames[block_head(m, frame)].state;

		movable += state == FRAME_USED_MOVABLE;
		old += state == FRAME_OLD;
	}
	return movable + (old ? old * block->old_movable / block->nr_old : 0);
}

/* The pages of a block that count as alike for a claim, of which `movable` used ones are movable.
 */
static uint32_t alike_pages(const struct model *m, const struct request *rq,
			    const struct pageblock *block, uint32_t free_pages, uint32_t movable)
{
	uint32_t pages = 1u << m->pageblock_order;

	if (rq->migratetype == MIGRATETYPE_MOVABLE)
		return movable;
	if (block->migratetype == MIGRATETYPE_MOVABLE && free_pages + movable < pages)
		return pages - free_pages - movable;
	return 0;
}

/*
 * The other answer about a claim, if the block can have so many or so few movable pages: which of
 * its old pages are movable is a guess.
 */
static bool flip_claim(struct model *m, const struct request *rq, const struct pageblock *block,
		       struct claim claim, bool answer)
{
	struct policy *owner = m->policies->owner.claim;
	uint32_t live = block->nr_live[MIGRATETYPE_MOVABLE];
	uint32_t least = live + block->old_lru, most = live + block->nr_old;
	bool more = (rq->migratetype == MIGRATETYPE_MOVABLE) != answer;

	claim.alike_pages = alike_pages(m, rq, block, claim.free_pages, more ? most : least);
	if (owner->ops->claim(owner, rq, &claim) == answer)
		return answer;
	m->flips->drawn[FLIP_EXTFRAG]++;
	return !answer;
}

/* Whether the chunk's block, with this many free pages, is to change owner. */
static bool wants_claim(struct model *m, const struct request *rq, frame_nr chunk,
			uint32_t free_pages)
{
	const struct pageblock *block = frame_block(m, chunk);
	struct claim claim = {.chunk_order = m->frames[chunk].order,
			      .free_pages = free_pages,
			      .block_pages = 1u << m->pageblock_order};
	struct policy *owner = m->policies->owner.claim;
	bool answer;

	claim.alike_pages = alike_pages(m, rq, block, free_pages, movable_pages(m, chunk));
	answer = owner->ops->claim(owner, rq, &claim);
	return flip_draw(m, FLIP_EXTFRAG) ? flip_claim(m, rq, block, claim, answer) : answer;
}

/* Take a chunk of at least a pageblock; the requester owns all of it. */
static void take_whole(struct model *m, struct zone *zone, const struct request *rq, frame_nr chunk)
{
	set_block_type(m, chunk, m->frames[chunk].order, rq->migratetype);
	buddy_take(m, zone, chunk, rq->order, rq->migratetype);
}

/* Take the block over and allocate from it. */
static uint32_t take_claimed(struct model *m, struct zone *zone, const struct request *rq,
			     frame_nr chunk)
{
	move_free_pages(m, zone, block_start(m, chunk), block_end(m, chunk), rq->migratetype);
	set_block_type(m, chunk, 0, rq->migratetype);
	return buddy_take_smallest(m, zone, rq->order, rq->migratetype);
}

/*
 * 2.6.31 to 2.6.33: the largest foreign chunk; its remainders keep the old type unless the
 * requester took over the block or enough of it.
 */
static uint32_t fallback_remainders_old(struct model *m, struct zone *zone,
					const struct request *rq)
{
	for (int order = m->max_order; order >= lowest_order(m, rq); order--) {
		int type = fallback_type(m, zone, order, rq->migratetype);
		uint32_t pages = 1u << m->pageblock_order;
		frame_nr chunk;

		if (type < 0 || refused(m, zone, rq, order))
			continue;
		chunk = flip_first(m, free_list(zone, order, type), FLIP_EXTFRAG);
		if (may_claim(m, order, rq->migratetype)) {
			if (move_block(m, zone, chunk, rq->migratetype) >= pages / 2)
				set_block_type(m, chunk, 0, rq->migratetype);
			type = rq->migratetype;
		}
		if (m->kernel->retype_whole_chunk ? order >= m->pageblock_order
						  : order == m->pageblock_order)
			set_block_type(m, chunk, order, rq->migratetype);
		buddy_take(m, zone, chunk, rq->order, type);
		report_extfrag(m, chunk, rq, order, type, type == rq->migratetype);
		return chunk;
	}
	return NO_FRAME;
}

/* The order and type of a fallback in 4.20 to 6.14; false if there is none. */
static bool find_chunk(struct model *m, const struct zone *zone, const struct request *rq,
		       int *order, int *type, bool *can_claim)
{
	int o = m->max_order, t = -1;

	while (o >= lowest_order(m, rq) && (t = fallback_type(m, zone, o, rq->migratetype)) < 0)
		o--;
	if (t < 0)
		return false;
	*can_claim = may_claim(m, o, rq->migratetype);
	/* A MOVABLE page that must mix does less harm in a small chunk. */
	if (!*can_claim && rq->migratetype == MIGRATETYPE_MOVABLE && o > rq->order) {
		o = rq->order;
		while ((t = fallback_type(m, zone, o, rq->migratetype)) < 0)
			o++;
		*can_claim = may_claim(m, o, rq->migratetype);
	}
	*order = o;
	*type = t;
	return true;
}

/*
 * 4.20 to 6.8: move the chunk, or its whole block, to the requester's lists, where the caller finds
 * it (steal_suitable_fallback).
 */
static bool fallback_move(struct model *m, struct zone *zone, const struct request *rq)
{
	uint32_t moved = 0;
	frame_nr chunk;
	struct pageblock *block;
	bool can_claim;
	int order, type;

	if (!find_chunk(m, zone, rq, &order, &type, &can_claim) || refused(m, zone, rq, order))
		return false;
	chunk = flip_first(m, free_list(zone, order, type), FLIP_EXTFRAG);
	block = frame_block(m, chunk);
	if (block->migratetype != MIGRATETYPE_HIGHATOMIC && order >= m->pageblock_order) {
		set_block_type(m, chunk, order, rq->migratetype);
	} else if (block->migratetype != MIGRATETYPE_HIGHATOMIC) {
		if (can_claim) {
			boost(m, zone, rq, BOOST_CLAIM_ATTEMPT);
			moved = move_block(m, zone, chunk, rq->migratetype);
		}
		if (moved && wants_claim(m, rq, chunk, moved))
			block->migratetype = rq->migratetype;
	}
	if (!moved) {
		free_list_del(m, zone, chunk);
		free_list_add(m, zone, chunk, order, rq->migratetype,
			      m->kernel->move_block_to_tail);
	}
	report_extfrag(m, chunk, rq, order, type, block->migratetype == rq->migratetype);
	return true;
}

/* Whether the zone has a free block of at least this order on the lists of a type. */
static bool has_free(const struct model *m, const struct zone *zone, int order, int type)
{
	while (order <= m->max_order && !zone->nr_free[order][type])
		order++;
	return order <= m->max_order;
}

frame_nr chunk_to_move(struct model *m, const struct zone *zone, const struct request *rq)
{
	bool movable = rq->migratetype == MIGRATETYPE_MOVABLE, can_claim;
	int order, type;

	if (m->kernel->fallback != FALLBACK_MOVE || has_free(m, zone, rq->order, rq->migratetype) ||
	    (movable && has_free(m, zone, rq->order, MIGRATETYPE_CMA)) ||
	    !find_chunk(m, zone, rq, &order, &type, &can_claim))
		return NO_FRAME;
	return m->frames[free_list(zone, order, type)].next;
}

frame_nr chunk_to_claim(struct model *m, const struct zone *zone, const struct request *rq,
			int order)
{
	int type = fallback_type(m, zone, order, rq->migratetype);
	bool movable = rq->migratetype == MIGRATETYPE_MOVABLE;

	if (m->kernel->fallback < FALLBACK_CLAIM_OR_SPLIT || type < 0 ||
	    has_free(m, zone, rq->order, rq->migratetype) ||
	    (movable && has_free(m, zone, rq->order, MIGRATETYPE_CMA)))
		return NO_FRAME;
	for (int whole = m->pageblock_order; whole <= m->max_order; whole++)
		if (fallback_type(m, zone, whole, rq->migratetype) >= 0)
			return NO_FRAME;
	return m->frames[free_list(zone, order, type)].next;
}

/* 6.10 to 6.14: claim the block, or take the page and leave the rest to its type. */
static uint32_t fallback_claim_or_split(struct model *m, struct zone *zone,
					const struct request *rq)
{
	frame_nr chunk, frame;
	bool can_claim;
	int order, type;

	if (!find_chunk(m, zone, rq, &order, &type, &can_claim) || refused(m, zone, rq, order))
		return NO_FRAME;
	frame = chunk = flip_first(m, free_list(zone, order, type), FLIP_EXTFRAG);
	if (order >= m->pageblock_order) {
		take_whole(m, zone, rq, chunk);
	} else {
		if (can_claim)
			boost(m, zone, rq, BOOST_CLAIM_ATTEMPT);
		if (can_claim && block_inside(m, zone, chunk) &&
		    wants_claim(m, rq, chunk,
				count_free_pages(m, block_start(m, chunk), block_end(m, chunk))))
			frame = take_claimed(m, zone, rq, chunk);
		else
			buddy_take(m, zone, chunk, rq->order, type);
	}
	report_extfrag(m, frame, rq, order, type,
		       frame_block(m, frame)->migratetype == rq->migratetype);
	return frame;
}

/* __rmqueue_claim, 6.12.29 and 6.15 on: only whole blocks, largest chunk first. */
static uint32_t fallback_claim(struct model *m, struct zone *zone, const struct request *rq)
{
	for (int order = m->max_order; order >= lowest_order(m, rq); order--) {
		int type = fallback_type(m, zone, order, rq->migratetype);
		frame_nr chunk, frame;

		if (!may_claim(m, order, rq->migratetype))
			break;
		if (type < 0)
			continue;
		frame = chunk = flip_first(m, free_list(zone, order, type), FLIP_EXTFRAG);
		if (order >= m->pageblock_order) {
			take_whole(m, zone, rq, chunk);
		} else {
			boost(m, zone, rq, BOOST_CLAIM_ATTEMPT);
			if (!block_inside(m, zone, chunk) ||
			    !wants_claim(m, rq, chunk,
					 count_free_pages(m, block_start(m, chunk),
							  block_end(m, chunk))) ||
			    refused(m, zone, rq, order))
				continue;
			frame = take_claimed(m, zone, rq, chunk);
		}
		report_extfrag(m, frame, rq, order, type, true);
		return frame;
	}
	return NO_FRAME;
}

/* __rmqueue_steal, 6.12.29 and 6.15 on: one page of the smallest foreign chunk. */
static uint32_t fallback_steal(struct model *m, struct zone *zone, const struct request *rq)
{
	for (int order = rq->order; order <= m->max_order; order++) {
		int type = fallback_type(m, zone, order, rq->migratetype);
		frame_nr chunk;

		if (type < 0 || refused(m, zone, rq, order))
			continue;
		chunk = flip_first(m, free_list(zone, order, type), FLIP_EXTFRAG);
		buddy_take(m, zone, chunk, rq->order, type);
		report_extfrag(m, chunk, rq, order, type, false);
		return chunk;
	}
	return NO_FRAME;
}

/* The counters lag behind the lists by their differences (__rmqueue, 5.10 to 7.3). */
static bool cma_first(const struct model *m, const struct zone *zone, const struct request *rq)
{
	return m->kernel->cma_balance && rq->migratetype == MIGRATETYPE_MOVABLE &&
	       zone_counted_cma(zone) > zone_listed_free(zone) / 2;
}

static uint32_t take_own_or_cma(struct model *m, struct zone *zone, const struct request *rq)
{
	frame_nr frame = buddy_take_smallest(m, zone, rq->order, rq->migratetype);

	if (frame == NO_FRAME && rq->migratetype == MIGRATETYPE_MOVABLE)
		frame = buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_CMA);
	return frame;
}

static uint32_t rmqueue_stepwise(struct model *m, struct zone *zone, const struct request *rq,
				 enum rmqueue_mode *mode)
{
	frame_nr frame = NO_FRAME;

	switch (*mode) {
	case RMQUEUE_NORMAL:
		frame = buddy_take_smallest(m, zone, rq->order, rq->migratetype);
		if (frame != NO_FRAME)
			return frame;
		/* fall through */
	case RMQUEUE_CMA:
		if (rq->migratetype == MIGRATETYPE_MOVABLE)
			frame = buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_CMA);
		if (frame != NO_FRAME) {
			*mode = RMQUEUE_CMA;
			return frame;
		}
		/* fall through */
	case RMQUEUE_CLAIM:
		frame = fallback_claim(m, zone, rq);
		if (frame != NO_FRAME) {
			*mode = RMQUEUE_NORMAL;
			return frame;
		}
		/* fall through */
	case RMQUEUE_STEAL:
		if (!(rq->flags & ALLOC_NOFRAGMENT))
			frame = fallback_steal(m, zone, rq);
		if (frame != NO_FRAME)
			*mode = RMQUEUE_STEAL;
	}
	return frame;
}

static uint32_t rmqueue_family(struct model *m, struct zone *zone, const struct request *rq,
			       enum rmqueue_mode *mode)
{
	frame_nr frame;

	switch ((enum kernel_fallback)m->kernel->fallback) {
	case FALLBACK_REMAINDERS_OLD:
		frame = buddy_take_smallest(m, zone, rq->order, rq->migratetype);
		if (frame == NO_FRAME)
			frame = fallback_remainders_old(m, zone, rq);
		return frame;
	case FALLBACK_MOVE:
		frame = take_own_or_cma(m, zone, rq);
		/* With nofragment_any_order a chunk smaller than the request may move. */
		while (frame == NO_FRAME && fallback_move(m, zone, rq))
			frame = buddy_take_smallest(m, zone, rq->order, rq->migratetype);
		return frame;
	case FALLBACK_CLAIM_OR_SPLIT:
		frame = take_own_or_cma(m, zone, rq);
		return frame == NO_FRAME ? fallback_claim_or_split(m, zone, rq) : frame;
	case FALLBACK_CLAIM_THEN_STEAL:
		break;
	}
	return rmqueue_stepwise(m, zone, rq, mode);
}

/*
 * The type in zone_locked if __rmqueue fires it: the requested one. 2.6.32 and 2.6.33 overwrite it
 * when they use MIGRATE_RESERVE, their last resort.
 */
static int asked_type(const struct model *m, const struct request *rq, frame_nr frame)
{
	if (m->kernel->reserve_blocks &&
	    (frame == NO_FRAME || m->frames[frame].list == MIGRATETYPE_RESERVE))
		return MIGRATETYPE_RESERVE;
	return rq->migratetype;
}

/* Whether the zone has a chunk of another migratetype for a request, below pageblock order. */
static bool has_foreign_part(struct model *m, const struct zone *zone, const struct request *rq)
{
	for (int order = rq->order; order < m->pageblock_order; order++)
		if (fallback_type(m, zone, order, rq->migratetype) >= 0)
			return true;
	return false;
}

/* The zone has no page for a request: notify every policy if mixing would have given it one. */
static void report_unmixed(struct model *m, const struct zone *zone, const struct request *rq)
{
	struct policy *p;

	for_each_policy (m->policies, p)
		if (p->ops->on_unmixed && has_foreign_part(m, zone, rq))
			p->ops->on_unmixed(p, m, zone, rq);
}

frame_nr rmqueue_core(struct model *m, struct zone *zone, const struct request *rq,
		      enum rmqueue_mode *mode)
{
	frame_nr frame = NO_FRAME;

	if (cma_first(m, zone, rq))
		frame = buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_CMA);
	if (frame == NO_FRAME)
		frame = rmqueue_family(m, zone, rq, mode);
	if (frame == NO_FRAME && rq->flags & ALLOC_NOFRAGMENT)
		report_unmixed(m, zone, rq);
	/* A pageblock of the reserve is foreign to every type, so NOFRAGMENT does not use it. */
	if (frame == NO_FRAME && m->kernel->reserve_blocks && !(rq->flags & ALLOC_NOFRAGMENT)) {
		frame = buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_RESERVE);
		if (frame != NO_FRAME)
			zone_counters(m, zone)->reserve_taken += 1ull << rq->order;
	}
	if (m->kernel->zone_locked == ZONE_LOCKED_ALWAYS ||
	    (m->kernel->zone_locked == ZONE_LOCKED_WITH_PAGE && frame != NO_FRAME))
		report_zone_locked(m, frame, rq->order, asked_type(m, rq, frame));
	return frame;
}

bool could_take(const struct model *m, const struct zone *zone, const struct request *rq)
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
