// SPDX-License-Identifier: Apache-2.0
/*
 * zone_reclaim_mode - vm.zone_reclaim_mode: reclaim on the own node before going remote.
 *
 * If a zone of the CPU's node, or of a near node without CPUs, is below the watermark, a request
 * that may sleep reclaims 32 pages there (2^order if that is more) and tests the zone again
 * before it tries the next. Without feedback (R0) this is only counted (node_reclaims).
 *
 * With feedback, a try frees what the tries of a recording with the same mode freed, and keeps
 * other tasks from the node as long. Another recording does not show that: with the rights to
 * write and to unmap (modes 6 and 7) a try frees pages that the record's reclaim freed on the
 * node, in no time; with fewer rights none. The run then gets no verdict, unless the LRU is the
 * multi-generational one, which frees nothing without both rights (feature node_reclaim_whole).
 * vm.min_unmapped_ratio and vm.min_slab_ratio count as met.
 */
#include "policy.h"

struct zone_reclaim_mode {
	int64_t mode;
	int64_t distance;
};

static void zone_reclaim(struct policy *self, struct zone_reclaim *reclaim)
{
	const struct zone_reclaim_mode *zr = self->state;

	*reclaim = (struct zone_reclaim){(int)zr->mode, (int)zr->distance};
}

static void count_reclaims(struct policy *self, const struct model *m, const struct counters *total,
			   struct policy_effect *effect)
{
	const struct zone_reclaim_mode *zr = self->state;
	uint64_t reclaims = total->node_reclaims;

	if (!zr->mode)
		effect_never(effect, "mode=0 is the choice of mainline");
	else if (!reclaims)
		effect_never(effect, "no request that may sleep found a zone of its node below the "
				     "watermark");
	else if (!m->reclaim_ops)
		effect_decided(effect, reclaims, 0,
			       "would have reclaimed %llu time%s, but only counts them without "
			       "feedback (--reclaim R0)",
			       (unsigned long long)reclaims, plural(reclaims));
	else
		effect_decided(effect, reclaims, (int64_t)reclaims,
			       "tried %llu time%s to reclaim on the own node of a request",
			       (unsigned long long)reclaims, plural(reclaims));
}

static const struct policy_param params[] = {
	{"mode", 0, ZONE_RECLAIM_BITS, 1, offsetof(struct zone_reclaim_mode, mode), NULL,
	 "vm.zone_reclaim_mode: 0 for none, 1 on, 2 may write, 4 may unmap."},
	{"distance", 10, UINT8_MAX, RECLAIM_DISTANCE, offsetof(struct zone_reclaim_mode, distance),
	 NULL, "RECLAIM_DISTANCE: nodes further away are not reclaimed for a request."},
	{0},
};

const struct policy_ops zone_reclaim_mode_policy = {
	.name = "zone_reclaim_mode",
	.doc = "Reclaim on the own node before a request goes to the next.",
	.kernel = "2.6.16 to 7.3",
	.tier = "B",
	.state_size = sizeof(struct zone_reclaim_mode),
	.params = params,
	.zone_reclaim = zone_reclaim,
	.effect = count_reclaims,
};
