/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate_run.h - the state of one validate run, shared by its files.
 *
 *   validate.c         the interface; plays events in the tape's order
 *   predict_*.c        predict refills, drains and pages, and compare them with the events
 *   (predict.h)
 *   infer_pcp.c        pages that left a PCP list without an event
 *   infer_pcp_locks.c  the CPU that held the lock of a PCP
 *   infer_late_frees.c freed pages that joined a PCP list later
 *   infer_compaction.c follows compaction
 *   infer_moments.c    when inferred activity happened
 *   infer_lru.c        pages on LRU lists at the start
 *   findings.c         misses and pending misses, inferred rows
 *   accuracy.c         the counts
 *   recorded_use.c     how the zones stood at the recorded requests
 *   end_state_diff.c   compares the end
 */
#pragma once

#include "tape/next_event.h"
#include "tape/lru.h"
#include "bounds.h"
#include "recorded_use.h"
#include "model/pcp.h"
#include "model/policy_stack.h"
#include "tape/node_preference.h"
#include "tape/page_contents.h"
#include "model/force_state.h"
#include "run/rules.h"
#include "run/run.h"
#include "tape/event_window.h"
#include "tape/inferred.h"
#include "failed_requests.h"
#include "validate.h"

/* A page that left the free lists under the zone lock, from its one or two events. */
struct pick {
	const struct window_event *zone_locked, *extfrag;
	struct window_event *last; /* number of these events */
	uint32_t frame;
	uint8_t order, migratetype; /* requested type */
};

/* The last holder of a PCP's lock on a CPU, for interrupts that find the lock taken. */
struct holder {
	const struct zone *zone;
	uint64_t until; /* latest time of its release of the lock */
	int depth;      /* event_depth() of the holder */
	bool locked;    /* false: an interrupt has shown that it interrupted no holder */
};

/* The latest drain of a CPU's PCP by another CPU, and a free that waits for its end. */
struct remote {
	const struct zone *zone;
	uint64_t end; /* pages that the model drained of it */
	bool waits;
	struct window_event free;
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

/* A freed page that joins its PCP list only now, before row `row` of `event`. */
struct late_free {
	uint64_t row;
	struct window_event free; /* its CPU is that of the list */
};
enum { MAX_LATE_FREES = 1 << 10 }; /* at a time; a further page joins at its event */

/* A free whose page may join its list later, although nothing shows that it does. */
struct doubtful_free {
	struct window_event free;
	uint64_t by; /* the row before which the page is on the list */
};
enum {
	DOUBTFUL_FREES = 64 /* the latest are known */
};

struct late_frees {
	struct late_free *all;
	int nr;
	uint64_t next; /* lowest of their rows; UINT64_MAX: none */
	struct doubtful_free doubtful[DOUBTFUL_FREES];
	unsigned nr_doubtful; /* so far */
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

/* A drain that the model predicts. */
struct drain_due {
	int pages, list;
	int most;       /* pages that it can have, if `pages` is a guess; else 0 */
	int piece;      /* pages under one hold of the lock; the last entry is drained whole */
	int part;       /* pages of the first piece, if it has begun already; else 0 */
	bool whole_pcp; /* drain of a whole PCP: its time is recorded, its size not predicted */
	bool all_lists; /* it begins with the first list, and empties each before the next */
	bool resumes;   /* between pieces, interrupts and other tasks may run on its CPU */
	uint64_t until; /* row of `event` */
};

/* A decay that goes on after the window, or not: wanted pages of `due` are 0. */
struct cut_decay {
	uint64_t at; /* row of `event` after its tick */
	int32_t pid;
	struct pcp *pcp;
	int count;            /* pages of the PCP before it */
	int drained;          /* recorded pages so far */
	struct drain_due due; /* its rest */
};

/* Pageblocks that a burst claims; the model claims them at the burst's first row. */
struct early_claim {
	uint64_t at; /* row of the claim */
	uint32_t start, end;
	uint8_t was; /* migratetype */
};
enum { CLAIMS_MAX = 8 };

/* An alloc whose prediction is right if `waiting` pages were taken before it without an event. */
struct pending_miss {
	bool open; /* not refuted */
	uint32_t waiting;
	struct miss miss; /* its event is `event` */
	struct window_event event;
	struct pending_miss *next; /* of the free ones */
};
enum { MAX_PENDING_MISSES = 1 << 14 }; /* pending at a time; a further one counts as a miss */

struct validate {
	struct validate_config config;
	struct run run;
	struct model *m; /* the model of `run`, once started */

	struct event_window window;
	uint64_t last_ts; /* of `event` fed */
	struct failed_requests failed;
	struct next_events next_events; /* of all rows, after a preview */
	struct lru_found lru;           /* until the first event runs */
	struct page_contents contents;  /* since the first event */
	struct holder *holders;         /* [cpu] */
	struct remote *remotes;         /* [cpu] */
	struct asked_drain *asked;      /* [cpu] */
	struct asked_drain *rests;      /* [cpu] pieces after an interruption of such a drain */
	struct cut_decay *cut_decays;   /* [cpu] */
	struct late_frees late_frees;
	int *depths;   /* [cpu] event_depth() of its last event */
	uint64_t *ran; /* [cpu] row of its last event */
	/* [pcp] its high without the effect of below_high and reclaim_active, which are guesses
	 * until a refill or drain proves them: trust_high() */
	int *highs;
	struct refusals *refusals; /* [zone] */
	bool preempt_recorded;     /* the tape shows when preemption is off */
	bool preempts; /* the tape has shown a task that was preempted in an alloc or a free */
	/*
	 * [frame] low 32 bits of a row of `event`: the last free of the page onto a PCP or, for a
	 * page that awaits its alloc, the event that took it. 0: none, or a later event of the page
	 * ran.
	 */
	uint32_t *pushed;
	uint32_t *named;   /* [frame] low 32 bits of the row after its latest event; 0: none */
	uint64_t *drained; /* [pcp] the row after its latest drain */
	uint64_t *guesses; /* [frame] a bit: free block with a guessed place on its list */
	bool *typed;       /* [pageblock] its guessed type was shown by an event */

	int64_t search_left; /* list entries that searches may still look at: may_search() */
	bool searched_long;  /* that was reported */

	struct early_claim claims[CLAIMS_MAX]; /* the latest */
	int next_claim;

	struct pending_miss *pending_misses, *free_pending_miss;
	struct window_event announced; /* alloc_extfrag of a capture that the model has not reached;
					  frame NO_FRAME: none */

	struct capture *capture;            /* of the task whose free runs, or NULL */
	struct policy claim_as_recorded;    /* owns the choice `claim`: answers as recorded */
	const struct window_event *extfrag; /* the event with the recorded claim */
	int nr_picked;                      /* pages of the running refill so far */
	struct prediction prediction;
	struct events events; /* the model's own, into `prediction` */

	struct accuracy accuracy;
	struct node_preference node_preference;
	struct recorded_use recorded_use;
	struct output *inferred, *preference, *block_mix, *use;
	struct validate_totals totals;
	struct divergence divergence;
	struct end_state_diff end_state_diff;
};

/*
 * findings.c
 *
 * Count a missed decision; the first one becomes the divergence.
 */
void missed(struct validate *v, const struct miss *miss);
/* The model has taken over the record after a miss. */
void repaired(struct validate *v);

/* infer_pcp_locks.c: the holder of a PCP's lock, as far as the tape shows. */
/* Whether a free ran in an interrupt that found a PCP lock taken. */
bool interrupts_holder(const struct validate *v, const struct window_event *event);
bool pcp_lock_taken(struct validate *v, const struct window_event *event, const struct zone *zone);
void pcp_lock_after_burst(struct validate *v, const struct window_event *last,
			  const struct zone *zone);
void pcp_lock_in_batch(struct validate *v, const struct window_event *event,
		       const struct zone *zone);
void pcp_lock_release(struct validate *v, const struct window_event *event);

enum remote_lock { REMOTE_NONE, REMOTE_HELD, REMOTE_COMES };
void pcp_lock_remote(struct validate *v, const struct pcp *pcp, const struct window_event *last);
enum remote_lock pcp_lock_of_free(const struct validate *v, const struct window_event *free,
				  const struct zone *zone);
bool pcp_lock_remote_ended(const struct validate *v, const struct window_event *burst,
			   const struct zone *zone);

/* infer_moments.c: the memory of `pushed`, `named` and `drained`; false without it. */
bool moments_new(struct validate *v);
void moments_free(struct validate *v);
/* An event has run; it names its pages. */
void note_event(struct validate *v, const struct window_event *event);

/* infer_lru.c: the LRU pages at the start that a preview found beyond those of the snapshot. */
void infer_lru(struct validate *v);

/* infer_compaction.c: the effects of compaction before row `at` of `event`. */
void predict_compactions(struct validate *v, uint64_t at);
/* The latest event may be the free of a page that compaction moved to the last page at hand. */
void predict_supply(struct validate *v);
/* Whether a free gives a page back to the compaction it came from, not to the allocator. */
bool is_given_back(struct validate *v, const struct window_event *event);
void predict_given_back(struct validate *v, const struct window_event *event);

/* predict_capture.c */
/* The capture of an event's task, or NULL. Counts the block that the task captured meanwhile. */
struct capture *capture_of(struct validate *v, const struct window_event *event);
bool is_captured(struct validate *v, const struct window_event *extfrag);
void predict_capture(struct validate *v, const struct window_event *extfrag);
void captured(struct validate *v, struct capture *capture);

/*
 * Whether a search of a list may look at one more entry. A run far from the record can have lists
 * of all its memory; each event adds to what searches may look at.
 */
static inline bool may_search(struct validate *v)
{
	return v->search_left > 0 && v->search_left--;
}

/* From here on the place of a block on its list is known. */
static inline void no_guess(struct validate *v, uint32_t head)
{
	if (v->guesses)
		v->guesses[head / 64] &= ~(1ull << head % 64);
}

static inline uint64_t pfn_or_none(const struct model *m, uint32_t frame)
{
	return frame == NO_FRAME ? NONE : frame_pfn(m, frame);
}

/* A new pending miss; NULL if all are in use. */
struct pending_miss *new_pending_miss(struct validate *v, const struct miss *miss);
void confirm_miss(struct validate *v, struct pending_miss *pending_miss);
/* The next event of a used page settles the page's part of its pending miss. */
void resolve_pending_miss(struct validate *v, uint32_t frame, bool proof);

/* An alloc_zone_locked or alloc_extfrag without a prediction so far: a refill, or one page. */
void predict_refill(struct validate *v, struct window_event *first);
/* The alloc of a page. */
void predict_alloc(struct validate *v, struct window_event *event);
/* A free takes effect: 2^event->order pages from event->frame. */
void predict_free(struct validate *v, struct window_event *event);
/* A pcpu_drain without a prediction so far: a whole PCP is emptied. */
void predict_drain(struct validate *v, struct window_event *first);
/* Pages of late frees join their lists before an event. */
void join_late(struct validate *v, struct window_event *event);
/* A free that waited for another CPU's drain continues. */
void predict_waiting(struct validate *v, int cpu);
/* The vmstat worker of a CPU runs. */
void predict_tick(struct validate *v, const struct reclaim_event *reclaim_event);

/*
 * Write an inferred row at the time of the current event. `alloc`: the later event of an
 * early_alloc or direct_alloc, which fills in `row` except the kind; else NULL.
 */
void emit_inferred(struct validate *v, struct inferred row, const struct window_event *alloc);

/* The same for the node that an alloc asked first, if it was not the CPU's node. */
void emit_asked_node(struct validate *v, const struct window_event *alloc);

/* Write an inferred row about a block, before row `at`; 0: the current row or, for a free, earlier.
 */
void emit_block(struct validate *v, int kind, uint32_t head, int order, int migratetype,
		uint64_t at);

/* Write a row: free pages leave their list without an event. */
void emit_isolated(struct validate *v, uint32_t head, int order);

/*
 * Write a row: compaction cut the list of a free block, so the block is first behind `behind`
 * entries added later.
 */
void emit_cut(struct validate *v, uint32_t first, int behind);
/* Write a row: a free block goes to its waiting alloc before row `at`. */
void emit_captured(struct validate *v, uint32_t head, int order, uint64_t at);

int end_state_diff_compare(struct end_state_diff *a, const struct model *m, const char *name,
			   const struct ArrowSchema *schema, const struct ArrowArray *array,
			   struct error *err);
