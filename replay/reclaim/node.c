// SPDX-License-Identifier: Apache-2.0
#include "node.h"

uint16_t node_first_cpu(const struct model *m, int node)
{
	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		if (m->cpu_nodes[cpu] == node)
			return (uint16_t)cpu;
	return 0;
}

struct counters *node_counters(const struct model *m, int node)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (m->zones[i].node == node)
			return zone_counters(m, &m->zones[i]);
	return zone_counters(m, &m->zones[0]);
}

int node_class(const struct model *m, int node, int class_zone)
{
	int highest = -1;

	for (int i = 0; i < m->nr_zones; i++) {
		const struct zone *zone = &m->zones[i];

		if (is_in_class(zone, node, class_zone) && zone->managed && zone->type > highest)
			highest = zone->type;
	}
	return highest < 0 ? class_zone : highest;
}
