/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - the recorded page events, with a look ahead.
 *
 * What an event means often shows only later: an alloc comes after the refill it
 * caused, a free of a batch before it takes effect. So events wait in a ring; each knows
 * the next one of its CPU, and a free its free_batched.
 */
#pragma once

#include "model/model.h"

enum {
	WINDOW_ROOM = 1 << 16,  /* power of two */
	WINDOW_AHEAD = 3 << 14, /* the oldest event runs when so many wait */
	WINDOW_BATCH = 16,      /* filled in before the first of them is counted in */
	WINDOW_BEHIND = WINDOW_ROOM - WINDOW_AHEAD - WINDOW_BATCH, /* run, and still there */
};

struct window_event {
	uint64_t at; /* row of `event` */
	uint64_t ts;
	uint32_t frame; /* NO_FRAME: nothing was found */
	uint32_t gfp_flags;
	int32_t pid;
	uint32_t next; /* number of window to the next of this CPU; 0: not there yet */
	uint16_t cpu;
	uint8_t kind, flags, order, migratetype, fallback_order, fallback_migratetype;
	bool owner;   /* extfrag: change_ownership */
	bool batched; /* free: takes effect later; free_batched: has its free */
	bool taken;   /* its effect is in the model already */
	bool exact;   /* alloc that is taken: as predicted */
};

/*
 * Events that have not run are found by their page: those whose frames have one hash form a
 * list, in the order of the tape. Places are positions in the ring, and wrap as it does.
 */
struct window_link {
	uint32_t frame;
	uint16_t earlier, later; /* how far the next is each way; of no use past the ends */
};

struct window_list {
	uint16_t first, last, nr;
};
_Static_assert(WINDOW_ROOM == UINT16_MAX + 1, "places are of 16 bits");

struct event_window {
	struct window_event *ring;
	struct window_link *links; /* of the ring's window */
	struct window_list *lists; /* [hash of a frame] */
	uint64_t arrived, done;
	uint64_t *last;   /* [cpu] number of its latest event, + 1 */
	uint64_t *coming; /* [cpu] number of its oldest event that has not run, + 1; or 0 */
};

/* For so many CPUs. -ENOMEM. */
int window_new(struct event_window *s, int nr_cpus, struct error *err);
void window_free(struct event_window *s);

/* Where the event after `filled` others, which are filled in, is to be filled in. */
static inline struct window_event *window_room(struct event_window *s, int filled)
{
	return &s->ring[(s->arrived + (uint64_t)filled) % WINDOW_ROOM];
}
/* So many window are filled in: bring what counting them in needs into the cache. */
void window_prepare(const struct event_window *s, int filled);
/* Count the first of them in. */
void window_add(struct event_window *s);

/* The oldest event has run. */
void window_run(struct event_window *s);
/* Bring what that needs of the event `number` into the cache. */
void window_prefetch(const struct event_window *s, uint64_t number);

static inline struct window_event *window_number(const struct event_window *s, uint64_t number)
{
	return &s->ring[number % WINDOW_ROOM];
}

/* The next event of the same CPU, or NULL: the tape, or what is read of it, is over. */
static inline struct window_event *window_next(const struct event_window *s,
					       const struct window_event *event)
{
	if (!event->next)
		return NULL;
	return &s->ring[((size_t)(event - s->ring) + event->next) % WINDOW_ROOM];
}

/* The oldest event of a CPU that has not run, or NULL. */
static inline struct window_event *window_coming(const struct event_window *s, int cpu)
{
	return s->coming[cpu] ? window_number(s, s->coming[cpu] - 1) : NULL;
}

/* The next event, of any CPU, of a page: after the one that runs, or after `after`. */
struct window_event *window_of_frame(const struct event_window *s, const struct window_event *after,
				     uint32_t frame);

/* How deep in interrupts an event fired: 0 a task, then softirq, hardirq, NMI. */
static inline int event_depth(const struct window_event *event)
{
	if (event->flags & CONTEXT_NMI)
		return 3;
	if (event->flags & CONTEXT_HARDIRQ)
		return 2;
	return event->flags & CONTEXT_SOFTIRQ ? 1 : 0;
}
