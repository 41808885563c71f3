/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact_model.h - compaction in the model: pages move until a pageblock is free.
 */
#pragma once

#include "deferral.h"
#include "reclaim_supply.h"
#include "scan_pace.h"

/* Pageblocks that compaction skips: no movable pages as a source, no free pages as a target. */
enum { SKIP_SOURCE = 1, SKIP_TARGET = 2 };

/* The state of compaction in one zone. */
struct zone_compaction {
	struct deferral deferral;
	double failing; /* fraction of a page that failed to move so far */
	/*
	 * Frames where the next run continues: looks for pages from here up, for free pages from
	 * here down, and for free parts of larger blocks. 0: from the ends.
	 */
	uint32_t from, below, below_folios;
	bool flush; /* a direct run scanned the whole zone: cleared before kswapd naps */
};

struct compaction {
	struct model *model;
	struct reclaim_supply *supply;
	struct zone_compaction *zones; /* [zone] */
	uint8_t *skipped;              /* [pageblock] SKIP_* */
};

/* The goal of a run. */
struct compact_goal {
	int order;           /* the zone has a free block of it; or -1: */
	int score;           /* the zone's fragmentation score is at most this */
	bool thorough;       /* whole zone: skipped pageblocks too; if direct, any targets */
	bool sync;           /* the run may wait: not asynchronous */
	bool direct;         /* the run belongs to an allocation */
	uint8_t migratetype; /* of the allocation; kcompactd's is UNMOVABLE */
	uint8_t class_zone;  /* of kcompactd's call */
};

/* Then arrays_error() of the model's. */
void compaction_new(struct compaction *c, struct model *m, struct reclaim_supply *supply);

/*
 * One run in a zone (compact_zone, 6.12 and 7.2). It moves MOVABLE pages, and since 6.9 blocks
 * below its order, to free parts at the zone's high end. Sources are pageblocks of any type, and
 * for an asynchronous run of an allocation parts of its migratetype without other used pages; from
 * the zone's low end or the end of the last run on. A thorough run begins at the ends. Later runs
 * skip a pageblock without pages to move, until compaction_kswapd_naps() or the last attempt of the
 * longest deferral. `row` has the share of pages that fail, and the budget in pages of kcompactd's
 * runs and of an asynchronous one for a request, if a request's missed its goal in this zone on the
 * record. Others for requests have none: they end with their block or at the ends of the zone.
 * Returns whether the run reached its goal.
 */
bool compact_model(struct compaction *c, struct zone *zone, const struct compact_goal *goal,
		   const struct scan_row *row);

/* A block was allocated after a request's compaction (__alloc_pages_direct_compact). */
void compaction_served(struct compaction *c, const struct zone *zone, int order);

/* Clear the skip marks when the kswapd of a node begins a nap (reset_isolation_suitable). */
void compaction_kswapd_naps(struct compaction *c, int node);
