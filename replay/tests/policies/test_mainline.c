// SPDX-License-Identifier: Apache-2.0
/* The parameters of the policy mainline. */
#include "check.h"
#include "toy.h"

#include "model/watermark.h"
#include "policies/policies.h"

TEST(a_boost_factor_of_0_never_boosts)
{
	static const struct {
		const char *spec;
		uint64_t asks;
	} cases[] = {{"mainline", 1}, {"mainline:boost_factor=0", 0}};

	for (size_t i = 0; i < 2; i++) {
		TOY(t, toy_new, "6.1.192", (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 2, 'M');
		t.zone->wmark[WMARK_HIGH] = 2;
		t.m->record->boost_acts = true;
		check(!policy_stack_add(t.policies, cases[i].spec, NULL));
		check(toy_alloc(&t, 0, 'U') == 0);
		check(t.pcp->counters.boost_asks == cases[i].asks);
		check(t.zone->boost == (int64_t)cases[i].asks * 16);
		kswapd_begin(t.m, 0, ZONE_MOVABLE);
		kswapd_end(t.m, 0);
		check(t.zone->boost == 0);
	}
}

TEST(a_recorded_defrag_mode_mixes_only_after_reclaim)
{
	static const struct {
		const char *spec;
		uint64_t retries;
		bool whole_blocks;
	} cases[] = {{"mainline", 0, false}, {"mainline:defrag_mode=1", 1, true}};

	for (size_t i = 0; i < 2; i++) {
		TOY(t, toy_new_under, "7.2", cases[i].spec,
		    (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 2, 'M');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 0, 'U') == 0);
		check(t.pcp->counters.nofragment_retries == cases[i].retries);
		check(t.m->kernel->whole_blocks == cases[i].whole_blocks);
	}
}
