/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_rows.h - from copies of kernel memory to rows of a tape, with checks on the way. */
#pragma once

#include "snapshot_still.h"

/*
 * Make the tables of snapshot `nr`. `zones[].how` and the counts of moved lists are the
 * caller's; the rest of them and `out->checks`, `out->tables` are filled here. -ENOMEM.
 */
int snapshot_rows(const struct snapshot_images *im, uint16_t nr, struct snapshot_zone *zones,
		  struct snapshot_result *out, struct error *err);
