/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_supply.h - pages for the model's own reclaim.
 *
 * With feedback, the frees that reclaim made on the record (table reclaimed) leave the stream of
 * requests. They form one queue per node, in recorded order, the only evidence of the order of the
 * LRU lists. The model's kswapd and its stalled allocations take from the head, and skip pages of
 * zones above the one they reclaim for (scan_control.reclaim_idx). The model may take a page before
 * its recorded free, once the page is allocated. The refault of such a page is unknown and not
 * counted. After the queue follow pages of batches that nobody uses (alloc_batch.h), then pages of
 * files from before the tape, then the oldest pages in use: of the requests whose pages reclaim
 * freed on the record (R1), or every MOVABLE one (R2); see ages.h. What is missing then is a
 * deficit. A direct reclaim at a time at which the record's reclaim finds pages (scan_frees) owes
 * the deficit to a zone, whose watermarks count it as free, so that the next requests do not
 * reclaim in vain one by one. The next pages of the queue pay it back.
 *
 * Pages that a shrinker freed for the record's kswapd are of slab, or page cache of an inode, of
 * any zone. No scan of a list takes them. The model frees them at their recorded time if its kswapd
 * is in a pass, else after the scans of its next round, or in a direct reclaim that finds too few
 * other pages.
 *
 * A page that recorded compaction moved keeps its place in the model. No event records its new pfn,
 * so its free looks like the free of a page without an alloc. Each such free frees the page of the
 * zone that was moved first, unless compaction makes it.
 */
#pragma once

#include "ages.h"
#include "model/strays.h"

enum reclaim_mode {
	RECLAIM_AS_RECORDED, /* R0: no feedback */
	RECLAIM_QUEUED,      /* R1 */
	RECLAIM_SYNTHETIC,   /* R2 */
};

/* One page, or block, of a queue. */
struct reclaimed {
	uint64_t at, ts;
	uint64_t since; /* row of event since which the page was in use */
	frame_nr frame; /* recorded frame; once `held`, frame of the model */
	uint32_t next;  /* row of its zone in the queue, or NO_ROW */
	uint8_t kind;   /* RECLAIMED_KIND_* */
	uint8_t order;
	bool moved;  /* freed by compaction: its contents are at another pfn */
	bool shrunk; /* freed by a shrinker that kswapd called */
	bool held;   /* its recorded free has passed; the model still has the page */
	bool taken;  /* freed by the model */
};

struct reclaim_supply {
	enum reclaim_mode mode;
	struct model *model;
	struct page_map *pages;
	struct strays *strays; /* set by the caller before the start; NULL: none */
	const uint64_t *row;   /* number of the current row of `event` */
	/*
	 * Set by the caller before the start: recorded facts about the current free, used for pages
	 * that reclaim frees meanwhile. NULL: none.
	 */
	const struct free_request *how;
	struct reclaimed *rows;
	size_t nr, room, next; /* next: the first row whose event is still ahead */
	uint32_t *heads;       /* [zone] first row of the zone in its node's queue, or NO_ROW */
	uint64_t *waiting;     /* [zone] pages of the queue that nothing has freed yet */
	uint32_t *holders;     /* [frame] 1 + the held row that has the page, or 0 */
	uint32_t **links; /* [zone] scratch of reclaim_supply_take(): pointer to the next row */
	struct ages ages; /* pages in use that no row has */
	struct held_rows {
		uint32_t first, last; /* rows, or NO_ROW */
	} *moved;                     /* [zone] moved pages, now at an unknown pfn */
	struct held_rows *shrinkable; /* [zone] pages that wait for the next pass of kswapd */
	struct shrinkers {
		bool called;   /* the node's kswapd is in a pass */
		int64_t freed; /* pages of this pass, since reclaim_supply_shrunk() */
	} *shrinkers;          /* [node] */
};

/* Load rows of the table, of events from row `first` on. -EINVAL for invalid rows. */
int reclaim_supply_load(struct reclaim_supply *supply, const struct model *m,
			const struct reclaimed_columns *columns, size_t rows, uint64_t first,
			struct error *err);
/*
 * Call after the last row: forms the queues. `pages` maps recorded pages to the model, *row is the
 * number of the current row of `event`; both must outlive the supply. -ENOMEM.
 */
int reclaim_supply_start(struct reclaim_supply *supply, struct model *m, struct page_map *pages,
			 const uint64_t *row, struct error *err);

/* Whether to skip the free of row `at`, because its page waits in a queue. */
bool reclaim_supply_withholds(struct reclaim_supply *supply, uint64_t at);
/*
 * A recorded free of a single page. If the model has no page there but has a page that compaction
 * moved, free that page and return true.
 */
bool reclaim_supply_frees_moved(struct reclaim_supply *supply, frame_nr frame);

/*
 * Free up to `pages` pages of a node's zones up to `class_zone`. Returns the pages freed, which a
 * block of the last row may make more.
 */
int64_t reclaim_supply_take(struct reclaim_supply *supply, int node, int class_zone, int64_t pages);
/*
 * A pass of the node's kswapd begins or ends. In a pass it calls the shrinkers, which free the
 * pages that they freed on the record, at the same time.
 */
void reclaim_supply_shrinks(struct reclaim_supply *supply, int node, bool called);
/* Pages that shrinkers so freed for the node's kswapd in this pass, since the last call. */
int64_t reclaim_supply_shrunk(struct reclaim_supply *supply, int node);
/*
 * Shrinkers free about `pages` of the node's pages that the record's shrinkers have freed before.
 * Returns the pages freed.
 */
int64_t reclaim_supply_shrink(struct reclaim_supply *supply, int node, int64_t pages);
/* Reclaim on the node owes pages that the record's own reclaim found at that time. */
void reclaim_supply_owe(struct reclaim_supply *supply, int node, int class_zone, int64_t pages);
/* Whether the queue has pages of these zones, now or later. */
bool reclaim_supply_waits(const struct reclaim_supply *supply, int node, int class_zone);

/* Whether a page is freed only as part of a larger block, and cannot move alone. */
bool reclaim_supply_pins(const struct reclaim_supply *supply, frame_nr page);
/* Follow the move of a page in the model. */
void reclaim_supply_moved(struct reclaim_supply *supply, uint32_t from, uint32_t to);

/* End of the tape: count the pages never taken. */
void reclaim_supply_finish(struct reclaim_supply *supply);
