// SPDX-License-Identifier: Apache-2.0
/*
 * fake_numa - cut every node into several, as numa=fake does, to relieve the zone lock.
 *
 * Every zone becomes `nodes` equal ranges, each the zone of a node of its own, with its own free
 * lists, lock, watermarks and per-CPU lists. The preferred node of CPU c is part c mod `nodes` of
 * its recorded node, or the part from `replay --nodes`. The parts of a node follow each other in a
 * ring, before the parts of other nodes. A recorded pass of kswapd runs on all parts of its node.
 */
#include "layout.h"
#include "policy.h"

#include <errno.h>

enum {
	NODES_MOST = 64,
	LOCAL_DISTANCE = 10,
	RING_STEP = 3, /* larger than any sum that build_zonelists adds to a distance */
};

struct fake_numa {
	int64_t nodes;
	int zones, zones_before;
	uint16_t cpu_nodes[UINT16_MAX];
	uint8_t distances[UINT8_MAX * UINT8_MAX];
};

/* Number of different distances from a node that are shorter than the one to another. */
static int rank(const struct machine *machine, int from, int to)
{
	const uint8_t *row = machine->node_distances + from * machine->nr_nodes;
	bool seen[UINT8_MAX + 1] = {false};
	int nearer = 0;

	for (int node = 0; node < machine->nr_nodes; node++) {
		nearer += row[node] < row[to] && !seen[row[node]];
		seen[row[node]] = true;
	}
	return nearer;
}

static int fake_distance(const struct machine *machine, int parts, int from, int to)
{
	int around = (to % parts - from % parts + parts) % parts;

	return LOCAL_DISTANCE +
	       RING_STEP * (rank(machine, from / parts, to / parts) * parts + around);
}

static int fake_numa_layout(struct policy *self, struct machine *machine, struct zone_spec *zones,
			    int *nr, int most, struct error *err)
{
	struct fake_numa *fn = self->state;
	int parts = (int)fn->nodes, nodes = machine->nr_nodes * parts, ret;

	if (nodes > UINT8_MAX)
		return fail(err, E2BIG, "fake_numa:nodes: %d nodes in %d parts are more than %d",
			    machine->nr_nodes, parts, UINT8_MAX);
	fn->zones_before = *nr;
	ret = layout_cut(zones, nr, most, machine->max_order, parts, err);
	if (ret)
		return ret;
	fn->zones = *nr;
	for (int i = 0; i < *nr; i++) {
		zones[i].node = (uint16_t)(zones[i].node * parts + zones[i].part);
		zones[i].part = 0;
	}
	for (int from = 0; from < nodes; from++)
		for (int to = 0; to < nodes; to++) {
			int distance = fake_distance(machine, parts, from, to);

			if (distance > UINT8_MAX)
				return fail(err, E2BIG,
					    "fake_numa:nodes: %d nodes in %d parts have distances "
					    "of more than a byte",
					    machine->nr_nodes, parts);
			fn->distances[from * nodes + to] = (uint8_t)distance;
		}
	for (int cpu = 0; cpu < machine->nr_cpus; cpu++) {
		int part = machine->cpu_parts ? machine->cpu_parts[cpu] : cpu % parts;

		if (part >= parts)
			return fail(err, EINVAL, "fake_numa:nodes: CPU %d is on part %d of %d", cpu,
				    part, parts);
		fn->cpu_nodes[cpu] = (uint16_t)(machine->cpu_nodes[cpu] * parts + part);
	}
	machine->nr_nodes = nodes;
	machine->node_parts = parts;
	machine->cpu_nodes = fn->cpu_nodes;
	machine->node_distances = fn->distances;
	return 0;
}

static void fake_numa_effect(struct policy *self, const struct model *m,
			     const struct counters *total, struct policy_effect *effect)
{
	const struct fake_numa *fn = self->state;

	layout_effect(effect, fn->zones_before, fn->zones, total->allocs);
}

static const struct policy_param fake_numa_params[] = {
	{"nodes", 1, NODES_MOST, 2, offsetof(struct fake_numa, nodes), NULL,
	 "Nodes to make of each."},
	{0},
};

const struct policy_ops fake_numa_policy = {
	.name = "fake_numa",
	.doc = "Every node as several, each with its own zones and locks (numa=fake).",
	.kernel = "2.6.14 (numa=fake)",
	.tier = "A",
	.state_size = sizeof(struct fake_numa),
	.params = fake_numa_params,
	.layout = fake_numa_layout,
	.effect = fake_numa_effect,
};
