/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_rows.h - writes the model's own reclaim and compaction as rows of `reclaim` and
 * `compaction`.
 *
 * A row gets the CPU, task and flags of model->now, and its time plus `after_ns`. Its `at` is
 * the number of event rows that the run has written.
 */
#pragma once

#include "model/model.h"
#include "output.h"

struct row_outputs {
	const struct model *model;
	struct output *reclaim, *compaction; /* of the caller; NULL: no rows */
};

/* A row of `reclaim`. node, zone and order are null if below 0. */
struct reclaim_row {
	int kind, node, zone, order;
	uint32_t gfp_flags;   /* of wakeup_kswapd, direct_reclaim_begin and node_reclaim_begin */
	int64_t nr_reclaimed; /* of direct_reclaim_end and node_reclaim_end */
	uint64_t after_ns;
};

/* A row of `compaction`. node, zone, order and priority are null if below 0. */
struct compaction_row {
	int kind, node, zone, order, priority;
	uint32_t gfp_flags; /* of try_to_compact_pages, the kind with a priority */
	uint64_t after_ns;
};

void emit_reclaim(const struct row_outputs *rows, const struct reclaim_row *row);

/*
 * Begin and end of a direct reclaim of `ns`, not before `since` on the trace clock: a task reclaims
 * once at a time. Returns the time of the end.
 */
uint64_t emit_direct_reclaim(const struct row_outputs *rows, const struct reclaim_row *row,
			     uint64_t since, uint64_t ns);

void emit_compaction(const struct row_outputs *rows, const struct compaction_row *row);

/* Begin and end of a compaction run in a zone, which begins `after_ns` from now and takes `ns`. */
void emit_compaction_run(const struct row_outputs *rows, const struct zone *zone, uint64_t after_ns,
			 uint64_t ns);
