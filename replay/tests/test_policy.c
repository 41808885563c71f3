// SPDX-License-Identifier: Apache-2.0
#include "policies/policies.h"
#include "check.h"
#include "toy.h"
#include "model/watermark.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

extern const struct policy_ops mainline_policy, nofragment_policy;

static void bad_specs_say_why(void)
{
	static const struct {
		const char *spec;
		int ret;
		const char *msg;
	} cases[] = {
		{"nofrag", -ENOENT, "no policy named 'nofrag'"},
		{"", -ENOENT, "no policy named ''"},
		{":mode=off", -ENOENT, "no policy named ''"},
		{"nofragment:", -EINVAL, "nofragment: expected key=value, got ''"},
		{"nofragment:mode", -EINVAL, "nofragment: expected key=value, got 'mode'"},
		{"nofragment:max=1", -EINVAL, "policy nofragment has no parameter 'max'"},
		{"nofragment:mode=on", -EINVAL,
		 "nofragment:mode: 'on' is not one of off, lowzone, always"},
		{"nofragment:mode=off,", -EINVAL, "nofragment: expected key=value, got ''"},
		{"mainline:boost_factor=x", -EINVAL, "mainline:boost_factor: 'x' is not a number"},
		{"mainline:boost_factor=", -EINVAL, "mainline:boost_factor: '' is not a number"},
		{"mainline:boost_factor=9 ", -EINVAL,
		 "mainline:boost_factor: '9 ' is not a number"},
		{"mainline:boost_factor=-1", -ERANGE,
		 "mainline:boost_factor: -1 is not in 0..1000000"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {""};
		struct policy_stack *stack;

		check(!policy_stack_new(&stack, policies, &err));
		check(policy_stack_add(stack, cases[i].spec, &err) == cases[i].ret);
		check_text(err.msg, cases[i].msg);
		check(stack->nr == 1);
		policy_stack_free(stack);
	}
}

static void a_policy_answers_to_its_former_name(void)
{
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, policies, NULL));
	check(!policy_stack_add(stack, "alloc_unit:order=3", NULL));
	check_text(stack->all[1]->ops->name, "alloc_batch");
	check(stack->owner.alloc_batch == stack->all[1]);
	policy_stack_free(stack);
}

static void two_owners_of_one_choice_are_refused_by_name(void)
{
	struct error err = {""};
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, policies, &err));
	check(!policy_stack_add(stack, "nofragment:mode=off", &err));
	check(policy_stack_add(stack, "nofragment:mode=always", &err) == -EBUSY);
	check_text(err.msg, "nofragment and nofragment both decide 'nofragment'");
	policy_stack_free(stack);
}

static void every_choice_has_an_owner(void)
{
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, policies, NULL));
	check(stack->owner.nofragment->ops == &mainline_policy);
	check(!policy_stack_add(stack, "nofragment", NULL));
	check(stack->owner.nofragment->ops == &nofragment_policy);
	check(stack->owner.claim->ops == &mainline_policy);
	check(stack->owner.fallback_type->ops == &mainline_policy);
	policy_stack_free(stack);
}

/* A NORMAL zone with one small foreign chunk. */
static void little_to_mix(struct toy *t, const char *kernel, const char *policy)
{
	toy_new(t, kernel, (struct toy_geometry){4, 5, "MM", ZONE_NORMAL});
	toy_pcp(t, 2, 8);
	toy_add_free(t, 0, 2, 'M');
	check(!policy_stack_add(t->policies, policy, NULL));
}

static void off_mixes_at_once(void)
{
	struct toy t;

	little_to_mix(&t, "6.18", "nofragment:mode=off");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 0);
	check(t.pcp->alloc_factor == 1);
	toy_free(&t);
}

static void lowzone_mixes_when_all_zones_were_tried(void)
{
	struct toy t;

	little_to_mix(&t, "4.20", "nofragment:mode=lowzone");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 1);
	check(t.pcp->counters.below_low == 0);
	toy_free(&t);
}

static void always_mixes_only_where_reclaim_would_run(void)
{
	struct toy t;

	little_to_mix(&t, "6.18", "nofragment:mode=always");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 1);
	check(t.pcp->counters.below_low == 1);
	check(t.pcp->counters.below_min == 1);
	toy_free(&t);
}

static void whole_pageblocks_may_always_change_owner(void)
{
	struct toy t;

	little_to_mix(&t, "6.18", "nofragment:mode=always");
	toy_add_free(&t, 16, 4, 'M');
	check(toy_alloc(&t, 0, 'U') == 16);
	check(t.pcp->counters.nofragment_retries == 0);
	check_text(toy_blocks(&t), "MU");
	toy_free(&t);
}

static void a_boost_factor_of_0_never_boosts(void)
{
	static const struct {
		const char *spec;
		uint64_t asks;
	} cases[] = {{"mainline", 1}, {"mainline:boost_factor=0", 0}};

	for (size_t i = 0; i < 2; i++) {
		struct toy t;

		toy_new(&t, "6.1.192", (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 2, 'M');
		t.zone->wmark[WMARK_HIGH] = 2;
		t.m->boost_acts = true;
		check(!policy_stack_add(t.policies, cases[i].spec, NULL));
		check(toy_alloc(&t, 0, 'U') == 0);
		check(t.pcp->counters.boost_asks == cases[i].asks);
		check(t.zone->boost == (int64_t)cases[i].asks * 16);
		kswapd_begin(t.m, 0, ZONE_MOVABLE);
		kswapd_end(t.m, 0);
		check(t.zone->boost == 0);
		toy_free(&t);
	}
}

static void v50_bug_tests_a_flag_that_nothing_sets(void)
{
	struct toy t;

	little_to_mix(&t, "6.18", "nofragment:mode=always,v50_bug=1");
	check(toy_alloc(&t, 0, 'U') == 0);
	check(t.pcp->counters.nofragment_retries == 0);
	check(t.pcp->counters.below_low == 0);
	toy_free(&t);
}

/* Whether a request that would be served by NORMAL of node 1 has ALLOC_NOFRAGMENT. */
static bool lowzone_on(const struct machine *machine, const struct zone_spec *zones, int nr_zones)
{
	struct toy t;
	bool on;

	toy_new_machine_under(&t, "4.20", "nofragment:mode=lowzone", machine, zones, nr_zones);
	on = t.m->zones[nr_zones - 1].has_lower;
	toy_free(&t);
	return on;
}

static const struct machine two_nodes = {
	.pageblock_order = 4,
	.max_order = 5,
	.nr_cpus = 2,
	.nr_nodes = 2,
	.cpu_nodes = (const uint16_t[]){0, 1},
	.node_distances = (const uint8_t[]){10, 20, 20, 10},
};

#define ZONE(on_node, zone_type, pfn)                                                              \
	{.node = on_node,                                                                          \
	 .type = zone_type,                                                                        \
	 .start_pfn = pfn,                                                                         \
	 .spanned = 32,                                                                            \
	 .present = 32,                                                                            \
	 .managed = 32}

static void lowzone_binds_where_one_node_is_online_or_the_node_has_a_dma32(void)
{
	static const struct zone_spec bare[] = {ZONE(0, ZONE_NORMAL, 0)},
				      remote[] = {ZONE(0, ZONE_DMA32, 0), ZONE(0, ZONE_NORMAL, 32),
						  ZONE(1, ZONE_NORMAL, 64)},
				      local[] = {ZONE(1, ZONE_DMA32, 0), ZONE(1, ZONE_NORMAL, 32)},
				      dma[] = {ZONE(1, ZONE_DMA, 0), ZONE(1, ZONE_NORMAL, 32)};
	struct machine one_node = two_nodes;
	struct zone_spec movable = ZONE(0, ZONE_MOVABLE, 0);

	one_node.nr_nodes = one_node.nr_cpus = 1;
	check(lowzone_on(&one_node, bare, 1));
	check(!lowzone_on(&one_node, &movable, 1));
	check(!lowzone_on(&two_nodes, bare, 1));
	check(!lowzone_on(&two_nodes, remote, 3));
	check(lowzone_on(&two_nodes, local, 2));
	check(!lowzone_on(&two_nodes, dma, 2));
}

static void lowzone_mixes_at_home_before_it_leaves_its_node(void)
{
	static const struct zone_spec zones[] = {
		ZONE(0, ZONE_DMA32, 0),
		ZONE(0, ZONE_NORMAL, 32),
		ZONE(1, ZONE_NORMAL, 64),
	};
	struct toy t;

	toy_new_machine_under(&t, "4.20", "nofragment:mode=lowzone", &two_nodes, zones, 3);
	toy_add_free(&t, 0, 2, 'M');
	t.zone = &t.m->zones[1];
	toy_add_free(&t, 32, 2, 'M');
	t.zone = &t.m->zones[2];
	toy_add_free(&t, 64, 2, 'U');
	check(toy_alloc(&t, 0, 'U') == 32);
	check(zone_pcp(t.m, &t.m->zones[1], 0)->counters.nofragment_retries == 1);
	toy_free(&t);
}

static void a_boost_stops_at_its_limit_and_its_time_is_counted(void)
{
	struct toy t;

	toy_new_under(&t, "4.20", "watermark_boost:factor=20000",
		      (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
	toy_pcp(&t, 1, 8);
	t.m->boost_acts = true;
	t.zone->wmark[WMARK_HIGH] = 20;
	for (uint32_t i = 0; i < 4; i++) {
		t.m->now.ts = 100 * i;
		toy_add_free(&t, 2 * i, 0, 'M');
		check(toy_alloc(&t, 0, 'R') == 2 * i);
		check(t.zone->boost == (i < 2 ? 16 * (int64_t)(i + 1) : 40));
	}
	check(t.pcp->counters.boost_asks == 4);
	check(t.pcp->counters.boost_saturated == 1);
	kswapd_begin(t.m, 0, ZONE_MOVABLE);
	t.m->now.ts = 1000;
	kswapd_end(t.m, 0);
	check(t.zone->boost == 0);
	check(t.pcp->counters.boosted_ns == 1000);
	check(t.pcp->counters.boost_saturated_ns == 800);
	toy_free(&t);
}

/* The figures of zone Normal of a machine of 24 GiB: vm.min_free_kbytes 67584, factor 15000. */
static void a_large_zone_is_boosted_by_at_most_38337_pages_after_75_fallbacks(void)
{
	const struct machine machine = toy_machine(9, 10);
	const struct zone_spec zone = {.type = ZONE_NORMAL,
				       .spanned = 2048,
				       .present = 2048,
				       .managed = 2048,
				       .wmark = {14770, 20164, 25558}};
	int64_t most;
	struct toy t;

	toy_new_machine(&t, "5.10", &machine, &zone, 1);
	t.m->boost_acts = true;
	most = boost_limit(t.m, t.zone, 15000);
	check(most == 38337);
	check(boost_limit(t.m, t.zone, 0) == 0);
	check(boost_limit(t.m, t.zone, 1) == 512);
	for (int i = 1; i <= 74; i++)
		boost_zone(t.m, t.zone, most);
	check(t.zone->boost == 74 * 512 && !t.zone->boost_full);
	boost_zone(t.m, t.zone, most);
	check(t.zone->boost == 38337 && t.zone->boost_full);
	check(t.pcp->counters.boost_saturated == 0);
	boost_zone(t.m, t.zone, most);
	check(t.zone->boost == 38337 && t.pcp->counters.boost_saturated == 1);
	check(zone_mark(t.zone, WMARK_LOW) == 20164 + 38337);
	t.zone->managed = 2047;
	check(boost_limit(t.m, t.zone, 15000) == 0);
	toy_free(&t);
}

/* The same machine's zone DMA32: min 2115, and 21071 pages are kept from Normal requests. */
static void a_zone_serves_what_leaves_its_watermark_and_its_reserve(void)
{
	static const struct {
		const char *kernel;
		uint32_t flags;
		uint8_t class_zone;
		uint64_t last_refused;
	} cases[] = {
		{"6.18", 0, ZONE_DMA32, 2115},
		{"6.18", 0, ZONE_NORMAL, 2115 + 21071},
		{"6.18", ALLOC_HIGH, ZONE_NORMAL, 1058 + 21071},
		{"6.18", ALLOC_HIGH | ALLOC_HARDER, ZONE_NORMAL, 794 + 21071},
		{"6.18", ALLOC_HARDER, ZONE_NORMAL, 2115 + 21071},
		{"6.1.0", ALLOC_HARDER, ZONE_NORMAL, 1587 + 21071},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct request rq = {.class_zone = cases[i].class_zone,
					   .flags = cases[i].flags};
		struct toy t;

		toy_new(&t, cases[i].kernel, (struct toy_geometry){4, 5, "MMMM", ZONE_DMA32});
		t.zone->lowmem_reserve[ZONE_NORMAL] = 21071;
		t.zone->nr_free_pages = cases[i].last_refused;
		check(!watermark_ok(t.m, t.zone, &rq, 2115));
		t.zone->nr_free_pages++;
		check(watermark_ok(t.m, t.zone, &rq, 2115));
		t.zone->nr_free_pages = 0;
		toy_free(&t);
	}
}

/* A fallback that cannot claim: the only page of a block full of movable ones. */
static void only_attempts_to_claim_boost_when_asked_so(void)
{
	static const struct {
		const char *kernel, *policy;
		char type;
		uint64_t asks;
	} cases[] = {
		{"4.20", "watermark_boost:trigger=every_fallback", 'M', 1},
		{"4.20", "watermark_boost:trigger=claim_attempt", 'M', 0},
		{"4.20", "watermark_boost:trigger=claim_attempt", 'R', 1},
		{"6.18", "watermark_boost:trigger=every_fallback", 'M', 1},
		{"6.18", "watermark_boost:trigger=claim_attempt", 'M', 0},
		{"6.18", "watermark_boost:trigger=claim_attempt", 'R', 1},
		{"6.18", "mainline", 'M', 0},
		{"6.18", "mainline", 'R', 1},
		{"6.14", "mainline", 'M', 1},
		{"4.20", "mainline", 'R', 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new_under(&t, cases[i].kernel, cases[i].policy,
			      (struct toy_geometry){4, 5, "UUUU", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		t.zone->wmark[WMARK_HIGH] = 20;
		toy_add_free(&t, 0, 0, 'U');
		check(toy_alloc(&t, 0, cases[i].type) == 0);
		check(t.pcp->counters.boost_asks == cases[i].asks);
		toy_free(&t);
	}
}

static void stall_counts_what_it_would_refuse_the_slow_path(void)
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
		struct toy t;

		toy_new_under(&t, "6.18", cases[i].policy,
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
		toy_free(&t);
	}
}

/* The pfns of the zones in the order a request of a node tries them. */
static const char *walk_order(const struct toy *t, int node)
{
	static char text[64];
	size_t length = 0;

	for (int i = 0; i < t->m->fallback[node].nr; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, i ? " %u" : "%u",
					   (unsigned int)t->m->fallback[node].zones[i]->start_pfn);
	return text;
}

static void zone_order_saves_the_low_zones_of_every_node(void)
{
	static const struct zone_spec zones[] = {
		ZONE(0, ZONE_DMA, 0),     ZONE(0, ZONE_DMA32, 32),    ZONE(0, ZONE_NORMAL, 64),
		ZONE(1, ZONE_NORMAL, 96), ZONE(1, ZONE_MOVABLE, 128),
	};
	static const struct {
		const char *policy, *orders[2];
	} cases[] = {
		{"zonelist:order=node", {"64 32 0 128 96", "128 96 64 32 0"}},
		{"zonelist:order=zone", {"128 64 96 32 0", "128 96 64 32 0"}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new_machine_under(&t, "6.18", cases[i].policy, &two_nodes, zones, 5);
		check_text(walk_order(&t, 0), cases[i].orders[0]);
		check_text(walk_order(&t, 1), cases[i].orders[1]);
		toy_free(&t);
	}
}

static void equally_far_nodes_take_turns_as_the_next_best(void)
{
	static const uint16_t cpu_nodes[] = {0, 1, 2}; /* node 3 has memory only */
	static const uint8_t distances[4][4] = {
		{10, 20, 20, 20}, {20, 10, 20, 20}, {20, 20, 10, 20}, {20, 20, 20, 10}};
	static const struct zone_spec zones[] = {ZONE(0, ZONE_NORMAL, 0), ZONE(1, ZONE_NORMAL, 32),
						 ZONE(2, ZONE_NORMAL, 64),
						 ZONE(3, ZONE_NORMAL, 96)};
	const struct machine machine = {
		.pageblock_order = 4,
		.max_order = 5,
		.nr_cpus = 3,
		.nr_nodes = 4,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances[0],
	};
	struct toy t;

	toy_new_machine_under(&t, "6.18", "mainline", &machine, zones, 4);
	check_text(walk_order(&t, 0), "0 96 32 64");
	check_text(walk_order(&t, 1), "32 96 64 0");
	check_text(walk_order(&t, 2), "64 96 0 32");
	check_text(walk_order(&t, 3), "96 0 32 64");
	toy_free(&t);
}

static void a_fallback_is_that_of_the_row_it_names(void)
{
	static const char *const rows[] = {"4.20", "6.8", "6.18"};
	static const struct {
		const char *policy;
		uint64_t page; /* that a MOVABLE request gets of two chunks, at 0 and 12 */
		int order;     /* of the UNMOVABLE list that keeps something */
		const char *left;
	} cases[] = {
		{"fallback:kernel=6.18", 0, 1, "12"},
		{"fallback:kernel=4.20", 0, 1, "12"},
		/* Up to 2.6.33 the largest is taken, and its remainder keeps its type. */
		{"fallback:kernel=2.6.33", 12, 0, "13 0"},
	};

	for (size_t i = 0; i < 9; i++) {
		struct toy t;

		toy_new_under(&t, rows[i % 3], cases[i / 3].policy,
			      (struct toy_geometry){4, 5, "UUUU", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 0, 'U');
		toy_add_free(&t, 12, 1, 'U');
		check(toy_alloc(&t, 0, 'M') == cases[i / 3].page);
		check_text(toy_list(&t, cases[i / 3].order, 'U'), cases[i / 3].left);
		check(!model_check(t.m));
		toy_free(&t);
	}
}

int main(void)
{
	test(bad_specs_say_why);
	test(a_policy_answers_to_its_former_name);
	test(two_owners_of_one_choice_are_refused_by_name);
	test(every_choice_has_an_owner);
	test(off_mixes_at_once);
	test(lowzone_mixes_when_all_zones_were_tried);
	test(always_mixes_only_where_reclaim_would_run);
	test(whole_pageblocks_may_always_change_owner);
	test(a_boost_factor_of_0_never_boosts);
	test(v50_bug_tests_a_flag_that_nothing_sets);
	test(lowzone_binds_where_one_node_is_online_or_the_node_has_a_dma32);
	test(lowzone_mixes_at_home_before_it_leaves_its_node);
	test(a_boost_stops_at_its_limit_and_its_time_is_counted);
	test(a_large_zone_is_boosted_by_at_most_38337_pages_after_75_fallbacks);
	test(a_zone_serves_what_leaves_its_watermark_and_its_reserve);
	test(only_attempts_to_claim_boost_when_asked_so);
	test(stall_counts_what_it_would_refuse_the_slow_path);
	test(zone_order_saves_the_low_zones_of_every_node);
	test(equally_far_nodes_take_turns_as_the_next_best);
	test(a_fallback_is_that_of_the_row_it_names);
	return check_done();
}
