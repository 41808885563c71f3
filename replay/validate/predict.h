/* SPDX-License-Identifier: Apache-2.0 */
/*
 * predict.h - what the files share that predict the events of a run and compare.
 *
 *   predict_buddy.c       one page that leaves the free lists
 *   predict_refill.c      a refill, or one page past the PCP
 *   predict_alloc.c       the page of an alloc
 *   predict_free.c        a free, and whether it drains the PCP
 *   predict_drain.c       the pages of a drain, and the vmstat worker
 *   predict_tuning.c      the tuning of a PCP that a refill or a drain showed
 *   predict_list_order.c  the zone whose turn it was
 *   infer_pcp.c           pages that left a PCP list without an event
 */
#pragma once

#include "model/fallback.h"
#include "validate_run.h"

enum { INTERRUPT_WITHIN = 8192 }; /* events of an interrupt */

/* alloc_zone_locked or alloc_extfrag: a page leaves the free lists. */
static inline bool is_taking(const struct window_event *event)
{
	return event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED ||
	       event->kind == EVENT_KIND_ALLOC_EXTFRAG;
}

/* The row of `event`, not after the one that runs, of which the low half is `low`. */
static inline uint64_t row_of(const struct validate *v, uint32_t low)
{
	uint64_t running = window_at(&v->window, v->window.done)->at;

	return running - (uint32_t)(running - low);
}

/* predict_buddy.c */

/* Whether the place of a free block on its list is a guess. */
bool is_guess(const struct validate *v, uint32_t head);
/* Whether the place of a page depends on facts that the tape has not shown yet. */
bool is_unknown(const struct validate *v, uint32_t frame);
/* The events of one page that leaves the free lists, from `event` on. */
void read_pick(const struct validate *v, struct window_event *event, struct pick *pick);
/*
 * Take one page off the free lists, as the model would and then as recorded. Whether the two are
 * the same.
 */
bool take_pick(struct validate *v, struct zone *zone, const struct request *rq,
	       enum rmqueue_mode *mode, const struct pick *pick);
/* Mark the events of `pick` as taken. */
void consume(const struct pick *pick);

/* predict_alloc.c */

/* The request of an alloc event. */
struct request request_of(const struct model *m, const struct window_event *alloc);
/*
 * An interrupt is about to change the PCP. If it interrupted an alloc that has its page already,
 * take that page first: else the interrupt would change its turn.
 */
void settle_interrupted(struct validate *v, const struct window_event *event);

/* predict_refill.c */

/*
 * An alloc got the page that a refill of its empty PCP would have brought first, without an event
 * of a refill. Infer the refill, if there was one; whether there was.
 */
bool infer_refill(struct validate *v, const struct window_event *alloc, const struct request *rq,
		  struct pcp *pcp);
/* Count the size of a refill or a drain. */
struct size_check {
	enum decision decision;
	int expected, got; /* entries of a refill, pages of a drain */
	bool exact;
};
void count_size(struct validate *v, const struct window_event *event, struct zone *zone,
		const struct size_check *check);

/* predict_drain.c */

/* A drain that the model predicts. */
struct drain_due {
	int pages, list;
	int piece;      /* under one hold of the lock: its last entry is drained whole */
	bool recorded;  /* of a whole PCP: the record says when, and how many pages is not predicted
			 */
	uint64_t until; /* row of `event` */
};

struct drained {
	int pages; /* recorded */
	int last;  /* of these, in the last entry, which is drained whole */
	int due;   /* that the model would have drained, the last entry of a piece as a whole */
	bool all;  /* the PCP is empty */
};

/*
 * The list that a drained page was on: as the model has it, which need not be that of its
 * pageblock's type, for the type may have changed since; else the list of that type.
 */
uint32_t list_of_entry(const struct model *m, const struct pcp *pcp,
		       const struct window_event *drain);

/* Compare the events of one drain, up to row `until`, with what the model would drain. */
struct drained compare_drain(struct validate *v, struct window_event *first, struct pcp *pcp,
			     const struct drain_due *due);

/* predict_tuning.c */

/*
 * Find the tuning of the PCP and marks of the zone with which a refill of `size` entries would have
 * had that size, and write a row of it. `before`: the PCP before the refill.
 */
void tune_refill(struct validate *v, struct zone *zone, struct pcp *pcp, const struct pcp *before,
		 const struct pick *pick, int size);
/* The same for a free with a following drain of another size than predicted, or without one. */
void tune_overflow(struct validate *v, struct pcp *pcp, const struct freed *free,
		   const struct drained *drained);
/*
 * The same for the decay of a high, which was that of `before` when it began: only `drained` pages
 * of it were drained.
 */
void tune_decay(struct validate *v, const struct reclaim_event *reclaim_event, struct pcp *pcp,
		const struct pcp *before, int drained);
/* The same for a drain without a cause on the tape, of as many pages as the vmstat tick drains. */
void tune_inferred_tick(struct validate *v, struct pcp *pcp, const struct pcp *before, int pages);
/* `high` of a PCP is certain: the effect of marks of the zone on it so far was right. */
static inline void trust_high(struct validate *v, const struct pcp *pcp)
{
	v->highs[pcp->number] = pcp->high;
}

/* predict_list_order.c */

/*
 * A request was served from a zone. Learn from that whether the zone's boost is over; and for a
 * page that is to be written, which nodes are at their limit of dirty pages.
 */
void predict_list_order(struct validate *v, const struct request *rq, struct zone *served);
/*
 * Whether the request was served earlier, and its event was late: now the zone is below its low
 * watermark, and another zone that may serve the request is above its own.
 */
bool missed_turn(const struct validate *v, const struct request *rq, const struct zone *served);

/* infer_pcp.c */

/* The alloc of a page among the next `within` events of the CPU, or NULL. */
struct window_event *find_alloc(const struct validate *v, const struct window_event *after,
				uint32_t frame, int order, int within);
/* Whether the next event of a page is a free: it was handed out without an event. */
bool is_freed_next(const struct validate *v, uint32_t frame);
/* An alloc happens before the event that runs; its own event comes later. */
void emit_early(struct validate *v, const struct window_event *alloc);
/* The same past the PCP, before row `at`; 0: the one that runs. */
void emit_direct(struct validate *v, const struct window_event *alloc, uint64_t at);
/* The next alloc of a page that is first on its PCP list in the model takes it. */
void take_head(struct validate *v, const struct window_event *alloc, struct pcp *pcp);
/* The same before its event: now. */
void take_early(struct validate *v, struct window_event *alloc, struct pcp *pcp);
/* An entry left its list without an event, before row `at` of `event`; 0: the one that runs. */
void take_unseen(struct validate *v, struct pcp *pcp, uint32_t entry, int migratetype, uint64_t at);
/*
 * Now the tape shows that an entry left its list without an event. It was the first there, so it
 * left before the entry above it was freed onto the list: the row of that free, or 0.
 */
uint64_t left_before(const struct validate *v, uint32_t entry);
/* The same for all entries of a PCP from `top` down to `entry`. */
void take_down_to(struct validate *v, struct pcp *pcp, uint32_t top, uint32_t entry);
/* The same for an entry and those above it that came with the same refill. */
void take_buried(struct validate *v, uint32_t entry);
/*
 * An entry stands before the one that was handed out: so it was handed out before. Its alloc event
 * is still to come, or there is none. Whether the tape proves that, this alloc not counted.
 */
bool take_inferred(struct validate *v, const struct window_event *event, struct pcp *pcp,
		   uint32_t entry, int migratetype);
/*
 * The PCP should have overflown, and did not: it holds fewer pages than the model has. Take those
 * of its first entries that were taken without an event; whether there are any.
 */
bool take_proved(struct validate *v, struct pcp *pcp);
/* An event of a page that was on a PCP list since before the start. */
void saw_pcp_page(struct validate *v, const struct window_event *event);
