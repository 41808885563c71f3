/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fragmentation_sample.h - a sample of the zones: free blocks by order, and the use of pageblocks.
 *
 * Writes rows of free_count and block_mix, and of reserve if the kernel row has MIGRATE_RESERVE. A
 * sample reads every pageblock but, except for the reserve, no pages: some microseconds per GB.
 */
#pragma once

#include "model/model.h"
#include "output.h"

enum { SAMPLE_FREE_COUNT, SAMPLE_BLOCK_MIX, SAMPLE_RESERVE, NR_FRAGMENTATION_SAMPLE };
extern const struct table *const fragmentation_sample_tables[NR_FRAGMENTATION_SAMPLE];

/* The rows of block_mix at `ts`, for the contents of `blocks`: the model's own, or others. */
void block_mix_write(const struct model *m, const struct pageblock *blocks, struct output *output,
		     uint64_t ts);

/* Sample every zone at `ts`. */
void fragmentation_sample_write(const struct model *m,
				struct output *const outputs[NR_FRAGMENTATION_SAMPLE], uint64_t ts);
