// SPDX-License-Identifier: Apache-2.0
/*
 * alloc_unit - serve runs of single pages from larger blocks: larger folios, as it were.
 *
 * What it saves are requests and zone locks; what it costs are pages that nobody asked
 * for (counter unit_waste), and pages that lie unused until the last of their unit is
 * freed.
 */
#include "policy.h"

enum { UNIT_ORDER_MOST = 9 };

struct alloc_unit_policy {
	int64_t order, gap_us;
};

static void alloc_unit_alloc_unit(struct policy *self, struct alloc_unit *unit)
{
	const struct alloc_unit_policy *au = self->state;

	unit->order = (int)au->order;
	unit->gap_ns = (uint64_t)au->gap_us * 1000;
}

static const struct policy_param alloc_unit_params[] = {
	{"order", 1, UNIT_ORDER_MOST, 2, offsetof(struct alloc_unit_policy, order), NULL,
	 "Order of the unit."},
	{"gap_us", 0, 1000000000, 100, offsetof(struct alloc_unit_policy, gap_us), NULL,
	 "Longest time between two requests of a run."},
	{0},
};

const struct policy_ops alloc_unit_policy = {
	.name = "alloc_unit",
	.doc = "Runs of single-page requests are served from one larger block.",
	.kernel = "none",
	.tier = "A",
	.state_size = sizeof(struct alloc_unit_policy),
	.params = alloc_unit_params,
	.alloc_unit = alloc_unit_alloc_unit,
};
