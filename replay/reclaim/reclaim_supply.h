/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_supply.h - pages for the model's own reclaim.
 *
 * With feedback, the frees that reclaim made on the record (table reclaimed) leave the stream of
 * requests. They form one queue per node, in recorded order, the only evidence of the order of
 * the LRU lists. The model's kswapd and its stalled allocations take from the head, and skip
 * pages of zones above the one they reclaim for (scan_control.reclaim_idx). The model may take a
 * page before the record freed it, if it is allocated by then. The refault of such a page is
 * unknown and not counted. An empty queue is a deficit (R1). With R2 the oldest live MOVABLE
 * pages of order 0 that the tape allocated are taken instead; no event proves that they were
 * reclaimable.
 *
 * A page that compaction moved on the record stays where the model has it. No event records its
 * new pfn, so its free looks like that of a page that was never allocated. Each such free frees
 * the page of the zone that was moved first.
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
	uint32_t frame; /* recorded frame; once `held`, that in the model */
	uint32_t next;  /* row of its zone in the queue, or NO_ROW */
	uint8_t kind;   /* RECLAIMED_KIND_* */
	uint8_t order;
	bool moved; /* compaction freed it: the page lives on at another pfn */
	bool held;  /* its recorded free is over; the model still has the page */
	bool taken; /* the model freed it */
};

/* Pages by age, as recorded frame and model frame. Some may be freed meanwhile. */
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
	const uint64_t *row; /* number of the `event` row that runs */
	/*
	 * The caller's, set before the start: what the record shows of the free that runs. Pages
	 * that reclaim frees meanwhile are freed alike. NULL: nothing is shown.
	 */
	const struct free_request *how;
	struct reclaimed *rows;
	size_t nr, room, next; /* next: the first row whose event is to come */
	uint32_t *heads;       /* [zone] first row of the zone in its node's queue, or NO_ROW */
	uint32_t *holders;     /* [frame] 1 + the held row that has the page, or 0 */
	uint32_t **links;  /* [zone] scratch of reclaim_supply_take(): pointer to the next row */
	struct ages *ages; /* [zone] R2 only */
	struct moved {
		uint32_t first, last; /* rows, or NO_ROW */
	} *moved;                     /* [zone] pages that live on at an unknown pfn */
};

/* Rows of the table, of events from row `first` on. -EINVAL for invalid rows. */
int reclaim_supply_load(struct reclaim_supply *supply, const struct model *m,
			const struct reclaimed_columns *columns, size_t rows, uint64_t first,
			struct error *err);
/*
 * All rows are loaded: form the queues. `pages` has the places of the pages in the model, *row is
 * the number of the `event` row that runs; both must outlive the supply. -ENOMEM.
 */
int reclaim_supply_start(struct reclaim_supply *supply, struct model *m, struct page_map *pages,
			 const uint64_t *row, struct error *err);
void reclaim_supply_free(struct reclaim_supply *supply);

/* Whether the event of row `at` is not served, because its page waits in a queue. */
bool reclaim_supply_withholds(struct reclaim_supply *supply, uint64_t at);
/*
 * The record frees a single page. If the model has no page there, but has one that compaction
 * moved, free that one and return true.
 */
bool reclaim_supply_frees_moved(struct reclaim_supply *supply, uint32_t frame);
/* R2 only: the record allocated a MOVABLE page; it is the youngest. */
void reclaim_supply_ages(struct reclaim_supply *supply, uint32_t frame);

/* Free up to `pages` pages of a node's zones up to `class_zone`. Returns the pages freed. */
int64_t reclaim_supply_take(struct reclaim_supply *supply, int node, int class_zone, int64_t pages);
/* Whether the queue has pages of those zones, for now or later. */
bool reclaim_supply_waits(const struct reclaim_supply *supply, int node, int class_zone);

/* Whether a page is freed only as part of a larger block, and so cannot move alone. */
bool reclaim_supply_pins(const struct reclaim_supply *supply, uint32_t page);
/* A page of the model moved. */
void reclaim_supply_moved(struct reclaim_supply *supply, uint32_t from, uint32_t to);

/* The tape is over: count the pages that were never taken. */
void reclaim_supply_finish(struct reclaim_supply *supply);
