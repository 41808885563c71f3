// SPDX-License-Identifier: Apache-2.0
#include "zonelist_scan.h"

#include "buddy.h"
#include "vmstat_diff.h"
#include "fallback.h"
#include "reclaim_ops.h"
#include "highatomic.h"
#include "pcp.h"
#include "policy_stack.h"
#include "watermark.h"
#include "zone_lock.h"
#include "zonelist.h"

/*
 * Whether a page of a request with the right to the HIGHATOMIC reserve grows it: any page
 * (get_page_from_freelist, 6.18), one that came past the PCP (rmqueue_buddy, 7.2), or only in the
 * slow path (7.3).
 */
static bool grows_reserve(const struct model *m, const struct request *rq, int mark, bool past_pcp)
{
	if (!(rq->flags & ALLOC_HIGHATOMIC))
		return false;
	switch ((enum kernel_highatomic_reserve)m->kernel->highatomic_reserve) {
	case HIGHATOMIC_RESERVE_ANY:
		break;
	case HIGHATOMIC_RESERVE_BUDDY:
		return past_pcp;
	case HIGHATOMIC_RESERVE_BUDDY_MIN:
		return past_pcp && mark == WMARK_MIN;
	}
	return true;
}

/* rmqueue_buddy: past the PCP. */
static uint32_t alloc_direct(struct model *m, struct zone *zone, const struct request *rq)
{
	enum rmqueue_mode mode = RMQUEUE_NORMAL;
	struct counters *counters = zone_counters(m, zone);
	frame_nr frame = NO_FRAME;

	counters->lock_holds++;
	zone_pcp(m, zone, m->now.cpu)->touched = true;
	if (rq->flags & ALLOC_HIGHATOMIC)
		frame = buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_HIGHATOMIC);
	if (frame != NO_FRAME && m->kernel->zone_locked != ZONE_LOCKED_LIST)
		report_zone_locked(m, frame, rq->order, rq->migratetype);
	if (frame == NO_FRAME)
		frame = rmqueue_core(m, zone, rq, &mode);
	if (frame == NO_FRAME && m->kernel->highatomic_last && rq->flags & ALLOC_HARDER)
		frame = buddy_take_smallest(m, zone, rq->order, MIGRATETYPE_HIGHATOMIC);
	if (frame != NO_FRAME) {
		vmstat_diff_add(m, zone, -(1 << rq->order));
		vmstat_diff_add_cma(m, zone, frame_block(m, frame)->migratetype, -(1 << rq->order));
	}
	counters->buddy_allocs += frame != NO_FRAME;
	zone_lock_held(m, zone, ZONE_LOCK_KIND_ALLOC, frame != NO_FRAME);
	return frame;
}

static uint32_t rmqueue(struct model *m, struct zone *zone, const struct request *rq, int mark)
{
	bool past_pcp = false, pcp = !rq->pcp_locked && pcp_allowed(m, rq->order) &&
				     rq->migratetype <= MIGRATETYPE_RECLAIMABLE;
	frame_nr frame = pcp ? pcp_alloc(m, zone, rq) : NO_FRAME;

	if (frame == NO_FRAME && (!pcp || m->kernel->pcp_miss_to_buddy)) {
		frame = alloc_direct(m, zone, rq);
		past_pcp = true;
	}
	if (frame != NO_FRAME && grows_reserve(m, rq, mark, past_pcp))
		reserve_highatomic(m, zone, frame, rq->order);
	/* 5.10 and 6.1 wake kswapd for any request, 6.12 only for one that may wake it. */
	if (zone->boosted_watermark &&
	    (m->kernel->boost_wakes_all || rq->gfp_flags & GFP_KSWAPD_RECLAIM)) {
		zone->boosted_watermark = false;
		zone_counters(m, zone)->slowpath_wake_calls++;
		if (m->reclaim_ops)
			m->reclaim_ops->wake_boosted(m->reclaim_ops->self, zone);
		else if (m->record->boost_acts)
			m->record->boosted_nodes |= 1ull << (tape_node(m, zone->node) & 63);
	}
	return frame;
}

/*
 * node_reclaim, 2.6.31 to 7.3: reclaim nearby before the scan continues. Returns whether the zone
 * is then above the mark. Only for a request that may reclaim, and only on the CPU's own node, or
 * on a node without CPUs. Any bit of the mode turns it on. The share of unmapped page cache
 * (min_unmapped_ratio) is unknown and counts as sufficient. Without feedback it is only counted.
 */
static bool reclaimed_node(struct model *m, struct zone *zone, const struct request *rq,
			   const struct zonelist_scan *scan)
{
	int from = scan->preferred->node, to = zone->node;

	if (!(rq->gfp_flags & GFP_DIRECT_RECLAIM) || rq->light ||
	    m->node_distances[from * m->nr_nodes + to] > m->zone_reclaim.distance ||
	    (to != m->cpu_nodes[m->now.cpu] && node_has_cpu(m, to)))
		return false;
	if (!m->reclaim_ops)
		zone_counters(m, zone)->node_reclaims++;
	return m->reclaim_ops && m->reclaim_ops->node_reclaim(m->reclaim_ops->self, zone, rq) &&
	       watermark_ok(m, zone, rq, zone_mark(zone, scan->mark));
}

frame_nr scan_zone(struct model *m, struct zone *zone, struct request *rq,
		   const struct zonelist_scan *scan)
{
	bool above = rq->flags & ALLOC_NO_WATERMARKS;

	if (m->kernel->below_high && !zone->below_high) {
		if (watermark_fast(m, zone, rq, WMARK_HIGH))
			above = true;
		else
			zone->below_high = true;
	}
	if (!above && !watermark_fast(m, zone, rq, scan->mark) &&
	    !(m->zone_reclaim.mode && reclaimed_node(m, zone, rq, scan)))
		return NO_FRAME;
	return rmqueue(m, zone, rq, scan->mark);
}

bool never_mixes(const struct model *m, const struct request *rq)
{
	struct policy *owner = m->policies->owner.nofragment;
	const struct zone *preferred = zone_preferred(m, rq);

	return preferred && owner->ops->nofragment(owner, m, rq, preferred) == NOFRAGMENT_ALWAYS;
}

bool has_unmixed(const struct model *m, const struct zone *zone, const struct request *rq)
{
	const struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);

	if (!(rq->flags & ALLOC_NOFRAGMENT) || could_take(m, zone, rq))
		return true;
	return pcp_allowed(m, rq->order) && rq->migratetype <= MIGRATETYPE_RECLAIMABLE &&
	       pcp_first(m, pcp, rq) != NO_FRAME;
}

bool kswapd_awake(const struct model *m, int node)
{
	if (m->record->woken_nodes >> (tape_node(m, node) & 63) & 1)
		return true;
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node && m->zones[i].reclaim_active)
			return true;
	return false;
}

/* A pass over the zones, and why it may have found less than there is. */
struct pass {
	bool skips_awake; /* it passes over nodes whose kswapd is awake (6.18) */
	bool skipped;     /* there was such a node */
	bool at_remote;   /* it ended before another node, under ALLOC_NOFRAGMENT */
};

/* One pass. With local_only, a pass under ALLOC_NOFRAGMENT stops after the own node. */
static uint32_t scan_once(struct model *m, struct request *rq, struct zonelist_scan *scan,
			  struct pass *pass)
{
	pass->skipped = pass->at_remote = false;
	for (int i = 0; i < scan->list->nr; i++) {
		struct zone *zone = scan->list->zones[i];
		frame_nr frame;

		if (zone->type > rq->class_zone)
			continue;
		if (scan->mark == WMARK_LOW && dirty_node(m, zone, rq->gfp_flags))
			continue;
		if (rq->flags & ALLOC_NOFRAGMENT && scan->local_only &&
		    zone->node != scan->preferred->node) {
			pass->at_remote = true;
			break;
		}
		if (pass->skips_awake && kswapd_awake(m, zone->node)) {
			pass->skipped = true;
			continue;
		}
		frame = scan_zone(m, zone, rq, scan);
		if (frame != NO_FRAME) {
			scan->served = zone;
			return frame;
		}
	}
	return NO_FRAME;
}

frame_nr scan_zones(struct model *m, struct request *rq, struct zonelist_scan *scan)
{
	struct pass pass = {.skips_awake = m->kernel->skip_awake_nodes && m->nr_nodes > 1};
	frame_nr frame;

	/* get_page_from_freelist, 7.2: at most two passes more. */
	while ((frame = scan_once(m, rq, scan, &pass)) == NO_FRAME) {
		if (pass.skipped && !pass.at_remote) {
			pass.skips_awake = false;
		} else if (scan->local_only && rq->flags & ALLOC_NOFRAGMENT) {
			rq->flags &= ~(uint32_t)ALLOC_NOFRAGMENT;
			zone_counters(m, scan->preferred)->nofragment_retries++;
		} else {
			break;
		}
	}
	return frame;
}
