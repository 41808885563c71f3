/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - zones cut into parts, for the policies fake_numa and split_zone.
 *
 * Part i of n is the i-th of n equal ranges of a zone's pfns, rounded to blocks of the largest
 * order, so no free block of a snapshot is in two parts. A part has its share of the zone's pages,
 * watermarks, reserves and boost. A zone too small for n parts has fewer.
 */
#pragma once

#include "machine.h"
#include "policy_effect.h"

/*
 * Cut each of `nr` zones into `parts`; zones[].part is the number of the part. -E2BIG if the
 * result has more than `most` zones.
 */
int layout_cut(struct zone_spec *zones, int *nr, int most, int max_order, int parts,
	       struct error *err);

/* The effect of a policy that cut `before` zones into `after`, which served that many requests. */
void layout_effect(struct policy_effect *effect, int before, int after, uint64_t allocs);
