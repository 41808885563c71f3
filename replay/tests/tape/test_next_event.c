// SPDX-License-Identifier: Apache-2.0
/*
 * The next event of each page that was freed, or taken off the free lists. Pageblocks are of 16
 * pages.
 */
#include "check.h"
#include "tape/next_event.h"
#include "toy.h"

#include <stdlib.h>

struct row {
	int kind, pfn, order;
};

/* Read the rows, `at_once` at a time. */
static void read_rows(struct next_events *f, const struct toy *toy, const struct row *rows,
		      size_t nr, size_t at_once)
{
	struct batch *batch;
	struct error err;

	if (next_events_new(f, toy->m, nr, &err) || batch_new(&batch, &event_table, nr, &err)) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	for (size_t first = 0; first < nr; first += at_once) {
		struct event_columns *c = (struct event_columns *)batch->slots;
		size_t n = nr - first < at_once ? nr - first : at_once;

		batch_clear(batch);
		for (size_t i = 0; i < n; i++) {
			c->kind[i] = (uint8_t)rows[first + i].kind;
			c->pfn[i] = (uint64_t)rows[first + i].pfn;
			c->page_order[i] = (uint8_t)rows[first + i].order;
			set_valid(c->pfn_valid, i);
			set_valid(c->page_order_valid, i);
		}
		must(next_events_read(f, toy->m, c, n, &err), &err);
	}
	must(next_events_done(f, &err), &err);
	batch_free(batch);
}

TEST(the_next_event_of_a_freed_page_is_found)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 1, 0},  {EVENT_KIND_FREE, 2, 0},
		{EVENT_KIND_FREE, 3, 0},  {EVENT_KIND_FREE, 4, 0},
		{EVENT_KIND_FREE, 5, 0},  {EVENT_KIND_ALLOC_ZONE_LOCKED, 1, 0},
		{EVENT_KIND_ALLOC, 2, 0}, {EVENT_KIND_PCPU_DRAIN, 3, 0},
		{EVENT_KIND_FREE, 4, 0},
	};
	struct next_events f;

	TOY(toy, toy_new, "6.18", (struct toy_geometry){4, 5, "MM", 0});
	for (size_t at_once = 1; at_once <= 9; at_once += 4) {
		read_rows(&f, &toy, rows, 9, at_once);
		check(next_event_of(&f, 0) == NEXT_FROM_BUDDY);
		check(next_event_of(&f, 1) == NEXT_FROM_PCP);
		check(next_event_of(&f, 2) == NEXT_FROM_PCP);
		check(next_event_of(&f, 3) == NEXT_IS_FREE);
		check(next_event_of(&f, 4) == NEXT_NONE && next_event_of(&f, 8) == NEXT_NONE);
		check(next_event_of(&f, 5) == NEXT_NONE && next_event_of(&f, 9) == NEXT_NONE);
	}
}

TEST(the_next_event_of_a_page_off_the_free_lists_is_found)
{
	static const struct row rows[] = {
		{EVENT_KIND_ALLOC_ZONE_LOCKED, 1, 0},
		{EVENT_KIND_ALLOC_ZONE_LOCKED, 2, 0},
		{EVENT_KIND_ALLOC, 1, 0},
		{EVENT_KIND_FREE, 2, 0},
		{EVENT_KIND_ALLOC_ZONE_LOCKED, 3, 0},
	};
	struct next_events f;

	TOY(toy, toy_new, "6.18", (struct toy_geometry){4, 5, "MM", 0});
	read_rows(&f, &toy, rows, 5, 5);
	check(next_event_of(&f, 0) == NEXT_FROM_PCP && next_event_of(&f, 1) == NEXT_IS_FREE);
	check(next_event_of(&f, 2) == NEXT_NONE && next_event_of(&f, 4) == NEXT_NONE);
}

TEST(a_batched_free_is_listed_at_its_second_event)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 1, 0},
		{EVENT_KIND_FREE_BATCHED, 1, 0},
		{EVENT_KIND_ALLOC, 1, 0},
	};
	struct next_events f;

	TOY(toy, toy_new, "6.18", (struct toy_geometry){4, 5, "MM", 0});
	read_rows(&f, &toy, rows, 3, 3);
	check(next_event_of(&f, 0) == NEXT_NONE && next_event_of(&f, 1) == NEXT_FROM_PCP);
}

TEST(a_page_inside_a_larger_block_was_merged)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 5, 0},
		{EVENT_KIND_ALLOC_ZONE_LOCKED, 4, 2},
		{EVENT_KIND_FREE, 99, 0}, /* in no zone */
		{EVENT_KIND_FREE, 31, 3}, /* leaves its zone */
	};
	struct next_events f;

	TOY(toy, toy_new, "6.18", (struct toy_geometry){4, 5, "MM", 0});
	read_rows(&f, &toy, rows, 4, 4);
	check(next_event_of(&f, 0) == NEXT_FROM_BUDDY);
}
