/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_rows.h - makes rows of a tape from copies of kernel memory, and checks them. */
#pragma once

#include "snapshot_still.h"

/*
 * Make the tables of snapshot `nr`. The caller sets `zones[].how` and the counts of moved lists;
 * this sets the rest of `zones[]`, `out->checks` and `out->tables`. -ENOMEM.
 */
int snapshot_rows(const struct snapshot_images *im, uint16_t nr, struct snapshot_zone *zones,
		  struct snapshot_result *out, struct error *err);

void snapshot_free_tables(struct snapshot_result *out);
