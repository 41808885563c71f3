/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_supply.h - pages for the model's own reclaim.
 *
 * With feedback the frees that reclaim made on the record (table reclaimed) leave the
 * stream of requests. They form one queue per node, in recorded order, which is all the
 * evidence there is of the order of the LRU lists. The model's kswapd and its stalled
 * allocations take from the head, and pass over pages of zones above the one they reclaim
 * for (scan_control.reclaim_idx). A page is taken early if it was allocated at all by
 * then; its refault is unknown and not priced. A queue that has nothing is a deficit,
 * and nothing is invented (R1); or the oldest live MOVABLE pages of order 0 that the
 * tape allocated are taken instead (R2), of which nothing says that they could be.
 *
 * A page that compaction moved on the record stays where the model has it. No event tells
 * its new pfn, so that its free comes as that of a page nobody allocated: each such free
 * frees the page of the zone that was moved first.
 */
#pragma once

#include "model/page_map.h"

enum reclaim_mode {
	RECLAIM_AS_RECORDED, /* R0: no feedback */
	RECLAIM_QUEUED,      /* R1 */
	RECLAIM_SYNTHETIC,   /* R2 */
};

/* One page, or block, of a queue. */
struct reclaimed {
	uint64_t at, ts;
	uint64_t since; /* row of event from which on the page was in use */
	uint32_t frame; /* recorded; once `held`, where the model has it */
	uint32_t next;  /* of its zone in the queue, or NO_ROW */
	uint8_t kind;   /* RECLAIMED_KIND_* */
	uint8_t order;
	bool moved; /* compaction freed it: it lives on */
	bool held;  /* its recorded free is over */
	bool taken; /* by the model */
};

/* Live pages by age, as recorded frame and model frame; may name pages that are gone. */
struct ages {
	struct aged {
		uint64_t at; /* row of event that allocated it */
		uint32_t frame, place;
	} *ring;
	size_t room, first, nr;
};

struct reclaim_supply {
	enum reclaim_mode mode;
	struct model *model;
	struct page_map *pages;
	const uint64_t *row; /* of `event`, that runs */
	struct reclaimed *rows;
	size_t nr, room, next; /* `next`: the row whose event comes next */
	uint32_t *heads;       /* [zone] first row of the zone in its node's queue, or NO_ROW */
	uint32_t *holders;     /* [frame] 1 + row that is held and has the page, or 0 */
	uint32_t **links;  /* [zone] of reclaim_supply_take(): what leads to the row it looks at */
	struct ages *ages; /* [zone] only R2 */
	struct moved {
		uint32_t first, last; /* rows, or NO_ROW */
	} *moved;                     /* [zone] pages that live on under an unknown pfn */
};

/* Rows of the table, of events from row `first` on. -EINVAL for those no tape can have. */
int reclaim_supply_load(struct reclaim_supply *supply, const struct model *m,
			const struct reclaimed_columns *columns, size_t rows, uint64_t first,
			struct error *err);
/*
 * All rows are there: form the queues. `pages` says where the model has their pages, *row which
 * row of `event` runs; both live as long as the supply. -ENOMEM.
 */
int reclaim_supply_start(struct reclaim_supply *supply, struct model *m, struct page_map *pages,
			 const uint64_t *row, struct error *err);
void reclaim_supply_free(struct reclaim_supply *supply);

/* Whether the event of row `at` is not to be served: its page waits in a queue. */
bool reclaim_supply_withholds(struct reclaim_supply *supply, uint64_t at);
/*
 * The record frees a single page. If the model has none there, and has a page that compaction
 * moved, that page is freed for it: then true.
 */
bool reclaim_supply_frees_moved(struct reclaim_supply *supply, uint32_t frame);
/* Only R2: a MOVABLE page that the record allocated begins to grow old. */
void reclaim_supply_ages(struct reclaim_supply *supply, uint32_t frame);

/* Free up to `pages` pages of a node's zones up to `class_zone`; returns how many were freed. */
int64_t reclaim_supply_take(struct reclaim_supply *supply, int node, int class_zone, int64_t pages);
/* Whether the queue has pages of them that the model may have yet, now or later. */
bool reclaim_supply_waits(const struct reclaim_supply *supply, int node, int class_zone);

/* Whether a page is to be freed together with those beside it, and so cannot move alone. */
bool reclaim_supply_pins(const struct reclaim_supply *supply, uint32_t page);
/* A page of the model is elsewhere now. */
void reclaim_supply_moved(struct reclaim_supply *supply, uint32_t from, uint32_t to);

/* The tape is over: count what was never taken. */
void reclaim_supply_finish(struct reclaim_supply *supply);
