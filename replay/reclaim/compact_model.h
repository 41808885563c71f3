/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact_model.h - compaction in the model: pages move until a pageblock is free.
 */
#pragma once

#include "deferral.h"
#include "reclaim_supply.h"
#include "service.h"

/* Pageblocks that compaction skips: no pages to move out of it, no free pages to move into. */
enum { SKIP_SOURCE = 1, SKIP_TARGET = 2 };

/* The state of compaction in one zone. */
struct zone_compaction {
	struct deferral deferral;
	double failing; /* share of a page that could not be moved so far */
	/* Frames where the next run looks for pages from, and for free pages below; 0, 0: anew. */
	uint32_t from, below;
	bool flush; /* a direct run came to the end: before its nap kswapd clears the state */
};

struct compaction {
	struct model *model;
	struct reclaim_supply *supply;
	struct zone_compaction *zones; /* [zone] */
	uint8_t *skipped;              /* [pageblock] SKIP_* */
};

/* Where a run ends. */
struct compact_goal {
	int order;     /* the zone can serve a block of it; or -1: */
	int score;     /* the zone's fragmentation score is at most this */
	bool thorough; /* also look at pageblocks that are skipped as a source */
	bool direct;   /* the run is an allocation's */
};

/* -ENOMEM. compaction_free() is due in any case. */
int compaction_new(struct compaction *c, struct model *m, struct reclaim_supply *supply,
		   struct error *err);
void compaction_free(struct compaction *c);

/*
 * One run in a zone. It moves pages out of pageblocks that hold only MOVABLE pages of order 0,
 * from the zone's low end on or from where the last run ended, to free pages at the high end. A
 * pageblock that has nothing to move, or cannot be emptied, is skipped by later runs, until
 * compaction_kswapd_naps() or the last attempt of the longest deferral. `row` is the budget in
 * pages and the share of pages that fail; the share adds up until it is a page. Whether the
 * run reached its goal.
 */
bool compact_model(struct compaction *c, struct zone *zone, const struct compact_goal *goal,
		   const struct service_row *row);

/* The kswapd of a node begins to nap (reset_isolation_suitable). */
void compaction_kswapd_naps(struct compaction *c, int node);
