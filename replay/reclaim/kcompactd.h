/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kcompactd.h - one kcompactd per node, as the model runs it.
 *
 * kcompactd is woken for an order where a zone cannot serve it but has the pages to make it. It
 * moves MOVABLE pages out of pageblocks until one is free or its budget is spent
 * (kcompactd_do_work). A request for work that did not wake it waits for its next check, every
 * 500 ms. Without such a request it compacts proactively: where the node's fragmentation score
 * is above a mark and kswapd does not run, each zone until its own score is low. After a run
 * that did not lower the score the next check is 32 s later, unless kcompactd is woken before.
 * From kcompactd and wakeup_kcompactd, 6.18.
 */
#pragma once

#include "reclaim_parts.h"

/* A wakeup of kcompactd for an order and the zones up to `class_zone`; order 0: none. */
struct kcompactd_wake {
	int order, class_zone;
};

struct kcompactd {
	int node;
	uint16_t cpu;
	int order; /* asked for, or 0 */
	int class_zone;
	bool woken;       /* it does not run yet */
	bool running;     /* until it is due */
	int done;         /* order of the run that ends then; 0: proactive */
	uint64_t due;     /* ns of its next run or check, or of the end of its run */
	uint64_t timeout; /* ns from the end of a run to the next check */
};

void kcompactd_init(struct kcompactd *c, const struct model *m, int node);

/*
 * The tape begins at `ts`. `first_check` is the time of the first check on the record;
 * UINT64_MAX if a wakeup came before it.
 */
void kcompactd_begin(struct kcompactd *c, const struct model *m, uint64_t ts, uint64_t first_check);

void kcompactd_wakeup(const struct reclaim_parts *parts, struct kcompactd *c,
		      struct kcompactd_wake wake);

/* kcompactd is due: look for work, and do it. `kswapd_runs`: the node's kswapd is on a CPU. */
void kcompactd_step(const struct reclaim_parts *parts, struct kcompactd *c, bool kswapd_runs);
