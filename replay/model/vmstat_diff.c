// SPDX-License-Identifier: Apache-2.0
#include "vmstat_diff.h"

#include "min_max.h"

static int32_t at_most(int64_t value, int32_t most)
{
	return value < most ? (int32_t)value : most;
}

/* calculate_normal_threshold: more with the zone's size (window of 128 MiB) and the CPUs. */
static int32_t normal_threshold(const struct model *m, const struct zone *zone)
{
	int cpus = 0, size = 0;

	for (int n = m->nr_cpus; n; n >>= 1)
		cpus++;
	for (uint64_t n = zone->managed * m->page_bytes >> 27; n; n >>= 1)
		size++;
	return at_most(2 * cpus * (1 + size), VMSTAT_DIFF_MOST);
}

void vmstat_diff_init(const struct model *m, struct zone *zone, uint32_t recorded)
{
	int64_t gap = zone->wmark[WMARK_LOW] - zone->wmark[WMARK_MIN];
	int32_t normal = normal_threshold(m, zone), pressure;

	if (!recorded)
		return;
	pressure = at_most(gap / m->nr_cpus, VMSTAT_DIFF_MOST);
	pressure = pressure > 1 ? pressure : 1;
	if (m->nr_cpus == 1 && normal <= gap)
		pressure = normal;
	zone->stat_threshold = at_most(recorded, VMSTAT_DIFF_MOST);
	/*
	 * The recorded threshold, unless it is the one under pressure: the number of CPUs may have
	 * changed.
	 */
	zone->stat_thresholds[false] =
		zone->stat_threshold == pressure ? normal : zone->stat_threshold;
	zone->stat_thresholds[true] = pressure;
}

void vmstat_diff_load(struct zone *zone, struct pcp *pcp, int recorded)
{
	vmstat_diff_fold(zone, pcp);
	if (recorded < -zone->stat_threshold || recorded > zone->stat_threshold)
		return;
	pcp->vmstat_diff = (int8_t)recorded;
	zone->vmstat_diff += recorded;
}

void vmstat_diff_shift(struct model *m, struct zone *zone, int pages)
{
	int most = zone->stat_threshold;

	for (int cpu = 0; cpu < m->nr_cpus && pages; cpu++) {
		int8_t *diff = &zone_pcp(m, zone, cpu)->vmstat_diff;
		/* The counter is the number of free pages less the differences. */
		int step = pages > 0 ? min_int(pages, *diff + most) : max_int(pages, *diff - most);

		*diff = (int8_t)(*diff - step);
		zone->vmstat_diff -= step;
		pages -= step;
	}
}

int vmstat_diff_room(const struct model *m, const struct zone *zone)
{
	int up = 0, down = 0;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++) {
		int diff = zone_pcp(m, zone, cpu)->vmstat_diff;

		up += diff + zone->stat_threshold;
		down += zone->stat_threshold - diff;
	}
	return max_int(min_int(up, down), 0);
}

void vmstat_diff_kswapd(struct model *m, int node, bool awake)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (tape_node(m, m->zones[i].node) == node)
			m->zones[i].stat_threshold = m->zones[i].stat_thresholds[awake];
}
