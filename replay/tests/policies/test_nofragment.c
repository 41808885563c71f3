// SPDX-License-Identifier: Apache-2.0
/* ALLOC_NOFRAGMENT under the policy nofragment. Pageblocks are of 16 pages. */
#include "check.h"
#include "toy.h"

#include "policies/policies.h"

/* A NORMAL zone whose one free chunk is small and of another migratetype. */
static void little_to_mix(struct toy *t, const char *kernel, const char *policy)
{
	toy_new(t, kernel, (struct toy_geometry){4, 5, "MM", ZONE_NORMAL});
	toy_pcp(t, 2, 8);
	toy_add_free(t, 0, 2, 'M');
	check(!policy_stack_add(t->policies, policy, NULL));
}

TEST(off_mixes_at_once)
{
	TOY(t, little_to_mix, "6.18", "nofragment:mode=off");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 0);
	check(t.pcp->alloc_factor == 1);
}

TEST(lowzone_mixes_when_all_zones_were_tried)
{
	TOY(t, little_to_mix, "4.20", "nofragment:mode=lowzone");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 1);
	check(t.pcp->counters.below_low == 0);
}

TEST(always_mixes_only_where_reclaim_would_run)
{
	TOY(t, little_to_mix, "6.18", "nofragment:mode=always");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 1);
	check(t.pcp->counters.below_low == 1);
	check(t.pcp->counters.below_min == 1);
}

TEST(whole_pageblocks_may_always_change_owner)
{
	TOY(t, little_to_mix, "6.18", "nofragment:mode=always");
	toy_add_free(&t, 16, 4, 'M');
	check(toy_alloc(&t, 0, 'U') == 16);
	check(t.pcp->counters.nofragment_retries == 0);
	check_text(toy_blocks(&t), "MU");
}

TEST(v50_bug_tests_a_flag_that_nothing_sets)
{
	TOY(t, little_to_mix, "6.18", "nofragment:mode=always,v50_bug=1");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 0);
	check(t.pcp->counters.below_low == 0);
}

/* Whether a request for the last zone has ALLOC_NOFRAGMENT. */
static bool lowzone_on(const struct machine *machine, const struct zone_spec *zones, int nr_zones)
{
	struct toy t;
	bool on;

	toy_new_machine_under(&t, "4.20", "nofragment:mode=lowzone", machine, zones, nr_zones);
	on = t.m->zones[nr_zones - 1].nofragment_applies;
	toy_free(&t);
	return on;
}

TEST(lowzone_binds_where_one_node_is_online_or_the_node_has_a_dma32)
{
	static const struct zone_spec bare[] = {TOY_ZONE(0, ZONE_NORMAL, 0)},
				      remote[] = {TOY_ZONE(0, ZONE_DMA32, 0),
						  TOY_ZONE(0, ZONE_NORMAL, 32),
						  TOY_ZONE(1, ZONE_NORMAL, 64)},
				      local[] = {TOY_ZONE(1, ZONE_DMA32, 0),
						 TOY_ZONE(1, ZONE_NORMAL, 32)},
				      dma[] = {TOY_ZONE(1, ZONE_DMA, 0),
					       TOY_ZONE(1, ZONE_NORMAL, 32)};
	struct machine one_node = toy_two_nodes;
	struct zone_spec movable = TOY_ZONE(0, ZONE_MOVABLE, 0);

	one_node.nr_nodes = one_node.nr_cpus = 1;
	check(lowzone_on(&one_node, bare, 1));
	check(!lowzone_on(&one_node, &movable, 1));
	check(!lowzone_on(&toy_two_nodes, bare, 1));
	check(!lowzone_on(&toy_two_nodes, remote, 3));
	check(lowzone_on(&toy_two_nodes, local, 2));
	check(!lowzone_on(&toy_two_nodes, dma, 2));
}

TEST(lowzone_mixes_at_home_before_it_leaves_its_node)
{
	static const struct zone_spec zones[] = {
		TOY_ZONE(0, ZONE_DMA32, 0),
		TOY_ZONE(0, ZONE_NORMAL, 32),
		TOY_ZONE(1, ZONE_NORMAL, 64),
	};

	TOY(t, toy_new_machine_under, "4.20", "nofragment:mode=lowzone", &toy_two_nodes, zones, 3);
	toy_add_free(&t, 0, 2, 'M');
	t.zone = &t.m->zones[1];
	toy_add_free(&t, 32, 2, 'M');
	t.zone = &t.m->zones[2];
	toy_add_free(&t, 64, 2, 'U');
	check(toy_alloc(&t, 0, 'U') == 32);
	check(zone_pcp(t.m, &t.m->zones[1], 0)->counters.nofragment_retries == 1);
}
