// SPDX-License-Identifier: Apache-2.0
/* The policy zonelist: zones in the order of nodes or of zones. */
#include "check.h"
#include "toy.h"

TEST(zone_order_saves_the_low_zones_of_every_node)
{
	static const struct zone_spec zones[] = {
		TOY_ZONE(0, ZONE_DMA, 0),       TOY_ZONE(0, ZONE_DMA32, 32),
		TOY_ZONE(0, ZONE_NORMAL, 64),   TOY_ZONE(1, ZONE_NORMAL, 96),
		TOY_ZONE(1, ZONE_MOVABLE, 128),
	};
	static const struct {
		const char *policy, *orders[2];
	} cases[] = {
		{"zonelist:order=node", {"64 32 0 128 96", "128 96 64 32 0"}},
		{"zonelist:order=zone", {"128 64 96 32 0", "128 96 64 32 0"}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_machine_under, "6.18", cases[i].policy, &toy_two_nodes, zones, 5);
		check_text(toy_zonelist(&t, 0), cases[i].orders[0]);
		check_text(toy_zonelist(&t, 1), cases[i].orders[1]);
	}
}
