/* SPDX-License-Identifier: Apache-2.0 */
/*
 * predict.h - predicts the events of a run, and compares them with the record.
 *
 *   remove_entry.c        pages that leave a PCP list, as whereabouts/ finds
 *   follow_compaction.c   compaction as recorded
 *   follow_stamps.c       the state of PCPs and zones that the recorder read
 *   failed_requests.c     recorded requests that got no page (failed_requests.h)
 *   predict_list_order.c  the zone that served a request
 *   predict_capture.c     a block that compaction captures
 *   compare_drain.c       the pages of one drain
 *   predict_tuning.c      the tuning of a PCP, from the size of a refill or drain
 *   predict_free.c        a free, and whether it drains the PCP
 *   late_direct_frees.c   chunks that join the free lists after their events
 *   predict_drain.c       a drain, and the vmstat worker
 *   predict_contig_free.c contiguous pages that are freed together
 *   make_first.c          the page that the kernel took becomes the first of its list
 *   predict_buddy.c       one page that leaves the free lists
 *   predict_refill.c      a refill, or one page past the PCP
 *   predict_alloc.c       the page of an alloc
 *   validate.c            the interface (validate.h); plays events in the tape's order
 *
 * A prediction that fails is a finding (score/score.h). Where pages are meanwhile is the matter of
 * whereabouts/whereabouts.h.
 */
#pragma once

#include "failed_requests.h"
#include "validate.h"
#include "model/fallback.h"
#include "model/min_max.h"
#include "model/policy_stack.h"
#include "score/score.h"
#include "tape/node_preference.h"
#include "whereabouts/whereabouts.h"

/* A page that left the free lists under the zone lock, from its one or two events. */
struct pick {
	const struct window_event *zone_locked, *extfrag;
	struct window_event *last; /* number of these events */
	frame_nr frame;
	uint8_t order, migratetype; /* requested type */
};

/* The latest requests in a row that a zone served although its boost would have refused them. */
struct refusals {
	int nr;
	uint64_t first; /* row */
};

/* The state before a free that decides whether it drains its PCP, and how many pages. */
struct freed {
	uint64_t at; /* its row */
	int32_t high, free_count;
	uint8_t free_factor, flags;
	uint8_t order;
};

/* A drain requested by a free, waiting for the zone's lock. */
struct asked_drain {
	uint64_t at; /* row of its first event, or 0 */
	int pages, list;
	bool resumed;  /* the pieces after an interruption */
	int before;    /* drained pages of the pieces before it */
	uint32_t late; /* the page of a free that joined late, + 1; 0: not late */
	struct freed free;
};

/*
 * A free past the PCP. Its chunk joins the free lists later than its event: once the kernel has
 * cleared it (init_on_free, 5.3) and has the zone's lock.
 */
struct direct_free {
	struct window_event free;
	uint64_t by;                     /* row before which the chunk has joined; 0: no free */
	uint32_t behind[NR_PAGE_ORDERS]; /* [order] the entry or list before the buddy that the
					    chunk merged with; NO_FRAME: none */
};

enum {
	RESTS = 4 /* of one CPU at a time: the task that runs meanwhile may be interrupted too */
};

/* A drain that the model predicts. */
struct drain_due {
	int pages, list;
	int most;       /* pages that it can have, if `pages` is a guess; else 0 */
	int piece;      /* pages under one hold of the lock; the last entry is drained whole */
	bool whole_pcp; /* drain of a whole PCP: its time is recorded, its size not predicted */
	bool all_lists; /* it begins with the first list, and empties each before the next */
	bool resumes;   /* between pieces, interrupts and other tasks may run on its CPU */
	uint64_t until; /* row of `event` */
};

/* The latest page of a CPU's refill where PCP lists are the boundary: mode_of(). */
struct boundary_refill {
	enum rmqueue_mode mode;
	int32_t pid;
	uint16_t zone;
	uint8_t order, migratetype;
};

struct validate {
	struct validate_config config;
	struct run run;
	struct model *m; /* the model of `run`, once started */
	struct event_window window;
	struct score score;
	struct whereabouts whereabouts;

	uint64_t last_ts; /* of `event` fed */
	struct failed_requests failed;
	struct asked_drain *asked; /* [cpu] */
	struct asked_drain *rests; /* [cpu * RESTS] such drains that go on after an interruption */
	struct boundary_refill *boundary_refills; /* [cpu] */
	struct direct_free *direct_frees;         /* [cpu] its latest one */
	/* [pcp] its high without the effect of below_high and reclaim_active, which are guesses
	 * until a refill or drain proves them: trust_high() */
	int *highs;
	/* [pcp] pages by which the count of its latest stamp was less than the model's, if no event
	 * has shown since where they are; negative: more */
	int *gone;
	struct refusals *refusals; /* [zone] */
	bool *typed;               /* [pageblock] its guessed type was shown by an event */
	bool searched_long;        /* that a search was cut short is reported */

	struct window_event announced; /* alloc_extfrag of a capture that the model has not reached;
					  frame NO_FRAME: none */

	struct capture *capture;            /* of the task whose free runs, or NULL */
	struct policy claim_as_recorded;    /* owns the choice `claim`: answers as recorded */
	const struct window_event *extfrag; /* the event with the recorded claim */
	int nr_picked;                      /* pages of the running refill so far */
	struct prediction prediction;
	struct events events; /* the model's own, into `prediction` */

	struct node_preference node_preference;
	struct output *preference;
	struct validate_totals totals;
};

/* The drain that goes on with this event after an interruption, or NULL. */
static inline struct asked_drain *rest_of(const struct validate *v,
					  const struct window_event *first)
{
	for (int i = 0; i < RESTS; i++) {
		struct asked_drain *rest = &v->rests[first->cpu * RESTS + i];

		if (rest->at && rest->at == first->at)
			return rest;
	}
	return NULL;
}

/* alloc_zone_locked or alloc_extfrag: a page leaves the free lists. */
static inline bool is_taking(const struct window_event *event)
{
	return event->kind == EVENT_KIND_ALLOC_ZONE_LOCKED ||
	       event->kind == EVENT_KIND_ALLOC_EXTFRAG;
}

/* validate.gone, at most the pages that the model has. */
static inline int pages_gone(const struct validate *v, const struct pcp *pcp)
{
	return min_int(v->gone[pcp->number], pcp->count);
}

static inline uint64_t pfn_or_none(const struct model *m, frame_nr frame)
{
	return frame == NO_FRAME ? NONE : frame_pfn(m, frame);
}

/* Why an entry leaves its PCP list. */
enum removal {
	REMOVED_FOR_ALLOC, /* its alloc is the current event */
	REMOVED_EARLY, /* its alloc comes later: the task was interrupted, or its event is late */
	REMOVED_PREEMPTED, /* its alloc comes later: the task was preempted */
	REMOVED_UNSEEN,    /* it was allocated without an event */
	REMOVED_LATE_FREE, /* its free has not put it there yet */
};
/* The facts of its row in `inferred`. */
struct removed {
	const struct window_event *alloc; /* of REMOVED_EARLY and REMOVED_PREEMPTED */
	uint64_t at;                      /* it left before this row; 0: the current row */
	uint64_t since;                   /* and not before this row */
	int migratetype;                  /* of REMOVED_UNSEEN */
};
/* remove_entry.c */

/*
 * Remove an entry from its PCP list: write its row, count its repair, and leave the PCP and the
 * page as the cause has them. `removed`: NULL without a row, as for REMOVED_FOR_ALLOC and
 * REMOVED_LATE_FREE.
 */
void remove_entry(struct validate *v, frame_nr entry, enum removal why,
		  const struct removed *removed);
/* Handle an event of a page that was on a PCP list before the start. */
void saw_pcp_page(struct validate *v, const struct window_event *event);
/* Take an entry that is first on its PCP list now, before the event of its alloc. */
void take_early(struct validate *v, struct window_event *alloc);
/*
 * Take an entry that left its list without an event, before row `at`; 0: the current row. Returns
 * whether its page is on a free list now: a drain without events took it.
 */
bool take_unseen(struct validate *v, frame_nr entry, int migratetype, uint64_t at);
/* The same for the last entries of a PCP's lists that such a drain took, at most so many pages. */
void take_drained_unseen(struct validate *v, struct pcp *pcp, int most);
/*
 * Take an entry whose task was preempted, before row `at`; before the current row if `at` is 0 or
 * !may_be_at().
 */
void take_preempted(struct validate *v, const struct departure *d, uint64_t at);
/* A page is about to go onto a list: take the first entries that must have left it by now. */
void take_preempted_below(struct validate *v, list_nr list, frame_nr page);
/* Take all entries of a list from `top` down to `entry`, which left without an event. */
void take_down_to(struct validate *v, frame_nr top, frame_nr entry);
/* Take an entry that left without an event, and those above it from the same refill. */
void take_buried(struct validate *v, frame_nr entry);
/*
 * Take an entry that stands before the allocated one on the list: it was allocated earlier, and its
 * alloc event comes later or does not exist. Returns whether the tape proves that without this
 * alloc.
 */
bool take_inferred(struct validate *v, const struct window_event *event, struct pcp *pcp,
		   frame_nr entry, int migratetype);
/*
 * The PCP should have drained and did not: it holds fewer pages than the model has. Take the first
 * entries that the tape proves to be allocated without an event. Returns whether there are any.
 */
bool take_proved(struct validate *v, struct pcp *pcp);
/* A freed page is not on its list: it joins that later. */
void put_off(struct validate *v, const struct window_event *free);
/* Take an entry off its list, because its page joins that later. NULL: none; returns whether. */
bool take_back(struct validate *v, struct doubtful_free *d);
/* An interrupt is about to change the PCP: the interrupted alloc takes its page first. */
void settle_interrupted(struct validate *v, const struct window_event *event);

/* follow_compaction.c: the effects of compaction before row `at` of `event`. */
void follow_compactions(struct validate *v, uint64_t at);
/* The latest event may be the free of a page that compaction moved to the last page at hand. */
void follow_supply(struct validate *v);
/* A free gives its page back to the compaction it came from: is_given_back(). */
void take_given_back(struct validate *v, const struct window_event *event);

/* follow_stamps.c */

/*
 * The stamp of that kind, about that zone, right before an event whose CPU had no event since
 * `earlier`, or that runs now (NULL). NULL: none.
 */
const struct stamp *stamp_before(const struct validate *v, const struct zone *zone,
				 const struct window_event *earlier,
				 const struct window_event *event, int kind);
/* Whether each refill at an event has a stamp. */
bool is_stamped(const struct validate *v, const struct window_event *event);
/*
 * The flags, the boost and the counter of free pages of a zone become those of the stamp before the
 * event that runs, if it has one.
 */
void follow_stamps(struct validate *v, const struct window_event *event);
/*
 * The lists that compaction has turned before row `at` get their recorded first blocks. Of that row
 * itself, those of one search by `searcher`; below 0: all.
 */
void follow_list_heads(struct validate *v, uint64_t at, int32_t searcher);
/* A PCP had `count` pages: take those that left it without an event, as far as later events prove
 * it. */
void follow_count(struct validate *v, struct pcp *pcp, int count);
/* The PCP gets the recorded state, before a refill of that order; returns the refill's size. */
int follow_refill(struct validate *v, struct pcp *pcp, const struct stamp *s, int order);
/*
 * The same before a free at row `at` that drains the PCP, and the page of 2^order joins its list;
 * returns the pages of the drain. `before_clear` becomes those of a drain that a flag of the zone
 * began, which another CPU cleared before the stamp.
 */
int follow_free(struct validate *v, struct pcp *pcp, const struct stamp *s, int order, uint64_t at,
		int *before_clear);

/* The same before the vmstat worker drains what is above high; returns the pages of that drain. */
int follow_decay(struct validate *v, struct pcp *pcp, const struct stamp *s, uint64_t at);

/* predict_list_order.c */

/*
 * A zone served a request. Learn whether the zone's boost has ended and, from a __GFP_WRITE
 * request, which nodes are at their limit of dirty pages.
 */
void predict_list_order(struct validate *v, const struct request *rq, struct zone *served);
/* The zone's boost has ended before row `at`. */
void learn_unboosted(struct validate *v, struct zone *zone, uint64_t at);
/* The zone's counter of free pages has that many more than the model's: see vmstat_diff_shift(). */
void learn_counter(struct validate *v, struct zone *zone, int pages);
/*
 * Whether the request was served before its late event: the zone is now below its low watermark,
 * and another allowed zone is above its own.
 */
bool missed_turn(const struct validate *v, const struct request *rq, const struct zone *served);

/* predict_capture.c */

/* The capture of an event's task, or NULL. Counts the block that the task captured meanwhile. */
struct capture *capture_of(struct validate *v, const struct window_event *event);
/* Whether the alloc_extfrag announces a capture: its task takes the page without a free list. */
bool is_captured(struct validate *v, const struct window_event *extfrag);
/* Compare such an event with the block that the model captured, now or once the model has one. */
void predict_capture(struct validate *v, const struct window_event *extfrag);
/* A free of the task has completed a block in the model: it goes to the task, if it is whole. */
void captured(struct validate *v, struct capture *capture);
/* Write a row: a free block goes to its waiting alloc before row `at`. */
void emit_captured(struct validate *v, frame_nr head, int order, uint64_t at);

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
};

/* Compare the events of one drain, up to row `until`, with the model's drain. */
struct drained compare_drain(struct validate *v, struct window_event *first, struct pcp *pcp,
			     const struct drain_due *due);

/*
 * A page that the record drains leaves the lists by force: a victim that the model did not have, or
 * any page where PCP lists are the boundary.
 */
void drain_as_recorded(struct validate *v, struct zone *zone, const struct window_event *event);

/* predict_tuning.c */

/* Write a row with the tuning of a PCP, or of its zone's flags. */
void emit_tuning(struct validate *v, const struct pcp *pcp, struct inferred row);
/* The high of which a decay leaves `lowered`: 7/8 of it, rounded up. */
static inline int high_before_decay(int lowered)
{
	return lowered + (lowered - 1) / 7;
}

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
/* Explain a drain without a cause on the tape that has the size of a vmstat tick's drain. */
void tune_inferred_tick(struct validate *v, struct pcp *pcp, const struct pcp *before, int pages);
/* `high` of a PCP is certain: below_high and reclaim_active had the right effect on it so far. */
static inline void trust_high(struct validate *v, const struct pcp *pcp)
{
	v->highs[pcp->number] = pcp->high;
}

/* predict_free.c */

/* A free takes effect: 2^event->order pages from event->frame. */
void predict_free(struct validate *v, struct window_event *event);
/* A free that waited for another CPU's drain continues. */
void predict_waiting(struct validate *v, int cpu);
/* Pages of late frees join their lists before an event. */
void join_late(struct validate *v, struct window_event *event);
/* The drain that follows a free, or NULL. */
struct window_event *following_drain(const struct validate *v, const struct window_event *event,
				     const struct zone *zone);
/* Write the row for a freed page that joins the PCP list of a CPU. */
void emit_late_free(struct validate *v, frame_nr frame, int order, uint16_t cpu);
/*
 * 2^order pages are on the free lists before an event: late frees that have still to put some of
 * them there were before.
 */
void join_before(struct validate *v, frame_nr head, int order, struct window_event *event);

/* late_direct_frees.c */

/* A free past the PCP is about to put its chunk onto the free lists. */
void note_direct_free(struct validate *v, const struct window_event *event);
/*
 * A free whose chunk, merged or not, is part of the free chunk of `frame` and may
 * not have joined the lists before an event; else NULL.
 */
struct direct_free *late_direct_free(const struct validate *v, frame_nr frame,
				     const struct window_event *before);
/* Take its chunk off again; the buddies that it merged with go back to their places. */
void unmerge_late(struct validate *v, const struct direct_free *late);

/* predict_drain.c */

/* A pcpu_drain without a prediction so far: a whole PCP is emptied. */
void predict_drain(struct validate *v, struct window_event *first);
/* The vmstat worker of a CPU runs. */
void predict_tick(struct validate *v, const struct reclaim_event *reclaim_event);

/* predict_contig_free.c */

/*
 * The free of a page that may be one of several contiguous ones, freed together: since 7.2 each
 * page has its mm_page_free first, then they are freed as blocks (__free_contig_range).
 */
void predict_contig_free(struct validate *v, struct window_event *event);

/* make_first.c */

/* A chunk that is free in the model left its list without an event. */
void take_vanished(struct validate *v, struct zone *zone, frame_nr chunk);
/*
 * The record has `chunk` first on a list. Move the entries before it to the end: a few chunks one
 * by one; page reporting rotates a whole list. `behind`: entries of it that were taken before.
 */
void turn_list(struct validate *v, list_nr list, frame_nr chunk, int behind);
/*
 * The chunk that the kernel found for a fallback, or NO_FRAME. A claim takes the smallest free page
 * of the claimed block, whose chunk is another one perhaps: it is not known if the block has two of
 * its order.
 */
uint32_t chunk_of_fallback(const struct validate *v, const struct window_event *extfrag);
/*
 * The kernel took `pick`, but the model `frame`: it had other chunks before it on its list, or of a
 * smaller order. Either these are not free any more, or the list was rotated.
 */
void make_first(struct validate *v, struct zone *zone, const struct pick *pick, frame_nr frame);

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

/* predict_refill.c: an alloc_zone_locked or alloc_extfrag without a prediction so far. */
void predict_refill(struct validate *v, struct window_event *first);
/* The same where PCP lists are the boundary: its pages leave the model. */
void predict_boundary_refill(struct validate *v, struct window_event *first);

/* predict_alloc.c: the alloc of a page. */
void predict_alloc(struct validate *v, struct window_event *event);
