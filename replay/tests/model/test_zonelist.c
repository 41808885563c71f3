// SPDX-License-Identifier: Apache-2.0
/* The order of nodes in the zonelists. */
#include "check.h"
#include "toy.h"

TEST(equally_far_nodes_take_turns_as_the_next_best)
{
	static const uint16_t cpu_nodes[] = {0, 1, 2}; /* node 3 has memory only */
	static const uint8_t distances[4][4] = {
		{10, 20, 20, 20}, {20, 10, 20, 20}, {20, 20, 10, 20}, {20, 20, 20, 10}};
	static const struct zone_spec zones[] = {
		TOY_ZONE(0, ZONE_NORMAL, 0), TOY_ZONE(1, ZONE_NORMAL, 32),
		TOY_ZONE(2, ZONE_NORMAL, 64), TOY_ZONE(3, ZONE_NORMAL, 96)};
	const struct machine machine = {
		.pageblock_order = 4,
		.max_order = 5,
		.nr_cpus = 3,
		.nr_nodes = 4,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances[0],
	};

	TOY(t, toy_new_machine_under, "6.18", "mainline", &machine, zones, 4);
	check_text(toy_zonelist(&t, 0), "0 96 32 64");
	check_text(toy_zonelist(&t, 1), "32 96 64 0");
	check_text(toy_zonelist(&t, 2), "64 96 0 32");
	check_text(toy_zonelist(&t, 3), "96 0 32 64");
}
