// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "toy.h"

#include <errno.h>
#include <string.h>

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

		check(!policy_stack_new(&stack, &err));
		check(policy_stack_add(stack, cases[i].spec, &err) == cases[i].ret);
		check_text(err.msg, cases[i].msg);
		check(stack->nr == 1);
		policy_stack_free(stack);
	}
}

static void two_owners_of_one_choice_are_refused_by_name(void)
{
	struct error err = {""};
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, &err));
	check(!policy_stack_add(stack, "nofragment:mode=off", &err));
	check(policy_stack_add(stack, "nofragment:mode=always", &err) == -EBUSY);
	check_text(err.msg, "nofragment and nofragment both decide 'nofragment'");
	policy_stack_free(stack);
}

static void every_choice_has_an_owner(void)
{
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, NULL));
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

int main(void)
{
	test(bad_specs_say_why);
	test(two_owners_of_one_choice_are_refused_by_name);
	test(every_choice_has_an_owner);
	test(off_mixes_at_once);
	test(lowzone_mixes_when_all_zones_were_tried);
	test(always_mixes_only_where_reclaim_would_run);
	test(whole_pageblocks_may_always_change_owner);
	test(a_boost_factor_of_0_never_boosts);
	return check_done();
}
