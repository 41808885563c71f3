// SPDX-License-Identifier: Apache-2.0
#include "layout.h"

#include <errno.h>
#include <string.h>

static int64_t share(int64_t value, uint64_t part, uint64_t whole)
{
	return (int64_t)((unsigned __int128)value * part / whole);
}

/* First pfn of a part of a zone. */
static uint64_t part_start(const struct zone_spec *zone, int max_order, int part, int parts)
{
	uint64_t block = 1ull << max_order;
	uint64_t pfn = zone->start_pfn +
		       (uint64_t)share((int64_t)zone->spanned, (uint64_t)part, (uint64_t)parts);

	if (!part)
		return zone->start_pfn;
	if (part == parts)
		return zone->start_pfn + zone->spanned;
	return (pfn + block - 1) & ~(block - 1);
}

static struct zone_spec part_of(const struct zone_spec *zone, uint64_t start, uint64_t end)
{
	uint64_t pages = end - start, whole = zone->spanned;
	struct zone_spec part = *zone;

	part.start_pfn = start;
	part.spanned = pages;
	part.present = (uint64_t)share((int64_t)zone->present, pages, whole);
	part.managed = (uint64_t)share((int64_t)zone->managed, pages, whole);
	part.wmark_promo = (uint64_t)share((int64_t)zone->wmark_promo, pages, whole);
	part.boost = share(zone->boost, pages, whole);
	part.nr_reserved_highatomic =
		(uint64_t)share((int64_t)zone->nr_reserved_highatomic, pages, whole);
	for (int i = 0; i < NR_WMARK; i++)
		part.wmark[i] = share(zone->wmark[i], pages, whole);
	for (int i = 0; i < NR_ZONE; i++)
		part.lowmem_reserve[i] = share(zone->lowmem_reserve[i], pages, whole);
	return part;
}

int layout_cut(struct zone_spec *zones, int *nr, int most, int max_order, int parts,
	       struct error *err)
{
	struct zone_spec whole[UINT8_MAX];
	int nr_whole = *nr;

	memcpy(whole, zones, (size_t)nr_whole * sizeof(*whole));
	*nr = 0;
	for (int z = 0; z < nr_whole; z++) {
		uint16_t number = 0;

		for (int i = 0; i < parts; i++) {
			uint64_t start = part_start(&whole[z], max_order, i, parts);
			uint64_t end = part_start(&whole[z], max_order, i + 1, parts);

			if (start >= end || start >= whole[z].start_pfn + whole[z].spanned)
				continue;
			if (*nr == most)
				return fail(err, E2BIG, "%d zones in %d parts are more than %d",
					    nr_whole, parts, most);
			zones[*nr] = part_of(&whole[z], start, end);
			zones[(*nr)++].part = number++;
		}
	}
	return 0;
}

void layout_effect(struct policy_effect *effect, int before, int after, uint64_t allocs)
{
	if (after == before)
		effect_never(effect, "no zone was cut, all %d are whole", before);
	else if (!allocs)
		effect_never(effect, "no request was served");
	else
		effect_decided(effect, allocs, EFFECT_UNKNOWN,
			       "cut %d zone%s into %d, from which %llu request%s chose", before,
			       plural((uint64_t)before), after, (unsigned long long)allocs,
			       plural(allocs));
}
