// SPDX-License-Identifier: Apache-2.0
#include "zone.h"

#include "buddy.h"
#include "fallback.h"
#include "feedback.h"
#include "lock_queue.h"
#include "pcp.h"
#include "policy_stack.h"

#include <errno.h>
#include <stdlib.h>

enum {
	HIGHATOMIC_SHARE = 100, /* the reserve is at most 1/100 of a zone */
	MAX_RETRIES = 16,       /* of direct reclaim: MAX_RECLAIM_RETRIES */
};

int gfp_class_zone(uint32_t gfp_flags)
{
	if (gfp_flags & GFP_DMA)
		return ZONE_DMA;
	if (gfp_flags & GFP_DMA32)
		return ZONE_DMA32;
	if ((gfp_flags & (GFP_MOVABLE | GFP_HIGHMEM)) == (GFP_MOVABLE | GFP_HIGHMEM))
		return ZONE_MOVABLE;
	return gfp_flags & GFP_HIGHMEM ? ZONE_HIGHMEM : ZONE_NORMAL;
}

int64_t boost_limit(const struct model *m, const struct zone *zone, int64_t factor)
{
	int64_t block = 1ll << m->pageblock_order, high = zone->wmark[WMARK_HIGH];
	int64_t most = high / 10000 * factor + high % 10000 * factor / 10000;

	if (!most || (m->kernel->boost != BOOST_ANY_ZONE && zone->managed < 4 * (uint64_t)block))
		return 0;
	return most > block ? most : block;
}

void count_boosted_time(struct model *m, struct zone *zone, uint64_t ts)
{
	struct counters *counters = zone_counters(m, zone);

	if (zone->boost && ts > zone->boosted_at) {
		counters->boosted_ns += ts - zone->boosted_at;
		if (zone->boost_full)
			counters->boost_saturated_ns += ts - zone->boosted_at;
	}
	zone->boosted_at = ts;
}

void boost_zone(struct model *m, struct zone *zone, int64_t most)
{
	struct counters *counters = zone_counters(m, zone);
	int64_t block = 1ll << m->pageblock_order;

	counters->boost_asks++;
	if (!m->boost_acts)
		return;
	count_boosted_time(m, zone, m->now.ts);
	counters->boost_saturated += zone->boost >= most;
	zone->boost = zone->boost + block < most ? zone->boost + block : most;
	zone->boost_full = zone->boost >= most;
}

int gfp_migratetype(uint32_t gfp_flags)
{
	if (gfp_flags & GFP_MOVABLE)
		return MIGRATETYPE_MOVABLE;
	return gfp_flags & GFP_RECLAIMABLE ? MIGRATETYPE_RECLAIMABLE : MIGRATETYPE_UNMOVABLE;
}

/* Pages of a zone that a request without rights may not count on. */
static int64_t unusable_pages(const struct model *m, const struct zone *zone,
			      const struct request *rq)
{
	uint32_t rights = ALLOC_HARDER;
	int64_t pages = 0;

	if (m->kernel->watermark != WATERMARK_HARDER)
		rights |= ALLOC_HIGH | ALLOC_HIGHATOMIC;
	if (!(rq->flags & rights))
		pages = (int64_t)(m->kernel->watermark == WATERMARK_GRADED_FREE
					  ? zone->nr_free_highatomic
					  : zone->nr_reserved_highatomic);
	if (rq->migratetype != MIGRATETYPE_MOVABLE)
		pages += (int64_t)zone->nr_free_cma;
	return pages;
}

static bool has_chunk(const struct model *m, const struct zone *zone, const struct request *rq)
{
	for (int order = rq->order; order <= m->max_order; order++) {
		const uint32_t *nr_free = zone->nr_free[order];

		if (nr_free[MIGRATETYPE_UNMOVABLE] || nr_free[MIGRATETYPE_MOVABLE] ||
		    nr_free[MIGRATETYPE_RECLAIMABLE])
			return true;
		if (nr_free[MIGRATETYPE_RESERVE])
			return true;
		if (rq->migratetype == MIGRATETYPE_MOVABLE && nr_free[MIGRATETYPE_CMA])
			return true;
		if (rq->flags & ALLOC_HIGHATOMIC && nr_free[MIGRATETYPE_HIGHATOMIC])
			return true;
	}
	return false;
}

/* zone_watermark_ok of 2.6.31 to 2.6.33: small chunks do not count for large requests. */
static bool watermark_ok_per_order(const struct zone *zone, uint64_t nr_free,
				   const struct request *rq, int64_t mark)
{
	int64_t free = (int64_t)nr_free - (1ll << rq->order) + 1, min = mark;

	if (rq->flags & ALLOC_HIGH)
		min -= min / 2;
	if (rq->flags & ALLOC_HARDER)
		min -= min / 4;
	if (free <= min + zone->lowmem_reserve[rq->class_zone])
		return false;
	for (int order = 0; order < rq->order; order++) {
		for (int type = 0; type < NR_MIGRATETYPE; type++)
			free -= (int64_t)zone->nr_free[order][type] << order;
		min >>= 1;
		if (free <= min)
			return false;
	}
	return true;
}

bool watermark_ok_of(const struct model *m, const struct zone *zone, uint64_t nr_free,
		     const struct request *rq, int64_t mark)
{
	int64_t free = (int64_t)nr_free - (1ll << rq->order) + 1, min = mark;

	if (m->kernel->watermark == WATERMARK_PER_ORDER)
		return watermark_ok_per_order(zone, nr_free, rq, mark);
	if (rq->flags & ALLOC_HIGH)
		min -= min / 2;
	if (m->kernel->watermark == WATERMARK_HARDER) {
		if (rq->flags & ALLOC_HARDER)
			min -= min / 4;
	} else if (rq->flags & ALLOC_HIGH && rq->flags & ALLOC_HARDER) {
		min -= min / 4;
	}
	free -= unusable_pages(m, zone, rq);
	if (free <= min + zone->lowmem_reserve[rq->class_zone])
		return false;
	return !rq->order || has_chunk(m, zone, rq);
}

bool watermark_ok(const struct model *m, const struct zone *zone, const struct request *rq,
		  int64_t mark)
{
	return watermark_ok_of(m, zone, zone->nr_free_pages, rq, mark);
}

uint64_t zone_free_for(const struct model *m, const struct zone *zone, int order)
{
	uint64_t pages = 0;

	if (!order || !m->kernel->whole_blocks)
		return zone->nr_free_pages;
	for (uint32_t o = (uint32_t)m->pageblock_order; o < NR_PAGE_ORDERS; o++)
		for (int type = 0; type < NR_MIGRATETYPE; type++)
			pages += (uint64_t)zone->nr_free[o][type] << o;
	return pages;
}

/* The rest of zone_watermark_fast. */
static bool watermark_slow(const struct model *m, const struct zone *zone, const struct request *rq,
			   int wmark)
{
	if (watermark_ok(m, zone, rq, zone_mark(zone, wmark)))
		return true;
	return m->kernel->min_reserve_unboosted && !rq->order && rq->flags & ALLOC_HIGH &&
	       wmark == WMARK_MIN && zone->boost && watermark_ok(m, zone, rq, zone->wmark[wmark]);
}

/* zone_watermark_fast: order 0 first by the plain mark, most requests end here. */
static inline bool watermark_fast(const struct model *m, const struct zone *zone,
				  const struct request *rq, int wmark)
{
	int64_t free = (int64_t)zone->nr_free_pages;

	if (!rq->order && m->kernel->watermark != WATERMARK_PER_ORDER) {
		if (m->kernel->fast_counts_highatomic)
			free -= unusable_pages(m, zone, rq);
		else if (rq->migratetype != MIGRATETYPE_MOVABLE)
			free -= (int64_t)zone->nr_free_cma;
		if (free > zone_mark(zone, wmark) + zone->lowmem_reserve[rq->class_zone])
			return true;
	}
	return watermark_slow(m, zone, rq, wmark);
}

/* The most pages a zone reserves. */
static uint64_t highatomic_limit(const struct model *m, const struct zone *zone)
{
	uint64_t block = 1ull << m->pageblock_order, share = zone->managed / HIGHATOMIC_SHARE;

	if (m->kernel->highatomic != HIGHATOMIC_PERCENT)
		return share + block;
	return share < block ? 0 : (share + block - 1) / block * block;
}

/* reserve_highatomic_pageblock: what a high-order atomic request got stays with its kind. */
static void reserve_highatomic(struct model *m, struct zone *zone, uint32_t frame, int order)
{
	uint64_t block = 1ull << m->pageblock_order;

	if (zone->nr_reserved_highatomic >= highatomic_limit(m, zone) ||
	    frame_block(m, frame)->migratetype > MIGRATETYPE_RECLAIMABLE)
		return;
	if (!m->kernel->highatomic_whole_chunk || order < m->pageblock_order)
		order = 0;
	else
		block = 1ull << order;
	if (m->kernel->highatomic_whole_chunk && !order && !block_inside(m, zone, frame))
		return;
	zone->nr_reserved_highatomic += block;
	set_block_type(m, frame, order, MIGRATETYPE_HIGHATOMIC);
	move_block(m, zone, frame, MIGRATETYPE_HIGHATOMIC);
}

/* Give the pageblock of a free chunk back; whether that moved pages. */
static bool unreserve_chunk(struct model *m, struct zone *zone, uint32_t chunk, int migratetype)
{
	uint64_t block = 1ull << m->pageblock_order;
	int order = m->frames[chunk].order;

	if (!m->kernel->highatomic_whole_chunk || order < m->pageblock_order)
		order = 0;
	else
		block = 1ull << order;
	if (frame_block(m, chunk)->migratetype == MIGRATETYPE_HIGHATOMIC)
		zone->nr_reserved_highatomic -=
			zone->nr_reserved_highatomic < block ? zone->nr_reserved_highatomic : block;
	if (m->kernel->highatomic_whole_chunk && !order && !block_inside(m, zone, chunk))
		return false;
	set_block_type(m, chunk, order, migratetype);
	return move_block(m, zone, chunk, migratetype);
}

/*
 * unreserve_highatomic_pageblock: one block of the first allowed zone that has one; if not forced,
 * that has more than one.
 */
static bool unreserve_highatomic(struct model *m, const struct zonelist *list,
				 const struct request *rq, bool force)
{
	uint64_t block = 1ull << m->pageblock_order;

	for (int i = 0; i < list->nr; i++) {
		struct zone *zone = list->zones[i];

		if (zone->type > rq->class_zone ||
		    (!force && zone->nr_reserved_highatomic <= block))
			continue;
		for (int order = 0; order <= m->max_order; order++) {
			uint32_t head = free_list(zone, order, MIGRATETYPE_HIGHATOMIC);

			if (zone->nr_free[order][MIGRATETYPE_HIGHATOMIC] &&
			    unreserve_chunk(m, zone, m->frames[head].next, rq->migratetype))
				return true;
		}
	}
	return false;
}

/* rmqueue_buddy: past the PCP. */
static uint32_t alloc_direct(struct model *m, struct zone *zone, const struct request *rq)
{
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	struct counters *counters = zone_counters(m, zone);
	uint32_t frame = NO_FRAME;

	counters->lock_holds++;
	zone_pcp(m, zone, m->now.cpu)->touched = true;
	if (rq->flags & ALLOC_HIGHATOMIC)
		frame = take_smallest(m, zone, rq->order, MIGRATETYPE_HIGHATOMIC);
	if (frame != NO_FRAME && m->kernel->zone_locked != ZONE_LOCKED_LIST)
		report_zone_locked(m, frame, rq->order, rq->migratetype);
	if (frame == NO_FRAME)
		frame = rmqueue_core(m, zone, rq, &mode);
	if (frame == NO_FRAME && m->kernel->highatomic_last && rq->flags & ALLOC_HARDER)
		frame = take_smallest(m, zone, rq->order, MIGRATETYPE_HIGHATOMIC);
	counters->buddy_allocs += frame != NO_FRAME;
	lock_held(m, zone, ZONE_LOCK_KIND_ALLOC, frame != NO_FRAME);
	return frame;
}

static uint32_t rmqueue(struct model *m, struct zone *zone, const struct request *rq)
{
	bool pcp = !m->pcp_locked && pcp_allowed(m, rq->order) &&
		   rq->migratetype <= MIGRATETYPE_RECLAIMABLE;
	uint32_t frame = pcp ? pcp_alloc(m, zone, rq) : NO_FRAME;

	if (frame == NO_FRAME && (!pcp || m->kernel->pcp_miss_to_buddy))
		frame = alloc_direct(m, zone, rq);
	if (zone->boosted_watermark && rq->gfp_flags & GFP_KSWAPD_RECLAIM) {
		zone->boosted_watermark = false;
		zone_counters(m, zone)->kswapd_wakes++;
		if (m->feedback)
			feedback_wake_boosted(m->feedback, zone);
	}
	return frame;
}

/* One walk of a zonelist. */
struct walk {
	const struct zonelist *list;
	struct zone *preferred;
	struct zone *served; /* where it found the frame it returned */
	int mark;            /* WMARK_* */
	bool local_only;     /* NOFRAGMENT gives way before the walk leaves the node */
};

static bool has_cpu(const struct model *m, int node);

/*
 * node_reclaim, 2.6.31 to 6.18: reclaim nearby before the walk goes on; whether that made
 * room. Only on the CPU's own node, or on one that has no CPU. How much of the node's page
 * cache is unmapped (min_unmapped_ratio) is not known: it counts as enough.
 */
static bool reclaimed_node(struct model *m, struct zone *zone, const struct request *rq,
			   const struct walk *walk)
{
	int from = walk->preferred->node, to = zone->node;

	if (!(rq->gfp_flags & GFP_DIRECT_RECLAIM) || rq->light ||
	    m->node_distances[from * m->nr_nodes + to] > m->zone_reclaim_distance ||
	    (to != m->cpu_nodes[m->now.cpu] && has_cpu(m, to)))
		return false;
	zone_counters(m, zone)->node_reclaims++;
	return m->feedback && feedback_node_reclaim(m->feedback, zone, rq) &&
	       watermark_ok(m, zone, rq, zone_mark(zone, walk->mark));
}

static uint32_t serve_from(struct model *m, struct zone *zone, struct request *rq,
			   const struct walk *walk)
{
	bool above = rq->flags & ALLOC_NO_WATERMARKS;
	uint32_t frame;

	if (m->kernel->below_high && !zone->below_high) {
		if (watermark_fast(m, zone, rq, WMARK_HIGH))
			above = true;
		else
			zone->below_high = true;
	}
	if (!above && !watermark_fast(m, zone, rq, walk->mark) &&
	    !(m->zone_reclaim_distance && reclaimed_node(m, zone, rq, walk)))
		return NO_FRAME;
	frame = rmqueue(m, zone, rq);
	if (frame != NO_FRAME && rq->flags & ALLOC_HIGHATOMIC)
		reserve_highatomic(m, zone, frame, rq->order);
	return frame;
}

/* One pass; under a NOFRAGMENT that is bound to the node it ends where the node ends. */
static uint32_t walk_once(struct model *m, struct request *rq, struct walk *walk)
{
	for (int i = 0; i < walk->list->nr; i++) {
		struct zone *zone = walk->list->zones[i];
		uint32_t frame;

		if (zone->type > rq->class_zone)
			continue;
		if (rq->flags & ALLOC_NOFRAGMENT && walk->local_only &&
		    zone->node != walk->preferred->node)
			break;
		frame = serve_from(m, zone, rq, walk);
		if (frame != NO_FRAME) {
			walk->served = zone;
			return frame;
		}
	}
	return NO_FRAME;
}

/* get_page_from_freelist: local but mixed beats remote and unmixed. */
static uint32_t walk_zones(struct model *m, struct request *rq, struct walk *walk)
{
	uint32_t frame = walk_once(m, rq, walk);

	if (frame != NO_FRAME || !walk->local_only || !(rq->flags & ALLOC_NOFRAGMENT))
		return frame;
	rq->flags &= ~(uint32_t)ALLOC_NOFRAGMENT;
	zone_counters(m, walk->preferred)->nofragment_retries++;
	return walk_once(m, rq, walk);
}

/* A zone is tried, and has nothing for the request. */
static void pass_over(struct model *m, struct zone *zone, const struct request *rq)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	uint32_t list;

	if (!watermark_fast(m, zone, rq, WMARK_LOW) || !pcp_allowed(m, rq->order) ||
	    rq->migratetype > MIGRATETYPE_RECLAIMABLE)
		return;
	list = pcp_list(m, pcp, rq->order, rq->migratetype);
	pcp->free_factor >>= 1;
	pcp->free_count >>= 1;
	if (list_empty(m->frames, list))
		pcp_refill_size(m, zone, pcp, rq->order);
}

static void mark_below_high(const struct model *m, struct zone *zone, const struct request *rq)
{
	if (m->kernel->below_high && !zone->below_high && !watermark_fast(m, zone, rq, WMARK_HIGH))
		zone->below_high = true;
}

void zone_mark_tried(struct model *m, int cpu, uint32_t gfp_flags, int order)
{
	struct request rq = {
		.gfp_flags = gfp_flags,
		.order = (uint8_t)order,
		.migratetype = (uint8_t)gfp_migratetype(gfp_flags),
		.class_zone = (uint8_t)gfp_class_zone(gfp_flags),
		.node = m->cpu_nodes[cpu],
	};
	const struct zonelist *list =
		gfp_flags & GFP_THISNODE ? &m->thisnode[rq.node] : &m->fallback[rq.node];

	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq.class_zone)
			mark_below_high(m, list->zones[i], &rq);
}

/* One pass over the zones before `last`, which is NULL if it serves none. */
static void pass_over_until(struct model *m, const struct zonelist *list, const struct request *rq,
			    const struct zone *last)
{
	for (int i = 0; i < list->nr && list->zones[i] != last; i++) {
		if (list->zones[i]->type > rq->class_zone)
			continue;
		mark_below_high(m, list->zones[i], rq);
		pass_over(m, list->zones[i], rq);
	}
}

const struct zonelist *zonelist_of(const struct model *m, const struct request *rq)
{
	int list = rq->node;

	if (m->zone_parts > 1)
		list = list * m->zone_parts + m->now.cpu % m->zone_parts;
	return rq->gfp_flags & GFP_THISNODE ? &m->thisnode[list] : &m->fallback[list];
}

struct zone *zone_preferred(const struct model *m, const struct request *rq)
{
	const struct zonelist *list = zonelist_of(m, rq);

	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone)
			return list->zones[i];
	return NULL;
}

uint32_t zone_passes(struct model *m, const struct request *rq, struct zone *zone, bool mixes)
{
	const struct zonelist *list = zonelist_of(m, rq);
	struct policy *owner = m->policies->owner.nofragment;
	const struct zone *preferred = zone_preferred(m, rq);
	uint32_t flags;

	if (!preferred)
		return 0;
	flags = owner->ops->nofragment(owner, m, rq, preferred) == NOFRAGMENT_OFF
			? 0
			: ALLOC_NOFRAGMENT;
	if (flags && mixes) {
		pass_over_until(m, list, rq, NULL);
		flags = 0;
	}
	if (zone != preferred)
		pass_over_until(m, list, rq, zone);
	mark_below_high(m, zone, rq);
	return flags;
}

/* gfp_to_alloc_flags: what the slow path grants. */
static uint32_t slow_path_rights(const struct model *m, const struct request *rq)
{
	bool may_sleep = rq->gfp_flags & GFP_DIRECT_RECLAIM, high = rq->gfp_flags & GFP_HIGH;
	/* 2.6 lets NOMEMALLOC keep the right. */
	bool harder = !may_sleep && (m->kernel->watermark == WATERMARK_PER_ORDER ||
				     !(rq->gfp_flags & GFP_NOMEMALLOC));
	uint32_t flags = high ? ALLOC_HIGH : 0;

	/* __GFP_ATOMIC went with 6.3; since then its holders say HIGH and do not sleep. */
	if (m->kernel->watermark == WATERMARK_HARDER)
		harder &= high || rq->gfp_flags & GFP_ATOMIC;
	if (harder)
		flags |= ALLOC_HARDER;
	if (harder && rq->order && m->kernel->highatomic != HIGHATOMIC_NONE &&
	    (high || !m->kernel->highatomic_needs_high))
		flags |= ALLOC_HIGHATOMIC;
	return flags;
}

/* How often an allocation reclaims in vain before it gives up (__alloc_pages_slowpath, 6.18). */
static int most_tries(const struct request *rq)
{
	bool costly = rq->order > PCP_MAX_ORDER;

	/* It has compacted in vain, and that is all such a request is worth. */
	if (costly && rq->gfp_flags & GFP_NORETRY)
		return 0;
	if (rq->gfp_flags & GFP_NORETRY || (costly && !(rq->gfp_flags & GFP_RETRY_MAYFAIL)))
		return 1;
	return MAX_RETRIES;
}

static bool any_on_pcps(const struct model *m)
{
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++)
		if (m->pcps[i].count)
			return true;
	return false;
}

/* Nothing is held back from the request any longer; whether anything was. */
static bool free_reserves(struct model *m, const struct zonelist *list, const struct request *rq)
{
	bool any = any_on_pcps(m);

	/* A tape may ask for HIGHATOMIC pages: what goes back to itself never ends. */
	while (rq->migratetype != MIGRATETYPE_HIGHATOMIC && unreserve_highatomic(m, list, rq, true))
		any = true;
	pcp_drain_all(m);
	return any;
}

/*
 * The kernel's direct reclaim, as the record shows it, freed its pages and the request finds
 * none of them (__alloc_pages_direct_reclaim, 6.1 to 6.18): a block of the reserve is given up,
 * and the PCPs are drained, unless the record's drains are played by themselves.
 */
static uint32_t alloc_reclaimed(struct model *m, struct request *rq, struct walk *walk)
{
	if (rq->migratetype != MIGRATETYPE_HIGHATOMIC)
		unreserve_highatomic(m, walk->list, rq, false);
	if (!m->drains_told)
		pcp_drain_all(m);
	return walk_zones(m, rq, walk);
}

/*
 * The record shows that the request was served, by pages that reclaim freed or found; so no mark
 * counts. Only where there is no page at all the run takes what the kernel held back.
 */
static uint32_t alloc_granted(struct model *m, struct request *rq, struct walk *walk)
{
	uint32_t frame;

	/* For so many pages the kernel compacts rather than go below the mark elsewhere. */
	if (rq->makes_room && rq->order > PCP_MAX_ORDER)
		return NO_FRAME;
	rq->flags |= ALLOC_NO_WATERMARKS;
	frame = walk_zones(m, rq, walk);
	if (frame == NO_FRAME && !rq->makes_room && free_reserves(m, walk->list, rq))
		frame = walk_zones(m, rq, walk);
	return frame;
}

/* __alloc_pages_direct_reclaim, again and again: a frame, or NO_FRAME. */
static uint32_t alloc_reclaiming(struct model *m, struct request *rq, struct walk *walk)
{
	uint32_t frame = NO_FRAME;

	for (int tries = feedback_tried(m->feedback, rq->order);
	     tries < most_tries(rq) && frame == NO_FRAME; tries++) {
		if (!feedback_direct(m->feedback, walk->list, rq))
			break;
		frame = walk_zones(m, rq, walk);
		if (frame == NO_FRAME) {
			free_reserves(m, walk->list, rq);
			frame = walk_zones(m, rq, walk);
		}
	}
	zone_counters(m, walk->preferred)->would_fail += frame == NO_FRAME;
	return frame;
}

bool zone_probe(struct model *m, struct request *rq)
{
	const struct zonelist *list = zonelist_of(m, rq);

	rq->flags = slow_path_rights(m, rq);
	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone &&
		    watermark_fast(m, list->zones[i], rq, WMARK_MIN))
			return false;
	if (rq->gfp_flags & GFP_KSWAPD_RECLAIM)
		feedback_wake_all(m->feedback, list, rq);
	feedback_direct(m->feedback, list, rq);
	return true;
}

/* The slow path begins: it is counted, and wakes kswapd. */
static void start_slow(struct model *m, const struct request *rq, const struct zone *preferred)
{
	struct counters *counters = zone_counters(m, preferred);

	counters->below_low++;
	counters->kswapd_wakes += (rq->gfp_flags & GFP_KSWAPD_RECLAIM) != 0;
	if (m->feedback && rq->gfp_flags & GFP_KSWAPD_RECLAIM)
		feedback_wake_all(m->feedback, zonelist_of(m, rq), rq);
}

__attribute__((noinline)) static uint32_t alloc_slow(struct model *m, struct request *rq,
						     struct walk *walk, bool nofragment)
{
	struct counters *counters = zone_counters(m, walk->preferred);
	uint32_t frame;

	start_slow(m, rq, walk->preferred);
	walk->mark = WMARK_MIN;
	rq->flags = slow_path_rights(m, rq) | ALLOC_SLOW | (nofragment ? ALLOC_NOFRAGMENT : 0);
	frame = walk_zones(m, rq, walk);
	if (frame == NO_FRAME && m->feedback && m->feedback->stalled) {
		m->feedback->stalled = false;
		rq->flags |= ALLOC_STALLED;
		frame = walk_zones(m, rq, walk);
	}
	if (frame != NO_FRAME)
		return frame;
	counters->below_min++;
	if (m->feedback && rq->gfp_flags & GFP_DIRECT_RECLAIM) {
		frame = alloc_reclaiming(m, rq, walk);
		if (frame != NO_FRAME)
			return frame;
	}
	if (m->feedback) {
		free_reserves(m, walk->list, rq);
		frame = walk_zones(m, rq, walk);
	} else if (m->reclaimed) {
		frame = alloc_reclaimed(m, rq, walk);
	}
	if (frame == NO_FRAME)
		frame = alloc_granted(m, rq, walk);
	if (frame == NO_FRAME && nofragment) {
		rq->flags &= ~(uint32_t)ALLOC_NOFRAGMENT;
		counters->nofragment_retries++;
		frame = walk_zones(m, rq, walk);
	}
	counters->failed += frame == NO_FRAME && !rq->makes_room;
	return frame;
}

/* Count the live block of 2^order pages into, or out of, the nr_live of its pageblocks. */
static inline void count_live(struct model *m, uint32_t head, int order, int sign)
{
	int type = m->frames[head].state - FRAME_USED_UNMOVABLE;
	uint32_t end = head + (1u << order);

	if (order > m->pageblock_order)
		order = m->pageblock_order;
	do {
		frame_block(m, head)->nr_live[type] += (uint16_t)(sign * (1 << order));
		head += 1u << m->pageblock_order;
	} while (head < end);
}

void zone_mark_live(struct model *m, uint32_t head, int order, int migratetype)
{
	int type = migratetype <= MIGRATETYPE_RECLAIMABLE ? migratetype : MIGRATETYPE_UNMOVABLE;

	m->frames[head].state = (uint8_t)(FRAME_USED_UNMOVABLE + type);
	count_live(m, head, order, 1);
}

/* The requests a reserve is for: more than a page, and no time to make them. */
static bool is_atomic_order(const struct request *rq)
{
	return rq->order && rq->order <= PCP_MAX_ORDER && !(rq->gfp_flags & GFP_DIRECT_RECLAIM);
}

static void count_atomic_order(struct model *m, const struct zone *preferred, uint32_t frame)
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

void zone_unmark_live(struct model *m, uint32_t head, int order)
{
	if (frame_is_live(m->frames[head].state))
		count_live(m, head, order, -1);
	m->frames[head].state = FRAME_USED;
}

/* A request got a block of a zone: count it. */
static void hand_out(struct model *m, const struct request *rq, const struct zone *zone,
		     const struct zone *preferred, uint32_t frame)
{
	struct counters *counters = zone_counters(m, zone);

	counters->allocs++;
	counters->alloc_pages += 1ull << rq->order;
	if (zone != preferred) {
		counters->remote_node += zone->node != preferred->node;
		counters->lower_zone +=
			zone->node == preferred->node && zone->type != preferred->type;
	}
	zone_mark_live(m, frame, rq->order, rq->migratetype);
}

void zone_hand_out(struct model *m, const struct request *rq, uint32_t head)
{
	hand_out(m, rq, frame_zone(m, head), zone_preferred(m, rq), head);
}

uint32_t zone_alloc(struct model *m, struct request *rq)
{
	struct policy *owner = m->policies->owner.nofragment;
	struct walk walk = {
		.list = zonelist_of(m, rq),
		.preferred = zone_preferred(m, rq),
		.mark = WMARK_LOW,
	};
	enum nofragment_span nofragment;
	uint32_t frame;

	if (!walk.preferred)
		return NO_FRAME;
	nofragment = owner->ops->nofragment(owner, m, rq, walk.preferred);
	walk.local_only = nofragment == NOFRAGMENT_FIRST_PASS;
	rq->flags = nofragment == NOFRAGMENT_OFF ? 0 : ALLOC_NOFRAGMENT;
	frame = walk_zones(m, rq, &walk);
	if (frame == NO_FRAME && rq->light)
		return NO_FRAME;
	if (frame == NO_FRAME)
		frame = alloc_slow(m, rq, &walk, nofragment == NOFRAGMENT_ALWAYS);
	if (is_atomic_order(rq))
		count_atomic_order(m, walk.preferred, frame);
	if (frame != NO_FRAME)
		hand_out(m, rq, walk.served, walk.preferred, frame);
	return frame;
}

static bool in_reach(const struct model *m, const struct request *rq, const struct zone *zone,
		     struct reach reach)
{
	int class = distance_class(m, rq->node, zone->node);

	return zone->type <= rq->class_zone && class >= reach.near && class <= reach.far;
}

uint32_t zone_alloc_within(struct model *m, struct request *rq, struct reach reach, int wmark)
{
	struct walk walk = {
		.list = zonelist_of(m, rq),
		.preferred = zone_preferred(m, rq),
		.mark = wmark,
	};

	rq->flags = wmark == WMARK_LOW ? 0 : slow_path_rights(m, rq) | ALLOC_SLOW;
	for (int i = 0; i < walk.list->nr; i++) {
		struct zone *zone = walk.list->zones[i];
		uint32_t frame;

		if (!in_reach(m, rq, zone, reach))
			continue;
		frame = serve_from(m, zone, rq, &walk);
		if (frame == NO_FRAME)
			continue;
		walk.served = zone;
		hand_out(m, rq, walk.served, walk.preferred, frame);
		return frame;
	}
	return NO_FRAME;
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
	start_slow(m, rq, zone_preferred(m, rq));
}

bool zone_reclaim_for(struct model *m, const struct request *rq)
{
	return m->feedback && rq->gfp_flags & GFP_DIRECT_RECLAIM &&
	       feedback_direct(m->feedback, zonelist_of(m, rq), rq);
}

void zone_forget_old(struct model *m, uint32_t head, int order)
{
	for (uint32_t i = 0; i < 1u << order; i++) {
		struct pageblock *block = frame_block(m, head + i);

		/* Which of a block's old pages are movable is unknown: the share stays. */
		block->old_movable = (uint16_t)((uint32_t)block->old_movable *
						(block->nr_old - 1u) / block->nr_old);
		block->old_lru -= block->old_lru > 0;
		block->nr_old--;
	}
	block_set(m, head, order, FRAME_USED);
}

void zone_free(struct model *m, uint32_t head, int order)
{
	struct zone *zone = frame_zone(m, head);
	struct counters *counters = zone_counters(m, zone);

	if (frame_is_live(m->frames[head].state))
		count_live(m, head, order, -1);
	else if (m->frames[head].state == FRAME_OLD)
		zone_forget_old(m, head, order);
	counters->frees++;
	counters->free_pages += 1ull << order;
	pcp_free(m, zone, head, order);
}

void kswapd_begin(struct model *m, int node, int class_zone)
{
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];

		if (told_node(m, zone->node) != node || zone->type > class_zone)
			continue;
		zone->boost_seen = zone->boost;
		zone->reclaim_active = true;
	}
}

void kswapd_end(struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];

		if (told_node(m, zone->node) != node)
			continue;
		count_boosted_time(m, zone, m->now.ts);
		zone->boost_full &= !zone->boost_seen;
		zone->boost -= zone->boost < zone->boost_seen ? zone->boost : zone->boost_seen;
		zone->boost_seen = 0;
		zone->reclaim_active = false;
	}
}

static int distance(const uint8_t *distances, const struct model *m, int from, int to)
{
	return distances[from * m->nr_nodes + to];
}

static bool has_cpu(const struct model *m, int node)
{
	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		if (m->cpu_nodes[cpu] == node)
			return true;
	return false;
}

static bool has_zone(const struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node)
			return true;
	return false;
}

/*
 * find_next_best_node: the nearest unused node with memory; among equals lower load,
 * a node's own CPUs and a lower number count against it. -1 when all are used.
 */
static int next_node(const struct model *m, const uint8_t *distances, int node, const bool *used,
		     const int *load)
{
	int best = -1;
	int64_t best_value = INT64_MAX;

	if (!used[node] && has_zone(m, node))
		return node;
	for (int n = 0; n < m->nr_nodes; n++) {
		int64_t value = distance(distances, m, node, n) + (n < node) + has_cpu(m, n);

		value = value * m->nr_nodes + load[n];
		if (used[n] || !has_zone(m, n) || value >= best_value)
			continue;
		best_value = value;
		best = n;
	}
	return best;
}

static void append_node(const struct model *m, struct zonelist *list, int node)
{
	for (int type = NR_ZONE - 1; type >= 0; type--)
		for (int i = 0; i < m->nr_zones; i++)
			if (m->zones[i].node == node && m->zones[i].type == type)
				list->zones[list->nr++] = &m->zones[i];
}

/* build_zonelists, node order: load makes equally far nodes take turns. */
static void build_zonelist(struct model *m, const uint8_t *distances, int node, bool *used,
			   int *load)
{
	int previous = node, next;

	for (int n = 0; n < m->nr_nodes; n++)
		used[n] = false;
	append_node(m, &m->thisnode[node * m->zone_parts], node);
	while ((next = next_node(m, distances, node, used, load)) >= 0) {
		if (distance(distances, m, node, next) != distance(distances, m, node, previous))
			load[next]++;
		append_node(m, &m->fallback[node * m->zone_parts], next);
		used[next] = true;
		previous = next;
	}
}

/* The list of part 0 for another part: the parts of each zone begin with that one. */
static void turn_parts(struct zonelist *list, const struct zonelist *first, int part)
{
	int length;

	list->nr = first->nr;
	for (int i = 0; i < first->nr; i += length) {
		struct zone *const *run = first->zones + i;

		length = 1;
		while (i + length < first->nr && run[length]->node == run[0]->node &&
		       run[length]->type == run[0]->type)
			length++;
		for (int j = 0; j < length; j++)
			list->zones[i + j] = run[(j + part) % length];
	}
}

/* How many different distances of a node are shorter than that to another; itself: 0. */
static int classify(const struct model *m, int from, int to)
{
	const uint8_t *row = m->node_distances + from * m->nr_nodes;
	bool seen[UINT8_MAX + 1] = {false};
	int class = 0;

	for (int node = 0; from != to && node < m->nr_nodes; node++) {
		class += row[node] < row[to] && !seen[row[node]];
		seen[row[node]] = true;
	}
	return class;
}

int zonelists_new(struct model *m, struct error *err)
{
	const uint8_t *distances = m->node_distances;
	size_t nodes = (size_t)m->nr_nodes, zones = (size_t)m->nr_zones;
	size_t lists = nodes * (size_t)m->zone_parts;
	struct zone **entries = calloc(2 * lists * zones, sizeof(*entries));
	bool *used = calloc(nodes, sizeof(*used));
	int *load = calloc(nodes, sizeof(*load));

	m->fallback = calloc(2 * lists, sizeof(*m->fallback));
	m->distance_classes = calloc(nodes * nodes, sizeof(*m->distance_classes));
	if (!entries || !m->fallback || !m->distance_classes || !used || !load) {
		free(entries);
		free(used);
		free(load);
		return fail(err, ENOMEM, "no memory for the zonelists of %d nodes", m->nr_nodes);
	}
	m->thisnode = m->fallback + lists;
	for (size_t i = 0; i < 2 * lists; i++)
		m->fallback[i].zones = entries + i * zones;
	for (int node = 0; node < m->nr_nodes; node++) {
		build_zonelist(m, distances, node, used, load);
		for (int to = 0; to < m->nr_nodes; to++)
			m->distance_classes[node * m->nr_nodes + to] =
				(uint8_t)classify(m, node, to);
	}
	for (size_t i = 0; i < 2 * lists; i++)
		if (i % (size_t)m->zone_parts)
			turn_parts(&m->fallback[i], &m->fallback[i - i % (size_t)m->zone_parts],
				   (int)(i % (size_t)m->zone_parts));
	free(used);
	free(load);
	return 0;
}

void zonelists_by_zone(struct model *m)
{
	for (int list = 0; list < m->nr_nodes * m->zone_parts; list++) {
		struct zone **zones = m->fallback[list].zones;

		/* Insertion keeps the order of nodes among equals. */
		for (int i = 1; i < m->fallback[list].nr; i++) {
			struct zone *zone = zones[i];
			int at = i;

			for (; at && zones[at - 1]->type < zone->type; at--)
				zones[at] = zones[at - 1];
			zones[at] = zone;
		}
	}
}

void zonelists_free(struct model *m)
{
	if (m->fallback)
		free(m->fallback[0].zones);
	free(m->fallback);
	free(m->distance_classes);
}
