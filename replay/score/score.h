/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.h - what validate finds: counts, misses and pending misses, inferred rows, the end.
 *
 *   accuracy.c       the counts (accuracy.h)
 *   guesses.c        guesses of the start that no event has replaced
 *   moments.c        the windows in which inferred activity happened
 *   findings.c       misses and pending misses, inferred rows
 *   end_state_diff.c compares the end
 *   recorded_use.c   how the zones stood at the recorded requests (recorded_use.h)
 *   score.c          the memory of all of these
 *
 * This room predicts nothing and moves no page of the model. The rooms above look for the
 * whereabouts of pages, predict, and report here.
 */
#pragma once

#include "accuracy.h"
#include "recorded_use.h"
#include "model/model.h"
#include "run/run.h"
#include "tape/event_window.h"
#include "tape/inferred.h"
#include "tape/page_contents.h"

struct score;

/* Hooks called at the findings; they may read struct score. */
struct validate_observer {
	void *self;
	/* Before the prediction of an event; only in a run that has a run_observer as well. */
	void (*event)(void *self, const struct score *s, const struct window_event *event);
	/* The first miss, before the model takes over the record, and after it. */
	void (*missed)(void *self, const struct score *s, const struct miss *miss);
	void (*repaired)(void *self, const struct score *s);
	/* The first miss proved to be none: the next miss becomes the first. */
	void (*forgotten)(void *self);
};

/* An alloc whose prediction is right if `waiting` pages were taken before it without an event. */
struct pending_miss {
	bool open; /* not refuted */
	uint32_t waiting;
	uint32_t pcp;     /* whose entries these pages were, in model->pcps */
	struct miss miss; /* its event is `event` */
	struct window_event event;
	struct pending_miss *next; /* of the free ones */
};
enum { MAX_PENDING_MISSES = 1 << 14 }; /* pending at a time; a further one counts as a miss */

/* The first missed decision. */
struct divergence {
	bool known, repaired;
	const struct pending_miss
		*pending_miss; /* its pending miss, which later events may refute; or NULL */
	struct miss miss;      /* its event is `event` */
	struct window_event event;
};

/* Share of the end state that equals the end snapshot; see _replay.pyi. */
struct end_state_diff {
	bool known;
	uint64_t free_blocks, free_blocks_same, successor_same;
	uint64_t pcp_pages, pcp_pages_same;
	uint64_t pageblocks, pageblocks_same;
};

struct score {
	/* Borrowed: the run at hand, its model once it has started, and its events. */
	const struct run *run;
	struct model *m;
	const struct event_window *window;
	const struct validate_observer *observer; /* or NULL */

	struct accuracy accuracy;
	uint64_t alloc_inferred; /* exact allocs that need inferred allocs before them */
	struct divergence divergence;
	struct pending_miss *pending_misses, *free_pending_miss;
	uint32_t *open_misses; /* [pcp] how many of these are open */
	uint64_t *guesses;     /* [frame] a bit: free block with a guessed place on its list */
	low_row *named;        /* [frame] low 32 bits of the row after its latest event; 0: none */
	uint64_t *drained;     /* [pcp] the row after its latest drain */
	struct page_contents contents; /* since the first event */
	struct recorded_use recorded_use;
	struct end_state_diff end_state_diff;
	struct output *inferred, *block_mix, *use;
};

/*
 * score.c
 *
 * For a started run; `inferred`, `block_mix` and `use` are output lists of the run already.
 * -ENOMEM.
 */
int score_new(struct score *s, struct run *run, const struct event_window *window,
	      const struct validate_observer *observer, struct error *err);

/* guesses.c */

/* Mark the free blocks that a guess put on their lists. -ENOMEM. */
int guesses_new(struct score *s, struct error *err);
/* Whether the place of a free block on its list is a guess. */
bool is_guess(const struct score *s, frame_nr head);
/* Whether the place of a page depends on facts not shown by the tape so far. */
bool is_unknown(const struct score *s, frame_nr frame);
/* Whether sizes of refills and drains in a zone depend on PCP pages that the tape has not shown. */
bool is_size_unknown(const struct score *s, const struct zone *zone);
/* From here on the place of a block on its list is known. */
static inline void no_guess(struct score *s, frame_nr head)
{
	if (s->guesses)
		s->guesses[head / 64] &= ~(1ull << head % 64);
}

/* moments.c */

/* An event has run; it names its pages. */
void note_event(struct score *s, const struct window_event *event);
/* Before row `row`, an event or an inferred row names a page. */
void note_named(struct score *s, frame_nr frame, uint64_t row);
/* The row of a page's latest event; UINT64_MAX: none. An inferred row later than that counts, too.
 */
uint64_t named_at(const struct score *s, frame_nr frame);
/* A PCP drains: its number of pages was right. */
void note_drained(struct score *s, const struct pcp *pcp);
/* The lowest row before which an entry of a PCP list may have left it. */
uint64_t since_entry(const struct score *s, frame_nr entry);
/*
 * The lowest row before which a block may have been taken off the free lists, or freed. Events of
 * its buddy count as well: they may have split off the block.
 */
uint64_t since_block(const struct score *s, frame_nr head, int order);

/* findings.c */

/* Count a missed decision; the first one becomes the divergence. */
void missed(struct score *s, const struct miss *miss);
/* The model has taken over the record after a miss. */
void repaired(struct score *s);
/* Count the size of a refill or a drain. */
struct size_check {
	enum decision decision;
	int expected, got; /* entries of a refill, pages of a drain */
	bool exact;
};
void count_size(struct score *s, const struct window_event *event, struct zone *zone,
		const struct size_check *check);

/* A new pending miss about entries of a PCP; NULL if all are in use. */
struct pending_miss *new_pending_miss(struct score *s, const struct miss *miss,
				      const struct pcp *pcp);
/* The recorder counted as many pages on a PCP as the model has: those that left it have left. */
void prove_pending_misses(struct score *s, const struct pcp *pcp);
void confirm_miss(struct score *s, struct pending_miss *pending_miss);
/* The next event of a used page settles the page's part of its pending miss. */
void resolve_pending_miss(struct score *s, frame_nr frame, bool proof);

/*
 * Write an inferred row at the time of the current event. `alloc`: the later event of an
 * early_alloc or direct_alloc, which fills in `row` except the kind; else NULL.
 */
void emit_inferred(struct score *s, struct inferred row, const struct window_event *alloc);
/* The same for the node that an alloc asked first, if it was not the CPU's node. */
void emit_asked_node(struct score *s, const struct window_event *alloc);
/* Play an alloc before the current event; its own event follows later. */
void emit_early_alloc(struct score *s, const struct window_event *alloc);
/* The same past the PCP, before row `at`; 0: the current row. */
void emit_direct(struct score *s, const struct window_event *alloc, uint64_t at);
/*
 * Write an inferred row about a block, before row `at`; 0: the current row or, for a free, earlier.
 */
void emit_block(struct score *s, int kind, frame_nr head, int order, int migratetype, uint64_t at);
/* Write a row: free pages leave their list without an event. */
void emit_isolated(struct score *s, frame_nr head, int order);
/*
 * Write a row: compaction cut the list of a free block, so the block is first behind `behind`
 * entries added later.
 */
void emit_cut(struct score *s, frame_nr first, int behind);

/*
 * end_state_diff.c
 *
 * Compare the model with rows of the exact end snapshot: pageblock, free_block or pcp_page.
 */
int end_state_diff_compare(struct end_state_diff *a, const struct model *m, const char *name,
			   const struct ArrowSchema *schema, const struct ArrowArray *array,
			   struct error *err);
