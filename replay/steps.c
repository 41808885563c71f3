// SPDX-License-Identifier: Apache-2.0
#include "steps.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
	PAIR_WITHIN = 16384, /* steps from a free to its free_batched */
	HASH_BITS = 15,
};

int steps_new(struct steps *s, int nr_cpus, struct error *err)
{
	s->ring = calloc(STEPS_ROOM, sizeof(*s->ring));
	s->links = calloc(STEPS_ROOM, sizeof(*s->links));
	s->lists = calloc(1u << HASH_BITS, sizeof(*s->lists));
	s->last = calloc((size_t)nr_cpus, sizeof(*s->last));
	s->coming = calloc((size_t)nr_cpus, sizeof(*s->coming));
	if (!s->ring || !s->links || !s->lists || !s->last || !s->coming)
		return fail(err, ENOMEM, "no memory for %d events", STEPS_ROOM);
	return 0;
}

void steps_free(struct steps *s)
{
	free(s->ring);
	free(s->links);
	free(s->lists);
	free(s->last);
	free(s->coming);
}

static struct step_list *list_of(const struct steps *s, uint32_t frame)
{
	return &s->lists[frame * 2654435761u >> (32 - HASH_BITS)];
}

/* The step that arrives becomes the last of its list. */
static void link_last(struct steps *s, uint32_t frame)
{
	uint16_t place = (uint16_t)s->arrived;
	struct step_list *list = list_of(s, frame);
	struct step_link *link = &s->links[place];

	link->frame = frame;
	link->earlier = (uint16_t)(place - list->last);
	if (list->nr++)
		s->links[list->last].later = link->earlier;
	else
		list->first = place;
	list->last = place;
}

/* The step that has run is the first of its list. */
static void unlink_first(struct steps *s)
{
	const struct step_link *link = &s->links[s->done % STEPS_ROOM];
	struct step_list *list = list_of(s, link->frame);

	assert(list->nr && list->first == s->done % STEPS_ROOM);
	list->first = (uint16_t)(list->first + link->later);
	list->nr--;
}

/* A free_batched arrives: the latest free of its page takes effect with it. */
static void pair(struct steps *s, struct step *batched)
{
	const struct step_list *list = list_of(s, batched->frame);
	uint16_t place = list->last;

	for (uint16_t left = list->nr; left; left--) {
		const struct step_link *link = &s->links[place];
		struct step *first = &s->ring[place];

		if ((uint16_t)(s->arrived - place) > PAIR_WITHIN)
			return;
		place = (uint16_t)(place - link->earlier);
		if (link->frame != batched->frame ||
		    (first->kind != EVENT_KIND_FREE && first->kind != EVENT_KIND_FREE_BATCHED))
			continue;
		if (first->kind == EVENT_KIND_FREE && !first->batched) {
			first->batched = batched->batched = true;
			batched->order = first->order;
		}
		return;
	}
}

void steps_prepare(const struct steps *s, int filled)
{
	for (int i = 0; i < filled; i++)
		__builtin_prefetch(
			list_of(s, s->ring[(s->arrived + (uint64_t)i) % STEPS_ROOM].frame), 1);
	for (int i = 0; i < filled; i++) {
		uint32_t frame = s->ring[(s->arrived + (uint64_t)i) % STEPS_ROOM].frame;

		__builtin_prefetch(&s->links[list_of(s, frame)->last], 1);
	}
}

void steps_prefetch(const struct steps *s, uint64_t number)
{
	__builtin_prefetch(list_of(s, s->links[number % STEPS_ROOM].frame), 1);
}

void steps_add(struct steps *s)
{
	struct step *step = steps_room(s, 0);
	uint64_t last = s->last[step->cpu];

	if (last && s->arrived - (last - 1) < STEPS_ROOM)
		step_number(s, last - 1)->next = (uint32_t)(s->arrived - (last - 1));
	s->last[step->cpu] = s->arrived + 1;
	if (!s->coming[step->cpu])
		s->coming[step->cpu] = s->arrived + 1;
	if (step->kind == EVENT_KIND_FREE_BATCHED)
		pair(s, step);
	link_last(s, step->frame);
	s->arrived++;
}

void steps_run(struct steps *s)
{
	const struct step *step = step_number(s, s->done);

	s->coming[step->cpu] = step->next ? s->done + step->next + 1 : 0;
	unlink_first(s);
	s->done++;
}

struct step *steps_of_frame(const struct steps *s, const struct step *after, uint32_t frame)
{
	const struct step_list *list = list_of(s, frame);
	uint16_t begin = (uint16_t)(after ? (uint64_t)(after - s->ring) : s->done);
	uint16_t place = list->first, run = (uint16_t)s->done;
	uint16_t passed = (uint16_t)(begin - run);

	for (uint16_t left = list->nr; left; left--) {
		if (s->links[place].frame == frame && (uint16_t)(place - run) > passed)
			return &s->ring[place];
		place = (uint16_t)(place + s->links[place].later);
	}
	return NULL;
}
