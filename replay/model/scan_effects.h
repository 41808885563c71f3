/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_effects.h - what the walk of a request leaves behind in the zones it tries in vain.
 */
#pragma once

#include "zone.h"

/* A request that no zone could serve at once has tried them all, and marked those that are low. */
void zone_mark_tried(struct model *m, int cpu, uint32_t gfp_flags, int order);

/*
 * What the walk of a request that was served from `zone` does to the zones it tries in
 * vain, and to the marks: the request's ALLOC_* flags in the pass that served it. `mixes`:
 * it was one that lets migratetypes mix.
 */
uint32_t zone_scan_effects(struct model *m, const struct request *rq, struct zone *zone,
			   bool mixes);
