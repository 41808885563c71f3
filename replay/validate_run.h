/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate_run.h - the parts of validate.c: one run, and what its files share.
 *
 *   validate.c  the interface; reads events, calls the others in the tape's order
 *   expect_*.c  predict refills, drains and pages, and compare them with the steps (expect.h)
 *   compacting.c follows compaction
 *   locks.c     tells from the steps who held the lock of a PCP
 *   doubt.c     misses that may turn out to be none
 *   validate_story.c tells of the first miss
 *   agreement.c compares the end
 */
#pragma once

#include "fate.h"
#include "lru.h"
#include "pcp.h"
#include "policy_stack.h"
#include "prefer.h"
#include "seize.h"
#include "start.h"
#include "steps.h"
#include "untold.h"
#include "validate.h"

/* A page that left the free lists under the zone lock, as one or two events told it. */
struct pick {
	const struct step *zone_locked, *extfrag;
	struct step *last; /* of the two */
	uint32_t frame;
	uint8_t order, migratetype; /* asked for */
};

/* Who last held a PCP's lock on a CPU, for interrupts that find it taken. */
struct holder {
	const struct zone *zone;
	uint64_t until; /* when it lets go, at the latest */
	int depth;      /* step_depth() of the holder */
	bool locked;    /* else an interrupt that was found to have interrupted no holder */
};

/* The latest drain of a CPU's PCP by another CPU, and a free that waits for its end. */
struct remote {
	const struct zone *zone;
	uint64_t end; /* of what the model drained of it */
	bool waits;
	struct step free;
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
struct doubt {
	bool open; /* not refuted */
	uint32_t waiting;
	struct miss miss; /* its step is `step` */
	struct step step;
	struct doubt *next; /* of the free ones */
};
enum { MAX_DOUBTS = 1 << 14 }; /* at a time; a miss beyond them is one */

struct validate {
	struct validate_config config;
	struct policy_stack *policies;
	struct start start;
	struct model *m; /* that of start, once started */
	bool started, finished;

	struct steps steps;
	uint64_t rows, last_ts;    /* of `event` fed */
	struct fates fates;        /* of all rows, if they were seen before */
	struct lru_found lru;      /* until the first event runs */
	struct holder *holders;    /* [cpu] */
	struct remote *remotes;    /* [cpu] */
	struct asked_drain *asked; /* [cpu] */
	int *depths;               /* [cpu] step_depth() of what ran last */
	uint64_t *ran;             /* [cpu] row of what ran last */
	int *highs; /* [pcp] its high before flags of the zone that nothing proves shrank it */
	bool preempt_told; /* the tape shows when preemption is off */
	/* [frame] row of `event`, low half, of its last free onto a PCP or, of a page that awaits
	 * its alloc, of what took it; 0: none that is still to be told */
	uint32_t *pushed;
	uint64_t
		*interrupting; /* [frame] a bit: that free was in an interrupt of a lock's holder */
	uint64_t *guesses;     /* [frame] a bit: a free block whose place on its list is guessed */
	bool *typed;           /* [pageblock] its type was guessed, and is told by now */

	struct early_claim claims[CLAIMS_KEPT]; /* the latest */
	int next_claim;

	struct doubt *doubts, *free_doubt;
	struct step announced; /* alloc_extfrag of a capture that the model has not come to; or of
				  NO_FRAME */

	struct policy oracle;       /* tells fallbacks whether their block was claimed */
	const struct step *extfrag; /* the step it tells of */
	int nr_picked;              /* pages that the running refill has already */
	struct told told;
	struct events events; /* the model's, into `told` */

	struct score score;
	struct prefer prefer;
	struct output *anomaly, *untold, *preference;
	struct validate_totals totals;
	struct divergence divergence;
	struct witness *witness;
	struct agreement agreement;
};

/* Count a decision that was missed, and how the model is put right; tell of the first. */
void missed(struct validate *v, const struct miss *miss);
void tell_divergence(struct validate *v, const struct miss *miss);
void forget_divergence(struct validate *v);

/* At the end: what was taken for handed out without an event, and went past a PCP. */
void free_unheard(struct validate *v);

/* locks.c: who holds the lock of a PCP, as far as the tape shows. */
/* Whether a free ran in an interrupt that found some lock, of whatever, taken. */
bool interrupts_holder(const struct validate *v, const struct step *step);
bool pcp_lock_taken(struct validate *v, const struct step *step, const struct zone *zone);
void pcp_lock_after_burst(struct validate *v, const struct step *last, const struct zone *zone);
void pcp_lock_in_batch(struct validate *v, const struct step *step, const struct zone *zone);
void pcp_lock_release(struct validate *v, const struct step *step);

enum remote_lock { REMOTE_NONE, REMOTE_HELD, REMOTE_COMES };
void pcp_lock_remote(struct validate *v, const struct pcp *pcp, const struct step *last);
enum remote_lock pcp_lock_of_free(const struct validate *v, const struct step *free,
				  const struct zone *zone);
bool pcp_lock_remote_ended(const struct validate *v, const struct step *burst,
			   const struct zone *zone);

/* compacting.c: what compaction did before a step, and what it means for one. */
void expect_compaction(struct validate *v, const struct compact_row *row);
/* A free of a page that goes back to the compaction it came from, not to the allocator. */
bool is_given_back(struct validate *v, const struct step *step);
void expect_given_back(struct validate *v, const struct step *step);
/* The capture of the task of a step, or NULL; what it took meanwhile is scored. */
struct capture *capture_of(struct validate *v, const struct step *step);
bool is_captured(struct validate *v, const struct step *extfrag);
void expect_capture(struct validate *v, const struct step *extfrag);
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
struct doubt *new_doubt(struct validate *v, const struct miss *miss);
void refute_doubt(struct validate *v, struct doubt *doubt);
/* What the tape now says of a used page ends the doubt that waits for it. */
void hear_of(struct validate *v, uint32_t frame, bool proof);

/*
 * frame.list of a used page: what is known of it beyond that. Of a NO_ALLOC page
 * frame.next is the number of the doubt that waits for it, or NO_FRAME.
 */
enum {
	AWAITS_ALLOC = UINT16_MAX, /* it left the free lists for itself; its alloc is to come */
	AWAITS_ALLOC_MISSED = UINT16_MAX - 1, /* the same, but the model had another page */
	NO_ALLOC = UINT16_MAX - 2,            /* it left a PCP list, and no event told */
	ISOLATED = UINT16_MAX - 3,            /* compaction took it off the free lists */
};

/* An alloc_zone_locked or alloc_extfrag that nothing has expected: a refill, or one page. */
void expect_burst(struct validate *v, struct step *first);
/* The alloc of a page. */
void expect_alloc(struct validate *v, struct step *step);
/* A free takes effect: 2^step->order pages from step->frame. */
void expect_free(struct validate *v, struct step *step);
/* A pcpu_drain that nothing has expected: a whole PCP is emptied. */
void expect_drain(struct validate *v, struct step *first);
/* A free that waited for another CPU's drain goes on. */
void expect_waiting(struct validate *v, int cpu);
/* The vmstat worker of a CPU runs. */
void expect_tick(struct validate *v, const struct aside *aside);

/*
 * Write down what no event told, as of the step that runs. The rest of `row` is filled
 * in: all but the kind if `alloc` is given, the later event of an early_alloc or direct_alloc.
 */
void tell_untold(struct validate *v, struct untold row, const struct step *alloc);

/* The same of the node that the alloc which runs asked first, if it was not its CPU's. */
void tell_asked(struct validate *v, const struct step *alloc);

/* Write down what became of a block, before row `at`; 0: the one that runs. */
void tell_block(struct validate *v, int kind, uint32_t head, int order, int migratetype,
		uint64_t at);

/* Write down that free pages are about to leave their list, and no event told. */
void tell_isolated(struct validate *v, uint32_t head, int order);

/*
 * Write down that the list of a free block was cut there, so that the block comes first, but
 * for `behind` entries that were put there later.
 */
void tell_cut(struct validate *v, uint32_t first, int behind);
/* Write down that a block, which stands free, goes to the alloc that waits for it, before row `at`.
 */
void tell_captured(struct validate *v, uint32_t head, int order, uint64_t at);

/* A step, and those of its CPU before it. */
void tell_event(const struct validate *v, struct story *story, const struct step *step);
/* Fill in v->divergence.story: until the repair, after it. */
void story_begin(struct validate *v, const struct miss *miss);
void story_end(struct validate *v);

int agreement_compare(struct agreement *a, const struct model *m, const char *name,
		      const struct ArrowSchema *schema, const struct ArrowArray *array,
		      struct error *err);
