/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whereabouts.h - when each page joined or left its list, as far as the events show it.
 *
 *   pcp_entries.c      entries of the PCP lists and their events
 *   infer_pcp_locks.c  the CPU that held the lock of a PCP
 *   infer_preempted.c  pages that left a PCP list long before their events
 *   infer_late_frees.c pages that joined a PCP list after their events
 *   infer_pcp.c        pages that left a PCP list without an event
 *   infer_compaction.c pages that compaction has
 *   whereabouts.c      the memory of all of these
 *   (bounds.h)         how far they look
 *
 * This room answers questions. It reads the events and the model's lists, and changes no state of
 * the model: predict/ does, with what it learns here.
 */
#pragma once

#include "bounds.h"
#include "model/force_state.h"
#include "model/pcp.h"
#include "run/rules.h"
#include "tape/event_window.h"
#include "tape/next_event.h"
#include "tape/recorded_compaction.h"

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
	uint64_t end; /* time of the last event of its latest piece */
	bool waits;
	struct window_event free;
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

struct whereabouts {
	/* Borrowed: the model of the started run, and its events. */
	const struct model *m;
	const struct event_window *window;

	struct next_events next_events; /* of all rows, after a preview */
	struct holder *holders;         /* [cpu] */
	struct remote *remotes;         /* [cpu] */
	struct late_frees late_frees;
	int *depths;           /* [cpu] event_depth() of its last event */
	uint64_t *ran;         /* [cpu] row of its last event */
	bool preempt_recorded; /* the tape shows when preemption is off */
	bool preempts; /* the tape has shown a task that was preempted in an alloc or a free */
	/*
	 * [frame] low 32 bits of a row of `event`: the last free of the page onto a PCP or, for a
	 * page that awaits its alloc, the event that took it. 0: none, or a later event of the page
	 * ran.
	 */
	low_row *pushed;
	int64_t search_left; /* list entries that searches may still look at: may_search() */
};

/*
 * Whether a search of a list may look at one more entry. A run far from the record can have lists
 * of all its memory; each event adds to what searches may look at.
 */
static inline bool may_search(struct whereabouts *where)
{
	return where->search_left > 0 && where->search_left--;
}

/* The last row of `event` up to the current one whose low 32 bits are `low`. */
static inline uint64_t row_of(const struct whereabouts *where, low_row low)
{
	uint64_t running = window_at(where->window, where->window->done)->at;

	return running - (uint32_t)(running - low);
}

/* Row of the mm_page_free of a free's first page. */
static inline uint64_t first_row(const struct whereabouts *where, const struct window_event *free)
{
	return free->run ? row_of(where, where->pushed[free->frame]) : free->at;
}

/* whereabouts.c: for a started run; then arrays_error() of the model's. */
void whereabouts_new(struct whereabouts *where, const struct model *m,
		     const struct event_window *window);

/* pcp_entries.c */

/* The alloc of a page among the next `within` events of the CPU, or NULL. */
struct window_event *find_alloc(const struct whereabouts *where, const struct window_event *after,
				frame_nr frame, int order, int within);
/* Whether the next event of a page is a free: the page was allocated without an event. */
bool is_freed_next(const struct whereabouts *where, frame_nr frame);
/*
 * The list of a drained page: the list in the model if the page is on one, because the type of its
 * pageblock may have changed since; else the list of that type.
 */
list_nr list_of_entry(const struct model *m, const struct pcp *pcp,
		      const struct window_event *drain);
/* Whether an alloc's page is the next entry of its CPU's PCP. */
bool is_first_entry(const struct model *m, const struct window_event *alloc);
/*
 * The tape now shows that an entry left its list without an event. It was first on the list then,
 * so it left before the free of the next entry above it that stays. Returns the row of that free,
 * or 0.
 */
uint64_t left_before(const struct whereabouts *where, frame_nr entry);
/* infer_pcp_locks.c */

/* Whether a free ran in an interrupt that found a PCP lock taken. */
bool interrupts_holder(const struct whereabouts *where, const struct window_event *event);
/*
 * Whether the PCP's lock was found taken, by an interrupt of its holder. A lock disables
 * preemption. If the tape shows preemption, an interrupt without the flag interrupted no holder. An
 * interrupt with the flag interrupted the holder of some lock; the next events of the pages show
 * which lock.
 */
bool pcp_lock_taken(struct whereabouts *where, const struct window_event *event,
		    const struct zone *zone);
/*
 * `last` is the last event under the zone's lock. The PCP's lock, taken earlier, is held a little
 * longer. A pending interrupt runs between the two releases.
 */
void pcp_lock_after_burst(struct whereabouts *where, const struct window_event *last,
			  const struct zone *zone);
/* A batch of frees holds the PCP's lock from its first page to its last. */
void pcp_lock_in_batch(struct whereabouts *where, const struct window_event *event,
		       const struct zone *zone);
/* The holder, or the task that it interrupted, continues: the lock is free. */
void pcp_lock_release(struct whereabouts *where, const struct window_event *event);

/*
 * Another CPU drains this PCP, piece by piece, and holds its lock until `last`, the last event
 * of a piece.
 */
void pcp_lock_remote(struct whereabouts *where, const struct pcp *pcp,
		     const struct window_event *last);
/*
 * Whether another CPU, which drains the PCP, holds its lock when a free tries for it: the page then
 * goes to the buddy, once that drain releases the zone's lock.
 */
enum remote_lock { REMOTE_NONE, REMOTE_HELD, REMOTE_COMES };
enum remote_lock pcp_lock_of_free(const struct whereabouts *where, const struct window_event *free,
				  const struct zone *zone);

/* infer_preempted.c */

/*
 * The later alloc of an entry of a PCP list, if a preempted task may already have taken the entry;
 * else NULL.
 */
const struct departure *preempted_alloc(struct whereabouts *where, list_nr list, frame_nr entry);
/* The event of such an alloc, as if on the CPU of the entry's list. */
struct window_event event_of_departure(const struct departure *d, uint16_t cpu);
/* Whether the page may have left its list before row `at`. */
bool may_be_at(const struct departure *d, uint64_t at);
/* The departure of the running alloc, if its task may have been preempted before; else NULL. */
const struct departure *own_departure(struct whereabouts *where, const struct window_event *alloc);
/* The lowest entry above another on its list that later events show there, or NO_FRAME. */
frame_nr staying_above(struct whereabouts *where, frame_nr entry);
/*
 * The late alloc that caused a refill, or took a page past the PCP, or NULL. `frame`: the first
 * page; `last`: the last event of the refill.
 */
const struct departure *refilled_for(struct whereabouts *where, frame_nr frame,
				     const struct window_event *last);
/*
 * A page is about to go onto a PCP list. The first entry of the list, if a preempted task must have
 * taken it by now, because the page will still be before it when its event comes; else NULL.
 */
const struct departure *preempted_below(struct whereabouts *where, list_nr list, frame_nr page);
/*
 * A PCP should have drained and did not: the first entry that a preempted task may have taken, if
 * the kernel preempts; else NULL.
 */
const struct departure *likely_preempted(struct whereabouts *where, const struct pcp *pcp);

/* infer_late_frees.c */

/* Whether the page of a free joins its PCP list later: it then waits in `late_frees`. */
bool joins_late(struct whereabouts *where, const struct window_event *free, const struct pcp *pcp);
/* Remove the first free before row `at`, or of the page `of`; false: there is none. */
bool late_free_due(struct late_frees *late, uint64_t at, frame_nr of, int order,
		   struct window_event *free);
/*
 * The free of an entry, or of the latest entry of a PCP, whose page may have joined its list too
 * early: nothing showed when. NULL: none.
 */
struct doubtful_free *doubtful_free_of(struct whereabouts *where, frame_nr entry);
struct doubtful_free *latest_doubtful_free(struct whereabouts *where, const struct pcp *pcp);
/* Such a page waits for its task's next event, as after joins_late(). */
void wait_for_doubtful(struct whereabouts *where, struct doubtful_free *d);

/* infer_pcp.c */

/* The row before which the page of a later alloc did not leave its list. */
uint64_t taken_since(const struct whereabouts *where, const struct window_event *alloc);
/* Whether the free that runs has put an entry onto its list. */
bool is_just_freed(const struct whereabouts *where, frame_nr entry);
/*
 * The first entry of a list whose next event is a free, below an entry with another next event: the
 * lower one was allocated before the free of the upper one. Entries on top may be allocated later.
 */
frame_nr find_departed(struct whereabouts *where, const struct pcp *pcp, int type);
/*
 * An interrupt is about to change the PCP: the event of the interrupted alloc, if that already has
 * its page; else NULL. Without that page, the alloc would get another one.
 */
struct window_event *interrupted_alloc(struct whereabouts *where, const struct window_event *event);

/* infer_compaction.c */

/*
 * Whether a free block left its list for compaction, as the next event of its page shows: above 0
 * yes, below 0 no.
 */
int left_for_compaction(const struct whereabouts *where, frame_nr head);
/*
 * Whether a free gives a page back to the compaction it came from, not to the allocator. `task`:
 * the freeing one, if it compacts, or NULL.
 */
bool is_given_back(const struct whereabouts *where, const struct window_event *event,
		   const struct compactor *task);
