// SPDX-License-Identifier: Apache-2.0
/* Contiguous pages that are freed together. Pageblocks of 512 pages, largest order 10. */
#include "serve_world.h"

/* A kernel's toy with an allocated block of 16 pages from pfn 0, which the record has there too. */
static void split_block(struct world *w, const char *kernel)
{
	struct waiting alloc = {.kind = EVENT_KIND_ALLOC,
				.order = 4,
				.migratetype = MIGRATETYPE_MOVABLE,
				.gfp_flags = GFP_MOVABLE | GFP_DIRECT_RECLAIM};

	*w = (struct world){0};
	toy_new(&w->toy, kernel, (struct toy_geometry){9, 10, "MM", ZONE_DMA32});
	toy_pcp(&w->toy, 63, 378);
	toy_add_free(&w->toy, 0, 4, 'M');
	world_begin(w);
	serve_request(&w->serve, &alloc);
	toy_events(&w->toy);
}

/* The record frees pages one by one; all but the last join the next one. */
static void free_pages(struct world *w, uint32_t first, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++) {
		struct waiting e = {
			.kind = EVENT_KIND_FREE, .frame = first + i, .joins = i + 1 < pages};

		serve_request(&w->serve, &e);
	}
}

TEST(TVA_the_pages_of_a_split_block_are_freed_as_aligned_blocks)
{
	struct world w;

	split_block(&w, "7.2");
	w.toy.pcp->alloc_factor = 5;
	w.toy.pcp->free_count = 0;
	free_pages(&w, 1, 10);
	check_text(toy_events(&w.toy), "f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10)");
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "10 1");
	check_text(toy_pcp_list(&w.toy, 1, 'M'), "8 2");
	check_text(toy_pcp_list(&w.toy, 2, 'M'), "4");
	check(w.toy.pcp->count == 10 && w.toy.pcp->free_count == 10);
	check(w.toy.pcp->alloc_factor == 0);
	check(!(w.toy.pcp->flags & PCP_PREV_FREE_HIGH_ORDER));
	world_free(&w);

	split_block(&w, "7.1");
	free_pages(&w, 1, 10);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "10 9 8 7 6 5 4 3 2 1");
	world_free(&w);
}

TEST(TVB_a_stack_is_one_block_of_the_pcp)
{
	struct waiting alloc = {.kind = EVENT_KIND_ALLOC,
				.order = 2,
				.frame = 64,
				.migratetype = MIGRATETYPE_MOVABLE,
				.gfp_flags = GFP_MOVABLE | GFP_DIRECT_RECLAIM};

	WORLD(w, split_block, "7.3");
	free_pages(&w, 4, 4);
	check_text(toy_pcp_list(&w.toy, 2, 'M'), "4");
	toy_events(&w.toy);
	serve_request(&w.serve, &alloc);
	check_text(toy_events(&w.toy), "a(4)");
}

TEST(pages_allocated_one_by_one_are_freed_one_by_one)
{
	WORLD(w, split_block, "7.2");
	toy_add_free(&w.toy, 16, 4, 'M');
	for (uint32_t i = 0; i < 4; i++) {
		struct waiting alloc = {.kind = EVENT_KIND_ALLOC,
					.frame = 16 + i,
					.migratetype = MIGRATETYPE_MOVABLE,
					.gfp_flags = GFP_MOVABLE | GFP_DIRECT_RECLAIM};

		serve_request(&w.serve, &alloc);
	}
	pcp_drain_all(w.toy.m);
	free_pages(&w, 16, 4);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "19 18 17 16");
}

TEST(a_run_that_the_record_breaks_off_is_freed_with_the_next_request)
{
	struct waiting first = {.kind = EVENT_KIND_FREE, .frame = 4, .joins = true};
	struct waiting other = {.kind = EVENT_KIND_FREE, .frame = 12};

	WORLD(w, split_block, "7.2");
	serve_request(&w.serve, &first);
	check(w.toy.pcp->count == 0);
	serve_request(&w.serve, &other);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "12 4");
}
