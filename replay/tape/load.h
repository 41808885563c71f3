/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - builds a model from the rows of a tape's first snapshot.
 */
#pragma once

#include "reclaim_events.h"
#include "recorded_compaction.h"
#include "model/machine.h"
#include "node_preference.h"
#include "inferred.h"
#include "new_limits.h"
#include "stamps.h"

struct load {
	struct kernel kernel;          /* the run's copy of its kernel row */
	const struct kernel *recorded; /* row of the tape's own kernel */
	struct machine machine;
	struct policy_stack *policies;
	uint64_t first; /* row of `event` the model starts at */
	struct zone_spec specs[UINT8_MAX];
	int nr_specs;
	bool new_marks; /* a policy set watermarks: size the PCPs again */
	bool listed; /* rows of free_block or block_guess were loaded, or hindsight places the free
			pages */
	struct model *model; /* NULL until all rows of zone are known */
	struct record_facts record;
	struct reclaim_events reclaim_events;
	struct recorded_compactions recorded_compactions;
	struct inferred_rows inferred_rows;
	struct new_limits new_limits;
	struct stamps stamps;
	struct list_heads list_heads;
	uint64_t *landed; /* see node_preference.h */
};

/*
 * Load rows of one table. Order: zone first; then pcp, pageblock, free_block and pcp_page (zones of
 * an exact snapshot) or block_guess (zones known only from /proc/kpageflags), with pcp before
 * pcp_page; reclaim, compaction, stamp, list_head, inferred, preference and new_limit in tape
 * order. Other tables are ignored. -EINVAL, with name and value, for contradictory rows.
 */
int load_rows(struct load *s, const char *name, const struct ArrowSchema *schema,
	      const struct ArrowArray *array, struct error *err);

/* Build the model if it does not exist: all rows of zone are loaded. */
int load_model(struct load *s, struct error *err);

/* Complete the model after the last row. -ENODATA without a snapshot to start from. */
int load_complete(struct load *s, struct error *err);

/* Follow the recorded limits up to row `at` of `event`. */
static inline void load_follow_limits(struct load *s, uint64_t at)
{
	const struct new_limits *limits = &s->new_limits;

	if (limits->next < limits->nr && limits->rows[limits->next].at <= at)
		new_limits_set(s, at);
}

void load_free(struct load *s);
