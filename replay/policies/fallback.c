// SPDX-License-Identifier: Apache-2.0
/*
 * fallback - the fallbacks of another kernel.
 *
 * The rules for a request whose own lists are empty come from another row of the feature matrix:
 * which chunk it takes, whether it claims the pageblock, and where the rest of the chunk goes.
 * Dependent rules come from that row as well: which free pages merge and are retyped, to which type
 * a PCP drains, and which event requests a boost. PCPs, watermarks, the size of the HIGHATOMIC
 * reserve and ALLOC_NOFRAGMENT follow the run's own row.
 */
#include "policy.h"

struct fallback {
	int64_t kernel;
};

static void take_family(struct policy *self, struct kernel *row)
{
	const struct fallback *fallback = self->state;
	const struct kernel *other = &kernels[fallback->kernel];

	row->fallback = other->fallback;
	row->fallback_claims_unmovable = other->fallback_claims_unmovable;
	row->retype_whole_chunk = other->retype_whole_chunk;
	row->merge = other->merge;
	row->move_block_to_tail = other->move_block_to_tail;
	row->drained_type = other->drained_type;
	row->free_by_block = other->free_by_block;
	row->highatomic_whole_chunk = other->highatomic_whole_chunk;
	row->boost_trigger = other->boost_trigger;
}

static const struct policy_param params[] = {
	{"kernel", 0, NR_KERNELS - 1, NR_KERNELS - 1, offsetof(struct fallback, kernel),
	 kernel_names,
	 "Kernel row whose fallback rules apply; `pagetape policies` lists the rows."},
	{0},
};

const struct policy_ops fallback_policy = {
	.name = "fallback",
	.doc = "The fallbacks of another kernel.",
	.kernel = "any row",
	.tier = "A",
	.state_size = sizeof(struct fallback),
	.params = params,
	.fallback_family = take_family,
};
