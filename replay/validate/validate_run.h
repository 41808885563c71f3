/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate_run.h - the parts of validate.c: one run, and what its files share.
 *
 *   validate.c  the interface; reads events, calls the others in the tape's order
 *   expect_*.c  predict refills, drains and pages, and compare them with the window (predict.h)
 *   compacting.c follows compaction
 *   locks.c     tells from the window who held the lock of a PCP
 *   findings.c  misses, those that may turn out to be none, inferred rows, captures
 *   validate_story.c tells of the first miss
 *   end_state_diff.c compares the end
 */
#pragma once

#include "tape/next_event.h"
#include "tape/lru.h"
#include "model/pcp.h"
#include "model/policy_stack.h"
#include "tape/node_preference.h"
#include "model/force_state.h"
#include "run/run.h"
#include "tape/event_window.h"
#include "tape/inferred.h"
#include "validate.h"

/* A page that left the free lists under the zone lock, as one or two events told it. */
struct pick {
	const struct window_event *zone_locked, *extfrag;
	struct window_event *last; /* of the two */
	uint32_t frame;
	uint8_t order, migratetype; /* asked for */
};

/* Who last held a PCP's lock on a CPU, for interrupts that find it taken. */
struct holder {
	const struct zone *zone;
	uint64_t until; /* when it lets go, at the latest */
	int depth;      /* event_depth() of the holder */
	bool locked;    /* else an interrupt that was found to have interrupted no holder */
};

/* The latest drain of a CPU's PCP by another CPU, and a free that waits for its end. */
struct remote {
	const struct zone *zone;
	uint64_t end; /* of what the model drained of it */
	bool waits;
	struct window_event free;
};

/* What decides whether a free drains its PCP, and how much, as before that free. */
struct freed {
	uint64_t at; /* its row */
	int32_t high, free_count;
	uint8_t free_factor, flags;
	uint8_t order;
};

/* A drain that a free asked for: it waits for the zone's lock. */
struct asked_drain {
	uint64_t at; /* row of its first event, or 0 */
	int pages, list;
	struct freed free;
};

/* Pageblocks that a burst claims, which the model runs as a whole at the burst's first row. */
struct early_claim {
	uint64_t at; /* row of the claim */
	uint32_t start, end;
	uint8_t was; /* migratetype */
};
enum { CLAIMS_KEPT = 8 };

/* An alloc that was predicted right if `waiting` pages were taken before it without an event. */
struct pending_miss {
	bool open; /* not refuted */
	uint32_t waiting;
	struct miss miss; /* its event is `event` */
	struct window_event event;
	struct pending_miss *next; /* of the free ones */
};
enum { MAX_PENDING_MISSES = 1 << 14 }; /* at a time; a miss beyond them is one */

struct validate {
	struct validate_config config;
	struct run run;
	struct model *m; /* that of run, once started */

	struct event_window window;
	uint64_t last_ts;               /* of `event` fed */
	struct next_events next_events; /* of all rows, if they were seen before */
	struct lru_found lru;           /* until the first event runs */
	struct holder *holders;         /* [cpu] */
	struct remote *remotes;         /* [cpu] */
	struct asked_drain *asked;      /* [cpu] */
	int *depths;                    /* [cpu] event_depth() of what ran last */
	uint64_t *ran;                  /* [cpu] row of what ran last */
	int *highs; /* [pcp] its high before flags of the zone that nothing proves shrank it */
	bool preempt_recorded; /* the tape shows when preemption is off */
	/* [frame] row of `event`, low half, of its last free onto a PCP or, of a page that awaits
	 * its alloc, of what took it; 0: none that is still to be told */
	uint32_t *pushed;
	uint64_t
		*interrupting; /* [frame] a bit: that free was in an interrupt of a lock's holder */
	uint64_t *guesses;     /* [frame] a bit: a free block whose place on its list is guessed */
	bool *typed;           /* [pageblock] its type was guessed, and is told by now */

	struct early_claim claims[CLAIMS_KEPT]; /* the latest */
	int next_claim;

	struct pending_miss *pending_misses, *free_pending_miss;
	struct window_event announced; /* alloc_extfrag of a capture that the model has not come to;
				  or of NO_FRAME */

	struct capture *capture;            /* of the task whose free runs, or NULL */
	struct policy oracle;               /* tells fallbacks whether their block was claimed */
	const struct window_event *extfrag; /* the event it tells of */
	int nr_picked;                      /* pages that the running refill has already */
	struct prediction prediction;
	struct events events; /* the model's, into `told` */

	struct accuracy accuracy;
	struct node_preference node_preference;
	struct output *inferred, *preference;
	struct validate_totals totals;
	struct divergence divergence;
	struct end_state_diff end_state_diff;
};

/* Count a decision that was missed, and how the model is put right; tell of the first. */
void missed(struct validate *v, const struct miss *miss);
void note_divergence(struct validate *v, const struct miss *miss);
void forget_divergence(struct validate *v);
/* The model has taken over the record after a miss. */
void repaired(struct validate *v);

/* At the end: what was taken for handed out without an event, and went past a PCP. */
void free_unaccounted(struct validate *v);

/* locks.c: who holds the lock of a PCP, as far as the tape shows. */
/* Whether a free ran in an interrupt that found some lock, of whatever, taken. */
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

/* compacting.c: what compaction did before a event, and what it means for one. */
void predict_compaction(struct validate *v, const struct recorded_compaction_row *row);
/* A free of a page that goes back to the compaction it came from, not to the allocator. */
bool is_given_back(struct validate *v, const struct window_event *event);
void predict_given_back(struct validate *v, const struct window_event *event);
/* The capture of the task of a event, or NULL; what it took meanwhile is scored. */
struct capture *capture_of(struct validate *v, const struct window_event *event);
bool is_captured(struct validate *v, const struct window_event *extfrag);
void predict_capture(struct validate *v, const struct window_event *extfrag);
void captured(struct validate *v, const struct capture *capture);

/* A block whose place on its list is known from here on. */
static inline void no_guess(struct validate *v, uint32_t head)
{
	if (v->guesses)
		v->guesses[head / 64] &= ~(1ull << head % 64);
}

static inline uint64_t pfn_or_none(const struct model *m, uint32_t frame)
{
	return frame == NO_FRAME ? NONE : frame_pfn(m, frame);
}

/* NULL if there is no room for another. */
struct pending_miss *new_pending_miss(struct validate *v, const struct miss *miss);
void confirm_miss(struct validate *v, struct pending_miss *pending_miss);
/* What the tape now says of a used page ends the pending_miss that waits for it. */
void resolve_pending_miss(struct validate *v, uint32_t frame, bool proof);

/* An alloc_zone_locked or alloc_extfrag that nothing has expected: a refill, or one page. */
void predict_refill(struct validate *v, struct window_event *first);
/* The alloc of a page. */
void predict_alloc(struct validate *v, struct window_event *event);
/* A free takes effect: 2^event->order pages from event->frame. */
void predict_free(struct validate *v, struct window_event *event);
/* A pcpu_drain that nothing has expected: a whole PCP is emptied. */
void predict_drain(struct validate *v, struct window_event *first);
/* A free that waited for another CPU's drain goes on. */
void predict_waiting(struct validate *v, int cpu);
/* The vmstat worker of a CPU runs. */
void predict_tick(struct validate *v, const struct reclaim_event *reclaim_event);

/*
 * Write down what no event told, as of the event that runs. The rest of `row` is filled
 * in: all but the kind if `alloc` is given, the later event of an early_alloc or direct_alloc.
 */
void emit_inferred(struct validate *v, struct inferred row, const struct window_event *alloc);

/* The same of the node that the alloc which runs asked first, if it was not its CPU's. */
void emit_asked_node(struct validate *v, const struct window_event *alloc);

/* Write down what became of a block, before row `at`; 0: the one that runs. */
void emit_block(struct validate *v, int kind, uint32_t head, int order, int migratetype,
		uint64_t at);

/* Write down that free pages are about to leave their list, and no event told. */
void emit_isolated(struct validate *v, uint32_t head, int order);

/*
 * Write down that the list of a free block was cut there, so that the block comes first, but
 * for `behind` entries that were put there later.
 */
void emit_cut(struct validate *v, uint32_t first, int behind);
/* Write down that a block, which stands free, goes to the alloc that waits for it, before row `at`.
 */
void emit_captured(struct validate *v, uint32_t head, int order, uint64_t at);

int end_state_diff_compare(struct end_state_diff *a, const struct model *m, const char *name,
			   const struct ArrowSchema *schema, const struct ArrowArray *array,
			   struct error *err);
