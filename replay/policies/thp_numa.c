// SPDX-License-Identifier: Apache-2.0
/*
 * thp_numa - on which nodes a fault tries for a huge page, and how hard.
 *
 *   thisnode                  its own node (2015 to 4.20, 2f0799a0ffc0)
 *   spill                     all nodes by distance (ac5b2c18911f of 4.20-rc1; a8282608c88e,
 *                             92717d429b38 of 5.3)
 *   local_then_spill_noretry  its own node; then, if it may reclaim, all, both with
 *                             __GFP_NORETRY (b39d0ee2632d, 76e654cc91bb of 5.4)
 *   local_then_spill          the same, the second without that flag (cc638f329ef6 of 5.5)
 *
 * Then single pages of any node. With feedback, a try reclaims and compacts as far as its flags
 * allow (slow_path_turns.h). Without feedback (R0) the model does neither, and the last two modes
 * are alike.
 */
#include "huge_effect.h"
#include "policy.h"

enum { THIS_NODE, SPILL, LOCAL_THEN_SPILL_NORETRY, LOCAL_THEN_SPILL };

struct thp_numa {
	int64_t mode;
};

static bool thp_numa(struct policy *self, struct huge_plan *plan)
{
	static const struct huge_step everywhere = {{0, UINT8_MAX}, false};
	const struct huge_try all = {.steps = {everywhere}, .nr_steps = 1, .turns = true};
	int64_t mode = ((const struct thp_numa *)self->state)->mode;

	*plan = (struct huge_plan){{all, all}, 2};
	plan->tries[0].gfp_flags = GFP_THISNODE | GFP_NORETRY;
	plan->tries[1].reclaimer = true;
	if (mode == LOCAL_THEN_SPILL_NORETRY)
		plan->tries[1].gfp_flags = GFP_NORETRY;
	if (mode == THIS_NODE || mode == SPILL) {
		plan->nr_tries = 1;
		plan->tries[0].gfp_flags = mode == SPILL ? 0 : GFP_THISNODE;
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
