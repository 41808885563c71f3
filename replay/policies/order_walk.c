// SPDX-License-Identifier: Apache-2.0
/*
 * order_walk - compares a huge page far away with single pages nearby.
 *
 * One scan over (node, order) serves a fault that asks for a huge page: Andrea Arcangeli's idea
 * of alloc_pages_multi_order(), of 2019. Nodes are ordered by distance class; D0 is the CPU's
 * own node. All zones of a node are tried before the next node.
 *
 *   node_first   D0 huge, D0 single, D1 huge, D1 single, ...
 *   order_first  huge by distance, then single by distance
 *   thisnode     D0 huge, then single by distance
 *   guest        D0 huge, D1 huge, D0 single, D2 huge, D1 single, ...: in a virtual machine
 *                huge pages save the second level of page tables as well
 *
 * Where a single page is better, the fault gets a single page. So do later faults in the range
 * of its huge page, each as the kernel serves a single page.
 */
#include "huge_effect.h"
#include "policy.h"

enum { NODE_FIRST, ORDER_FIRST, THISNODE, GUEST };

struct order_walk {
	int64_t mode;
};

static void add(struct huge_try *try, int near, int far, bool single)
{
	uint8_t last = far == DISTANCE_CLASSES - 1 ? UINT8_MAX : (uint8_t)far;

	try->steps[try->nr_steps++] = (struct huge_step){{(uint8_t)near, last}, single};
}

static bool order_walk(struct policy *self, struct huge_plan *plan)
{
	const struct order_walk *ow = self->state;
	struct huge_try *try = &plan->tries[0];

	plan->nr_tries = 1;
	for (int class = 0; class < DISTANCE_CLASSES; class++) {
		if (ow->mode == THISNODE && class > 0)
			break;
		add(try, class, class, false);
		if (ow->mode == NODE_FIRST)
			add(try, class, class, true);
		if (ow->mode == GUEST && class > 0)
			add(try, class - 1, class - 1, true);
	}
	return true;
}

static const char *const modes[] = {"node_first", "order_first", "thisnode", "guest", NULL};

static const struct policy_param params[] = {
	{"mode", NODE_FIRST, GUEST, NODE_FIRST, offsetof(struct order_walk, mode), modes,
	 "Which of node and order is tried first."},
	{0},
};

const struct policy_ops order_walk_policy = {
	.name = "order_walk",
	.doc = "Huge pages and single pages of all nodes in one scan (alloc_pages_multi_order).",
	.kernel = "proposed in 2019",
	.tier = "B",
	.state_size = sizeof(struct order_walk),
	.params = params,
	.huge_plan = order_walk,
	.effect = huge_plan_effect,
};
