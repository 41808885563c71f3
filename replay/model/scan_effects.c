// SPDX-License-Identifier: Apache-2.0
#include "scan_effects.h"

#include "buddy.h"
#include "pcp.h"
#include "policy_stack.h"
#include "watermark.h"
#include "zonelist.h"
#include "zonelist_scan.h"

/* A zone was tried in vain. */
static void pass_over(struct model *m, struct zone *zone, const struct request *rq)
{
	struct pcp *pcp = zone_pcp(m, zone, m->now.cpu);
	list_nr list;

	if (dirty_node(m, zone, rq->gfp_flags) || !watermark_fast(m, zone, rq, WMARK_LOW) ||
	    !pcp_allowed(m, rq->order) || rq->migratetype > MIGRATETYPE_RECLAIMABLE)
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
		.class_zone = (uint8_t)gfp_class_zone(m, gfp_flags),
		.node = m->cpu_nodes[cpu],
	};
	const struct zonelist *list =
		gfp_flags & GFP_THISNODE ? &m->thisnode[rq.node] : &m->fallback[rq.node];

	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq.class_zone)
			mark_below_high(m, list->zones[i], &rq);
}

/*
 * Whether a scan that ended at `last` passed over a zone's node, because its kswapd was awake
 * (6.18). No event shows when a pass of kswapd ends; but the zone could have served the request.
 */
static bool passes_over_node(const struct model *m, const struct zone *zone,
			     const struct request *rq, const struct zone *last)
{
	struct request unmixed = *rq;

	if (!m->kernel->skip_awake_nodes || !last || zone->node == last->node)
		return false;
	unmixed.flags = never_mixes(m, rq) ? ALLOC_NOFRAGMENT : 0;
	return watermark_fast(m, zone, rq, WMARK_LOW) && has_unmixed(m, zone, &unmixed);
}

/* One pass over the zones before `last`; NULL: over all. */
static void pass_over_until(struct model *m, const struct zonelist *list, const struct request *rq,
			    const struct zone *last)
{
	for (int i = 0; i < list->nr && list->zones[i] != last; i++) {
		if (list->zones[i]->type > rq->class_zone ||
		    passes_over_node(m, list->zones[i], rq, last))
			continue;
		mark_below_high(m, list->zones[i], rq);
		pass_over(m, list->zones[i], rq);
	}
}

uint32_t zone_scan_effects(struct model *m, const struct request *rq, struct zone *zone, bool mixes)
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
