// SPDX-License-Identifier: Apache-2.0
/* What the policies that forbid mixing say about a run. Pageblocks are of 16 pages. */
#include "check.h"
#include "toy.h"

/* What the policy that a toy runs under says. */
static struct policy_effect effect_of(struct toy *t)
{
	static const struct counters none;
	struct policy_effect effect;

	check(policy_stack_effect(t->policies, 1, t->m, &none, &effect));
	return effect;
}

/* Up to two requests, and two single pages of another migratetype. */
static struct policy_effect after_requests(const char *kernel, const char *policy, int requests)
{
	struct policy_effect effect;
	struct toy t;

	toy_new_under(&t, kernel, policy, (struct toy_geometry){4, 5, "MM", ZONE_NORMAL});
	toy_pcp(&t, 1, 8);
	toy_add_free(&t, 0, 0, 'M');
	toy_add_free(&t, 16, 0, 'M');
	for (int i = 0; i < requests; i++) {
		t.m->now.ts++;
		check(toy_alloc(&t, 0, 'U') != UINT64_MAX);
	}
	effect = effect_of(&t);
	toy_free(&t);
	return effect;
}

TEST(always_counts_each_request_that_it_refuses_once)
{
	static const struct {
		const char *kernel, *policy;
		int requests;
		int64_t changed;
	} cases[] = {
		/* mainline of 4.20 mixes at once; that of 6.18 first tries lower zones: none */
		{"4.20", "nofragment:mode=always", 2, 2},
		{"6.18", "nofragment:mode=always", 1, 1},
		{"6.18", "defrag_mode", 1, 1},
		{"4.20", "nofragment:mode=off", 2, 0},
		{"6.18", "nofragment:mode=off", 2, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_effect effect =
			after_requests(cases[i].kernel, cases[i].policy, cases[i].requests);

		check(effect.choices == (uint64_t)cases[i].requests);
		check(effect.changed == cases[i].changed);
	}
	check_text(after_requests("4.20", "nofragment:mode=always", 1).text,
		   "refused to let 1 request mix migratetypes at once; mainline would let 1 of "
		   "them");
}

TEST(a_run_without_such_requests_gives_no_choice)
{
	for (const char *const *policy =
		     (const char *const[]){"nofragment:mode=always", "nofragment:mode=off",
					   "defrag_mode", NULL};
	     *policy; policy++) {
		struct policy_effect effect = after_requests("6.18", *policy, 0);

		check(!effect.choices && !effect.changed);
		check_text(effect.text,
			   "never had a choice here: no request found the lists of its "
			   "migratetype empty");
	}
}

/* A request for NORMAL, whose DMA32 zone has these free pages of its type. */
static struct policy_effect above_dma32(const char *kernel, bool room)
{
	static const struct zone_spec zones[] = {
		TOY_ZONE(0, ZONE_DMA32, 0),
		TOY_ZONE(0, ZONE_NORMAL, 32),
	};
	struct machine one_node = toy_two_nodes;
	struct policy_effect effect;
	struct toy t;

	one_node.nr_nodes = one_node.nr_cpus = 1;
	toy_new_machine_under(&t, kernel, "nofragment:mode=lowzone", &one_node, zones, 2);
	if (room)
		toy_add_free(&t, 0, 2, 'U');
	t.zone = &t.m->zones[1];
	toy_add_free(&t, 32, 2, 'M');
	check((toy_alloc(&t, 0, 'U') < 32) == room);
	effect = effect_of(&t);
	toy_free(&t);
	return effect;
}

TEST(lowzone_has_a_choice_where_a_lower_zone_has_room)
{
	struct policy_effect effect = above_dma32("4.20", true);

	check(effect.choices == 1 && effect.changed == 1);
	/* mainline of 6.18 does the same */
	effect = above_dma32("6.18", true);
	check(effect.choices == 1 && effect.changed == 0);
	check_text(above_dma32("4.20", false).text,
		   "never had a choice here: no node has a zone below NORMAL with room");
	check_text(after_requests("4.20", "nofragment:mode=lowzone", 1).text,
		   "never had a choice here: no node has a zone below NORMAL");
}
