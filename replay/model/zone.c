// SPDX-License-Identifier: Apache-2.0
#include "zone.h"

#include "pcp.h"
#include "policy_stack.h"
#include "reclaim_ops.h"
#include "slow_path.h"
#include "slow_path_turns.h"
#include "zonelist_scan.h"
#include "watermark.h"
#include "zonelist.h"

int gfp_class_zone(const struct model *m, uint32_t gfp_flags)
{
	if (gfp_flags & GFP_DMA)
		return ZONE_DMA;
	if (gfp_flags & GFP_DMA32)
		return ZONE_DMA32;
	if ((gfp_flags & (GFP_MOVABLE | GFP_HIGHMEM)) == (GFP_MOVABLE | GFP_HIGHMEM))
		return ZONE_MOVABLE;
	return gfp_flags & GFP_HIGHMEM && m->has_highmem ? ZONE_HIGHMEM : ZONE_NORMAL;
}

int gfp_migratetype(uint32_t gfp_flags)
{
	if (gfp_flags & GFP_MOVABLE)
		return MIGRATETYPE_MOVABLE;
	return gfp_flags & GFP_RECLAIMABLE ? MIGRATETYPE_RECLAIMABLE : MIGRATETYPE_UNMOVABLE;
}

/* Count the live block of 2^order pages into, or out of, the nr_live of its pageblocks. */
static inline void count_live(struct model *m, frame_nr head, int order, int sign)
{
	int type = m->frames[head].state - FRAME_USED_UNMOVABLE, part = order;
	uint32_t end = head + (1u << order), pageblock = 1u << m->pageblock_order;

	if (part > m->pageblock_order)
		part = m->pageblock_order;
	frame_block(m, head)->nr_live[type] += (uint16_t)(sign * (1 << part));
	while (__builtin_expect((head += pageblock) < end, 0))
		frame_block(m, head)->nr_live[type] += (uint16_t)(sign * (1 << part));
}

void zone_mark_live(struct model *m, frame_nr head, int order, int migratetype)
{
	m->frames[head].state = (uint8_t)(FRAME_USED_UNMOVABLE + live_type(migratetype));
	count_live(m, head, order, 1);
}

/* Requests above order 0 that a reserve is for, whether or not they may sleep. */
static bool is_reserve_order(const struct request *rq)
{
	return rq->order && rq->order <= PCP_MAX_ORDER;
}

static bool may_sleep(const struct request *rq)
{
	return rq->gfp_flags & GFP_DIRECT_RECLAIM;
}

static void count_atomic_order(struct model *m, const struct zone *preferred, frame_nr frame)
{
	struct counters *counters = zone_counters(m, preferred);

	if (frame == NO_FRAME) {
		counters->atomic_orders_failed++;
		return;
	}
	counters->atomic_orders++;
	counters->atomic_orders_reserve +=
		frame_block(m, frame)->migratetype == MIGRATETYPE_RESERVE;
}

/* A failure is final, unless the caller moves pages and tries again. */
static void count_sleeping_order(struct model *m, const struct request *rq,
				 const struct zone *preferred, frame_nr frame)
{
	struct counters *counters = zone_counters(m, preferred);

	if (frame == NO_FRAME) {
		counters->sleeping_orders_failed += !rq->makes_room && !rq->whole_first;
		return;
	}
	counters->sleeping_orders++;
	counters->sleeping_orders_reserve +=
		frame_block(m, frame)->migratetype == MIGRATETYPE_RESERVE;
}

void zone_unmark_live(struct model *m, frame_nr head, int order)
{
	if (frame_is_live(m->frames[head].state))
		count_live(m, head, order, -1);
	m->frames[head].state = FRAME_USED;
}

/* Count a request that got a block of a zone. */
static void hand_out(struct model *m, const struct request *rq, const struct zone *zone,
		     const struct zone *preferred, frame_nr frame)
{
	struct counters *counters = zone_counters(m, zone);

	counters->allocs++;
	counters->alloc_pages += 1ull << rq->order;
	if (zone != preferred) {
		counters->remote_node += zone->node != preferred->node;
		counters->lower_zone += zone_is_lower(zone, preferred);
	}
	zone_mark_live(m, frame, rq->order, rq->migratetype);
}

void zone_hand_out(struct model *m, const struct request *rq, frame_nr head)
{
	const struct zone *preferred = zone_preferred(m, rq);

	if (is_reserve_order(rq) && may_sleep(rq))
		count_sleeping_order(m, rq, preferred, head);
	hand_out(m, rq, frame_zone(m, head), preferred, head);
}

frame_nr zone_alloc(struct model *m, struct request *rq)
{
	struct policy *owner = m->policies->owner.nofragment;
	struct zonelist_scan scan = {
		.list = zonelist_of(m, rq),
		.preferred = zone_preferred(m, rq),
		.mark = WMARK_LOW,
	};
	enum nofragment_span nofragment;
	frame_nr frame;

	if (!scan.preferred)
		return NO_FRAME;
	nofragment = owner->ops->nofragment(owner, m, rq, scan.preferred);
	scan.local_only = nofragment == NOFRAGMENT_FIRST_PASS;
	rq->flags = slow_path_rights_at_once(m, rq) |
		    (nofragment == NOFRAGMENT_OFF ? 0u : ALLOC_NOFRAGMENT);
	frame = scan_zones(m, rq, &scan);
	if (frame == NO_FRAME && rq->light)
		return NO_FRAME;
	if (frame == NO_FRAME)
		frame = slow_path_alloc(m, rq, &scan, nofragment == NOFRAGMENT_ALWAYS);
	if (is_reserve_order(rq) && may_sleep(rq))
		count_sleeping_order(m, rq, scan.preferred, frame);
	else if (is_reserve_order(rq))
		count_atomic_order(m, scan.preferred, frame);
	if (frame != NO_FRAME)
		hand_out(m, rq, scan.served, scan.preferred, frame);
	return frame;
}

static bool in_reach(const struct model *m, const struct request *rq, const struct zone *zone,
		     struct reach reach)
{
	int class = distance_class(m, rq->node, zone->node);

	return zone->type <= rq->class_zone && class >= reach.near && class <= reach.far;
}

frame_nr zone_alloc_within(struct model *m, struct request *rq, struct reach reach, int wmark)
{
	struct zonelist_scan scan = {
		.list = zonelist_of(m, rq),
		.preferred = zone_preferred(m, rq),
		.mark = wmark,
	};

	rq->flags = wmark == WMARK_LOW ? slow_path_rights_at_once(m, rq)
				       : slow_path_rights(m, rq) | ALLOC_SLOW;
	for (int i = 0; i < scan.list->nr; i++) {
		struct zone *zone = scan.list->zones[i];
		frame_nr frame;

		if (!in_reach(m, rq, zone, reach))
			continue;
		frame = scan_zone(m, zone, rq, &scan);
		if (frame == NO_FRAME)
			continue;
		scan.served = zone;
		hand_out(m, rq, scan.served, scan.preferred, frame);
		return frame;
	}
	return NO_FRAME;
}

bool zone_has_block(const struct model *m, const struct request *rq)
{
	const struct zonelist *list = zonelist_of(m, rq);
	struct request slow = *rq;

	slow.flags = slow_path_rights(m, rq) | ALLOC_SLOW;
	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone &&
		    watermark_fast(m, list->zones[i], &slow, WMARK_MIN))
			return true;
	return false;
}

bool zone_has_within(const struct model *m, const struct request *rq, struct reach reach, int wmark)
{
	const struct zonelist *list = zonelist_of(m, rq);
	struct request single = *rq;

	single.order = 0;
	single.flags = wmark == WMARK_LOW ? 0 : slow_path_rights(m, &single);
	for (int i = 0; i < list->nr; i++)
		if (in_reach(m, rq, list->zones[i], reach) &&
		    watermark_fast(m, list->zones[i], &single, wmark))
			return true;
	return false;
}

void zone_look_again(struct model *m, const struct request *rq)
{
	slow_path_start(m, rq, zone_preferred(m, rq));
}

frame_nr zone_alloc_by_turns(struct model *m, struct request *rq)
{
	struct zonelist_scan scan = {
		.list = zonelist_of(m, rq),
		.preferred = zone_preferred(m, rq),
		.mark = WMARK_MIN,
	};
	frame_nr frame;

	if (!m->reclaim_ops)
		return NO_FRAME;
	rq->flags = slow_path_rights(m, rq) | ALLOC_SLOW;
	frame = slow_path_turns(m, rq, &scan);
	if (frame != NO_FRAME)
		hand_out(m, rq, scan.served, scan.preferred, frame);
	return frame;
}

static void forget_old(struct model *m, frame_nr head, int order, bool movable)
{
	for (uint32_t i = 0; i < 1u << order; i++)
		pageblock_forget_old(frame_block(m, head + i), movable);
	block_set_used(m, head, order);
}

void zone_forget_old(struct model *m, frame_nr head, int order)
{
	forget_old(m, head, order, false);
}

const struct free_request plain_free = {.drain_pages = -1};

void zone_free(struct model *m, frame_nr head, int order)
{
	zone_free_as(m, head, order, &plain_free);
}

void zone_free_as(struct model *m, frame_nr head, int order, const struct free_request *how)
{
	struct zone *zone = frame_zone(m, head);
	struct counters *counters = zone_counters(m, zone);

	if (frame_is_live(m->frames[head].state))
		count_live(m, head, order, -1);
	else if (m->frames[head].state == FRAME_OLD)
		forget_old(m, head, order, how->movable);
	counters->frees++;
	counters->free_pages += 1ull << order;
	pcp_free(m, zone, head, order, how);
}
