// SPDX-License-Identifier: Apache-2.0
/*
 * Which pages in use at the start were on an LRU list. Pageblocks are of 16 pages.
 */
#include "check.h"
#include "tape/lru.h"
#include "toy.h"

struct row {
	int kind, pfn, order;
};

/* The LRU pages that the rows show. */
static struct lru_found read_rows(const struct toy *toy, const struct row *rows, size_t nr)
{
	struct batch *batch = toy_rows(&event_table, nr);
	struct event_columns *c = (struct event_columns *)batch->slots;
	struct lru_found found;
	struct error err;

	for (size_t i = 0; i < nr; i++) {
		c->kind[i] = (uint8_t)rows[i].kind;
		c->pfn[i] = (uint64_t)rows[i].pfn;
		set_valid(c->pfn_valid, i);
		if (rows[i].kind == EVENT_KIND_FREE_BATCHED)
			continue;
		c->page_order[i] = (uint8_t)rows[i].order;
		set_valid(c->page_order_valid, i);
	}
	must(lru_new(&found, toy->m, 0, &err), &err);
	lru_read(&found, toy->m, c, nr);
	batch_free(batch);
	return found;
}

static void a_page_first_freed_in_a_batch_was_on_a_list(void)
{
	static const struct row rows[] = {
		{EVENT_KIND_FREE, 1, 0},         {EVENT_KIND_FREE, 2, 0},
		{EVENT_KIND_FREE_BATCHED, 1, 0}, {EVENT_KIND_ALLOC, 2, 0},
		{EVENT_KIND_FREE, 2, 0},         {EVENT_KIND_FREE_BATCHED, 2, 0},
		{EVENT_KIND_FREE_BATCHED, 3, 0}, {EVENT_KIND_FREE, 4, 2},
		{EVENT_KIND_FREE_BATCHED, 4, 0}, {EVENT_KIND_FREE, 1, 0},
		{EVENT_KIND_FREE_BATCHED, 1, 0}, {EVENT_KIND_ALLOC_ZONE_LOCKED, 16, 2},
		{EVENT_KIND_FREE, 17, 0},        {EVENT_KIND_FREE_BATCHED, 17, 0},
		{EVENT_KIND_FREE, 40, 0},        {EVENT_KIND_FREE_BATCHED, 40, 0},
	};
	struct lru_found found;
	struct toy toy;

	toy_new(&toy, "6.18", (struct toy_geometry){4, 5, "MMM", 0});
	toy_add_free(&toy, 40, 0, 'M');
	found = read_rows(&toy, rows, sizeof(rows) / sizeof(rows[0]));
	check(found.pages[0] == 6); /* 1, 3, and 4 to 7 */
	check(found.pages[1] == 0); /* 17 came from the free lists */
	check(found.pages[2] == 0); /* 40 was free at the start */
	lru_free(&found);
	toy_free(&toy);
}

static void rows_before_the_start_are_ignored(void)
{
	static const struct row rows[] = {
		{EVENT_KIND_ALLOC, 1, 0}, {EVENT_KIND_FREE, 1, 0}, {EVENT_KIND_FREE_BATCHED, 1, 0}};
	struct lru_found found;
	struct error err;
	struct toy toy;

	toy_new(&toy, "6.18", (struct toy_geometry){4, 5, "M", 0});
	for (uint64_t begin = 0; begin < 2; begin++) {
		struct batch *batch = toy_rows(&event_table, 3);
		struct event_columns *c = (struct event_columns *)batch->slots;

		for (size_t i = 0; i < 3; i++) {
			c->kind[i] = (uint8_t)rows[i].kind;
			c->pfn[i] = (uint64_t)rows[i].pfn;
			set_valid(c->pfn_valid, i);
		}
		must(lru_new(&found, toy.m, begin, &err), &err);
		lru_read(&found, toy.m, c, 3);
		check(found.pages[0] == begin);
		lru_free(&found);
		batch_free(batch);
	}
	toy_free(&toy);
}

static void lru_pages_are_only_added_and_only_to_old_pages(void)
{
	struct toy toy;

	toy_new(&toy, "6.18", (struct toy_geometry){4, 5, "UM", 0});
	lru_learn(toy.m, 3, 5);
	check(toy.m->blocks[0].old_movable == 5 && toy.m->blocks[0].old_lru == 5);
	lru_learn(toy.m, 0, 2);
	check(toy.m->blocks[0].old_movable == 5 && toy.m->blocks[0].old_lru == 5);
	lru_learn(toy.m, 16, 99);
	check(toy.m->blocks[1].old_movable == 16 && toy.m->blocks[1].old_lru == 16);
	check_sound(toy.m);
	toy_free(&toy);
}

int main(void)
{
	test(a_page_first_freed_in_a_batch_was_on_a_list);
	test(rows_before_the_start_are_ignored);
	test(lru_pages_are_only_added_and_only_to_old_pages);
	return check_done();
}
