/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fragmentation_sample.h - the zones at one moment: free blocks by order, and the use of
 * pageblocks.
 *
 * Rows of the tables free_count and block_mix, and of reserve where the kernel row has
 * MIGRATE_RESERVE. A sample reads every pageblock, and no page but those of the reserve: it costs
 * some microseconds per GB.
 */
#pragma once

#include "model/model.h"
#include "output.h"

enum { SAMPLE_FREE_COUNT, SAMPLE_BLOCK_MIX, SAMPLE_RESERVE, NR_FRAGMENTATION_SAMPLE };
extern const struct table *const fragmentation_sample_tables[NR_FRAGMENTATION_SAMPLE];

/* The state of every zone at `ts`. */
void fragmentation_sample_write(const struct model *m,
				struct output *const outputs[NR_FRAGMENTATION_SAMPLE], uint64_t ts);
