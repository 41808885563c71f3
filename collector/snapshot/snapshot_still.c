// SPDX-License-Identifier: Apache-2.0
#include "snapshot_still.h"

bool list_exists(const struct snapshot_images *im, uint32_t list)
{
	const struct kernel_layout *l = &im->control->layout;

	return list / SNAPSHOT_MAX_TYPES < layout_orders(l) &&
	       list % SNAPSHOT_MAX_TYPES < layout_types(l);
}

static bool cut_short(const struct list_image *list)
{
	return list->end == WALK_LATE || list->end == WALK_FULL;
}

bool zone_cut_short(const struct snapshot_images *im, uint32_t z)
{
	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++)
		if (cut_short(&im->zones[z].list[list]))
			return true;
	return !im->zones[z].walked;
}

bool pcp_cut_short(const struct snapshot_images *im, uint32_t i)
{
	for (uint32_t list = 0; list < SNAPSHOT_MAX_PCP_LISTS; list++)
		if (cut_short(&im->pcps[i].list[list]))
			return true;
	return !im->pcps[i].walked;
}

bool zone_whole(const struct snapshot_images *im, uint32_t z)
{
	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++)
		if (list_exists(im, list) && im->zones[z].list[list].end != WALK_WHOLE)
			return false;
	return im->zones[z].walked;
}

bool zone_still(const struct snapshot_images *im, uint32_t z)
{
	const struct zone_place *place = &im->places[z];

	for (uint32_t i = 0; i < place->nr_sections; i++) {
		const struct section_image *si = &im->sections[place->first_section + i];

		if (memcmp(si->before, si->after, im->control->section_bytes))
			return false;
	}
	return zone_whole(im, z) && zone_counters_still(im, z);
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

bool list_still(const struct snapshot_images *im, uint32_t z, uint32_t list)
{
	const struct zone_image *zi = &im->zones[z];
	const struct kernel_layout *l = &im->control->layout;
	unsigned int order = list / SNAPSHOT_MAX_TYPES;
	unsigned int head = l->zone.free_area.offset + order * l->free_area_size +
			    l->free_list.offset + list % SNAPSHOT_MAX_TYPES * 16;

	return zi->list[list].end == WALK_WHOLE && unlocked(zi->before, l->zone.lock) &&
	       unlocked(zi->after, l->zone.lock) &&
	       nr_free(l, zi->before, order) == nr_free(l, zi->after, order) &&
	       !memcmp(zi->before + head, zi->after + head, 16);
}

bool pcp_still(const struct snapshot_images *im, uint32_t i)
{
	const struct pcp_image *pi = &im->pcps[i];
	const struct kernel_layout *l = &im->control->layout;

	for (unsigned int list = 0; list < layout_pcp_lists(l); list++)
		if (pi->list[list].end != WALK_WHOLE)
			return false;
	return pi->walked && pcp_counters_still(im, i);
}
