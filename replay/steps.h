/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.h - the recorded page events, with a look ahead.
 *
 * What an event means often shows only later: an alloc comes after the refill it
 * caused, a free of a batch before it takes effect. So events wait in a ring; each knows
 * the next one of its CPU, and a free its free_batched.
 */
#pragma once

#include "model.h"

enum {
	STEPS_ROOM = 1 << 16,  /* power of two */
	STEPS_AHEAD = 3 << 14, /* the oldest step runs when so many wait */
	STEPS_BATCH = 16,      /* filled in before the first of them is counted in */
	STEPS_BEHIND = STEPS_ROOM - STEPS_AHEAD - STEPS_BATCH, /* run, and still there */
};

struct step {
	uint64_t at; /* row of `event` */
	uint64_t ts;
	uint32_t frame; /* NO_FRAME: nothing was found */
	uint32_t gfp_flags;
	int32_t pid;
	uint32_t next; /* number of steps to the next of this CPU; 0: not there yet */
	uint16_t cpu;
	uint8_t kind, flags, order, migratetype, fallback_order, fallback_migratetype;
	bool owner;   /* extfrag: change_ownership */
	bool batched; /* free: takes effect later; free_batched: has its free */
	bool taken;   /* its effect is in the model already */
	bool exact;   /* alloc that is taken: as predicted */
};

/*
 * Steps that have not run are found by their page: those whose frames have one hash form a
 * list, in the order of the tape. Places are positions in the ring, and wrap as it does.
 */
struct step_link {
	uint32_t frame;
	uint16_t earlier, later; /* how far the next is each way; of no use past the ends */
};

struct step_list {
	uint16_t first, last, nr;
};
_Static_assert(STEPS_ROOM == UINT16_MAX + 1, "places are of 16 bits");

struct steps {
	struct step *ring;
	struct step_link *links; /* of the ring's steps */
	struct step_list *lists; /* [hash of a frame] */
	uint64_t arrived, done;
	uint64_t *last;   /* [cpu] number of its latest step, + 1 */
	uint64_t *coming; /* [cpu] number of its oldest step that has not run, + 1; or 0 */
};

/* For so many CPUs. -ENOMEM. */
int steps_new(struct steps *s, int nr_cpus, struct error *err);
void steps_free(struct steps *s);

/* Where the step after `filled` others, which are filled in, is to be filled in. */
static inline struct step *steps_room(struct steps *s, int filled)
{
	return &s->ring[(s->arrived + (uint64_t)filled) % STEPS_ROOM];
}
/* So many steps are filled in: bring what counting them in needs into the cache. */
void steps_prepare(const struct steps *s, int filled);
/* Count the first of them in. */
void steps_add(struct steps *s);

/* The oldest step has run. */
void steps_run(struct steps *s);
/* Bring what that needs of the step `number` into the cache. */
void steps_prefetch(const struct steps *s, uint64_t number);

static inline struct step *step_number(const struct steps *s, uint64_t number)
{
	return &s->ring[number % STEPS_ROOM];
}

/* The next step of the same CPU, or NULL: the tape, or what is read of it, is over. */
static inline struct step *step_next(const struct steps *s, const struct step *step)
{
	if (!step->next)
		return NULL;
	return &s->ring[((size_t)(step - s->ring) + step->next) % STEPS_ROOM];
}

/* The oldest step of a CPU that has not run, or NULL. */
static inline struct step *steps_coming(const struct steps *s, int cpu)
{
	return s->coming[cpu] ? step_number(s, s->coming[cpu] - 1) : NULL;
}

/* The next step, of any CPU, of a page: after the one that runs, or after `after`. */
struct step *steps_of_frame(const struct steps *s, const struct step *after, uint32_t frame);

/* How deep in interrupts an event fired: 0 a task, then softirq, hardirq, NMI. */
static inline int step_depth(const struct step *step)
{
	if (step->flags & CONTEXT_NMI)
		return 3;
	if (step->flags & CONTEXT_HARDIRQ)
		return 2;
	return step->flags & CONTEXT_SOFTIRQ ? 1 : 0;
}
