// SPDX-License-Identifier: Apache-2.0
/*
 * Runs of single pages out of allocation batches of order 2. One CPU, two pageblocks of 16 free
 * pages; a run may pause for 1000 ns.
 */
#include "check.h"
#include "toy.h"
#include "freerun/alloc_batch.h"

struct runs {
	struct toy toy;
	struct alloc_batches *alloc_batches;
};

static void runs_new(struct runs *r)
{
	const struct alloc_batch batch = {.order = 2, .gap_ns = 1000};

	toy_new(&r->toy, "6.18", (struct toy_geometry){4, 5, "MM", ZONE_DMA32});
	toy_pcp(&r->toy, 1, 8);
	toy_add_free(&r->toy, 0, 5, 'M');
	check(!alloc_batches_new(&r->alloc_batches, r->toy.m, &batch, NULL));
}

static void runs_free(struct runs *r)
{
	toy_free(&r->toy);
}

/* A page at `ts`. `order` is that of the block taken for it, or -1 if it is from an open batch. */
static uint32_t ask(struct runs *r, uint64_t ts, int type, int *order)
{
	struct request rq = {.migratetype = (uint8_t)type, .class_zone = ZONE_DMA32};

	r->toy.m->now.ts = ts;
	return alloc_batches_alloc(r->alloc_batches, r->toy.m, &rq, order);
}

static void give_back(struct runs *r, uint32_t page)
{
	int order;
	uint32_t head = alloc_batches_give_back(r->alloc_batches, r->toy.m, page, &order);

	if (head != NO_FRAME)
		toy_free_page(&r->toy, head, order);
}

TEST(a_run_is_served_from_one_block)
{
	uint32_t first;
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	first = ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	check(order == 2);
	for (uint32_t i = 1; i < 4; i++) {
		check(ask(&r, 1000 + 1000 * i, MIGRATETYPE_MOVABLE, &order) == first + i);
		check(order == -1);
		check(alloc_batches_have(r.alloc_batches, first + i));
	}
	check(ask(&r, 5000, MIGRATETYPE_MOVABLE, &order) != NO_FRAME);
	check(order == 2);
	check(r.toy.pcp->counters.alloc_batches == 2);
	check(r.toy.pcp->counters.alloc_batch_waste == 0);
}

TEST(a_pause_or_another_migratetype_takes_another_block)
{
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	ask(&r, 1001, MIGRATETYPE_UNMOVABLE, &order);
	check(order == 2);
	ask(&r, 1500, MIGRATETYPE_MOVABLE, &order);
	check(order == -1);
	ask(&r, 2501, MIGRATETYPE_MOVABLE, &order);
	check(order == 2);
	check(r.toy.pcp->counters.alloc_batch_waste == 2);
}

TEST(a_batch_goes_back_whole_when_its_last_page_is_freed)
{
	uint32_t first;
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	first = ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	ask(&r, 1001, MIGRATETYPE_MOVABLE, &order);
	give_back(&r, first);
	check(r.toy.pcp->counters.free_pages == 0);
	check(alloc_batches_have(r.alloc_batches, first + 1));
	give_back(&r, first + 1);
	check(r.toy.pcp->counters.free_pages == 4);
	check(!alloc_batches_have(r.alloc_batches, first));
	check(r.toy.pcp->counters.alloc_batch_waste == 2);
	check_sound(r.toy.m);
	ask(&r, 1002, MIGRATETYPE_MOVABLE, &order);
	check(order == 2);
}

TEST(without_a_block_a_page_is_served_by_itself)
{
	struct counters before;
	uint32_t page;
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	for (int i = 0; i < 8; i++)
		check(toy_alloc(&r.toy, 2, 'M') != UINT64_MAX);
	toy_free_page(&r.toy, 0, 2);
	check(toy_alloc(&r.toy, 0, 'M') == 0);
	before = r.toy.pcp->counters;
	page = ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	check(page != NO_FRAME && order == 0);
	check(!alloc_batches_have(r.alloc_batches, page));
	check(r.toy.pcp->counters.below_low == before.below_low);
	check(r.toy.pcp->counters.failed == before.failed);
}

TEST(a_split_batch_frees_the_pages_that_nobody_uses)
{
	uint32_t first;
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	first = ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	ask(&r, 1001, MIGRATETYPE_MOVABLE, &order);
	ask(&r, 1002, MIGRATETYPE_MOVABLE, &order);
	give_back(&r, first + 1);
	check(alloc_batches_split(r.alloc_batches, r.toy.m, first) == 2);
	check(r.toy.pcp->counters.alloc_batch_split == 2);
	check(r.toy.pcp->counters.alloc_batch_waste == 1);
	for (uint32_t i = 0; i < 4; i++)
		check(!alloc_batches_have(r.alloc_batches, first + i));
	toy_free_page(&r.toy, first, 0);
	toy_free_page(&r.toy, first + 2, 0);
	check(r.toy.pcp->counters.free_pages == 4);
	check_sound(r.toy.m);
	/* The run goes on in another block. */
	ask(&r, 1003, MIGRATETYPE_MOVABLE, &order);
	check(order == 2);
}

TEST(unused_pages_come_from_closed_batches)
{
	uint32_t first, other;
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	first = ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	other = ask(&r, 9000, MIGRATETYPE_MOVABLE, &order);
	check(alloc_batches_split_some(r.alloc_batches, r.toy.m, r.toy.zone, 100) == 3);
	check(!alloc_batches_have(r.alloc_batches, first));
	check(alloc_batches_have(r.alloc_batches, other));
	check(alloc_batches_split_some(r.alloc_batches, r.toy.m, r.toy.zone, 100) == 0);
}

TEST(a_batch_that_moved_is_the_same_batch)
{
	uint32_t first, to;
	int order;

	SCOPED(runs, runs_free, r, runs_new);
	first = ask(&r, 1000, MIGRATETYPE_MOVABLE, &order);
	to = (uint32_t)toy_alloc(&r.toy, 2, 'M');
	check(to != first);
	alloc_batches_move(r.alloc_batches, first, to);
	check(!alloc_batches_have(r.alloc_batches, first));
	check(ask(&r, 1001, MIGRATETYPE_MOVABLE, &order) == to + 1 && order == -1);
	check(alloc_batches_split(r.alloc_batches, r.toy.m, to + 1) == 2);
}
