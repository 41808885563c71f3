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
	if (m->kernel->nofragment != NOFRAGMENT_LOWZONE || !zone_has_lower(m, preferred))
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

/*
 * boost_watermark, 5.0 to 6.18. Frees come at their recorded time, so a higher
 * watermark could only refuse what the record granted: the boost is counted, and
 * where it would stand, but no test sees it.
 */
static void mainline_on_mixing(struct policy *self, struct model *m, struct zone *zone,
			       const struct request *rq)
{
	const struct mainline *mainline = self->state;
	uint64_t block = 1ull << m->pageblock_order;
	uint64_t most =
		(uint64_t)zone->wmark[WMARK_HIGH] * (uint64_t)mainline->boost_factor / 10000;
	bool small = m->kernel->boost == BOOST_LARGE_ZONE && zone->managed < 4 * block;

	if (m->kernel->boost == BOOST_NONE)
		return;
	if (most && !small) {
		most = most > block ? most : block;
		zone->boost_asked += block;
		if (zone->boost_asked > most)
			zone->boost_asked = most;
		zone_counters(m, zone)->boost_asks++;
	} else if (m->kernel->boost == BOOST_LARGE_ZONE) {
		return;
	}
	if (rq->gfp_flags & GFP_KSWAPD_RECLAIM)
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
