// SPDX-License-Identifier: Apache-2.0
/*
 * zone_reclaim_mode - vm.zone_reclaim_mode: reclaim on the own node before going remote.
 *
 * If a zone of the CPU's node, or of a near node without CPUs, is below the watermark, a request
 * that may sleep reclaims 32 pages there (2^order if that is more) and tests the zone again
 * before it tries the next. Without feedback (R0) this is only counted (node_reclaims). With
 * feedback, the pages are those that reclaim freed on that node on the record. The tape does not
 * show whether a page may be written or unmapped, so every mode but 0 is the same;
 * vm.min_unmapped_ratio and vm.min_slab_ratio count as met.
 */
#include "policy.h"

struct zone_reclaim_mode {
	int64_t mode;
	int64_t distance;
};

static int zone_reclaim_distance(struct policy *self)
{
	const struct zone_reclaim_mode *zr = self->state;

	return zr->mode ? (int)zr->distance : 0;
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
			       "reclaimed %llu time%s on the own node of a request",
			       (unsigned long long)reclaims, plural(reclaims));
}

static const struct policy_param params[] = {
	{"mode", 0, 7, 1, offsetof(struct zone_reclaim_mode, mode), NULL,
	 "vm.zone_reclaim_mode: 0 for none, 1 on, 2 may write, 4 may unmap."},
	{"distance", 10, UINT8_MAX, 30, offsetof(struct zone_reclaim_mode, distance), NULL,
	 "RECLAIM_DISTANCE: nodes further away are not reclaimed for a request."},
	{0},
};

const struct policy_ops zone_reclaim_mode_policy = {
	.name = "zone_reclaim_mode",
	.doc = "Reclaim on the own node before a request goes to the next.",
	.kernel = "2.6.16 to 6.18",
	.tier = "B",
	.state_size = sizeof(struct zone_reclaim_mode),
	.params = params,
	.zone_reclaim_distance = zone_reclaim_distance,
	.effect = count_reclaims,
};
