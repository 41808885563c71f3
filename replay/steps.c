// SPDX-License-Identifier: Apache-2.0
#include "steps.h"

#include "memory.h"

#include <errno.h>
#include <stdlib.h>

enum { PAIR_WITHIN = 16384 }; /* steps from a free to its free_batched */

int steps_new(struct steps *s, const struct model *m, struct error *err)
{
	s->ring = calloc(STEPS_ROOM, sizeof(*s->ring));
	s->frames = calloc(STEPS_ROOM, sizeof(*s->frames));
	s->last = calloc((size_t)m->nr_cpus, sizeof(*s->last));
	s->coming = calloc((size_t)m->nr_cpus, sizeof(*s->coming));
	s->freed = memory_new(m->nr_frames * sizeof(*s->freed));
	if (!s->ring || !s->frames || !s->last || !s->coming || !s->freed)
		return fail(err, ENOMEM, "no memory for %d events", STEPS_ROOM);
	return 0;
}

void steps_free(struct steps *s, const struct model *m)
{
	free(s->ring);
	free(s->frames);
	free(s->last);
	free(s->coming);
	if (m)
		memory_free(s->freed, m->nr_frames * sizeof(*s->freed));
}

/* A free_batched: the latest free of its page takes effect with it. */
static void pair(struct steps *s, struct step *batched)
{
	uint32_t distance = (uint32_t)s->arrived + 1 - s->freed[batched->frame];
	struct step *first;

	if (!s->freed[batched->frame] || distance > PAIR_WITHIN || distance > s->arrived)
		return;
	first = step_number(s, s->arrived - distance);
	if (first->kind != EVENT_KIND_FREE || first->frame != batched->frame || first->batched ||
	    s->arrived - distance < s->done)
		return;
	first->batched = batched->batched = true;
	batched->order = first->order;
}

void steps_add(struct steps *s)
{
	struct step *step = steps_room(s);
	uint64_t last = s->last[step->cpu];

	if (last && s->arrived - (last - 1) < STEPS_ROOM)
		step_number(s, last - 1)->next = (uint32_t)(s->arrived - (last - 1));
	s->last[step->cpu] = s->arrived + 1;
	s->frames[s->arrived % STEPS_ROOM] = step->frame;
	if (!s->coming[step->cpu])
		s->coming[step->cpu] = s->arrived + 1;
	if (step->frame != NO_FRAME && step->kind == EVENT_KIND_FREE)
		s->freed[step->frame] = (uint32_t)s->arrived + 1;
	else if (step->frame != NO_FRAME && step->kind == EVENT_KIND_FREE_BATCHED)
		pair(s, step);
	s->arrived++;
}

void steps_run(struct steps *s)
{
	const struct step *step = step_number(s, s->done);

	s->coming[step->cpu] = step->next ? s->done + step->next + 1 : 0;
	s->done++;
}

/* Position of a frame among `nr`, or nr; by strides that the compiler makes vectors of. */
static uint64_t position(const uint32_t *frames, uint64_t nr, uint32_t frame)
{
	enum { STRIDE = 64 };
	uint64_t i = 0;

	for (; i + STRIDE <= nr; i += STRIDE) {
		uint32_t found = 0;

		for (int k = 0; k < STRIDE; k++)
			found |= frames[i + (uint64_t)k] == frame;
		if (found)
			break;
	}
	while (i < nr && frames[i] != frame)
		i++;
	return i;
}

struct step *steps_of_frame(const struct steps *s, const struct step *after, uint32_t frame)
{
	uint64_t begin = s->done + 1;

	if (after)
		begin += ((uint64_t)(after - s->ring) - s->done) % STEPS_ROOM;

	while (begin < s->arrived) {
		uint64_t at = begin % STEPS_ROOM, nr = STEPS_ROOM - at, found;

		nr = nr < s->arrived - begin ? nr : s->arrived - begin;
		found = position(s->frames + at, nr, frame);
		if (found < nr)
			return &s->ring[at + found];
		begin += nr;
	}
	return NULL;
}
