// SPDX-License-Identifier: Apache-2.0
/*
 * split_zone - cut every zone into several of the same node, to relieve the zone lock.
 *
 * After an RFC of 11 May 2023 (mm: improve page allocator scalability via splitting
 * zones): `parts` equal ranges, each with its own free lists and lock. The CPU's number selects
 * the first part that a request tries; the other parts of the zone follow before the next zone.
 * All parts have one kswapd. Each part has its share of the watermarks: a request is below a
 * mark of the zone when it is below that mark in every part.
 */
#include "layout.h"
#include "policy.h"

enum { PARTS_MOST = 64 };

struct split_zone {
	int64_t parts;
	int zones, zones_before;
};

static int split_zone_layout(struct policy *self, struct machine *machine, struct zone_spec *zones,
			     int *nr, int most, struct error *err)
{
	struct split_zone *sz = self->state;
	int ret;

	machine->zone_parts = (int)sz->parts;
	sz->zones_before = *nr;
	ret = layout_cut(zones, nr, most, machine->max_order, machine->zone_parts, err);
	sz->zones = *nr;
	return ret;
}

static void split_zone_effect(struct policy *self, const struct model *m,
			      const struct counters *total, struct policy_effect *effect)
{
	const struct split_zone *sz = self->state;

	layout_effect(effect, sz->zones_before, sz->zones, total->allocs);
}

static const struct policy_param split_zone_params[] = {
	{"parts", 1, PARTS_MOST, 2, offsetof(struct split_zone, parts), NULL,
	 "Parts to make of each zone."},
	{0},
};

const struct policy_ops split_zone_policy = {
	.name = "split_zone",
	.doc = "Every zone in several parts, each with its own free lists and lock.",
	.kernel = "RFC of May 2023",
	.tier = "A",
	.state_size = sizeof(struct split_zone),
	.params = split_zone_params,
	.layout = split_zone_layout,
	.effect = split_zone_effect,
};
