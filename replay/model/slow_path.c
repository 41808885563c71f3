// SPDX-License-Identifier: Apache-2.0
#include "slow_path.h"

#include "highatomic.h"
#include "owed.h"
#include "pcp.h"
#include "reclaim_ops.h"
#include "slow_path_turns.h"
#include "watermark.h"
#include "zonelist.h"
#include "zonelist_scan.h"

uint32_t slow_path_rights(const struct model *m, const struct request *rq)
{
	bool may_sleep = rq->gfp_flags & GFP_DIRECT_RECLAIM, high = rq->gfp_flags & GFP_HIGH;
	/* 2.6 does not take the right from NOMEMALLOC. */
	bool harder = !may_sleep && (m->kernel->watermark == WATERMARK_PER_ORDER ||
				     !(rq->gfp_flags & GFP_NOMEMALLOC));
	uint32_t flags = high ? ALLOC_HIGH : 0;

	/* 6.3 removed __GFP_ATOMIC; such requests now say HIGH and do not sleep. */
	if (m->kernel->watermark == WATERMARK_HARDER)
		harder &= high || rq->gfp_flags & GFP_ATOMIC;
	if (harder)
		flags |= ALLOC_HARDER;
	if (harder && rq->order && m->kernel->highatomic != HIGHATOMIC_NONE &&
	    (high || !m->kernel->highatomic_needs_high))
		flags |= ALLOC_HIGHATOMIC;
	return flags;
}

uint32_t slow_path_rights_at_once(const struct model *m, const struct request *rq)
{
	return m->kernel->highatomic_first ? slow_path_rights(m, rq) & ALLOC_HIGHATOMIC : 0;
}

static bool any_on_pcps(const struct model *m)
{
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++)
		if (m->pcps[i].count)
			return true;
	return false;
}

/* Unreserve HIGHATOMIC and drain every PCP for a request. Returns whether that freed pages. */
static bool free_reserves(struct model *m, const struct zonelist *list, const struct request *rq)
{
	bool any = any_on_pcps(m);

	/* A tape may request HIGHATOMIC pages. Unreserving to HIGHATOMIC would loop forever. */
	while (rq->migratetype != MIGRATETYPE_HIGHATOMIC && unreserve_highatomic(m, list, rq, true))
		any = true;
	pcp_drain_all(m);
	return any;
}

/*
 * The record shows direct reclaim, and the request still finds no page
 * (__alloc_pages_direct_reclaim, 6.1 to 6.18): unreserve a pageblock and drain the PCPs, unless
 * the drains come as inferred rows.
 */
static uint32_t alloc_reclaimed(struct model *m, struct request *rq, struct zonelist_scan *scan)
{
	if (rq->migratetype != MIGRATETYPE_HIGHATOMIC)
		unreserve_highatomic(m, scan->list, rq, false);
	if (!m->record->drains_inferred)
		pcp_drain_all(m);
	return scan_zones(m, rq, scan);
}

/* Pages that a zone has above its min watermark for a request; 0 and fewer do not suffice. */
static int64_t spare_pages(const struct model *m, const struct zone *zone, const struct request *rq)
{
	int64_t unusable =
		m->kernel->watermark == WATERMARK_PER_ORDER ? 0 : unusable_pages(m, zone, rq);

	return (int64_t)zone_counted_free(zone) - zone_mark(zone, WMARK_MIN) -
	       zone->lowmem_reserve[rq->class_zone] - unusable;
}

/*
 * The zone that serves a request for which reclaim freed pages. Where that is the record's, it is
 * the first one with a chunk and half of its min watermark: there the next requests look for the
 * pages that pay its advance. Else the one that lacks the fewest pages. NULL: none.
 */
static struct zone *granting_zone(const struct model *m, const struct request *rq,
				  const struct zonelist *list)
{
	struct zone *best = NULL;
	int64_t most = INT64_MIN;

	for (int i = 0; i < list->nr; i++) {
		struct zone *zone = list->zones[i];
		int64_t spare = spare_pages(m, zone, rq);

		if (zone->type > rq->class_zone || !zone_has_chunk(m, zone, rq))
			continue;
		if (!m->reclaim_ops && spare > -(zone_mark(zone, WMARK_MIN) / 2))
			return zone;
		if (spare <= most)
			continue;
		most = spare;
		best = zone;
	}
	return best;
}

/*
 * A request that may reclaim needs reclaim earlier than the record had it: it takes an advance, up
 * to the mark and the cluster of pages that a direct reclaim frees at least.
 */
static void take_advance(struct model *m, struct zone *zone, const struct request *rq)
{
	int64_t spare = spare_pages(m, zone, rq), pages = SWAP_CLUSTER + (1 << rq->order);

	if (m->reclaim_ops || !(rq->gfp_flags & GFP_DIRECT_RECLAIM))
		return;
	owe_pages(m, zone, pages - (spare < 0 ? spare : 0));
	m->advances += !rq->reclaimed && !rq->makes_room;
}

/*
 * The record shows that reclaim freed pages for the request, so watermarks do not apply. No zone is
 * emptied before the others. If no zone has a page, the request also gets reserves and PCP pages.
 */
static uint32_t alloc_granted(struct model *m, struct request *rq, struct zonelist_scan *scan)
{
	struct zone *zone = granting_zone(m, rq, scan->list);
	frame_nr frame;

	/* For such an order the kernel compacts instead of going below the mark. */
	if (rq->makes_room && rq->order > PCP_MAX_ORDER)
		return NO_FRAME;
	if (zone)
		take_advance(m, zone, rq);
	rq->flags |= ALLOC_NO_WATERMARKS;
	frame = zone ? scan_zone(m, zone, rq, scan) : NO_FRAME;
	if (frame != NO_FRAME) {
		scan->served = zone;
		return frame;
	}
	frame = scan_zones(m, rq, scan);
	if (frame == NO_FRAME && !rq->makes_room && free_reserves(m, scan->list, rq))
		frame = scan_zones(m, rq, scan);
	return frame;
}

/*
 * Whether no zone of a request, or of those on `node`, is above a watermark with these rights, and
 * has a page that the request may take without mixing (vm.defrag_mode). -1: any node.
 */
static bool all_below(const struct model *m, struct request *rq, int node, int wmark,
		      uint32_t rights)
{
	const struct zonelist *list = zonelist_of(m, rq);

	rq->flags = rights | (never_mixes(m, rq) ? ALLOC_NOFRAGMENT : 0u);
	for (int i = 0; i < list->nr; i++)
		if ((node < 0 || list->zones[i]->node == node) &&
		    list->zones[i]->type <= rq->class_zone &&
		    watermark_fast(m, list->zones[i], rq, wmark) &&
		    has_unmixed(m, list->zones[i], rq))
			return false;
	return true;
}

static bool all_below_min(const struct model *m, struct request *rq)
{
	return all_below(m, rq, -1, WMARK_MIN, slow_path_rights(m, rq));
}

bool slow_path_enters(const struct model *m, struct request *rq, int node)
{
	return all_below(m, rq, node, WMARK_LOW, slow_path_rights_at_once(m, rq));
}

bool slow_path_recorded(struct model *m, struct request *rq)
{
	if (!m->advances || all_below_min(m, rq))
		return zone_preferred(m, rq);
	m->advances--;
	return false;
}

bool slow_path_reclaim_once(struct model *m, struct request *rq)
{
	const struct zonelist *list = zonelist_of(m, rq);

	if (!all_below_min(m, rq))
		return false;
	if (rq->gfp_flags & GFP_KSWAPD_RECLAIM)
		m->reclaim_ops->wake_all(m->reclaim_ops->self, list, rq);
	m->reclaim_ops->direct(m->reclaim_ops->self, list, rq, promoted_order(m, rq));
	return true;
}

void slow_path_start(struct model *m, const struct request *rq, const struct zone *preferred)
{
	struct counters *counters = zone_counters(m, preferred);

	counters->below_low++;
	counters->slowpath_wake_calls += (rq->gfp_flags & GFP_KSWAPD_RECLAIM) != 0;
	if (m->reclaim_ops && rq->gfp_flags & GFP_KSWAPD_RECLAIM)
		m->reclaim_ops->wake_all(m->reclaim_ops->self, zonelist_of(m, rq), rq);
}

frame_nr slow_path_alloc(struct model *m, struct request *rq, struct zonelist_scan *scan,
			 bool nofragment)
{
	struct counters *counters = zone_counters(m, scan->preferred);
	frame_nr frame;

	slow_path_start(m, rq, scan->preferred);
	scan->mark = WMARK_MIN;
	rq->flags = slow_path_rights(m, rq) | ALLOC_SLOW | (nofragment ? ALLOC_NOFRAGMENT : 0);
	frame = scan_zones(m, rq, scan);
	if (frame == NO_FRAME && m->reclaim_ops && m->reclaim_ops->stalled(m->reclaim_ops->self)) {
		rq->flags |= ALLOC_STALLED;
		frame = scan_zones(m, rq, scan);
	}
	if (frame != NO_FRAME)
		return frame;
	/* Where compaction made room on the record, no reclaim did. */
	counters->below_min += m->reclaim_ops || !(rq->reclaimed || rq->makes_room);
	if (m->reclaim_ops) {
		frame = slow_path_turns(m, rq, scan);
		counters->would_fail += frame == NO_FRAME && rq->gfp_flags & GFP_DIRECT_RECLAIM;
	} else if (rq->reclaimed) {
		frame = alloc_reclaimed(m, rq, scan);
	}
	if (frame == NO_FRAME)
		frame = alloc_granted(m, rq, scan);
	if (frame == NO_FRAME && rq->whole_first)
		return NO_FRAME;
	/* Under feedback its turns may have ended so already. */
	if (frame == NO_FRAME && rq->flags & ALLOC_NOFRAGMENT) {
		rq->flags &= ~(uint32_t)ALLOC_NOFRAGMENT;
		counters->nofragment_retries++;
		frame = scan_zones(m, rq, scan);
	}
	counters->failed += frame == NO_FRAME && !rq->makes_room;
	return frame;
}
