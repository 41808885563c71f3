// SPDX-License-Identifier: Apache-2.0
/*
 * What the record says about the contents of pageblocks. Pageblocks are of 16 pages.
 */
#include "check.h"
#include "tape/page_contents.h"
#include "toy.h"

static const struct pageblock *block(const struct page_contents *c, int number)
{
	return &c->blocks[number];
}

TEST(pages_have_the_type_of_their_last_allocation)
{
	struct page_contents c;
	struct error err;

	TOY(toy, toy_new, "6.18", (struct toy_geometry){4, 5, "MMM", 0});
	toy_add_free(&toy, 0, 4, 'M');
	must(page_contents_new(&c, toy.m, &err), &err);
	check(block(&c, 0)->nr_old == 0);
	check(block(&c, 1)->nr_old == 16);

	page_contents_event(&c, toy.m, EVENT_KIND_ALLOC, 0, 2, MIGRATETYPE_UNMOVABLE);
	page_contents_event(&c, toy.m, EVENT_KIND_ALLOC, 4, 0, MIGRATETYPE_MOVABLE);
	page_contents_event(&c, toy.m, EVENT_KIND_ALLOC, 5, 0, MIGRATETYPE_RECLAIMABLE);
	page_contents_event(&c, toy.m, EVENT_KIND_ALLOC_ZONE_LOCKED, 6, 0, MIGRATETYPE_MOVABLE);
	check(block(&c, 0)->nr_live[MIGRATETYPE_UNMOVABLE] == 4);
	check(block(&c, 0)->nr_live[MIGRATETYPE_MOVABLE] == 1);
	check(block(&c, 0)->nr_live[MIGRATETYPE_RECLAIMABLE] == 1);

	/* A part of a block is freed, and its last free is not on the tape. */
	page_contents_event(&c, toy.m, EVENT_KIND_FREE, 0, 1, 0);
	page_contents_event(&c, toy.m, EVENT_KIND_ALLOC, 2, 1, MIGRATETYPE_MOVABLE);
	check(block(&c, 0)->nr_live[MIGRATETYPE_UNMOVABLE] == 0);
	check(block(&c, 0)->nr_live[MIGRATETYPE_MOVABLE] == 3);
}

TEST(pages_used_since_before_the_start_are_old_until_their_free)
{
	struct page_contents c;
	struct error err;

	TOY(toy, toy_new, "6.18", (struct toy_geometry){4, 5, "MMM", 0});
	toy.m->blocks[1].old_movable = toy.m->blocks[1].old_lru = 3;
	must(page_contents_new(&c, toy.m, &err), &err);
	page_contents_event(&c, toy.m, EVENT_KIND_FREE, 16, 2, 0);
	page_contents_event(&c, toy.m, EVENT_KIND_FREE, 16, 2, 0);
	check(block(&c, 1)->nr_old == 12);
	check(block(&c, 1)->old_lru == 0);
	check(block(&c, 1)->nr_live[MIGRATETYPE_UNMOVABLE] == 0);

	toy.m->blocks[1].migratetype = MIGRATETYPE_RECLAIMABLE;
	page_contents_end(&c, toy.m);
	check(block(&c, 1)->migratetype == MIGRATETYPE_RECLAIMABLE);
}
