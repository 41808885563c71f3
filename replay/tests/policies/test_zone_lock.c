// SPDX-License-Identifier: Apache-2.0
/* The policy zone_lock: its profile of hold times. */
#include "check.h"
#include "toy.h"

#include "freerun/zone_lock_queue.h"
#include "policies/policies.h"

TEST(a_profile_is_a_line_through_the_published_hold_times)
{
	static const struct {
		const char *spec;
		int64_t take_ps, give_ps; /* of 63 blocks */
	} cases[] = {
		{"zone_lock", 3454500, 2638100},
		{"zone_lock:profile=icx", 2558100, 2379900},
		{"zone_lock:profile=clx", 4484600, 3479700},
		{"zone_lock:profile=tape,take_ps=1000,give_block_ps=2", 1000, 126},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_stack *stack;
		struct lock_costs costs;
		struct policy *owner;

		check(!policy_stack_new(&stack, policies, NULL));
		owner = stack->owner.lock_costs;
		check(!owner->ops->lock_costs(owner, &costs));
		check(!policy_stack_add(stack, cases[i].spec, NULL));
		owner = stack->owner.lock_costs;
		check(owner->ops->lock_costs(owner, &costs));
		check(costs.take_ps + 63 * costs.take_block_ps == cases[i].take_ps);
		check(costs.give_ps + 63 * costs.give_block_ps == cases[i].give_ps);
		check(costs.copies == 1);
		policy_stack_free(stack);
	}
}
