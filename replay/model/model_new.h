/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_new.h - builds a model from a machine and its zones.
 */
#pragma once

#include "machine.h"

/*
 * Whether a machine with these zones can exist, and fits in memory: -EINVAL, -EEXIST for a zone
 * that comes twice, or -E2BIG.
 */
int machine_check(const struct machine *machine, const struct zone_spec *zones, int nr_zones,
		  struct error *err);

/*
 * A model in which every page is FRAME_OLD and every pageblock MOVABLE. PCPs are empty and sized by
 * the formulas of the kernel row (pcp_size.c). `kernel`, and the arrays of `machine`, must outlive
 * the model. -EINVAL for a machine or zone that cannot exist, -EEXIST for a duplicate zone, -E2BIG
 * for too many frames or PCPs, or -ENOMEM.
 */
int model_new(struct model **out, const struct kernel *kernel, const struct machine *machine,
	      const struct zone_spec *zones, int nr_zones, struct error *err);
void model_free(struct model *m);
