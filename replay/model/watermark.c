// SPDX-License-Identifier: Apache-2.0
#include "watermark.h"

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

void boost_zone_times(struct model *m, struct zone *zone, int64_t most, int64_t times)
{
	struct counters *counters = zone_counters(m, zone);
	int64_t block = 1ll << m->pageblock_order, room = most - zone->boost, fit;

	counters->boost_asks += (uint64_t)times;
	if (!m->record->boost_acts || !times)
		return;
	count_boosted_time(m, zone, m->now.ts);
	fit = room > 0 ? (room + block - 1) >> m->pageblock_order : 0;
	counters->boost_saturated += times > fit ? (uint64_t)(times - fit) : 0;
	zone->boost = times < fit ? zone->boost + times * block : most;
	zone->boost_full = zone->boost >= most;
}

void boost_zone(struct model *m, struct zone *zone, int64_t most)
{
	boost_zone_times(m, zone, most, 1);
}

int64_t unusable_pages(const struct model *m, const struct zone *zone, const struct request *rq)
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

bool zone_has_chunk(const struct model *m, const struct zone *zone, const struct request *rq)
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
	return !rq->order || zone_has_chunk(m, zone, rq);
}

bool watermark_ok(const struct model *m, const struct zone *zone, const struct request *rq,
		  int64_t mark)
{
	return watermark_ok_of(m, zone, zone_counted_free(zone), rq, mark);
}

uint64_t zone_free_for(const struct model *m, const struct zone *zone, int order)
{
	uint64_t pages = 0;

	if (!order || !m->kernel->whole_blocks)
		return zone_counted_free(zone);
	for (uint32_t o = (uint32_t)m->pageblock_order; o < NR_PAGE_ORDERS; o++)
		for (int type = 0; type < NR_MIGRATETYPE; type++)
			pages += (uint64_t)zone->nr_free[o][type] << o;
	return pages;
}

int64_t balanced_mark(const struct model *m, const struct zone *zone)
{
	if (m->tiers && zone->wmark_promo)
		return (int64_t)zone->wmark_promo + zone->boost;
	return zone_mark(zone, WMARK_HIGH);
}

bool zone_balanced(const struct model *m, const struct zone *zone, int order, int class_zone)
{
	const struct request rq = {
		.order = (uint8_t)order,
		.migratetype = MIGRATETYPE_UNMOVABLE,
		.class_zone = (uint8_t)class_zone,
	};

	return watermark_ok_of(m, zone, zone_free_for(m, zone, order), &rq, balanced_mark(m, zone));
}

/*
 * zone_watermark_fast, 5.10 to 7.3: which requests of order 0 the min watermark without its boost
 * suffices for.
 */
static bool may_ignore_boost(const struct model *m, const struct request *rq)
{
	if (rq->order)
		return false;
	switch ((enum kernel_unboosted_right)m->kernel->unboosted_right) {
	case UNBOOSTED_NONE:
		break;
	case UNBOOSTED_ATOMIC:
		/* Requests of 6.3 and later say HIGH and no sleep instead. */
		return rq->gfp_flags & GFP_ATOMIC ||
		       (rq->gfp_flags & GFP_HIGH && !(rq->gfp_flags & GFP_DIRECT_RECLAIM));
	case UNBOOSTED_HIGH:
		return rq->flags & ALLOC_HIGH;
	}
	return false;
}

bool watermark_slow(const struct model *m, const struct zone *zone, const struct request *rq,
		    int wmark)
{
	if (watermark_ok(m, zone, rq, zone_mark(zone, wmark)))
		return true;
	return may_ignore_boost(m, rq) && wmark == WMARK_MIN && zone->boost &&
	       watermark_ok(m, zone, rq, zone->wmark[wmark]);
}

void kswapd_woken(struct model *m, int node)
{
	m->record->woken_nodes |= 1ull << (node & 63);
}

void kswapd_begin(struct model *m, int node, int class_zone)
{
	m->record->woken_nodes &= ~(1ull << (node & 63));
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];

		if (tape_node(m, zone->node) != node || zone->type > class_zone)
			continue;
		zone->boost_seen = zone->boost;
		zone->reclaim_active = true;
	}
}

void unboost_zone(struct model *m, struct zone *zone)
{
	count_boosted_time(m, zone, m->now.ts);
	zone->boost = zone->boost_seen = 0;
	zone->boost_full = false;
}

void kswapd_end(struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];

		if (tape_node(m, zone->node) != node)
			continue;
		count_boosted_time(m, zone, m->now.ts);
		zone->boost_full &= !zone->boost_seen;
		zone->boost -= zone->boost < zone->boost_seen ? zone->boost : zone->boost_seen;
		zone->boost_seen = 0;
		zone->reclaim_active = false;
	}
}
