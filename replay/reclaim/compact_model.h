/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact_model.h - compaction's work in the model: pages move so that a pageblock is free.
 */
#pragma once

#include "reclaim_run.h"

/* When a run is over. */
struct compact_goal {
	int order;     /* a block of it can be served; or -1: */
	int score;     /* the zone's fragmentation score is this at most */
	bool thorough; /* looks at pageblocks, too, that had nothing before */
	bool direct;   /* for an allocation */
};

/*
 * From the low end of a zone on, or from where the last run ended, move the pages out of pageblocks
 * that hold only MOVABLE pages of order 0, to free pages at its high end, until the goal is
 * reached. A pageblock that has nothing to move, or cannot be emptied, is skipped by later
 * runs, until kswapd goes to sleep after an allocation's run has come to the end, or compaction
 * was put off for as long as can be. `row` has the budget in pages and the share that fails, which
 * adds up until it is a page. Whether the goal was reached.
 */
bool compact_model(struct reclaim_run *run, struct zone *zone, const struct compact_goal *goal,
		   const struct service_row *row);

/* The kswapd of a node goes to sleep (reset_isolation_suitable). */
void compact_model_sleeps(struct reclaim_run *run, int node);
