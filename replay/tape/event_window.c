// SPDX-License-Identifier: Apache-2.0
#include "event_window.h"

#include "model/memory.h"

#include <assert.h>

enum { HASH_BITS = 15 };

void window_new(struct event_window *s, struct arrays *arrays, int nr_cpus)
{
	s->ring = arrays_map(arrays, WINDOW_ROOM, sizeof(*s->ring));
	s->links = arrays_map(arrays, WINDOW_ROOM, sizeof(*s->links));
	s->lists = arrays_map(arrays, 1u << HASH_BITS, sizeof(*s->lists));
	s->last = arrays_new(arrays, (size_t)nr_cpus, sizeof(*s->last));
	s->coming = arrays_new(arrays, (size_t)nr_cpus, sizeof(*s->coming));
}

static struct window_list *list_of(const struct event_window *s, frame_nr frame)
{
	return &s->lists[frame * 2654435761u >> (32 - HASH_BITS)];
}

/* The arriving event becomes the last of its list. */
static void link_last(struct event_window *s, frame_nr frame)
{
	uint16_t place = (uint16_t)s->arrived;
	struct window_list *list = list_of(s, frame);
	struct window_link *link = &s->links[place];

	link->frame = frame;
	link->earlier = (uint16_t)(place - list->last);
	if (list->nr++)
		s->links[list->last].later = link->earlier;
	else
		list->first = place;
	list->last = place;
}

/* Remove the event that has run: the first of its list. */
static void unlink_first(struct event_window *s)
{
	const struct window_link *link = &s->links[s->done % WINDOW_ROOM];
	struct window_list *list = list_of(s, link->frame);

	assert(list->nr && list->first == s->done % WINDOW_ROOM);
	list->first = (uint16_t)(list->first + link->later);
	list->nr--;
}

/* A free_batched arrives: the latest free of its page takes effect with it. */
static void pair(struct event_window *s, struct window_event *batched)
{
	const struct window_list *list = list_of(s, batched->frame);
	uint16_t place = list->last;

	for (uint16_t left = list->nr; left; left--) {
		const struct window_link *link = &s->links[place];
		struct window_event *first = &s->ring[place];

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

void window_prepare(const struct event_window *s, int filled)
{
	for (int i = 0; i < filled; i++)
		__builtin_prefetch(
			list_of(s, s->ring[(s->arrived + (uint64_t)i) % WINDOW_ROOM].frame), 1);
	for (int i = 0; i < filled; i++) {
		frame_nr frame = s->ring[(s->arrived + (uint64_t)i) % WINDOW_ROOM].frame;

		__builtin_prefetch(&s->links[list_of(s, frame)->last], 1);
	}
}

void window_prefetch(const struct event_window *s, uint64_t number)
{
	__builtin_prefetch(list_of(s, s->links[number % WINDOW_ROOM].frame), 1);
}

void window_add(struct event_window *s)
{
	struct window_event *event = window_slot(s, 0);
	uint64_t last = s->last[event->cpu];

	if (last && s->arrived - (last - 1) < WINDOW_ROOM)
		window_at(s, last - 1)->next = (uint32_t)(s->arrived - (last - 1));
	s->last[event->cpu] = s->arrived + 1;
	if (!s->coming[event->cpu])
		s->coming[event->cpu] = s->arrived + 1;
	if (event->kind == EVENT_KIND_FREE_BATCHED)
		pair(s, event);
	link_last(s, event->frame);
	s->arrived++;
}

void window_run(struct event_window *s)
{
	const struct window_event *event = window_at(s, s->done);

	s->coming[event->cpu] = event->next ? s->done + event->next + 1 : 0;
	unlink_first(s);
	s->done++;
}

struct window_event *window_find_frame(const struct event_window *s,
				       const struct window_event *after, frame_nr frame)
{
	const struct window_list *list = list_of(s, frame);
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
