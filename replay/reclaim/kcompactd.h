/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kcompactd.h - one kcompactd per node, as the model runs it.
 *
 * It is woken for an order where a zone cannot serve it but has the pages to make it, and
 * moves MOVABLE pages out of pageblocks until one is free or its budget is spent
 * (kcompactd_do_work). What it was asked for without being woken it finds when it looks by
 * itself, every 500 ms. If there is nothing it compacts proactively: where the node's
 * fragmentation score is above a mark and kswapd does not run, each zone until its own
 * score is low. After a run that did not lower the score the next look is 32 s later,
 * unless it is woken before. From kcompactd and wakeup_kcompactd, 6.18.
 */
#pragma once

#include "model/model.h"

struct reclaim_run;

struct kcompactd {
	int node;
	uint16_t cpu;
	int order; /* asked for, or 0 */
	int class_zone;
	bool woken;       /* it is on its way */
	bool running;     /* until it is due it hears of no other work */
	int done;         /* order it worked for in the run that ends then; 0: proactively */
	uint64_t due;     /* of its next run or look, or of the end of its run */
	uint64_t timeout; /* from the end of a run to the next look */
};

void kcompactd_init(struct kcompactd *c, const struct model *m, int node);
/* The tape begins at `ts`; the record shows the first look at `look`, or none: UINT64_MAX. */
void kcompactd_begin(struct kcompactd *c, const struct model *m, uint64_t ts, uint64_t look);

void kcompactd_wakeup(struct reclaim_run *run, struct kcompactd *c, int order, int class_zone);
/* It is due: look whether there is work, and do it. */
void kcompactd_step(struct reclaim_run *run, struct kcompactd *c);
