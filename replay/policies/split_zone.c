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
};

static int split_zone_layout(struct policy *self, struct machine *machine, struct zone_spec *zones,
			     int *nr, int most, struct error *err)
{
	const struct split_zone *sz = self->state;

	machine->zone_parts = (int)sz->parts;
	return layout_cut(zones, nr, most, machine->max_order, machine->zone_parts, err);
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
};
