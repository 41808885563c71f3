/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge_effect.h - the effect of the policies that own huge_plan.
 */
#pragma once

#include "policy.h"
#include "policy_effect.h"

static inline void huge_plan_effect(struct policy *self, const struct model *m,
				    const struct counters *total, struct policy_effect *effect)
{
	uint64_t served = total->thp_local + total->thp_remote;
	uint64_t failed =
		total->thp_below_watermark + total->thp_fragmented + total->thp_no_compaction;

	if (!served && !failed)
		effect_never(effect, "no fault asked for a huge page");
	else
		effect_decided(effect, served + failed, EFFECT_UNKNOWN,
			       "decided where %llu fault%s looked for a huge page; %llu got one",
			       (unsigned long long)(served + failed), plural(served + failed),
			       (unsigned long long)served);
}
