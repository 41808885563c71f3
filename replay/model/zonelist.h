/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zonelist.h - the zones that may serve a request, in the order of the scan.
 */
#pragma once

#include "zone.h"

/* Fill model->fallback, ->thisnode and ->distance_classes from ->node_distances. -ENOMEM. */
int zonelists_new(struct model *m, struct error *err);
/* Put them in zone order (up to 4.13): the highest zone of every node first. */
void zonelists_by_zone(struct model *m);

/* Whether the node has a CPU. */
bool node_has_cpu(const struct model *m, int node);

/*
 * The zonelist of a request, in the order of its scan. The request may use zones up to its
 * class_zone.
 */
const struct zonelist *zonelist_of(const struct model *m, const struct request *rq);

/* The first zone that a request may use, or NULL. */
struct zone *zone_preferred(const struct model *m, const struct request *rq);
