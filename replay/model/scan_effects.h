/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_effects.h - effects of a zonelist scan on the zones that could not serve the request.
 */
#pragma once

#include "zone.h"

/* A request entered the slow path: mark all zones below their high watermark. */
void zone_mark_tried(struct model *m, int cpu, uint32_t gfp_flags, int order);

/*
 * Apply the effects of the scan of a request that `zone` served: on the PCPs of the zones before
 * `zone`, and on the marks below_high. `mixes`: the pass that served the request lets migratetypes
 * mix. Returns the request's ALLOC_* flags in that pass.
 */
uint32_t zone_scan_effects(struct model *m, const struct request *rq, struct zone *zone,
			   bool mixes);
