// SPDX-License-Identifier: Apache-2.0
/*
 * zonelist - the order in which a request tries the zones of several nodes.
 *
 * `node` takes all zones of the nearest node first and uses up its DMA32 before it goes remote;
 * `zone` (numa_zonelist_order=zone, up to 4.13: c9bff3eebc09 removed it) goes remote first and
 * saves DMA32. Within a zone type nodes keep their order. __GFP_THISNODE is the same in both, and
 * so is a machine of one node.
 */
#include "policy.h"

struct zonelist_state {
	int64_t order;
};

static enum zonelist_order zonelist_order(struct policy *self, const struct model *m)
{
	const struct zonelist_state *zonelist = self->state;

	return (enum zonelist_order)zonelist->order;
}

/* Whether requests of a node with memory try another node first: it has higher zones. */
static bool begins_remote(const struct model *m)
{
	for (int node = 0; node < m->nr_nodes; node++) {
		int list = node * m->zone_parts;

		if (m->thisnode[list].nr && m->fallback[list].zones[0]->node != node)
			return true;
	}
	return false;
}

static void count_passed_on(struct policy *self, const struct model *m,
			    const struct counters *total, struct policy_effect *effect)
{
	const struct zonelist_state *zonelist = self->state;
	uint64_t passed_on = total->lower_zone + total->remote_node;
	uint64_t requests = begins_remote(m) ? total->allocs : passed_on;

	if (zonelist->order == ZONELIST_NODE)
		effect_never(effect, "order=node is the choice of mainline");
	else if (m->nr_nodes == 1)
		effect_never(effect, "the machine has one node");
	else if (!requests)
		effect_never(effect, "every request was served by the first zone that it tried");
	else
		effect_decided(effect, requests, EFFECT_UNKNOWN,
			       "decided the order of zones for %llu request%s",
			       (unsigned long long)requests, plural(requests));
}

static const char *const orders[] = {"node", "zone", NULL};

static const struct policy_param params[] = {
	{"order", ZONELIST_NODE, ZONELIST_ZONE, ZONELIST_ZONE,
	 offsetof(struct zonelist_state, order), orders,
	 "node: all zones of a node first; zone: the highest zone of all nodes first."},
	{0},
};

const struct policy_ops zonelist_policy = {
	.name = "zonelist",
	.doc = "In which order a request tries the zones of several nodes.",
	.kernel = "2.6 to 4.13 (zone)",
	.tier = "A",
	.state_size = sizeof(struct zonelist_state),
	.params = params,
	.zonelist_order = zonelist_order,
	.effect = count_passed_on,
};
