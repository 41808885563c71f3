// SPDX-License-Identifier: Apache-2.0
/*
 * watermarks - vm.min_free_kbytes, vm.watermark_scale_factor and vm.lowmem_reserve_ratio.
 *
 * min is the zone's share of min_free_kbytes by its size (HighMem and Movable zones: 1/1024 of the
 * zone, 32 to 128 pages). low is above min, high above low and promo above high, each by a quarter
 * of that share or by watermark_scale_factor / 10000 of the zone, whichever is more
 * (__setup_per_zone_wmarks, 4.6 to 6.18). A zone reserves pages against requests that may use
 * higher zones: the pages of those zones divided by its lowmem_reserve_ratio
 * (setup_per_zone_lowmem_reserve).
 *
 * As after a write to the sysctl, boosts are reset, and the per-CPU lists, which are sized by the
 * low watermark, are sized anew.
 */
#include "policy.h"

#include <string.h>

enum { UNSET = -1, DEFAULT_SCALE = 10 };

struct watermarks {
	int64_t min_free_kbytes, scale_factor;
	int64_t ratio[ZONE_NORMAL + 1];
	int nr_changed; /* zones whose watermarks or reserves differ from the recorded ones */
};

/* Zones that have a share of vm.min_free_kbytes. */
static bool is_low(const struct zone_spec *zone)
{
	return zone->type != ZONE_HIGHMEM && zone->type != ZONE_MOVABLE;
}

static int64_t clamp_pages(int64_t pages, int64_t least, int64_t most)
{
	if (pages < least)
		return least;
	return pages < most ? pages : most;
}

/* Pages that all low zones together reserve, and the managed pages of those zones. */
struct reserve {
	int64_t pages, managed;
};

static struct reserve whole_reserve(const struct watermarks *w, const struct machine *machine,
				    const struct zone_spec *zones, int nr)
{
	struct reserve reserve = {0};

	for (int i = 0; i < nr; i++) {
		if (!is_low(&zones[i]))
			continue;
		reserve.pages += zones[i].wmark[WMARK_MIN];
		reserve.managed += (int64_t)zones[i].managed;
	}
	if (w->min_free_kbytes != UNSET)
		reserve.pages = w->min_free_kbytes * 1024 / machine_page_bytes(machine);
	return reserve;
}

/* The part of the distance between two marks that depends on the zone's size. */
static int64_t scaled_step(const struct watermarks *w, const struct zone_spec *zone)
{
	int64_t recorded = zone->wmark[WMARK_HIGH] - zone->wmark[WMARK_LOW];
	int64_t scale = w->scale_factor;

	/* A recorded step of a quarter of min does not show the factor. */
	if (scale == UNSET && recorded > zone->wmark[WMARK_MIN] / 4)
		return recorded;
	if (scale == UNSET)
		scale = DEFAULT_SCALE;
	return (int64_t)zone->managed * scale / 10000;
}

static void set_marks(const struct watermarks *w, struct zone_spec *zone,
		      const struct reserve *reserve)
{
	int64_t managed = (int64_t)zone->managed, min = zone->wmark[WMARK_MIN];
	int64_t step = scaled_step(w, zone), share = min;

	if (w->min_free_kbytes != UNSET || !is_low(zone))
		share = reserve->managed ? reserve->pages * managed / reserve->managed : 0;
	if (w->min_free_kbytes != UNSET)
		min = is_low(zone) ? share : clamp_pages(managed / 1024, 32, 128);
	step = step > share / 4 ? step : share / 4;
	zone->wmark[WMARK_MIN] = min;
	zone->wmark[WMARK_LOW] = min + step;
	zone->wmark[WMARK_HIGH] = min + 2 * step;
	if (zone->wmark_promo)
		zone->wmark_promo = (uint64_t)(min + 3 * step);
	zone->boost = 0;
}

/* Pages of a node's zones above one, up to a type. */
static int64_t pages_above(const struct zone_spec *zones, int nr, const struct zone_spec *zone,
			   int type)
{
	int64_t pages = 0;

	for (int i = 0; i < nr; i++)
		if (zones[i].node == zone->node && zones[i].type > zone->type &&
		    zones[i].type <= type)
			pages += (int64_t)zones[i].managed;
	return pages;
}

static bool watermarks_of(struct policy *self, const struct machine *machine,
			  struct zone_spec *zones, int nr)
{
	struct watermarks *w = self->state;
	struct reserve reserve = whole_reserve(w, machine, zones, nr);
	bool marks = w->min_free_kbytes != UNSET || w->scale_factor != UNSET;

	w->nr_changed = 0;
	for (int i = 0; i < nr; i++) {
		struct zone_spec *zone = &zones[i], before = *zone;
		int64_t ratio = zone->type <= ZONE_NORMAL ? w->ratio[zone->type] : UNSET;

		if (marks)
			set_marks(w, zone, &reserve);
		for (int type = zone->type + 1; type < NR_ZONE && ratio != UNSET; type++)
			zone->lowmem_reserve[type] =
				ratio ? pages_above(zones, nr, zone, type) / ratio : 0;
		w->nr_changed += memcmp(before.wmark, zone->wmark, sizeof(before.wmark)) ||
				 memcmp(before.lowmem_reserve, zone->lowmem_reserve,
					sizeof(before.lowmem_reserve));
	}
	return marks;
}

static void count_changed(struct policy *self, const struct model *m, const struct counters *total,
			  struct policy_effect *effect)
{
	const struct watermarks *w = self->state;

	if (!w->nr_changed)
		effect_never(effect, "every zone has these watermarks and reserves already");
	else if (!total->allocs)
		effect_never(effect, "no request was served");
	else
		effect_decided(effect, total->allocs, EFFECT_UNKNOWN,
			       "changed watermarks or reserves of %d of %d zones, which served "
			       "%llu request%s",
			       w->nr_changed, m->nr_zones, (unsigned long long)total->allocs,
			       plural(total->allocs));
}

#define RATIO(name, zone)                                                                          \
	{name,                                                                                     \
	 UNSET,                                                                                    \
	 1 << 20,                                                                                  \
	 UNSET,                                                                                    \
	 offsetof(struct watermarks, ratio[zone]),                                                 \
	 NULL,                                                                                     \
	 "vm.lowmem_reserve_ratio of that zone; 0: no reserve."}

static const struct policy_param params[] = {
	{"min_free_kbytes", UNSET, 1 << 30, UNSET, offsetof(struct watermarks, min_free_kbytes),
	 NULL, "The sysctl: memory that all zones together reserve, in KiB."},
	{"watermark_scale_factor", UNSET, 3000, UNSET, offsetof(struct watermarks, scale_factor),
	 NULL, "The sysctl: distance between two watermarks in 1/10000 of the zone."},
	RATIO("reserve_ratio_dma", ZONE_DMA),
	RATIO("reserve_ratio_dma32", ZONE_DMA32),
	RATIO("reserve_ratio_normal", ZONE_NORMAL),
	{0},
};

const struct policy_ops watermarks_policy = {
	.name = "watermarks",
	.doc = "Watermarks and reserves of every zone; -1 leaves a setting as recorded.",
	.kernel = "4.6 to 6.18",
	.tier = "B",
	.state_size = sizeof(struct watermarks),
	.params = params,
	.watermarks = watermarks_of,
	.effect = count_changed,
};
