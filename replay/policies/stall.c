// SPDX-License-Identifier: Apache-2.0
/*
 * stall - wait for kswapd before migratetypes mix in small pieces.
 *
 * The fifth patch of fragmentation avoidance v5, which was in -mm and never merged
 * (sysctl fragment_stall_order): in the slow path a MOVABLE request that may reclaim is
 * refused a fallback to a chunk below `order`, boosts its zone and sleeps up to 20 ms.
 * Without feedback (R0) pages are freed when the record freed them, so waiting gains nothing.
 * The policy then counts the fallbacks that it would refuse (stall_refusals) and their
 * allocations (stalls). With feedback it refuses, once per allocation: the request's first zone is
 * boosted by 7 pageblocks at once, up to the limit of vm.watermark_boost_factor, kswapd is woken,
 * and the wait counted in modelled_stall_us and stall_us.
 *
 * Stalls are rare by design: the author's loads stalled 2 to 462 times, with 10^4 fallbacks left.
 * So the effect says whether the run has that many to begin with.
 */
#include "policy.h"
#include "policy_stack.h"
#include "reclaim_ops.h"
#include "zonelist.h"

#include <stdio.h>

struct stall {
	int64_t order;
	/* The allocation last refused. It stalls once, even if it refills many pages. */
	uint64_t ts;
	uint16_t cpu;
	uint64_t refused; /* fallbacks */
	uint64_t made;    /* fallbacks of MOVABLE requests to a chunk below pageblock order */
};

/* Fewest fallbacks at which a stall can be expected. */
enum { FALLBACKS_ENOUGH = 10000 };

/* The limit of boosts in the first zone of a request; 0: none. */
static int64_t most_boost(const struct model *m, const struct zone *zone)
{
	struct policy *owner = m->policies->owner.watermark_boost;

	return owner->ops->watermark_boost(owner, m, zone, m->kernel->boost_trigger);
}

static bool count_refusal(struct policy *self, struct model *m, struct zone *zone,
			  const struct request *rq, int order)
{
	struct counters *counters = zone_counters(m, zone);
	struct stall *stall = self->state;
	struct zone *first;

	if (order >= stall->order || !(rq->flags & ALLOC_SLOW) ||
	    rq->migratetype != MIGRATETYPE_MOVABLE || !(rq->gfp_flags & GFP_DIRECT_RECLAIM))
		return false;
	counters->stall_refusals++;
	counters->stalls += m->now.ts != stall->ts || m->now.cpu != stall->cpu;
	stall->ts = m->now.ts;
	stall->cpu = m->now.cpu;
	if (!m->reclaim_ops || rq->flags & ALLOC_STALLED)
		return false;
	stall->refused++;
	first = zone_preferred(m, rq);
	m->reclaim_ops->stall(m->reclaim_ops->self, first, rq, most_boost(m, first));
	return true;
}

static void count_made(struct policy *self, struct model *m, struct zone *zone,
		       const struct request *rq, int order)
{
	struct stall *stall = self->state;

	stall->made += rq->migratetype == MIGRATETYPE_MOVABLE && order < m->pageblock_order;
}

static void count_refused(struct policy *self, const struct model *m, const struct counters *total,
			  struct policy_effect *effect)
{
	const struct stall *stall = self->state;
	uint64_t refusals = total->stall_refusals, seen = stall->made + stall->refused;
	char few[64] = "";

	if (seen < FALLBACKS_ENOUGH)
		snprintf(few, sizeof(few), "; n too small: %llu MOVABLE fallbacks",
			 (unsigned long long)seen);
	if (!refusals)
		effect_never(
			effect,
			"no MOVABLE request of the slow path came to a chunk below order %lld%s",
			(long long)stall->order, few);
	else if (!m->reclaim_ops)
		effect_decided(effect, refusals, 0,
			       "would have refused %llu fallback%s, but only counts them without "
			       "feedback (--reclaim R0)%s",
			       (unsigned long long)refusals, plural(refusals), few);
	else
		effect_decided(
			effect, refusals, (int64_t)stall->refused,
			"refused %llu of %llu fallback%s until kswapd had run: %llu stall%s, %llu "
			"us%s",
			(unsigned long long)stall->refused, (unsigned long long)refusals,
			plural(refusals), (unsigned long long)total->stalls, plural(total->stalls),
			(unsigned long long)total->stall_us, few);
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
	.on_fallback = count_made,
	.effect = count_refused,
};
