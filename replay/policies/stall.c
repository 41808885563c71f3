// SPDX-License-Identifier: Apache-2.0
/*
 * stall - wait for kswapd before migratetypes mix in small pieces.
 *
 * The fifth patch of fragmentation avoidance v5, which was in -mm and never merged
 * (sysctl fragment_stall_order): in the slow path a MOVABLE request that may reclaim is
 * refused a fallback to a chunk below `order`, boosts its zone and sleeps up to 20 ms.
 * Without feedback (R0) pages are freed when the record freed them, so waiting gains nothing.
 * The policy then counts the fallbacks that it would refuse (stall_refusals) and their
 * allocations (stalls). With feedback it refuses, once per allocation: the zone is boosted,
 * kswapd woken, and the wait counted in modelled_stall_us.
 */
#include "policy.h"
#include "reclaim_ops.h"
#include "watermark.h"

enum { DEFAULT_FACTOR = 15000 }; /* vm.watermark_boost_factor */

struct stall {
	int64_t order;
	/* The allocation last refused. It stalls once, even if it refills many pages. */
	uint64_t ts;
	uint16_t cpu;
};

static bool count_refusal(struct policy *self, struct model *m, struct zone *zone,
			  const struct request *rq, int order)
{
	struct counters *counters = zone_counters(m, zone);
	struct stall *stall = self->state;

	if (order >= stall->order || !(rq->flags & ALLOC_SLOW) ||
	    rq->migratetype != MIGRATETYPE_MOVABLE || !(rq->gfp_flags & GFP_DIRECT_RECLAIM))
		return false;
	counters->stall_refusals++;
	counters->stalls += m->now.ts != stall->ts || m->now.cpu != stall->cpu;
	stall->ts = m->now.ts;
	stall->cpu = m->now.cpu;
	if (!m->reclaim_ops || rq->flags & ALLOC_STALLED)
		return false;
	m->reclaim_ops->stall(m->reclaim_ops->self, zone, rq, boost_limit(m, zone, DEFAULT_FACTOR));
	return true;
}

static const struct policy_param params[] = {
	{"order", 0, MAX_PAGE_ORDER, PCP_MAX_ORDER + 1, offsetof(struct stall, order), NULL,
	 "Smallest chunk a request may fall back to without a stall; 0: any."},
	{0},
};

const struct policy_ops stall_policy = {
	.name = "stall",
	.doc = "Refuse small fallbacks until kswapd made progress; without feedback, count them.",
	.kernel = "fragmentation avoidance v5, 5/5 (never merged)",
	.tier = "B",
	.state_size = sizeof(struct stall),
	.params = params,
	.refuse_fallback = count_refusal,
};
