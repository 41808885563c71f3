// SPDX-License-Identifier: Apache-2.0
#include "owed.h"

static bool is_in_class(const struct zone *zone, int node, int class_zone)
{
	return zone->node == node && zone->type <= class_zone;
}

static void pay(struct model *m, struct zone *zone, uint64_t pages)
{
	zone->owed -= pages;
	m->owed -= pages;
}

void owe_pages(struct model *m, struct zone *zone, int64_t pages)
{
	zone->owed += (uint64_t)pages;
	m->owed += (uint64_t)pages;
}

int64_t pages_owed(const struct model *m, int node, int class_zone)
{
	int64_t owed = 0;

	for (int i = 0; m->owed && i < m->nr_zones; i++)
		if (is_in_class(&m->zones[i], node, class_zone))
			owed += (int64_t)m->zones[i].owed;
	return owed;
}

void pay_owed(struct model *m, int node, int class_zone, int64_t pages)
{
	for (int i = 0; m->owed && i < m->nr_zones && pages > 0; i++) {
		struct zone *zone = &m->zones[i];
		uint64_t paid = zone->owed < (uint64_t)pages ? zone->owed : (uint64_t)pages;

		if (!is_in_class(zone, node, class_zone))
			continue;
		pay(m, zone, paid);
		pages -= (int64_t)paid;
	}
}

void forgive_owed(struct model *m, int tape_node_nr)
{
	m->advances = 0;
	for (int i = 0; i < m->nr_zones; i++)
		if (tape_node(m, m->zones[i].node) == tape_node_nr)
			pay(m, &m->zones[i], m->zones[i].owed);
}
