/* SPDX-License-Identifier: Apache-2.0 */
/*
 * predict.h - functions that predict the events of a run and compare them with the record.
 *
 *   predict_buddy.c       one page that leaves the free lists
 *   predict_refill.c      a refill, or one page past the PCP
 *   predict_alloc.c       the page of an alloc
 *   predict_free.c        a free, and whether it drains the PCP
 *   predict_contig_free.c contiguous pages that are freed together
 *   predict_capture.c     a block that compaction captures
 *   predict_drain.c       a drain, and the vmstat worker
 *   compare_drain.c       the pages of one drain
 *   predict_tuning.c      the tuning of a PCP, from the size of a refill or drain
 *   predict_list_order.c  the zone that served a request
 *   pcp_entries.c         entries of the PCP lists: their events, their removal
 *   guesses.c             guesses of the start that no event has replaced
 *   infer_moments.c       the windows in which inferred activity happened
 *   infer_pcp.c           pages that left a PCP list without an event
 *   infer_preempted.c     pages that left a PCP list long before their events
 *   infer_late_frees.c    pages that joined a PCP list after their events
 */
#pragma once

#include "model/fallback.h"
#include "validate_run.h"

/* alloc_zone_locked or alloc_extfrag: a page leaves the free lists. */
static inline bool is_taking(const struct window_event *event)
{
	return event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED ||
	       event->kind == EVENT_KIND_ALLOC_EXTFRAG;
}

/* The last row of `event` up to the current one whose low 32 bits are `low`. */
static inline uint64_t row_of(const struct validate *v, uint32_t low)
{
	uint64_t running = window_at(&v->window, v->window.done)->at;

	return running - (uint32_t)(running - low);
}

/* The later of two rows. */
static inline uint64_t max_row(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

/* guesses.c */

/* Whether the place of a free block on its list is a guess. */
bool is_guess(const struct validate *v, uint32_t head);
/* Whether the place of a page depends on facts not shown by the tape so far. */
bool is_unknown(const struct validate *v, uint32_t frame);
/* Whether sizes of refills and drains in a zone depend on PCP pages that the tape has not shown. */
bool is_size_unknown(const struct validate *v, const struct zone *zone);

/* findings.c */

/* Count the size of a refill or a drain. */
struct size_check {
	enum decision decision;
	int expected, got; /* entries of a refill, pages of a drain */
	bool exact;
};
void count_size(struct validate *v, const struct window_event *event, struct zone *zone,
		const struct size_check *check);
/* Play an alloc before the current event; its own event follows later. */
void emit_early(struct validate *v, const struct window_event *alloc);
/* The same past the PCP, before row `at`; 0: the current row. */
void emit_direct(struct validate *v, const struct window_event *alloc, uint64_t at);

/* pcp_entries.c */

/* The alloc of a page among the next `within` events of the CPU, or NULL. */
struct window_event *find_alloc(const struct validate *v, const struct window_event *after,
				uint32_t frame, int order, int within);
/* Whether the next event of a page is a free: the page was allocated without an event. */
bool is_freed_next(const struct validate *v, uint32_t frame);
/*
 * The list of a drained page: the list in the model if the page is on one, because the type of its
 * pageblock may have changed since; else the list of that type.
 */
uint32_t list_of_entry(const struct model *m, const struct pcp *pcp,
		       const struct window_event *drain);
/* Whether an alloc's page is the next entry of its CPU's PCP. Sets `pcp` if that has its list. */
bool is_first_entry(const struct model *m, const struct window_event *alloc, struct pcp **pcp);
/*
 * The tape now shows that an entry left its list without an event. It was first on the list then,
 * so it left before the free of the entry above it. Returns the row of that free, or 0.
 */
uint64_t left_before(const struct validate *v, uint32_t entry);
/* Why an entry leaves its PCP list. */
enum removal {
	REMOVED_FOR_ALLOC, /* its alloc is the current event */
	REMOVED_EARLY, /* its alloc comes later: the task was interrupted, or its event is late */
	REMOVED_PREEMPTED, /* its alloc comes later: the task was preempted */
	REMOVED_UNSEEN,    /* it was allocated without an event */
	REMOVED_LATE_FREE, /* its free has not put it there yet */
};
/* What its row has to say. */
struct removed {
	const struct window_event *alloc; /* of REMOVED_EARLY and REMOVED_PREEMPTED */
	uint64_t at;                      /* it left before this row; 0: the current row */
	uint64_t since;                   /* and not before this row */
	int migratetype;                  /* of REMOVED_UNSEEN */
};
/*
 * Remove an entry from its PCP list: write its row, count its repair, and leave the PCP and the
 * page as the cause has them. `removed`: NULL without a row, as for REMOVED_FOR_ALLOC and
 * REMOVED_LATE_FREE.
 */
void remove_entry(struct validate *v, uint32_t entry, enum removal why,
		  const struct removed *removed);
/* Handle an event of a page that was on a PCP list before the start. */
void saw_pcp_page(struct validate *v, const struct window_event *event);

/* predict_buddy.c */

/* The events of one page that leaves the free lists, from `event` on. */
void read_pick(const struct validate *v, struct window_event *event, struct pick *pick);
/*
 * Take one page off the free lists: by the model's rules, then as recorded. Returns whether the two
 * are the same.
 */
bool take_pick(struct validate *v, struct zone *zone, const struct request *rq,
	       enum rmqueue_mode *mode, const struct pick *pick);
/* Mark the events of `pick` as taken. */
void consume(const struct pick *pick);

/* predict_free.c */

/* The drain that follows a free, or NULL. */
struct window_event *following_drain(const struct validate *v, const struct window_event *event,
				     const struct zone *zone);
/* Write the row for a freed page that joins the PCP list of a CPU. */
void emit_late_free(struct validate *v, uint32_t frame, int order, uint16_t cpu);
/* A page leaves the free lists: if a late free has still to put it there, that free was before. */
void join_before(struct validate *v, uint32_t frame, struct window_event *event);

/* predict_contig_free.c */

/*
 * The free of a page that may be one of several contiguous ones, freed together: since 7.2 each
 * page has its mm_page_free first, then they are freed as blocks (__free_contig_range).
 */
void predict_contig_free(struct validate *v, struct window_event *event);
/* Row of the mm_page_free of a free's first page. */
static inline uint64_t first_row(const struct validate *v, const struct window_event *free)
{
	return free->run ? row_of(v, v->pushed[free->frame]) : free->at;
}

/* predict_refill.c */

/* compare_drain.c */

/* Sizes of a drain. A drain takes whole entries, so it may exceed its size by part of one. */
struct drained {
	int pages; /* recorded */
	int due;   /* pages that the model would have drained */
	/* A free that wants more than `above` pages, and at most `most`, drains as recorded. */
	int above, most;
	int rest; /* wanted pages of the pieces after it, if it ends with a piece; else 0 */
	const struct window_event *resumed; /* the first event of these, after an interruption */
	/* The task went to another CPU before these: it does not drain them (6.19). */
	bool stopped;
	bool all; /* the PCP is empty */
	/* The window ends before the drain: wanted pages of the rest, and of its first piece. */
	int cut_off, cut_part;
};

/* Compare the events of one drain, up to row `until`, with the model's drain. */
struct drained compare_drain(struct validate *v, struct window_event *first, struct pcp *pcp,
			     const struct drain_due *due);

/* predict_tuning.c */

/*
 * Find the tuning of the PCP, and below_high and reclaim_active of the zone, that explain a refill
 * of `size` entries, and write them as a row. `before`: the PCP before the refill.
 */
void tune_refill(struct validate *v, struct zone *zone, struct pcp *pcp, const struct pcp *before,
		 const struct pick *pick, int size);
/* Explain a free whose drain has another size than predicted, or is missing, in the same way. */
void tune_overflow(struct validate *v, struct pcp *pcp, const struct freed *free,
		   const struct drained *drained);
/* Write that a free drained only `pages`, because its task left the CPU between two pieces. */
void tune_stopped(struct validate *v, const struct pcp *pcp, const struct freed *free, int pages);
/*
 * Explain a decay before row `at` that began with `count` pages and drained only `drained` of them.
 */
void tune_decay(struct validate *v, uint64_t at, struct pcp *pcp, int count, int drained);
/* Explain a drain without a cause on the tape that has the size of a vmstat tick's drain. */
void tune_inferred_tick(struct validate *v, struct pcp *pcp, const struct pcp *before, int pages);
/* `high` of a PCP is certain: below_high and reclaim_active had the right effect on it so far. */
static inline void trust_high(struct validate *v, const struct pcp *pcp)
{
	v->highs[pcp->number] = pcp->high;
}

/* predict_list_order.c */

/*
 * A zone served a request. Learn whether the zone's boost has ended and, from a __GFP_WRITE
 * request, which nodes are at their limit of dirty pages.
 */
void predict_list_order(struct validate *v, const struct request *rq, struct zone *served);
/* Whether a request need not go below the low watermark. */
bool any_above_low(const struct model *m, const struct request *rq);
/*
 * Whether the request was served before its late event: the zone is now below its low watermark,
 * and another allowed zone is above its own.
 */
bool missed_turn(const struct validate *v, const struct request *rq, const struct zone *served);

/*
 * infer_moments.c
 *
 * Before row `row`, an event or an inferred row names a page.
 */
void note_named(struct validate *v, uint32_t frame, uint64_t row);
/* A PCP drains: its number of pages was right. */
void note_drained(struct validate *v, const struct pcp *pcp);
/* The lowest row before which an entry of a PCP list may have left it. */
uint64_t since_entry(const struct validate *v, uint32_t entry);
/*
 * The lowest row before which a block may have been taken off the free lists, or freed. Events of
 * its buddy count as well: they may have split off the block.
 */
uint64_t since_block(const struct validate *v, uint32_t head, int order);

/* infer_pcp.c */

/* Take an entry that is first on its PCP list now, before the event of its alloc. */
void take_early(struct validate *v, struct window_event *alloc);
/* Take an entry that left its list without an event, before row `at`; 0: the current row. */
void take_unseen(struct validate *v, uint32_t entry, int migratetype, uint64_t at);
/* Take all entries of a list from `top` down to `entry`, which left without an event. */
void take_down_to(struct validate *v, uint32_t top, uint32_t entry);
/* Take an entry that left without an event, and those above it from the same refill. */
void take_buried(struct validate *v, uint32_t entry);
/*
 * Take an entry that stands before the allocated one on the list: it was allocated earlier, and its
 * alloc event comes later or does not exist. Returns whether the tape proves that without this
 * alloc.
 */
bool take_inferred(struct validate *v, const struct window_event *event, struct pcp *pcp,
		   uint32_t entry, int migratetype);
/*
 * The PCP should have drained and did not: it holds fewer pages than the model has. Take the first
 * entries that the tape proves to be allocated without an event. Returns whether there are any.
 */
bool take_proved(struct validate *v, struct pcp *pcp);
/*
 * An interrupt is about to change the PCP. If the interrupted alloc already has its page, take that
 * page first: otherwise the alloc would get another page.
 */
void settle_interrupted(struct validate *v, const struct window_event *event);

/* infer_preempted.c */

/*
 * The later alloc of an entry of a PCP list, if a preempted task may already have taken the entry;
 * else NULL.
 */
const struct departure *preempted_alloc(struct validate *v, uint32_t list, uint32_t entry);
/* The event of such an alloc, as if on the CPU of the entry's list. */
struct window_event event_of_departure(const struct departure *d, uint16_t cpu);
/* Whether the page may have left its list before row `at`. */
bool may_be_at(const struct departure *d, uint64_t at);
/* Take such an entry, before row `at`; 0: the current row. */
void take_preempted(struct validate *v, const struct departure *d, uint64_t at);
/* The departure of the running alloc, if its task may have been preempted before; else NULL. */
const struct departure *own_departure(struct validate *v, const struct window_event *alloc);
/* The lowest entry above another on its list that later events show there, or NO_FRAME. */
uint32_t staying_above(struct validate *v, uint32_t entry);
/*
 * The late alloc that caused a refill, or took a page past the PCP, or NULL. `frame`: the first
 * page; `last`: the last event of the refill.
 */
const struct departure *refilled_for(struct validate *v, uint32_t frame,
				     const struct window_event *last);
/*
 * A page is about to go onto a PCP list. Take the first entries of the list that preempted tasks
 * must have taken by now, because the page will still be before them when their events come.
 */
void take_preempted_below(struct validate *v, uint32_t list, uint32_t page);
/*
 * A PCP should have drained and did not. If the kernel preempts, take a page that a preempted task
 * may have taken.
 */
void take_likely_preempted(struct validate *v, struct pcp *pcp);

/* infer_late_frees.c */

/* Whether the page of a free joins its PCP list later, which join_late() then does. */
bool joins_late(struct validate *v, const struct window_event *free, struct pcp *pcp);
/* Remove the first free before row `at`, or of the page `of`; false: there is none. */
bool late_free_due(struct late_frees *late, uint64_t at, uint32_t of, struct window_event *free);
/*
 * An entry, or the latest entry of a PCP, may have joined its list too early: nothing showed when.
 * If so, take it off the list until its task's next event. take_back_entry(): returns whether.
 */
bool take_back_entry(struct validate *v, uint32_t entry);
void take_back_latest(struct validate *v, const struct pcp *pcp);
