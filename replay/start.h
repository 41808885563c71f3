/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.h - from the rows of a tape's first snapshot to a model.
 */
#pragma once

#include "aside.h"
#include "compact.h"
#include "feedback.h"
#include "model.h"
#include "prefer.h"
#include "untold.h"

struct start {
	struct kernel kernel;          /* the run's own copy of its row */
	const struct kernel *recorded; /* row of the tape's own kernel */
	struct machine machine;
	struct policy_stack *policies;
	uint64_t first; /* row of `event` the model starts at */
	struct zone_spec specs[UINT8_MAX];
	int nr_specs;
	bool new_marks;      /* a policy set watermarks: PCPs are sized by those */
	bool listed;         /* rows of free_block or block_guess were loaded */
	struct model *model; /* NULL until all rows of zone are known */
	struct asides asides;
	struct compactions compactions;
	struct untolds untolds;
	uint64_t *landed; /* see prefer.h */
	struct feedback feedback;
};

/*
 * Rows of one table: zone first, then any of pcp, pageblock, free_block and pcp_page (of
 * zones that an exact snapshot has), block_guess (of zones known from /proc/kpageflags
 * only), and all of reclaim, compaction, untold, preference, reclaimed and service, in order. pcp
 * comes before pcp_page. Other tables are passed over. -EINVAL for rows that contradict each other,
 * by name and value.
 */
int start_load(struct start *s, const char *name, const struct ArrowSchema *schema,
	       const struct ArrowArray *array, struct error *err);

/* No more rows: the model is ready. -ENODATA without a snapshot to begin from. */
int start_complete(struct start *s, struct error *err);

void start_free(struct start *s);
