/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h - the CPU, the zones and the counters of a node's daemons.
 */
#pragma once

#include "model/model.h"

/* The first CPU of a node; CPU 0 if the node has none. */
uint16_t node_first_cpu(const struct model *m, int node);

/* The counters of the running CPU in the first zone of a node. */
struct counters *node_counters(const struct model *m, int node);

/* Whether reclaim on a node for requests of up to `class_zone` takes pages of a zone. */
static inline bool is_in_class(const struct zone *zone, int node, int class_zone)
{
	return zone->node == node && zone->type <= class_zone;
}

/* The highest zone with memory of a node, up to `class_zone`; class_zone if it has none. */
int node_class(const struct model *m, int node, int class_zone);
