// SPDX-License-Identifier: Apache-2.0
#include "snapshot_still.h"

bool list_exists(const struct snapshot_images *im, uint32_t list)
{
	const struct kernel_layout *l = &im->control->layout;

	return list / SNAPSHOT_MAX_TYPES < layout_orders(l) &&
	       list % SNAPSHOT_MAX_TYPES < layout_types(l);
}

bool zone_counters_still(const struct snapshot_images *im, uint32_t z)
{
	const struct zone_image *zi = &im->zones[z];
	const struct kernel_layout *l = &im->control->layout;

	return unlocked(zi->before, l->zone.lock) && unlocked(zi->after, l->zone.lock) &&
	       !memcmp(zi->before + l->zone.free_area.offset, zi->after + l->zone.free_area.offset,
		       l->zone.free_area.size);
}

bool pcp_counters_still(const struct snapshot_images *im, uint32_t i)
{
	const struct pcp_image *pi = &im->pcps[i];
	const struct kernel_layout *l = &im->control->layout;

	return unlocked(pi->before, l->pcp.lock) && !memcmp(pi->before, pi->after, l->pcp_size);
}
