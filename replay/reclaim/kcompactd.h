/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kcompactd.h - the model's kcompactd, one per node.
 *
 * A wakeup for an order takes effect if a zone cannot serve the order but has enough free pages for
 * it. kcompactd then moves MOVABLE pages out of pageblocks until one is free or its budget is spent
 * (kcompactd_do_work). A request without a wakeup waits for the next check, every 500 ms. If there
 * is no request, a check compacts proactively: while the node's fragmentation score is above a mark
 * and kswapd does not run, it compacts each zone until the zone's score is low. After a run that
 * did not lower the score the next check is 32 s later, unless a wakeup comes first; up to 5.14
 * kcompactd goes on to check, and only leaves out 64 proactive runs. From kcompactd and
 * wakeup_kcompactd, 5.10 and 6.18.
 */
#pragma once

#include "reclaim_parts.h"

/* A wakeup of kcompactd for an order and the zones up to `class_zone`; order 0: none. */
struct kcompactd_wake {
	int order, class_zone;
};

/* A recorded check of a kcompactd for work (mm_compaction_kcompactd_sleep). */
struct recorded_check {
	uint64_t ts;
	int node; /* of the tape */
};

struct recorded_checks {
	struct recorded_check *rows; /* by time */
	size_t nr, room;
};

struct kcompactd {
	int node;
	uint16_t cpu;
	int order; /* requested order, or 0 */
	int class_zone;
	bool woken;   /* woken, not running yet */
	bool running; /* until its next step */
	int done;     /* order of the current run; 0: proactive */
	uint64_t due; /* ns of its next run or check, or of the end of its run */
	bool pauses;  /* after its last run: proactive compaction was in vain */
	int left_out; /* proactive runs that it leaves out next */
	size_t check; /* recorded check that may end its next pause */
};

void kcompactd_init(struct kcompactd *c, const struct model *m, int node);

/*
 * Start at `ts`. `first_check` is the time of the first recorded check; UINT64_MAX if a wakeup came
 * before it.
 */
void kcompactd_begin(struct kcompactd *c, const struct model *m, uint64_t ts, uint64_t first_check);

void kcompactd_wakeup(const struct reclaim_parts *parts, struct kcompactd *c,
		      struct kcompactd_wake wake);

/*
 * Run the due step of kcompactd: look for work, and do it. `kswapd_runs`: the node's kswapd is on a
 * CPU.
 */
void kcompactd_step(const struct reclaim_parts *parts, struct kcompactd *c, bool kswapd_runs);
