// SPDX-License-Identifier: Apache-2.0
/*
 * thp_numa - on which nodes a fault tries for a huge page, and how hard.
 *
 *   thisnode                  its own node with all effort (2015 to 4.20, 2f0799a0ffc0)
 *   spill                     all nodes by distance with all effort (ac5b2c18911f of
 *                             4.20-rc1; a8282608c88e, 92717d429b38 of 5.3)
 *   local_then_spill_noretry  its own node without reclaim; then, if it may reclaim, all
 *                             with __GFP_NORETRY (b39d0ee2632d, 76e654cc91bb of 5.4)
 *   local_then_spill          the same, the second with all effort (cc638f329ef6 of 5.5)
 *
 * Then single pages of any node. Without feedback (R0) the model neither reclaims nor compacts,
 * so effort makes no difference and the last two modes are alike. With feedback, effort is
 * rounds of direct reclaim.
 */
#include "huge_effect.h"
#include "policy.h"

enum { THIS_NODE, SPILL, LOCAL_THEN_SPILL_NORETRY, LOCAL_THEN_SPILL };
enum { ALL_EFFORT = 16 }; /* MAX_RECLAIM_RETRIES */

struct thp_numa {
	int64_t mode;
};

static bool thp_numa(struct policy *self, struct huge_plan *plan)
{
	static const struct huge_step everywhere = {{0, UINT8_MAX}, false};
	const struct huge_try local = {.steps = {everywhere}, .nr_steps = 1, .this_node = true};
	const struct huge_try spill = {.steps = {everywhere}, .nr_steps = 1, .rounds = ALL_EFFORT};
	int64_t mode = ((const struct thp_numa *)self->state)->mode;

	*plan = (struct huge_plan){{local, spill}, 2};
	plan->tries[1].reclaimer = true;
	if (mode == LOCAL_THEN_SPILL_NORETRY)
		plan->tries[1].rounds = 1;
	if (mode == THIS_NODE || mode == SPILL) {
		*plan = (struct huge_plan){{mode == SPILL ? spill : local}, 1};
		plan->tries[0].rounds = ALL_EFFORT;
	}
	return true;
}

static const char *const modes[] = {"thisnode", "spill", "local_then_spill_noretry",
				    "local_then_spill", NULL};

static const struct policy_param params[] = {
	{"mode", THIS_NODE, LOCAL_THEN_SPILL, LOCAL_THEN_SPILL, offsetof(struct thp_numa, mode),
	 modes, "The rule, by the nodes it tries."},
	{0},
};

const struct policy_ops thp_numa_policy = {
	.name = "thp_numa",
	.doc = "On which nodes a fault tries for a huge page, and how hard.",
	.kernel = "2015 to 6.18, by mode",
	.tier = "B",
	.state_size = sizeof(struct thp_numa),
	.params = params,
	.huge_plan = thp_numa,
	.effect = huge_plan_effect,
};
