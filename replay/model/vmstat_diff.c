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

/* calculate_min_free_kbytes, in pages: min_free_kbytes of the boot, for zones of `lowmem` pages. */
static uint64_t first_min(const struct model *m, uint64_t lowmem)
{
	enum { LEAST_KB = 128, MOST_KB = 262144 };
	uint64_t page_kb = m->page_bytes >> 10, square = 16 * lowmem * page_kb, kb = LEAST_KB;

	while (kb < MOST_KB && (kb + 1) * (kb + 1) <= square)
		kb++;
	return kb / page_kb;
}

/*
 * Whether the threshold of a zone changes under pressure (percpu_drift_mark). The kernel decides it
 * at boot and when a CPU starts (refresh_zone_stat_thresholds): by the watermarks of then, which
 * khugepaged raises later. Until 6.12, all CPUs but the first started before there were any.
 */
static bool has_drift_mark(const struct model *m, const struct zone *zone, int32_t normal)
{
	uint64_t lowmem = 0, gap;

	if (m->nr_cpus > 1 && !m->kernel->late_stat_thresholds)
		return true;
	for (int i = 0; i < m->nr_zones; i++)
		lowmem += m->zones[i].type < ZONE_HIGHMEM ? m->zones[i].managed : 0;
	if (!lowmem)
		return true;
	gap = first_min(m, lowmem) * zone->managed / lowmem / 4;
	gap = gap > zone->managed / 1000 ? gap : zone->managed / 1000;
	return (uint64_t)(m->nr_cpus * normal) > gap;
}

void vmstat_diff_init(const struct model *m, struct zone *zone, uint32_t recorded)
{
	int64_t gap = zone->wmark[WMARK_LOW] - zone->wmark[WMARK_MIN];
	int32_t normal = normal_threshold(m, zone), pressure;

	if (!recorded)
		return;
	pressure = at_most(gap / m->nr_cpus, VMSTAT_DIFF_MOST);
	pressure = pressure > 1 ? pressure : 1;
	if (!has_drift_mark(m, zone, normal))
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

/* Take pages from the differences of all CPUs but one, as far as these may be; returns how many. */
static int take_pages(struct model *m, struct zone *zone, const struct pcp *spared, int pages)
{
	int most = zone->stat_threshold, left = pages;

	for (int cpu = 0; cpu < m->nr_cpus && left; cpu++) {
		struct pcp *pcp = zone_pcp(m, zone, cpu);
		int diff = pcp->vmstat_diff;
		int step = left > 0 ? min_int(left, diff + most) : max_int(left, diff - most);

		if (pcp == spared)
			continue;
		pcp->vmstat_diff = (int8_t)(diff - step);
		left -= step;
	}
	return pages - left;
}

void vmstat_diff_shift(struct model *m, struct zone *zone, int pages)
{
	/* The counter is the number of free pages less the differences. */
	zone->vmstat_diff -= take_pages(m, zone, NULL, pages);
}

void vmstat_diff_take(struct model *m, struct zone *zone, struct pcp *pcp, int recorded)
{
	int most = zone->stat_threshold;
	int pages = clamp_int(recorded, -most, most) - pcp->vmstat_diff;

	pcp->vmstat_diff = (int8_t)(pcp->vmstat_diff + take_pages(m, zone, pcp, pages));
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
