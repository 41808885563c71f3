// SPDX-License-Identifier: Apache-2.0
/* The window of events: the next event of a CPU or a page, and frees with their free_batched. */
#include "check.h"
#include "toy.h"

#include "model/memory.h"
#include "tape/event_window.h"

static struct window_event *arrive(struct event_window *s, int kind, uint16_t cpu, uint32_t frame)
{
	struct window_event *event = window_slot(s, 0);

	*event = (struct window_event){.kind = (uint8_t)kind, .cpu = cpu, .frame = frame};
	window_add(s);
	return event;
}

TEST(each_cpu_has_its_own_order)
{
	struct event_window s = {0};
	struct arrays arrays = {0};
	struct window_event *a, *b, *c;

	window_new(&s, &arrays, 3);
	a = arrive(&s, EVENT_KIND_ALLOC, 0, 1);
	b = arrive(&s, EVENT_KIND_ALLOC, 1, 2);
	c = arrive(&s, EVENT_KIND_FREE, 0, 3);
	check(window_next(&s, a) == c && !window_next(&s, b) && !window_next(&s, c));
	check(window_coming(&s, 0) == a && window_coming(&s, 1) == b && !window_coming(&s, 2));
	window_run(&s);
	check(window_coming(&s, 0) == c);
	window_run(&s);
	check(!window_coming(&s, 1));
	arrays_free(&arrays);
}

TEST(the_next_event_of_a_page_is_found_past_other_pages)
{
	struct event_window s = {0};
	struct arrays arrays = {0};
	struct window_event *first, *second, *third;

	window_new(&s, &arrays, 1);
	first = arrive(&s, EVENT_KIND_ALLOC, 0, 7);
	/* More pages than the window has lists. */
	for (uint32_t frame = 100; frame < 100 + WINDOW_AHEAD - 8; frame++)
		arrive(&s, EVENT_KIND_ALLOC, 0, frame);
	second = arrive(&s, EVENT_KIND_FREE, 0, 7);
	third = arrive(&s, EVENT_KIND_ALLOC, 0, 7);
	check(window_find_frame(&s, NULL, 7) == second);
	check(window_find_frame(&s, first, 7) == second);
	check(window_find_frame(&s, second, 7) == third);
	check(!window_find_frame(&s, third, 7));
	check(!window_find_frame(&s, NULL, 8));
	arrays_free(&arrays);
}

TEST(a_free_batched_takes_the_latest_free_of_its_page)
{
	struct event_window s = {0};
	struct arrays arrays = {0};
	struct window_event *old, *latest, *batched, *lone;

	window_new(&s, &arrays, 2);
	old = arrive(&s, EVENT_KIND_FREE, 0, 7);
	latest = arrive(&s, EVENT_KIND_FREE, 0, 7);
	latest->order = 2;
	batched = arrive(&s, EVENT_KIND_FREE_BATCHED, 1, 7);
	check(!old->batched && latest->batched && batched->batched);
	check(batched->order == 2);
	lone = arrive(&s, EVENT_KIND_FREE_BATCHED, 1, 7);
	check(!lone->batched && !old->batched);
	arrays_free(&arrays);
}

TEST(a_free_batched_may_come_as_late_as_the_window_looks)
{
	struct event_window s = {0};
	struct arrays arrays = {0};
	struct window_event *free, *batched;

	window_new(&s, &arrays, 1);
	free = arrive(&s, EVENT_KIND_FREE, 0, 7);
	for (uint32_t frame = 100; frame < 100 + WINDOW_AHEAD - 2; frame++)
		arrive(&s, EVENT_KIND_ALLOC, 0, frame);
	batched = arrive(&s, EVENT_KIND_FREE_BATCHED, 0, 7);
	check(free->batched && batched->batched);
	arrays_free(&arrays);
}

TEST(the_window_goes_around_its_ring)
{
	enum { ROUNDS = 3 };
	struct event_window s = {0};
	struct arrays arrays = {0};
	bool found = true;

	window_new(&s, &arrays, 1);
	for (uint32_t i = 0; i < ROUNDS * WINDOW_ROOM; i++) {
		struct window_event *event = arrive(&s, EVENT_KIND_ALLOC, 0, i % 1000);

		event->at = i;
		if (i < WINDOW_AHEAD)
			continue;
		/* Event i - WINDOW_AHEAD is the oldest; its page comes again 1000 events later. */
		event = window_find_frame(&s, NULL, (i - WINDOW_AHEAD) % 1000);
		found &= event && event->at == i - WINDOW_AHEAD + 1000;
		window_run(&s);
	}
	check(found);
	check(s.arrived - s.done == WINDOW_AHEAD);
	arrays_free(&arrays);
}
