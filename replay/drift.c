// SPDX-License-Identifier: Apache-2.0
#include "drift.h"

static int32_t at_most(int64_t value, int32_t most)
{
	return value < most ? (int32_t)value : most;
}

/* calculate_normal_threshold: more with the zone's size (steps of 128 MiB) and the CPUs. */
static int32_t normal_threshold(const struct model *m, const struct zone *zone)
{
	int cpus = 0, size = 0;

	for (int n = m->nr_cpus; n; n >>= 1)
		cpus++;
	for (uint64_t n = zone->managed >> 15; n; n >>= 1)
		size++;
	return at_most(2 * cpus * (1 + size), DRIFT_MOST);
}

void drift_init(const struct model *m, struct zone *zone, uint32_t told)
{
	int64_t gap = zone->wmark[WMARK_LOW] - zone->wmark[WMARK_MIN];
	int32_t normal = normal_threshold(m, zone), pressure;

	if (!told)
		return;
	pressure = at_most(gap / m->nr_cpus, DRIFT_MOST);
	pressure = pressure > 1 ? pressure : 1;
	if (m->nr_cpus == 1 && normal <= gap)
		pressure = normal;
	zone->drift_threshold = at_most(told, DRIFT_MOST);
	/* CPUs that came or went make the normal one another. */
	zone->drift_thresholds[false] =
		zone->drift_threshold == pressure ? normal : zone->drift_threshold;
	zone->drift_thresholds[true] = pressure;
}

void drift_load(struct zone *zone, struct pcp *pcp, int told)
{
	drift_fold(zone, pcp);
	if (told < -zone->drift_threshold || told > zone->drift_threshold)
		return;
	pcp->drift = (int8_t)told;
	zone->drift += told;
}

void drift_kswapd(struct model *m, int node, bool awake)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (told_node(m, m->zones[i].node) == node)
			m->zones[i].drift_threshold = m->zones[i].drift_thresholds[awake];
}
