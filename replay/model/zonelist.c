// SPDX-License-Identifier: Apache-2.0
#include "zonelist.h"

#include "memory.h"

#include <errno.h>

static int distance(const uint8_t *distances, const struct model *m, int from, int to)
{
	return distances[from * m->nr_nodes + to];
}

bool node_has_cpu(const struct model *m, int node)
{
	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		if (m->cpu_nodes[cpu] == node)
			return true;
	return false;
}

/* Of each node, while the lists are built. */
struct nodes {
	bool *used; /* on the list that is built */
	bool *has_zone, *has_cpu;
	int *load;
};

/*
 * find_next_best_node: the nearest unused node with memory; among equals lower load,
 * a node's own CPUs and a lower number count against it. -1 when all are used.
 */
static int next_node(const struct model *m, const struct nodes *nodes, int node)
{
	int best = -1;
	int64_t best_value = INT64_MAX;

	if (!nodes->used[node] && nodes->has_zone[node])
		return node;
	for (int n = 0; n < m->nr_nodes; n++) {
		int64_t value =
			distance(m->node_distances, m, node, n) + (n < node) + nodes->has_cpu[n];

		value = value * m->nr_nodes + nodes->load[n];
		if (nodes->used[n] || !nodes->has_zone[n] || value >= best_value)
			continue;
		best_value = value;
		best = n;
	}
	return best;
}

static void append_node(const struct model *m, struct zonelist *list, int node)
{
	for (int type = NR_ZONE - 1; type >= 0; type--)
		for (int i = 0; i < m->nr_zones; i++)
			if (m->zones[i].node == node && m->zones[i].type == type)
				list->zones[list->nr++] = &m->zones[i];
}

/* build_zonelists, node order: the load alternates equally far nodes. */
static void build_zonelist(struct model *m, struct nodes *nodes, int node)
{
	const uint8_t *distances = m->node_distances;
	int previous = node, next;

	for (int n = 0; n < m->nr_nodes; n++)
		nodes->used[n] = false;
	append_node(m, &m->thisnode[node * m->zone_parts], node);
	while ((next = next_node(m, nodes, node)) >= 0) {
		if (distance(distances, m, node, next) != distance(distances, m, node, previous))
			nodes->load[next]++;
		append_node(m, &m->fallback[node * m->zone_parts], next);
		nodes->used[next] = true;
		previous = next;
	}
}

/* The list of another part, made from the list of part 0: this part is the first of each zone. */
static void turn_parts(struct zonelist *list, const struct zonelist *first, int part)
{
	int length;

	list->nr = first->nr;
	for (int i = 0; i < first->nr; i += length) {
		struct zone *const *run = first->zones + i;

		length = 1;
		while (i + length < first->nr && run[length]->node == run[0]->node &&
		       run[length]->type == run[0]->type)
			length++;
		for (int j = 0; j < length; j++)
			list->zones[i + j] = run[(j + part) % length];
	}
}

/* Number of different distances of a node that are shorter than the one to another; itself: 0. */
static int classify(const struct model *m, int from, int to)
{
	const uint8_t *row = m->node_distances + from * m->nr_nodes;
	bool seen[UINT8_MAX + 1] = {false};
	int class = 0;

	for (int node = 0; from != to && node < m->nr_nodes; node++) {
		class += row[node] < row[to] && !seen[row[node]];
		seen[row[node]] = true;
	}
	return class;
}

static void build_zonelists(struct model *m, struct nodes *nodes)
{
	size_t lists = (size_t)m->nr_nodes * (size_t)m->zone_parts;

	for (int i = 0; i < m->nr_zones; i++)
		nodes->has_zone[m->zones[i].node] = true;
	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		nodes->has_cpu[m->cpu_nodes[cpu]] = true;
	for (int node = 0; node < m->nr_nodes; node++) {
		build_zonelist(m, nodes, node);
		for (int to = 0; to < m->nr_nodes; to++)
			m->distance_classes[node * m->nr_nodes + to] =
				(uint8_t)classify(m, node, to);
	}
	for (size_t i = 0; i < 2 * lists; i++)
		if (i % (size_t)m->zone_parts)
			turn_parts(&m->fallback[i], &m->fallback[i - i % (size_t)m->zone_parts],
				   (int)(i % (size_t)m->zone_parts));
}

int zonelists_new(struct model *m, struct error *err)
{
	size_t nr_nodes = (size_t)m->nr_nodes, zones = (size_t)m->nr_zones;
	size_t lists = nr_nodes * (size_t)m->zone_parts;
	struct zone **entries = arrays_new(m->arrays, 2 * lists * zones, sizeof(*entries));
	bool *flags = arrays_new(m->arrays, 3 * nr_nodes, sizeof(*flags));
	struct nodes nodes = {
		.used = flags,
		.has_zone = flags + nr_nodes,
		.has_cpu = flags + 2 * nr_nodes,
		.load = arrays_new(m->arrays, nr_nodes, sizeof(*nodes.load)),
	};

	m->fallback = arrays_new(m->arrays, 2 * lists, sizeof(*m->fallback));
	m->distance_classes =
		arrays_new(m->arrays, nr_nodes * nr_nodes, sizeof(*m->distance_classes));
	if (arrays_error(m->arrays, err))
		return -ENOMEM;
	m->thisnode = m->fallback + lists;
	for (size_t i = 0; i < 2 * lists; i++)
		m->fallback[i].zones = entries + i * zones;
	build_zonelists(m, &nodes);
	return 0;
}

void zonelists_by_zone(struct model *m)
{
	for (int list = 0; list < m->nr_nodes * m->zone_parts; list++) {
		struct zone **zones = m->fallback[list].zones;

		/* Insertion keeps the order of nodes among equals. */
		for (int i = 1; i < m->fallback[list].nr; i++) {
			struct zone *zone = zones[i];
			int at = i;

			for (; at && zones[at - 1]->type < zone->type; at--)
				zones[at] = zones[at - 1];
			zones[at] = zone;
		}
	}
}

const struct zonelist *zonelist_of(const struct model *m, const struct request *rq)
{
	int list = rq->node;

	if (m->zone_parts > 1)
		list = list * m->zone_parts + m->now.cpu % m->zone_parts;
	return rq->gfp_flags & GFP_THISNODE ? &m->thisnode[list] : &m->fallback[list];
}

struct zone *zone_preferred(const struct model *m, const struct request *rq)
{
	const struct zonelist *list = zonelist_of(m, rq);

	for (int i = 0; i < list->nr; i++)
		if (list->zones[i]->type <= rq->class_zone)
			return list->zones[i];
	return NULL;
}
