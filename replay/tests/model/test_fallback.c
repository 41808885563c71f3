// SPDX-License-Identifier: Apache-2.0
/*
 * Fallbacks to the free lists of another migratetype, with test vectors TV3, TV4, TV5 and TV11
 * of the specification. Pageblocks of 16 pages, largest order 5.
 */
#include "check.h"
#include "toy.h"

#include <string.h>

/* The fallback of this kernel moves a chunk to the list of the request before it splits it. */
static bool moves_first(const char *name)
{
	const struct kernel *row;

	check(!kernel_find(&row, name, NULL));
	return row->fallback == FALLBACK_MOVE;
}

/* In pageblock 0, pages 0-3 and 4-5 are free, and `movable` of the used pages are on an LRU. */
static void unmovable_into_movable_block(struct toy *t, const char *kernel, int movable)
{
	toy_new(t, kernel, toy_small("MM"));
	toy_pcp(t, 4, 8);
	toy_add_free(t, 0, 2, 'M');
	toy_add_free(t, 4, 1, 'M');
	toy_movable(t, 0, movable);
	toy_alloc(t, 0, 'U');
}

TEST(TV3_half_a_block_of_alike_pages_is_claimed)
{
	for_each_kernel(kernel, "4.20", "5.0", "5.10", "6.1.0", "6.1.192")
	{
		TOY(t, unmovable_into_movable_block, *kernel, 3);
		check_text(toy_events(&t), "x(0,0,2,U,M,1) zl(4,0,U) zl(5,0,U) zl(0,0,U) "
					   "zl(1,0,U) a(4)");
		check_text(toy_blocks(&t), "UM");
		check_text(toy_pcp_list(&t, 0, 'U'), "5 0 1");
		check_text(toy_list(&t, 1, 'U'), "2");
	}
	for_each_kernel(kernel, "6.12.117", "6.17", "6.18")
	{
		TOY(t, unmovable_into_movable_block, *kernel, 3);
		check_text(toy_events(&t), "zl(4,0,U) x(4,0,2,U,M,1) zl(5,0,U) zl(0,0,U) "
					   "zl(1,0,U) a(4)");
		check_text(toy_blocks(&t), "UM");
		check_text(toy_pcp_list(&t, 0, 'U'), "5 0 1");
		check_text(toy_list(&t, 1, 'U'), "2");
	}
}

TEST(TV3_fewer_alike_pages_are_not)
{
	for_each_kernel(kernel, "4.20", "5.0", "5.10", "6.1.0", "6.1.192")
	{
		TOY(t, unmovable_into_movable_block, *kernel, 10);
		check_text(toy_events(&t), "x(0,0,2,U,M,0) zl(4,0,U) zl(5,0,U) zl(0,0,U) "
					   "zl(1,0,U) a(4)");
		check_text(toy_blocks(&t), "MM");
		check_text(toy_list(&t, 1, 'U'), "2");
	}
	for_each_kernel(kernel, "6.12.117", "6.17", "6.18")
	{
		TOY(t, unmovable_into_movable_block, *kernel, 10);
		check_text(toy_events(&t), "x(4,0,1,U,M,0) x(5,0,0,U,M,0) x(0,0,2,U,M,0) "
					   "x(1,0,0,U,M,0) a(4)");
		check_text(toy_blocks(&t), "MM");
		check_text(toy_list(&t, 1, 'M'), "2");
	}
}

TEST(TV4_movable_requests_mix_in_the_smallest_chunk)
{
	for_each_kernel(kernel, "4.20", "5.10", "6.1.192", "6.12.117", "6.18")
	{
		bool moves = moves_first(*kernel);

		TOY(t, toy_new, *kernel, toy_small("RU"));
		toy_pcp(&t, 2, 8);
		toy_add_free(&t, 0, 1, 'R');
		toy_add_free(&t, 16, 0, 'U');
		toy_add_free(&t, 20, 1, 'U');
		toy_alloc(&t, 0, 'M');
		check_text(toy_events(&t),
			   moves ? "x(16,0,0,M,U,0) zl(16,0,M) x(0,0,1,M,R,0) zl(0,0,M) a(16)"
				 : "x(16,0,0,M,U,0) x(0,0,1,M,R,0) a(16)");
		check_text(toy_list(&t, 0, moves ? 'M' : 'R'), "1");
		check_text(toy_list(&t, 1, 'U'), "20");
	}
}

TEST(TV5_a_chunk_of_several_blocks_changes_owner_whole)
{
	for_each_kernel(kernel, "4.20", "5.10", "6.1.192", "6.12.117", "6.18")
	{
		TOY(t, toy_new, *kernel, toy_small("MMMM"));
		toy_pcp(&t, 2, 8);
		toy_add_free(&t, 0, 4, 'M');
		toy_add_free(&t, 32, 5, 'M');
		toy_alloc(&t, 0, 'U');
		check_text(toy_events(&t), moves_first(*kernel)
						   ? "x(32,0,5,U,M,1) zl(32,0,U) zl(33,0,U) a(32)"
						   : "x(32,0,5,U,M,1) zl(33,0,U) a(32)");
		check_text(toy_blocks(&t), "MMUU");
		check_text(toy_pcp_list(&t, 0, 'U'), "33");
		check_text(toy_list(&t, 1, 'U'), "34");
		check_text(toy_list(&t, 2, 'U'), "36");
		check_text(toy_list(&t, 3, 'U'), "40");
		check_text(toy_list(&t, 4, 'U'), "48");
		check_text(toy_list(&t, 4, 'M'), "0");
	}
}

TEST(TV11_movable_requests_steal_page_by_page)
{
	for_each_kernel(kernel, "6.1.192", "6.12.117", "6.18")
	{
		bool moves = moves_first(*kernel);

		TOY(t, toy_new, *kernel, toy_small("UUMM"));
		toy_pcp(&t, 4, 8);
		toy_add_free(&t, 3, 0, 'U');
		toy_add_free(&t, 5, 0, 'U');
		toy_add_free(&t, 17, 0, 'U');
		toy_add_free(&t, 8, 1, 'U');
		/* With a high watermark of 0 no boost is possible. */
		t.zone->wmark[WMARK_HIGH] = 1;
		toy_alloc(&t, 0, 'M');
		check_text(toy_events(&t),
			   moves ? "x(3,0,0,M,U,0) zl(3,0,M) x(5,0,0,M,U,0) zl(5,0,M) "
				   "x(17,0,0,M,U,0) zl(17,0,M) x(8,0,1,M,U,0) zl(8,0,M) a(3)"
				 : "x(3,0,0,M,U,0) x(5,0,0,M,U,0) x(17,0,0,M,U,0) "
				   "x(8,0,1,M,U,0) a(3)");
		check(t.pcp->counters.boost_asks == (moves ? 4 : 0));
		check_text(toy_list(&t, 0, moves ? 'M' : 'U'), "9");
	}
}

TEST(at_the_start_of_a_zone_a_fallback_counts_the_pageblock_from_the_chunk_on)
{
	static const struct zone_spec zone = {
		.type = ZONE_DMA32, .start_pfn = 4, .spanned = 28, .present = 28, .managed = 28};

	const struct machine machine = toy_machine(4, 5);

	for_each_kernel(kernel, "2.6.33", "4.20", "5.10", "6.8")
	{
		bool old = !strcmp(*kernel, "2.6.33");

		TOY(t, toy_new_machine, *kernel, &machine, &zone, 1);
		toy_pcp(&t, 1, 8);
		toy_movable(&t, 4, 0);
		toy_add_free(&t, 5, 0, 'M');
		toy_add_free(&t, 12, 2, 'M');
		toy_add_free(&t, 8, 1, 'M');
		toy_alloc(&t, 0, old ? 'R' : 'U');
		/* From pfn 4 on the pageblock has enough free pages for a claim. */
		check_text(toy_list(&t, 0, 'M'), "5");
		check_text(toy_list(&t, 1, 'M'), "8");
		check_text(toy_blocks(&t), old ? "MM" : "UM");
	}
}

/* __rmqueue_fallback of 5.10 looks for pageblocks, also for a request of two of them. */
TEST(with_nofragment_5_10_claims_pageblocks_too_small_for_the_request)
{
	static const struct {
		const char *kernel, *events, *blocks;
	} cases[] = {
		{"5.10", "x(0,5,4,U,M,1) x(32,5,4,U,M,1) a(-1)", "UMUM"},
		{"6.1.192", "a(-1)", "MMMM"},
		{"7.3", "a(-1)", "MMMM"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_under, cases[i].kernel, "nofragment:mode=always", toy_small("MMMM"));
		toy_add_free(&t, 0, 4, 'M');
		toy_add_free(&t, 32, 4, 'M');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		toy_alloc(&t, 5, 'U');
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_blocks(&t), cases[i].blocks);
	}
}
