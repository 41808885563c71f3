// SPDX-License-Identifier: Apache-2.0
/*
 * reserve - MIGRATE_RESERVE, which leaked in 2.6.32, and four fixes.
 *
 * Up to 4.3 the first pageblocks of a zone had the type MIGRATE_RESERVE. It served requests that
 * found all other lists empty, mainly high-order requests that cannot sleep. 5f8dcc21211a
 * (2.6.32) gave each migratetype a PCP list. From then on a freed page of the reserve went to the
 * MOVABLE list and a drain freed it as MOVABLE: the reserve leaked. The fixes discussed in
 * December 2009:
 *
 *   fix1  a drain frees a page to its own type, that of its pageblock when it was freed
 *         (a7016235a61d, 2.6.33)
 *   fix2  pages of the reserve go past the PCP, under the zone lock
 *   fix3  they have a PCP list of their own, for requests whose refill found nothing
 *   fix4  the same, but only for MOVABLE requests
 *
 * 4.4 replaced it by HIGHATOMIC; the policy adds a reserve beside that, on any row. A request
 * under ALLOC_NOFRAGMENT gets no page of the reserve. The PCP list of fix3 and fix4 has order
 * 0, the only order of PCPs at that time; larger pages of the reserve go past the PCP.
 */
#include "policy.h"

enum { NONE, BUG, FIX1, FIX2, FIX3, FIX4 };

struct reserve {
	int64_t mode, blocks;
	bool differs; /* from the rules of the run's row */
};

static void edit_row(struct policy *self, struct kernel *row)
{
	static const uint8_t pcp[] = {
		[NONE] = RESERVE_PCP_MOVABLE, [BUG] = RESERVE_PCP_MOVABLE,
		[FIX1] = RESERVE_PCP_MOVABLE, [FIX2] = RESERVE_PCP_PAST,
		[FIX3] = RESERVE_PCP_OWN,     [FIX4] = RESERVE_PCP_OWN_MOVABLE,
	};
	struct reserve *reserve = self->state;
	const struct kernel before = *row;

	row->reserve_blocks = reserve->mode != NONE;
	row->reserve_pcp = pcp[reserve->mode];
	row->reserve_leaks = reserve->mode == BUG;
	if (reserve->mode == FIX1 && row->drained_type == DRAINED_INDEX)
		row->drained_type = DRAINED_RECORDED;
	reserve->differs = reserve->blocks >= 0 || !kernel_rules_same(&before, row);
}

static int reserve_blocks(struct policy *self, const struct model *m, const struct zone *zone)
{
	const struct reserve *reserve = self->state;

	if (reserve->blocks < 0)
		return self->mainline->ops->reserve_blocks(self->mainline, m, zone);
	return (int)reserve->blocks;
}

static void count_used(struct policy *self, const struct model *m, const struct counters *total,
		       struct policy_effect *effect)
{
	const struct reserve *reserve = self->state;
	uint64_t taken = total->reserve_taken;
	uint64_t freed = total->reserve_past_pcp + total->reserve_leaked;
	uint64_t decided = taken + freed;

	if (!reserve->differs)
		effect_never(effect, "%s has this reserve already", m->kernel->name);
	else if (reserve->mode == NONE)
		effect_decided(effect, 1, 1, "removed the reserve, as kernels from 4.4 on");
	else if (!decided)
		effect_never(effect, "no request took a page of the reserve, and none came back");
	else
		effect_decided(effect, decided, EFFECT_UNKNOWN,
			       "gave requests %llu page%s of the reserve, and decided where %llu "
			       "freed page%s of it went",
			       (unsigned long long)taken, plural(taken), (unsigned long long)freed,
			       plural(freed));
}

static const char *const modes[] = {"none", "bug", "fix1", "fix2", "fix3", "fix4", NULL};

static const struct policy_param params[] = {
	{"mode", NONE, FIX4, FIX1, offsetof(struct reserve, mode), modes,
	 "bug: as in 2.6.32; fix1: as in 2.6.33; fix2 to fix4: other fixes discussed."},
	{"nr_reserve_blocks", -1, 1 << 20, -1, offsetof(struct reserve, blocks), NULL,
	 "MOVABLE pageblocks, from the start of each zone; -1: those its min watermark fills, "
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
	.effect = count_used,
};
