// SPDX-License-Identifier: Apache-2.0
/* The policy stall: which requests it counts, and which pages it would have refused. */
#include "check.h"
#include "model/fallback.h"
#include "model/reclaim_ops.h"
#include "toy.h"

TEST(stall_counts_the_slow_path_allocations_that_it_would_refuse)
{
	static const struct {
		const char *policy;
		int64_t low;
		uint32_t gfp_flags;
		char type;
		uint64_t stalls, refusals;
	} cases[] = {
		{"stall", 100, GFP_DIRECT_RECLAIM, 'M', 1, 2},
		{"stall:order=2", 100, GFP_DIRECT_RECLAIM, 'M', 1, 1},
		{"stall:order=0", 100, GFP_DIRECT_RECLAIM, 'M', 0, 0},
		{"stall", -100, GFP_DIRECT_RECLAIM, 'M', 0, 0},
		{"stall", 100, 0, 'M', 0, 0},
		{"stall", 100, GFP_DIRECT_RECLAIM, 'R', 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_under, "6.18", cases[i].policy,
		    (struct toy_geometry){4, 5, "UUUU", ZONE_DMA32});
		/* A refill of 2: a page of order 0, then one of order 2. */
		toy_pcp(&t, 2, 8);
		t.zone->wmark[WMARK_LOW] = t.zone->wmark[WMARK_HIGH] = cases[i].low;
		t.gfp_flags = cases[i].gfp_flags;
		toy_add_free(&t, 0, 0, 'U');
		toy_add_free(&t, 4, 2, 'U');
		t.m->now.ts = 5;
		check(toy_alloc(&t, 0, cases[i].type) != UINT64_MAX);
		check(t.pcp->counters.stalls == cases[i].stalls);
		check(t.pcp->counters.stall_refusals == cases[i].refusals);
	}
}

/* What the policy asked of a run with feedback. */
struct asked {
	int stalls;
	const struct zone *zone;
	int64_t most;
};

static void note_stall(void *self, struct zone *zone, const struct request *rq, int64_t most)
{
	struct asked *asked = self;

	(void)rq;
	asked->stalls++;
	asked->zone = zone;
	asked->most = most;
}

static bool never(void *self)
{
	(void)self;
	return false;
}

static void wake_nobody(void *self, const struct zone *zone)
{
	(void)self;
	(void)zone;
}

/* The first zone of the request is full; its fallback would be in the second one. */
TEST(a_refused_fallback_boosts_as_ever_and_asks_for_the_first_zone)
{
	const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_DMA, 0), TOY_ZONE(0, ZONE_NORMAL, 32)};
	const struct machine machine = toy_machine(4, 5);

	for (int factor = 0; factor < 2; factor++) {
		struct asked asked = {0};
		struct reclaim_ops ops = {
			.self = &asked,
			.stall = note_stall,
			.stalled = never,
			.wake_boosted = wake_nobody,
		};
		struct request rq = {
			.gfp_flags = GFP_DIRECT_RECLAIM,
			.migratetype = MIGRATETYPE_MOVABLE,
			.class_zone = ZONE_NORMAL,
			.flags = ALLOC_SLOW,
		};
		enum rmqueue_mode mode = RMQUEUE_NORMAL;
		struct policy *owner;

		/* 5.0 boosts zones of any size. */
		TOY(t, toy_new_machine_under, "5.0", "stall", &machine, zones, 2);
		t.m->reclaim_ops = &ops;
		t.m->record->boost_acts = true;
		t.m->zones[1].wmark[WMARK_HIGH] = t.m->zones[0].wmark[WMARK_HIGH] = 100 * factor;
		owner = t.m->policies->owner.refuse_fallback;
		check(owner->ops->refuse_fallback(owner, t.m, &t.m->zones[0], &rq, 0));
		check(asked.stalls == 1 && asked.zone == &t.m->zones[1]);
		check(asked.most == 150 * factor);
		toy_add_free(&t, 0, 0, 'U');
		t.m->blocks[0].migratetype = MIGRATETYPE_UNMOVABLE;
		check(rmqueue_core(t.m, &t.m->zones[0], &rq, &mode) == NO_FRAME);
		check(t.m->zones[0].boost == 16 * factor);
	}
}
