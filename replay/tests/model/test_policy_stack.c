// SPDX-License-Identifier: Apache-2.0
/* The specs of policies, and the one owner of each choice. */
#include "check.h"
#include "toy.h"

#include "policies/policies.h"

#include <errno.h>
#include <string.h>

extern const struct policy_ops mainline_policy, nofragment_policy;

TEST(bad_specs_say_why)
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
		{"nofragment:max=1", -EINVAL,
		 "policy nofragment has no parameter 'max'; it has mode, v50_bug"},
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

TEST(every_kernel_row_is_a_value_and_an_error_names_all)
{
	struct error err = {""};
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, policies, NULL));
	check(!policy_stack_add(stack, "fallback:kernel=7.3", &err));
	policy_stack_free(stack);
	check(!policy_stack_new(&stack, policies, NULL));
	check(policy_stack_add(stack, "fallback:kernel=8.0", &err) == -EINVAL);
	check(strstr(err.msg, "fallback:kernel: '8.0' is not one of 2.6.31, "));
	check(strstr(err.msg, ", 7.3"));
	policy_stack_free(stack);
}

TEST(two_owners_of_one_choice_are_refused_by_name)
{
	struct error err = {""};
	struct policy_stack *stack;

	check(!policy_stack_new(&stack, policies, &err));
	check(!policy_stack_add(stack, "nofragment:mode=off", &err));
	check(policy_stack_add(stack, "nofragment:mode=always", &err) == -EBUSY);
	check_text(err.msg, "nofragment and nofragment both decide 'nofragment'");
	policy_stack_free(stack);
}

TEST(every_choice_has_an_owner)
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

/* Whether the last policy of a spec acts through reclaim on 6.18; "" for mainline alone. */
static bool acts(const char *recorded, const char *spec)
{
	const struct kernel *row;
	struct policy_stack *stack;
	bool found;

	check(!kernel_find(&row, "6.18", NULL));
	check(!policy_stack_new(&stack, policies, NULL));
	check(!policy_stack_record(stack, recorded, NULL));
	check(!policy_stack_add(stack, spec, NULL));
	found = policy_stack_feedback(stack, stack->nr - 1, row);
	policy_stack_free(stack);
	return found;
}

TEST(the_tier_of_a_policy_follows_its_choices_and_parameters)
{
	static const struct {
		const char *spec;
		bool acts;
	} cases[] = {
		{"nofragment", false},
		{"nofragment:mode=off", false},
		{"nofragment:mode=always", true},
		{"nofragment:mode=always,v50_bug=1", false}, /* the flag is never set */
		{"fallback:kernel=6.17", false},
		{"fallback:kernel=5.10", true}, /* boosts at every fallback */
		{"watermark_boost", true},
		{"thp_numa", true},
		{"order_walk", true},
		{"zone_reclaim_mode", true},
		{"pcp:mode=fixed", false},
		{"zonelist", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(acts("mainline", cases[i].spec) == cases[i].acts);
}

TEST(mainline_acts_through_reclaim_where_it_differs_from_the_recording)
{
	check(!acts("mainline", "mainline"));
	check(!acts("mainline", "mainline:boost_factor=15000"));
	check(acts("mainline", "mainline:boost_factor=0"));
	check(acts("mainline:boost_factor=0", "mainline:boost_factor=15000"));
	check(!acts("mainline:defrag_mode=1", "mainline"));
	check(!acts("mainline:defrag_mode=1", "mainline:defrag_mode=1"));
	check(acts("mainline:defrag_mode=1", "mainline:defrag_mode=0"));
	check(acts("mainline:zone_reclaim_mode=1", "mainline:zone_reclaim_mode=0"));
	check(acts("mainline", "mainline:proactiveness=0"));
}

/* A tier that a policy names may be B without such a choice, and never A with one. */
TEST(no_policy_hides_a_choice_of_reclaim)
{
	for (const struct policy_ops *const *ops = policies + 1; *ops; ops++) {
		bool owns = false;

#define OWNS(choice) owns |= (*ops)->choice != NULL;
		FOR_EACH_RECLAIM_CHOICE(OWNS)
#undef OWNS
		check(!owns || (*ops)->feedback || *(*ops)->tier == 'B');
		check(!strcmp((*ops)->tier, "A") || !strcmp((*ops)->tier, "B"));
	}
}
