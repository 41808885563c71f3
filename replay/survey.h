/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.h - the zones at one moment: free blocks by order, and what lives in pageblocks.
 *
 * Rows of the tables free_count and block_mix, and of reserve where the row has MIGRATE_RESERVE.
 * A survey looks at every pageblock, at no page but those of the reserve: it costs some
 * microseconds per GB.
 */
#pragma once

#include "model.h"
#include "output.h"

enum { SURVEY_FREE_COUNT, SURVEY_BLOCK_MIX, SURVEY_RESERVE, NR_SURVEY };
extern const struct table *const survey_tables[NR_SURVEY];

/* The state of every zone at `ts`. */
void survey_write(const struct model *m, struct output *const outputs[NR_SURVEY], uint64_t ts);
