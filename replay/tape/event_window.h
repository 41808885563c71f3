/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_window.h - a window over the recorded page events, to look ahead.
 *
 * Later events often decide the meaning of an event: an alloc follows the refill that it caused,
 * and a batched free takes effect after its event. So events wait in a ring. Each event links to
 * the next one of its CPU, and a free to its free_batched.
 */
#pragma once

#include "model/model.h"
#include "model/record_facts.h"

enum {
	WINDOW_ROOM = 1 << 16,  /* events in the ring, a power of two */
	WINDOW_AHEAD = 3 << 14, /* the oldest event runs when this many wait */
	WINDOW_BATCH = 16,      /* events filled in before the first of them is added */
	WINDOW_BEHIND = WINDOW_ROOM - WINDOW_AHEAD -
		WINDOW_BATCH, /* past events that stay in the ring */
};

struct window_event {
	uint64_t at; /* row of `event` */
	uint64_t ts;
	frame_nr frame; /* NO_FRAME: the request got no page */
	uint32_t gfp_flags;
	int32_t pid;
	uint32_t next; /* distance in the ring to the next event of this CPU; 0: not read yet */
	uint16_t cpu;
	uint8_t kind, flags, order, migratetype, fallback_order, fallback_migratetype;
	bool owner;   /* extfrag: change_ownership */
	bool batched; /* free: takes effect later; free_batched: has its free */
	bool taken;   /* the model has already played it */
	bool exact;   /* a taken alloc was predicted right */
	bool judged;  /* free: of a run of pages that were, or were not, freed together */
	uint16_t run; /* free: number of pages freed together with this last one; else 0 */
};

/*
 * Index of the events that have not run, by page: events whose frames have the same hash form a
 * list in the order of the tape. Places are positions in the ring and wrap with it.
 */
struct window_link {
	frame_nr frame;
	uint16_t earlier, later; /* distance to the neighbours; undefined at the ends */
};

struct window_list {
	uint16_t first, last, nr;
};
_Static_assert(WINDOW_ROOM == UINT16_MAX + 1, "places are of 16 bits");

struct event_window {
	struct window_event *ring;
	struct window_link *links; /* [ring] */
	struct window_list *lists; /* [hash of a frame] */
	uint64_t arrived, done;
	uint64_t *last;   /* [cpu] number of its latest event, + 1 */
	uint64_t *coming; /* [cpu] number of its oldest event that has not run, + 1; 0: none */
};

/* A window for `nr_cpus` CPUs; then arrays_error(). */
void window_new(struct event_window *s, struct arrays *arrays, int nr_cpus);

/* The slot for the next event, behind `filled` others not added yet. */
static inline struct window_event *window_slot(struct event_window *s, int filled)
{
	return &s->ring[(s->arrived + (uint64_t)filled) % WINDOW_ROOM];
}
/* Prefetch the memory that window_add() needs for the `filled` slots. */
void window_prepare(const struct event_window *s, int filled);
/* Add the first filled slot. */
void window_add(struct event_window *s);

/* The oldest event has run. */
void window_run(struct event_window *s);
/* Prefetch the memory that window_run() needs for event `number`. */
void window_prefetch(const struct event_window *s, uint64_t number);

static inline struct window_event *window_at(const struct event_window *s, uint64_t number)
{
	return &s->ring[number % WINDOW_ROOM];
}

/* The next event of the same CPU, or NULL at the end of the tape or of the window. */
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
	return s->coming[cpu] ? window_at(s, s->coming[cpu] - 1) : NULL;
}

/* The next event of a page on any CPU: after the current one, or after `after`. */
struct window_event *window_find_frame(const struct event_window *s,
				       const struct window_event *after, frame_nr frame);

/*
 * Whether an event shows that a page was in use before it. Where PCP lists are the boundary, a
 * drain does as well.
 */
static inline bool event_frees(const struct model *m, const struct window_event *event)
{
	return event->kind == EVENT_KIND_FREE || event->kind == EVENT_KIND_FREE_BATCHED ||
	       (m->record->zone_events && event->kind == EVENT_KIND_PCPU_DRAIN);
}

/* Interrupt depth of an event: 0 task, 1 softirq, 2 hardirq, 3 NMI. */
static inline int event_depth(const struct window_event *event)
{
	if (event->flags & CONTEXT_NMI)
		return 3;
	if (event->flags & CONTEXT_HARDIRQ)
		return 2;
	return event->flags & CONTEXT_SOFTIRQ ? 1 : 0;
}
