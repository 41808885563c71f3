// SPDX-License-Identifier: Apache-2.0
/*
 * mainline - the choices of the kernel of the chosen row.
 */
#include "policy.h"
#include "watermark.h"

struct mainline {
	int64_t boost_factor;  /* vm.watermark_boost_factor */
	int64_t proactiveness; /* vm.compaction_proactiveness */
	int64_t defrag_mode;   /* vm.defrag_mode */
	int64_t zone_reclaim;  /* vm.zone_reclaim_mode */
};

static void leave_row(struct policy *self, struct kernel *row)
{
}

static void mainline_kswapd_blocks(struct policy *self, struct kernel *row)
{
	const struct mainline *mainline = self->state;

	row->whole_blocks |= mainline->defrag_mode != 0;
}

static bool leave_watermarks(struct policy *self, const struct machine *machine,
			     struct zone_spec *zones, int nr)
{
	return false;
}

static int leave_layout(struct policy *self, struct machine *machine, struct zone_spec *zones,
			int *nr, int most, struct error *err)
{
	return 0;
}

static enum zonelist_order mainline_zonelist_order(struct policy *self, const struct model *m)
{
	return ZONELIST_NODE;
}

/* setup_zone_migrate_reserve, 2.6.31 to 2.6.33: the pageblocks of the min watermark, at most 2. */
static int mainline_reserve_blocks(struct policy *self, const struct model *m,
				   const struct zone *zone)
{
	int64_t pages = 1ll << m->pageblock_order;
	int64_t want = (zone->wmark[WMARK_MIN] + pages - 1) / pages;

	return want < 2 ? (int)want : 2;
}

static void leave_pcp(struct policy *self, const struct model *m, const struct zone *zone,
		      struct pcp *pcp)
{
}

static uint64_t mainline_tick_ns(struct policy *self)
{
	return 0;
}

static void mainline_alloc_batch(struct policy *self, struct alloc_batch *batch)
{
	*batch = (struct alloc_batch){0};
}

static bool mainline_huge_plan(struct policy *self, struct huge_plan *plan)
{
	return false;
}

static void mainline_zone_reclaim(struct policy *self, struct zone_reclaim *reclaim)
{
	const struct mainline *mainline = self->state;

	*reclaim = (struct zone_reclaim){(int)mainline->zone_reclaim, RECLAIM_DISTANCE};
}

static int mainline_proactiveness(struct policy *self)
{
	const struct mainline *mainline = self->state;

	return (int)mainline->proactiveness;
}

static bool mainline_lock_costs(struct policy *self, struct lock_costs *costs)
{
	return false;
}

/*
 * alloc_flags_nofragment, 5.1 to 7.3, with CONFIG_ZONE_DMA32. vm.defrag_mode: gfp_to_alloc_flags,
 * 7.2, and the end of __alloc_pages_slowpath.
 */
static enum nofragment_span mainline_nofragment(struct policy *self, const struct model *m,
						const struct request *rq,
						const struct zone *preferred)
{
	const struct mainline *mainline = self->state;

	if (mainline->defrag_mode)
		return NOFRAGMENT_ALWAYS;
	if (m->kernel->nofragment != NOFRAGMENT_LOWZONE || !preferred->nofragment_applies)
		return NOFRAGMENT_OFF;
	return NOFRAGMENT_FIRST_PASS;
}

/* The order of the kernel's table of fallbacks; MOVABLE tries RECLAIMABLE first. */
static int mainline_fallback_type(struct policy *self, const struct zone *zone, int order,
				  int migratetype)
{
	static const uint8_t types[][2] = {
		[MIGRATETYPE_UNMOVABLE] = {MIGRATETYPE_RECLAIMABLE, MIGRATETYPE_MOVABLE},
		[MIGRATETYPE_MOVABLE] = {MIGRATETYPE_RECLAIMABLE, MIGRATETYPE_UNMOVABLE},
		[MIGRATETYPE_RECLAIMABLE] = {MIGRATETYPE_UNMOVABLE, MIGRATETYPE_MOVABLE},
	};

	if (migratetype > MIGRATETYPE_RECLAIMABLE)
		return -1;
	for (int i = 0; i < 2; i++)
		if (zone->nr_free[order][types[migratetype][i]])
			return types[migratetype][i];
	return -1;
}

/* steal_suitable_fallback, try_to_claim_block: half of the pageblock must be free or alike. */
static bool mainline_claim(struct policy *self, const struct request *rq, const struct claim *claim)
{
	return claim->free_pages + claim->alike_pages >= claim->block_pages / 2;
}

/* boost_watermark, 5.0 to 6.18. */
static int64_t mainline_watermark_boost(struct policy *self, const struct model *m,
					const struct zone *zone, int trigger)
{
	const struct mainline *mainline = self->state;

	if (m->kernel->boost == BOOST_NONE || trigger != m->kernel->boost_trigger)
		return 0;
	return boost_limit(m, zone, mainline->boost_factor);
}

static bool mainline_refuse_fallback(struct policy *self, struct model *m, struct zone *zone,
				     const struct request *rq, int order)
{
	return false;
}

static void mainline_effect(struct policy *self, const struct model *m,
			    const struct counters *total, struct policy_effect *effect)
{
	uint64_t fallbacks = total->fallback_claim + total->fallback_steal + total->fallback_whole;

	if (!fallbacks)
		effect_never(effect, "no request found the lists of its migratetype empty");
	else
		effect_decided(effect, fallbacks, 0, "decided %llu fallback%s by the rules of %s",
			       (unsigned long long)fallbacks, plural(fallbacks), m->kernel->name);
}

static const struct policy_param mainline_params[] = {
	{"boost_factor", 0, 1000000, 15000, offsetof(struct mainline, boost_factor), NULL,
	 "vm.watermark_boost_factor: largest boost in 1/10000 of the high watermark."},
	{"proactiveness", 0, 100, 20, offsetof(struct mainline, proactiveness), NULL,
	 "vm.compaction_proactiveness: how low proactive compaction holds fragmentation."},
	{"defrag_mode", 0, 1, 0, offsetof(struct mainline, defrag_mode), NULL,
	 "vm.defrag_mode: 1 keeps pageblocks whole, as the policy defrag_mode does."},
	{"zone_reclaim_mode", 0, ZONE_RECLAIM_BITS, 0, offsetof(struct mainline, zone_reclaim),
	 NULL, "vm.zone_reclaim_mode, as of the policy zone_reclaim_mode."},
	{0},
};

const struct policy_ops mainline_policy = {
	.name = "mainline",
	.doc = "The choices of the kernel of the chosen row.",
	.kernel = "all",
	.tier = "A",
	.state_size = sizeof(struct mainline),
	.params = mainline_params,
	.fallback_family = leave_row,
	.pcp_tuning = leave_row,
	.reserve = leave_row,
	.kswapd_rules = leave_row,
	.kswapd_blocks = mainline_kswapd_blocks,
	.watermarks = leave_watermarks,
	.layout = leave_layout,
	.zonelist_order = mainline_zonelist_order,
	.reserve_blocks = mainline_reserve_blocks,
	.pcp_limits = leave_pcp,
	.tick_ns = mainline_tick_ns,
	.alloc_batch = mainline_alloc_batch,
	.huge_plan = mainline_huge_plan,
	.zone_reclaim = mainline_zone_reclaim,
	.proactiveness = mainline_proactiveness,
	.lock_costs = mainline_lock_costs,
	.nofragment = mainline_nofragment,
	.fallback_type = mainline_fallback_type,
	.claim = mainline_claim,
	.watermark_boost = mainline_watermark_boost,
	.refuse_fallback = mainline_refuse_fallback,
	.effect = mainline_effect,
};
