// SPDX-License-Identifier: Apache-2.0
/*
 * mainline - what the kernel of the chosen row does.
 */
#include "policy.h"

struct mainline {
	int64_t boost_factor; /* vm.watermark_boost_factor */
};

/* alloc_flags_nofragment, 5.1 to 6.18, with CONFIG_ZONE_DMA32. */
static enum nofragment_span mainline_nofragment(struct policy *self, const struct model *m,
						const struct request *rq,
						const struct zone *preferred)
{
	(void)self;
	(void)rq;
	if (m->kernel->nofragment != NOFRAGMENT_LOWZONE || !preferred->has_lower)
		return NOFRAGMENT_OFF;
	return NOFRAGMENT_FIRST_PASS;
}

/* The kernel's table of fallbacks; MOVABLE looks at RECLAIMABLE first. */
static int mainline_fallback_type(struct policy *self, const struct zone *zone, int order,
				  int migratetype)
{
	static const uint8_t types[][2] = {
		[MIGRATETYPE_UNMOVABLE] = {MIGRATETYPE_RECLAIMABLE, MIGRATETYPE_MOVABLE},
		[MIGRATETYPE_MOVABLE] = {MIGRATETYPE_RECLAIMABLE, MIGRATETYPE_UNMOVABLE},
		[MIGRATETYPE_RECLAIMABLE] = {MIGRATETYPE_UNMOVABLE, MIGRATETYPE_MOVABLE},
	};

	(void)self;
	if (migratetype > MIGRATETYPE_RECLAIMABLE)
		return -1;
	for (int i = 0; i < 2; i++)
		if (zone->nr_free[order][types[migratetype][i]])
			return types[migratetype][i];
	return -1;
}

/* steal_suitable_fallback, try_to_claim_block: half of the block must be ours. */
static bool mainline_claim(struct policy *self, const struct request *rq, const struct claim *claim)
{
	(void)self;
	(void)rq;
	return claim->free_pages + claim->alike_pages >= claim->block_pages / 2;
}

/* boost_watermark, 5.0 to 6.18. */
static void mainline_on_mixing(struct policy *self, struct model *m, struct zone *zone,
			       const struct request *rq)
{
	const struct mainline *mainline = self->state;
	int64_t block = 1ll << m->pageblock_order;
	int64_t most = zone->wmark[WMARK_HIGH] / 10000 * mainline->boost_factor +
		       zone->wmark[WMARK_HIGH] % 10000 * mainline->boost_factor / 10000;
	bool too_small =
		m->kernel->boost == BOOST_LARGE_ZONE && zone->managed < 4 * (uint64_t)block;
	bool boosts = most && !too_small;

	if (m->kernel->boost == BOOST_NONE)
		return;
	if (boosts) {
		zone_counters(m, zone)->boost_asks++;
		most = most > block ? most : block;
		if (m->boost_acts)
			zone->boost = zone->boost + block < most ? zone->boost + block : most;
	}
	/* 5.0 wakes kswapd even where it did not boost. */
	if (rq->gfp_flags & GFP_KSWAPD_RECLAIM && (boosts || m->kernel->boost == BOOST_ANY_ZONE))
		zone->boosted_watermark = true;
}

static const struct policy_param mainline_params[] = {
	{"boost_factor", 0, 1000000, 15000, offsetof(struct mainline, boost_factor), NULL,
	 "vm.watermark_boost_factor: largest boost in 1/10000 of the high watermark."},
	{0},
};

const struct policy_ops mainline_policy = {
	.name = "mainline",
	.doc = "What the kernel of the chosen row does.",
	.kernel = "all",
	.tier = "A",
	.state_size = sizeof(struct mainline),
	.params = mainline_params,
	.nofragment = mainline_nofragment,
	.fallback_type = mainline_fallback_type,
	.claim = mainline_claim,
	.on_mixing = mainline_on_mixing,
};
