// SPDX-License-Identifier: Apache-2.0
/*
 * Pages that recorded compaction moves: the model's pages need not be the recorded ones.
 * Pageblocks are of 16 pages.
 */
#include "serve_world.h"

enum { COMPACTING = 7, OTHER = 8 }; /* pids */

static void request(struct world *w, int kind, uint32_t pfn, int32_t pid)
{
	serve_request(&w->serve, &(struct waiting){
					 .moment = {.pid = pid},
					 .kind = (uint8_t)kind,
					 .frame = pfn,
					 .migratetype = MIGRATETYPE_MOVABLE,
					 .gfp_flags = kind == EVENT_KIND_ALLOC ? GFP_MOVABLE : 0,
				 });
	w->serve.at++;
}

/* The record has a page at `pfn`, the model at `place`. */
static void page_at(struct world *w, uint32_t pfn, uint32_t place)
{
	world_freed(w, pfn, 0);
	toy_add_free(&w->toy, place, 0, 'M');
	request(w, EVENT_KIND_ALLOC, pfn, OTHER);
	check(page_map_place(&w->serve.pages, pfn) == place);
}

/*
 * The record has page 4 in its first pageblock, and compaction took page 33 for it. The model has
 * page 4 at `place`, and another page of the record, 40, in its first pageblock.
 */
static void compacts(struct world *w, uint32_t place)
{
	world_new_small(w, "MMM");
	w->serve.compacts_for_record = true;
	page_at(w, 4, place);
	page_at(w, 40, 2);
	toy_add_free(&w->toy, 33, 0, 'M');
	serve_inferred(&w->serve, &(struct inferred){
					  .kind = INFERRED_KIND_ISOLATED,
					  .pid = COMPACTING,
					  .frame = 33,
					  .migratetype = MIGRATETYPE_MOVABLE,
				  });
	check(page_map_place(&w->serve.pages, 33) == 33);
}

static bool is_used(const struct world *w, uint32_t page)
{
	return frame_is_live(w->toy.m->frames[page].state);
}

TEST(a_page_of_the_recorded_pageblock_moves)
{
	WORLD(w, compacts, 16);
	request(&w, EVENT_KIND_FREE, 4, COMPACTING);
	check(!is_used(&w, 2) && is_used(&w, 16) && is_used(&w, 33));
	check(page_map_place(&w.serve.pages, 40) == 33);
	check(page_map_place(&w.serve.pages, 33) == 16);
	check(page_map_place(&w.serve.pages, 4) == NO_FRAME);
	/* Each page is freed at its place. */
	request(&w, EVENT_KIND_FREE, 40, OTHER);
	check(!is_used(&w, 33));
	request(&w, EVENT_KIND_FREE, 33, OTHER);
	check(!is_used(&w, 16));
}

TEST(a_page_in_the_recorded_pageblock_moves_itself)
{
	WORLD(w, compacts, 3);
	request(&w, EVENT_KIND_FREE, 4, COMPACTING);
	check(!is_used(&w, 3) && page_map_place(&w.serve.pages, 40) == 2);
	check(page_map_place(&w.serve.pages, 33) == 33);
}

TEST(a_page_that_another_task_frees_has_not_moved)
{
	WORLD(w, compacts, 16);
	request(&w, EVENT_KIND_FREE, 4, OTHER);
	check(!is_used(&w, 16) && page_map_place(&w.serve.pages, 40) == 2);
}

TEST(a_target_that_is_given_back_takes_no_page)
{
	WORLD(w, compacts, 16);
	request(&w, EVENT_KIND_FREE, 33, COMPACTING);
	check(!is_used(&w, 33));
	request(&w, EVENT_KIND_FREE, 4, COMPACTING);
	check(!is_used(&w, 16) && page_map_place(&w.serve.pages, 40) == 2);
}

TEST(a_task_that_allocates_does_not_compact_any_more)
{
	WORLD(w, compacts, 16);
	world_freed(&w, 5, 0);
	toy_add_free(&w.toy, 18, 0, 'M');
	request(&w, EVENT_KIND_ALLOC, 5, COMPACTING);
	request(&w, EVENT_KIND_FREE, 4, COMPACTING);
	check(!is_used(&w, 16) && page_map_place(&w.serve.pages, 40) == 2);
}

TEST(old_pages_of_lru_lists_are_freed_in_batches_or_by_compaction)
{
	struct waiting batched = {.kind = EVENT_KIND_FREE_BATCHED, .batched = true, .frame = 21};

	WORLD(w, compacts, 16);
	frame_block(w.toy.m, 20)->migratetype = MIGRATETYPE_RECLAIMABLE;
	toy_movable(&w.toy, 20, 3);
	request(&w, EVENT_KIND_FREE, 20, OTHER);
	check(frame_block(w.toy.m, 20)->old_movable == 3);
	serve_request(&w.serve, &batched);
	check(frame_block(w.toy.m, 20)->old_movable == 2);
	request(&w, EVENT_KIND_FREE, 22, COMPACTING);
	check(frame_block(w.toy.m, 20)->old_movable == 1);
}
