// SPDX-License-Identifier: Apache-2.0
/*
 * reserve - MIGRATE_RESERVE, which leaked in 2.6.32, and four ways to mend it.
 *
 * Up to 4.3 the first pageblocks of a zone were of a type that served whoever found all
 * other lists empty, above all high-order requests that cannot sleep. When 5f8dcc21211a
 * (2.6.32) gave each migratetype a PCP list, a freed page of the reserve went among the
 * MOVABLE ones and a drain freed it as such: the reserve leaked away. The fixes discussed in
 * December 2009:
 *
 *   fix1  a drain frees a page to its own type, that of its pageblock when it was freed
 *         (a7016235a61d, 2.6.33)
 *   fix2  pages of the reserve go past the PCP, under the zone lock
 *   fix3  they have a PCP list of their own, for whom a refill left empty-handed
 *   fix4  the same, but only for MOVABLE requests
 *
 * Since 4.4 there is HIGHATOMIC instead; the policy puts a reserve beside it, on any row.
 * Pages of a request under ALLOC_NOFRAGMENT never come from it. The PCP list of fix3 and fix4
 * has order 0, the only order PCPs had; larger pages of the reserve go past the PCP.
 */
#include "policy.h"

enum { NONE, BUG, FIX1, FIX2, FIX3, FIX4 };

struct reserve {
	int64_t mode, blocks;
};

static void edit_row(struct policy *self, struct kernel *row)
{
	static const uint8_t pcp[] = {
		[NONE] = RESERVE_PCP_MOVABLE, [BUG] = RESERVE_PCP_MOVABLE,
		[FIX1] = RESERVE_PCP_MOVABLE, [FIX2] = RESERVE_PCP_PAST,
		[FIX3] = RESERVE_PCP_OWN,     [FIX4] = RESERVE_PCP_OWN_MOVABLE,
	};
	const struct reserve *reserve = self->state;

	row->reserve_blocks = reserve->mode != NONE;
	row->reserve_pcp = pcp[reserve->mode];
	row->reserve_leaks = reserve->mode == BUG;
	if (reserve->mode == FIX1 && row->drained_type == DRAINED_INDEX)
		row->drained_type = DRAINED_RECORDED;
}

static int reserve_blocks(struct policy *self, const struct model *m, const struct zone *zone)
{
	const struct reserve *reserve = self->state;

	if (reserve->blocks < 0)
		return self->mainline->ops->reserve_blocks(self->mainline, m, zone);
	return (int)reserve->blocks;
}

static const char *const modes[] = {"none", "bug", "fix1", "fix2", "fix3", "fix4", NULL};

static const struct policy_param params[] = {
	{"mode", NONE, FIX4, FIX1, offsetof(struct reserve, mode), modes,
	 "bug: as in 2.6.32; fix1: as in 2.6.33; fix2 to fix4: what else was discussed."},
	{"nr_reserve_blocks", -1, 1 << 20, -1, offsetof(struct reserve, blocks), NULL,
	 "MOVABLE pageblocks, from the start of each zone; -1: what its min watermark fills, "
	 "at most 2."},
	{0},
};

const struct policy_ops reserve_policy = {
	.name = "reserve",
	.doc = "MIGRATE_RESERVE, which leaked in 2.6.32, and four ways to mend it.",
	.kernel = "2.6.32 (bug), 2.6.33 (fix1); fix2 to fix4 were never merged",
	.tier = "A",
	.state_size = sizeof(struct reserve),
	.params = params,
	.reserve = edit_row,
	.reserve_blocks = reserve_blocks,
};
