// SPDX-License-Identifier: Apache-2.0
/*
 * Small situations, worked out by hand, in which kernels differ: whole event sequences
 * and end lists. Pageblocks of 16 pages, largest order 5, unless a test says otherwise.
 */
#include "check.h"
#include "toy.h"

#include <string.h>

/* Run the rest of a test for each of several rows. */
#define for_each_kernel(kernel, ...)                                                               \
	for (const char *const *kernel = (const char *const[]){__VA_ARGS__, NULL}; *kernel;        \
	     kernel++)

/* Kernels of the fallback that moves the chunk to the asked list, and then splits it. */
static bool moves_first(const char *name)
{
	const struct kernel *row;

	check(!kernel_find(&row, name, NULL));
	return row->fallback == FALLBACK_MOVE;
}

static struct toy_geometry small(const char *blocks)
{
	return (struct toy_geometry){4, 5, blocks, ZONE_DMA32};
}

static void end(struct toy *t)
{
	const char *wrong = model_check(t->m);

	check_text(wrong ? wrong : "", "");
	toy_free(t);
}

static void TV1_a_refill_hands_out_in_the_order_of_the_buddy(void)
{
	for_each_kernel(kernel, "4.20", "5.0", "5.10", "6.1.0", "6.1.192", "6.8", "6.18")
	{
		struct toy t;

		toy_new(&t, *kernel, small("MM"));
		toy_pcp(&t, 4, 8);
		toy_add_free(&t, 0, 4, 'M');
		toy_alloc(&t, 0, 'M');
		toy_alloc(&t, 0, 'M');
		check_text(toy_events(&t), "zl(0,0,M) zl(1,0,M) zl(2,0,M) zl(3,0,M) a(0) a(1)");
		check_text(toy_pcp_list(&t, 0, 'M'), "2 3");
		check_text(toy_list(&t, 2, 'M'), "4");
		check_text(toy_list(&t, 3, 'M'), "8");
		end(&t);
	}
}

static void TV2_a_page_about_to_merge_goes_to_the_tail(void)
{
	for_each_kernel(kernel, "2.6.32", "4.20", "5.0", "6.1.192", "6.12.117", "6.18")
	{
		bool tail = strcmp(*kernel, "2.6.32");
		struct toy t;

		toy_new(&t, *kernel, small("MM"));
		toy_add_free(&t, 2, 1, 'M');
		toy_add_free(&t, 20, 0, 'M');
		toy_free_one(&t, 0, 0, 'M');
		toy_free_one(&t, 24, 0, 'M');
		check_text(toy_list(&t, 0, 'M'), tail ? "24 20 0" : "24 0 20");
		end(&t);
	}
}

static void TV2_single_frees_merge_to_the_top(void)
{
	for_each_kernel(kernel, "2.6.32", "4.20", "5.0", "6.1.192", "6.18")
	{
		struct toy t;

		toy_new(&t, *kernel, small("MM"));
		toy_add_free(&t, 8, 3, 'M');
		for (uint32_t pfn = 0; pfn < 8; pfn++)
			toy_free_one(&t, pfn, 0, 'M');
		check_text(toy_list(&t, 4, 'M'), "0");
		check(t.zone->nr_free_pages == 16);
		end(&t);
	}
}

static void TV2_a_split_keeps_the_lower_half(void)
{
	for_each_kernel(kernel, "4.20", "6.1.192", "6.18")
	{
		struct toy t;

		toy_new(&t, *kernel, small("MM"));
		toy_add_free(&t, 0, 5, 'M');
		for (uint32_t pfn = 0; pfn < 6; pfn += 2) {
			check(buddy_take_smallest(t.m, t.zone, 1, MIGRATETYPE_MOVABLE) == pfn);
			t.m->frames[pfn].state = FRAME_USED;
		}
		check_text(toy_list(&t, 1, 'M'), "6");
		check_text(toy_list(&t, 3, 'M'), "8");
		check_text(toy_list(&t, 4, 'M'), "16");
		end(&t);
	}
}

/* Block 0: free 0-3 and 4-5, of the used pages `movable` on an LRU. */
static void unmovable_into_movable_block(struct toy *t, const char *kernel, int movable)
{
	toy_new(t, kernel, small("MM"));
	toy_pcp(t, 4, 8);
	toy_add_free(t, 0, 2, 'M');
	toy_add_free(t, 4, 1, 'M');
	toy_movable(t, 0, movable);
	toy_alloc(t, 0, 'U');
}

static void TV3_half_a_block_of_alike_pages_is_claimed(void)
{
	struct toy t;

	for_each_kernel(kernel, "4.20", "5.0", "5.10", "6.1.0", "6.1.192")
	{
		unmovable_into_movable_block(&t, *kernel, 3);
		check_text(toy_events(&t), "x(0,0,2,U,M,1) zl(4,0,U) zl(5,0,U) zl(0,0,U) "
					   "zl(1,0,U) a(4)");
		check_text(toy_blocks(&t), "UM");
		check_text(toy_pcp_list(&t, 0, 'U'), "5 0 1");
		check_text(toy_list(&t, 1, 'U'), "2");
		end(&t);
	}
	for_each_kernel(kernel, "6.12.117", "6.17", "6.18")
	{
		unmovable_into_movable_block(&t, *kernel, 3);
		check_text(toy_events(&t), "zl(4,0,U) x(4,0,2,U,M,1) zl(5,0,U) zl(0,0,U) "
					   "zl(1,0,U) a(4)");
		check_text(toy_blocks(&t), "UM");
		check_text(toy_pcp_list(&t, 0, 'U'), "5 0 1");
		check_text(toy_list(&t, 1, 'U'), "2");
		end(&t);
	}
}

static void TV3_fewer_alike_pages_are_not(void)
{
	struct toy t;

	for_each_kernel(kernel, "4.20", "5.0", "5.10", "6.1.0", "6.1.192")
	{
		unmovable_into_movable_block(&t, *kernel, 10);
		check_text(toy_events(&t), "x(0,0,2,U,M,0) zl(4,0,U) zl(5,0,U) zl(0,0,U) "
					   "zl(1,0,U) a(4)");
		check_text(toy_blocks(&t), "MM");
		check_text(toy_list(&t, 1, 'U'), "2");
		end(&t);
	}
	for_each_kernel(kernel, "6.12.117", "6.17", "6.18")
	{
		unmovable_into_movable_block(&t, *kernel, 10);
		check_text(toy_events(&t), "x(4,0,1,U,M,0) x(5,0,0,U,M,0) x(0,0,2,U,M,0) "
					   "x(1,0,0,U,M,0) a(4)");
		check_text(toy_blocks(&t), "MM");
		check_text(toy_list(&t, 1, 'M'), "2");
		end(&t);
	}
}

static void TV4_movable_requests_mix_in_the_smallest_chunk(void)
{
	for_each_kernel(kernel, "4.20", "5.10", "6.1.192", "6.12.117", "6.18")
	{
		bool moves = moves_first(*kernel);
		struct toy t;

		toy_new(&t, *kernel, small("RU"));
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
		end(&t);
	}
}

static void TV5_a_chunk_of_several_blocks_changes_owner_whole(void)
{
	for_each_kernel(kernel, "4.20", "5.10", "6.1.192", "6.12.117", "6.18")
	{
		struct toy t;

		toy_new(&t, *kernel, small("MMMM"));
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
		end(&t);
	}
}

static void TV6_a_pass_that_refuses_to_mix_leaves_its_mark_on_the_pcp(void)
{
	static const struct {
		const char *kernel, *events, *pcp, *order1;
		uint64_t retries;
	} cases[] = {
		{"5.0", "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)", "1", "2", 0},
		{"6.1.0", "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)", "1", "2", 1},
		{"6.1.192", "x(0,0,3,U,M,1) zl(0,0,U) zl(1,0,U) a(0)", "1", "2", 1},
		{"6.18", "zl(0,0,U) x(0,0,3,U,M,1) zl(1,0,U) zl(2,0,U) zl(3,0,U) a(0)", "1 2 3", "",
		 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy_geometry geometry = small("MM");
		struct toy t;

		geometry.zone = ZONE_NORMAL;
		toy_new(&t, cases[i].kernel, geometry);
		toy_pcp(&t, 2, 8);
		toy_add_free(&t, 0, 3, 'M');
		toy_alloc(&t, 0, 'U');
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_pcp_list(&t, 0, 'U'), cases[i].pcp);
		check_text(toy_list(&t, 1, 'U'), cases[i].order1);
		check_text(toy_list(&t, 2, 'U'), "4");
		check(t.pcp->counters.nofragment_retries == cases[i].retries);
		end(&t);
	}
}

static void TV7_a_full_pcp_drains_by_the_rule_of_the_row(void)
{
	static const struct {
		const char *kernel, *drained, *m, *u, *r;
	} cases[] = {
		{"4.20", "d(0,M) d(32,R)", "2", "18 16", "36 34"},
		{"5.0", "d(0,M) d(32,R)", "2", "18 16", "36 34"},
		{"6.1.192", "d(32,R) d(34,R)", "2 0", "18 16", "36"},
		{"6.18", "d(32,R) d(34,R) d(16,U) d(18,U)", "2 0", "", "36"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static const uint32_t pfns[] = {0, 2, 16, 18, 32, 34};
		struct toy t;

		toy_new(&t, cases[i].kernel, small("MURM"));
		toy_pcp(&t, 2, 6);
		for (size_t f = 0; f < 5; f++)
			toy_free_page(&t, pfns[f], 0);
		check_text(toy_events(&t), "f(0) f(2) f(16) f(18) f(32)");
		zone_free(t.m, pfns[5], 0);
		check_text(toy_events(&t), cases[i].drained);
		zone_free(t.m, 36, 0);
		check_text(toy_events(&t), "");
		check_text(toy_pcp_list(&t, 0, 'M'), cases[i].m);
		check_text(toy_pcp_list(&t, 0, 'U'), cases[i].u);
		check_text(toy_pcp_list(&t, 0, 'R'), cases[i].r);
		if (!strcmp(cases[i].kernel, "6.18")) {
			check_text(toy_list(&t, 0, 'R'), "34 32");
			check_text(toy_list(&t, 0, 'U'), "18 16");
		}
		end(&t);
	}
}

static void TV8_refills_grow_while_nothing_is_freed(void)
{
	for_each_kernel(kernel, "6.8", "6.12.19", "6.12.117", "6.18")
	{
		struct toy t;

		toy_new(&t, *kernel, (struct toy_geometry){9, 10, "MM", ZONE_DMA32});
		t.pcp->batch = 4;
		t.pcp->high = t.pcp->high_min = 8;
		t.pcp->high_max = 64;
		toy_add_free(&t, 0, 10, 'M');
		for (uint64_t pfn = 0; pfn < 20; pfn++)
			check(toy_alloc(&t, 0, 'M') == pfn);
		check(t.pcp->counters.refills == 3 && t.pcp->counters.refill_pages == 28);
		check(t.pcp->alloc_factor == 3);
		check(t.pcp->high == 36);
		check(t.pcp->count == 8);
		check_text(toy_pcp_list(&t, 0, 'M'), "20 21 22 23 24 25 26 27");
		for (uint32_t pfn = 0; pfn < 16; pfn++)
			zone_free(t.m, pfn, 0);
		check(t.pcp->counters.drains == 0);
		check_text(toy_pcp_list(&t, 0, 'M'),
			   "15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 20 21 22 23 24 25 26 27");
		check(t.pcp->free_count == 16);
		check(t.pcp->alloc_factor == 0);
		end(&t);
	}
}

static void TV9_high_orders_refill_by_pages(void)
{
	for_each_kernel(kernel, "6.1.0", "6.1.192", "6.18")
	{
		static const uint64_t pfns[] = {0, 64, 128, 192};
		static const int counts[] = {62, 122, 178, 226};
		struct toy t;

		toy_new(&t, *kernel, (struct toy_geometry){9, 10, "UUUU", ZONE_DMA32});
		toy_pcp(&t, 63, 378);
		toy_add_free(&t, 0, 10, 'U');
		for (int order = 0; order <= 3; order++) {
			check(toy_alloc(&t, order, 'U') == pfns[order]);
			check(t.pcp->count == counts[order]);
		}
		toy_events(&t);
		toy_add_free(&t, 1024, 9, 'U');
		toy_alloc(&t, 9, 'U');
		check_text(toy_events(&t), "zl(512,9,U) zl(1024,9,U) a(512)");
		check_text(toy_pcp_list(&t, 9, 'U'), "1024");
		end(&t);
	}
	for_each_kernel(kernel, "4.20", "5.0", "5.10")
	{
		struct toy t;

		toy_new(&t, *kernel, (struct toy_geometry){9, 10, "UU", ZONE_DMA32});
		toy_add_free(&t, 0, 10, 'U');
		toy_alloc(&t, 1, 'U');
		check_text(toy_events(&t), "zl(0,1,U) a(0)");
		check(t.pcp->count == 0);
		end(&t);
	}
}

static void TV10_a_block_that_changed_owner_and_its_pcp_pages(void)
{
	static const struct {
		const char *kernel, *events, *u, *m;
	} cases[] = {
		{"5.0", "d(0,M) d(2,U)", "2", "0"},
		{"6.1.0", "d(2,U) d(0,M)", "2", "0"},
		{"6.1.192", "d(2,U) d(0,M)", "2", "0"},
		{"6.18", "d(2,U) d(0,U)", "0 2", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("MM"));
		toy_pcp(&t, 2, 8);
		zone_free(t.m, 0, 0);
		set_block_type(t.m, 0, 0, MIGRATETYPE_UNMOVABLE);
		zone_free(t.m, 2, 0);
		toy_drain(&t);
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_list(&t, 0, 'U'), cases[i].u);
		check_text(toy_list(&t, 0, 'M'), cases[i].m);
		end(&t);
	}
}

static void TV11_movable_requests_steal_page_by_page(void)
{
	for_each_kernel(kernel, "6.1.192", "6.12.117", "6.18")
	{
		bool moves = moves_first(*kernel);
		struct toy t;

		toy_new(&t, *kernel, small("UUMM"));
		toy_pcp(&t, 4, 8);
		toy_add_free(&t, 3, 0, 'U');
		toy_add_free(&t, 5, 0, 'U');
		toy_add_free(&t, 17, 0, 'U');
		toy_add_free(&t, 8, 1, 'U');
		/* A high watermark, so that a boost could be asked for. */
		t.zone->wmark[WMARK_HIGH] = 1;
		toy_alloc(&t, 0, 'M');
		check_text(toy_events(&t),
			   moves ? "x(3,0,0,M,U,0) zl(3,0,M) x(5,0,0,M,U,0) zl(5,0,M) "
				   "x(17,0,0,M,U,0) zl(17,0,M) x(8,0,1,M,U,0) zl(8,0,M) a(3)"
				 : "x(3,0,0,M,U,0) x(5,0,0,M,U,0) x(17,0,0,M,U,0) "
				   "x(8,0,1,M,U,0) a(3)");
		check(t.pcp->counters.boost_asks == (moves ? 4 : 0));
		check_text(toy_list(&t, 0, moves ? 'M' : 'U'), "9");
		end(&t);
	}
}

static void TV12_runs_of_high_order_frees_empty_the_pcp(void)
{
	static const struct {
		const char *kernel, *first, *second, *third;
	} cases[] = {
		{"6.1.192", "d(64,M)", "d(72,M) d(0,M) d(2,M) d(4,M) d(6,M) d(8,M) d(10,M) d(12,M)",
		 "d(80,M)"},
		{"6.18", "d(64,M) d(0,M) d(2,M)", "d(72,M) d(4,M) d(6,M) d(8,M) d(10,M) d(12,M)",
		 "d(80,M)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("MMMMMM"));
		toy_pcp(&t, 2, 8);
		for (uint32_t pfn = 0; pfn <= 12; pfn += 2)
			zone_free(t.m, pfn, 0);
		check_text(toy_events(&t), "");
		zone_free(t.m, 64, 2);
		check_text(toy_events(&t), cases[i].first);
		zone_free(t.m, 72, 2);
		check_text(toy_events(&t), cases[i].second);
		zone_free(t.m, 80, 2);
		check_text(toy_events(&t), cases[i].third);
		end(&t);
	}
}

static void TV13_reserve_pages_leak_in_2_6_32_and_no_more_in_2_6_33(void)
{
	static const struct {
		const char *kernel, *events, *movable, *reserve;
	} cases[] = {
		{"2.6.32", "f(100) d(100,M)", "100", ""},
		{"2.6.33", "f(100) d(100,V)", "", "100"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("MMMMMMVM"));
		toy_pcp(&t, 1, 1);
		toy_free_page(&t, 100, 0);
		check_text(toy_events(&t), cases[i].events);
		check_text(toy_list(&t, 0, 'M'), cases[i].movable);
		check_text(toy_list(&t, 0, 'V'), cases[i].reserve);
		end(&t);
	}
}

static void only_2_6_kernels_know_cold_pages(void)
{
	static const struct {
		const char *kernel;
		uint64_t pfn;
	} cases[] = {{"2.6.31", 3}, {"2.6.33", 3}, {"4.20", 1}, {"6.18", 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("MM"));
		toy_pcp(&t, 4, 8);
		toy_add_free(&t, 0, 4, 'M');
		check(toy_alloc(&t, 0, 'M') == 0);
		t.gfp_flags = GFP_COLD;
		check(toy_alloc(&t, 0, 'M') == cases[i].pfn);
		end(&t);
	}
}

static void a_refill_of_the_mixed_list_goes_before_its_old_pages(void)
{
	struct toy t;

	toy_new(&t, "2.6.31", small("UM"));
	toy_pcp(&t, 2, 8);
	toy_add_free(&t, 16, 1, 'M');
	zone_free(t.m, 1, 0);
	check(toy_alloc(&t, 0, 'M') == 16);
	check_text(toy_events(&t), "zl(16,0,M) zl(17,0,M) a(16)");
	check_text(toy_pcp_list(&t, 0, 'U'), "17 1");
	end(&t);
}

static void what_merges_is_said_by_the_type_a_page_is_freed_to(void)
{
	static const struct {
		const char *kernel, *merged;
	} cases[] = {{"5.19", "0"}, {"6.8", "0"}, {"6.18", ""}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("UM"));
		toy_pcp(&t, 1, 100);
		toy_add_free(&t, 0, 4, 'U');
		/* A THP waits in the PCP while its block becomes HIGHATOMIC. */
		zone_forget_old(t.m, 16, 4);
		zone_free(t.m, 16, 4);
		set_block_type(t.m, 16, 0, MIGRATETYPE_HIGHATOMIC);
		toy_drain(&t);
		check_text(toy_list(&t, 5, 'M'), cases[i].merged);
		toy_free(&t);
	}
}

static void zone_locked_with_nothing_found_ended_with_5_0(void)
{
	static const struct {
		const char *kernel, *events;
	} cases[] = {
		{"2.6.33", "zl(-1,1,V) a(-1)"},
		{"5.0", "zl(-1,1,U) a(-1)"},
		{"5.10", "a(-1)"},
		{"5.14", "a(-1)"},
		{"6.18", "a(-1)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("UM"));
		toy_add_free(&t, 0, 0, 'U');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		toy_alloc(&t, 1, 'U');
		check_text(toy_events(&t), cases[i].events);
		end(&t);
	}
}

static void zone_locked_of_2_6_tells_pages_of_the_reserve(void)
{
	struct toy t;

	toy_new(&t, "2.6.33", small("MV"));
	toy_pcp(&t, 1, 8);
	toy_add_free(&t, 0, 0, 'M');
	toy_add_free(&t, 16, 0, 'V');
	toy_alloc(&t, 0, 'U');
	toy_alloc(&t, 0, 'U');
	check_text(toy_events(&t), "x(0,0,0,U,M,0) zl(0,0,U) a(0) zl(16,0,V) a(16)");
	end(&t);
}

static void pages_of_the_atomic_reserve_have_their_zone_locked(void)
{
	static const struct {
		const char *kernel, *events;
	} cases[] = {
		{"4.20", "zl(0,4,U) a(0)"},
		{"5.14", "zl(0,4,U) a(0)"},
		{"5.19", "zl(0,4,H) a(0)"},
		{"6.18", "zl(0,4,H) a(0)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, (struct toy_geometry){5, 6, "H", ZONE_DMA32});
		toy_add_free(&t, 0, 4, 'H');
		t.gfp_flags = GFP_HIGH | GFP_ATOMIC | GFP_KSWAPD_RECLAIM;
		toy_alloc(&t, 4, 'U');
		check_text(toy_events(&t), cases[i].events);
		end(&t);
	}
}

static void an_atomic_high_order_request_below_low_reserves_its_block(void)
{
	static const struct {
		const char *kernel, *blocks;
		uint64_t reserved;
	} cases[] = {
		{"2.6.33", "UUUU", 0},
		{"4.20", "HUUU", 16},
		{"6.1.192", "HUUU", 16},
		{"6.18", "UUUU", 0}, /* 1 % of this zone is less than a block */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("UUUU"));
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 4, 'U');
		t.zone->wmark[WMARK_HIGH] = 200;
		t.zone->wmark[WMARK_LOW] = 100;
		t.zone->wmark[WMARK_MIN] = 4;
		t.gfp_flags = GFP_HIGH | GFP_KSWAPD_RECLAIM;
		check(toy_alloc(&t, 1, 'U') == 0);
		check(t.pcp->counters.below_low == 1);
		check_text(toy_blocks(&t), cases[i].blocks);
		check(t.zone->nr_reserved_highatomic == cases[i].reserved);
		/* With nothing else left, whoever asks gets the block back. */
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 3, 'U') == 8);
		check_text(toy_blocks(&t), "UUUU");
		check(t.zone->nr_reserved_highatomic == 0);
		end(&t);
	}
}

static void nomemalloc_takes_the_reserve_from_what_cannot_sleep_since_4_20(void)
{
	static const struct {
		const char *kernel;
		uint64_t below_min;
	} cases[] = {{"2.6.32", 0}, {"4.20", 1}, {"6.18", 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("UUUU"));
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 4, 'U');
		t.zone->wmark[WMARK_HIGH] = t.zone->wmark[WMARK_LOW] = 100;
		t.zone->wmark[WMARK_MIN] = 32; /* 16 with HIGH, 12 with HARDER */
		t.gfp_flags = GFP_HIGH | GFP_NOMEMALLOC;
		check(toy_alloc(&t, 0, 'U') == 0);
		check(t.pcp->counters.below_min == cases[i].below_min);
		end(&t);
	}
}

static void before_6_15_a_request_that_cannot_sleep_may_take_the_atomic_reserve(void)
{
	static const struct {
		const char *kernel;
		uint64_t pfn;
	} cases[] = {
		{"6.1.192", UINT64_MAX}, {"6.5", 0},           {"6.8", 0},
		{"6.12.19", 0},          {"6.14", 0},          {"6.12.117", UINT64_MAX},
		{"6.17", UINT64_MAX},    {"6.18", UINT64_MAX},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request rq = {.gfp_flags = GFP_KSWAPD_RECLAIM, .order = 4};
		struct toy t;

		toy_new(&t, cases[i].kernel, (struct toy_geometry){5, 6, "HU", ZONE_DMA32});
		toy_add_free(&t, 0, 4, 'H');
		toy_add_free(&t, 32, 3, 'U');
		rq.class_zone = ZONE_NORMAL;
		zone_alloc(t.m, &rq);
		/* Without the right it gets there only where the record grants all. */
		check_text(toy_events(&t), "zl(0,4,H)");
		check(t.pcp->counters.below_min == (cases[i].pfn != 0));
		end(&t);
	}
}

static void a_chunk_above_pageblock_order_is_reserved_whole_since_6_10(void)
{
	static const struct {
		const char *kernel, *reserved, *returned;
		uint64_t pages;
	} cases[] = {
		{"4.20", "HUUU", "UUUU", 16},     {"6.1.192", "HUUU", "UUUU", 16},
		{"6.8", "HUUU", "UUUU", 16},      {"6.12.19", "HHUU", "UUUU", 32},
		{"6.12.117", "HHUU", "UUUU", 32},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("UUUU"));
		t.zone->managed = 3200;
		t.zone->wmark[WMARK_LOW] = t.zone->wmark[WMARK_HIGH] = 100;
		toy_add_free(&t, 0, 5, 'U');
		t.gfp_flags = GFP_HIGH | GFP_ATOMIC | GFP_KSWAPD_RECLAIM;
		check(toy_alloc(&t, 5, 'U') == 0);
		check_text(toy_blocks(&t), cases[i].reserved);
		check(t.zone->nr_reserved_highatomic == cases[i].pages);
		toy_free_page(&t, 0, 5);
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 5, 'U') == 0);
		check_text(toy_blocks(&t), cases[i].returned);
		check(t.zone->nr_reserved_highatomic == 0);
		end(&t);
	}
}

static void before_6_10_a_chunk_of_two_atomic_blocks_is_returned_with_its_first(void)
{
	static const struct {
		const char *kernel, *blocks;
		uint64_t reserved;
	} cases[] = {
		{"4.20", "UHMM", 16},
		{"6.8", "UHMM", 16},
		{"6.12.19", "UUMM", 0},
		{"6.18", "UUMM", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new(&t, cases[i].kernel, small("HHMM"));
		toy_add_free(&t, 0, 5, 'H');
		t.zone->nr_reserved_highatomic = 32;
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 4, 'U') == 0);
		check_text(toy_list(&t, 4, 'U'), "16");
		check_text(toy_blocks(&t), cases[i].blocks);
		check(t.zone->nr_reserved_highatomic == cases[i].reserved);
		toy_free(&t);
	}
}

static const struct machine one_cpu = {
	.pageblock_order = 4,
	.max_order = 5,
	.nr_cpus = 1,
	.nr_nodes = 1,
	.cpu_nodes = (const uint16_t[]){0},
	.node_distances = (const uint8_t[]){10},
};

static void zones_a_request_may_not_use_keep_their_atomic_reserve(void)
{
	static const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 32, .present = 32, .managed = 32},
	};
	struct toy t;

	toy_new_machine(&t, "6.18", &one_cpu, zones, 2);
	set_block_type(t.m, 32, 0, MIGRATETYPE_HIGHATOMIC);
	t.zone = &t.m->zones[1];
	toy_add_free(&t, 32, 3, 'H');
	t.gfp_flags = GFP_DMA32 | GFP_DIRECT_RECLAIM;
	check(toy_alloc(&t, 3, 'U') == UINT64_MAX);
	check_text(toy_blocks(&t), "MMHM");
	t.gfp_flags = GFP_DIRECT_RECLAIM;
	check(toy_alloc(&t, 3, 'U') == 32);
	end(&t);
}

static void at_the_start_of_a_zone_a_fallback_takes_from_the_chunk_on(void)
{
	static const struct zone_spec zone = {
		.type = ZONE_DMA32, .start_pfn = 4, .spanned = 28, .present = 28, .managed = 28};

	for_each_kernel(kernel, "2.6.33", "4.20", "5.10", "6.8")
	{
		bool old = !strcmp(*kernel, "2.6.33");
		struct toy t;

		toy_new_machine(&t, *kernel, &one_cpu, &zone, 1);
		toy_pcp(&t, 1, 8);
		toy_movable(&t, 4, 0);
		toy_add_free(&t, 5, 0, 'M');
		toy_add_free(&t, 12, 2, 'M');
		toy_add_free(&t, 8, 1, 'M');
		toy_alloc(&t, 0, old ? 'R' : 'U');
		/* 4 free pages and, but for those, nothing movable: claimed. */
		check_text(toy_list(&t, 0, 'M'), "5");
		check_text(toy_list(&t, 1, 'M'), "8");
		check_text(toy_blocks(&t), old ? "MM" : "UM");
		end(&t);
	}
}

static void draining_all_goes_from_cpu_to_cpu(void)
{
	static const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 32, .present = 32, .managed = 32},
	};
	static const uint16_t cpu_nodes[] = {0, 0};
	static const uint8_t distances[] = {10};
	static const struct machine two_cpus = {
		.pageblock_order = 4,
		.max_order = 5,
		.nr_cpus = 2,
		.nr_nodes = 1,
		.cpu_nodes = cpu_nodes,
		.node_distances = distances,
	};

	for_each_kernel(kernel, "2.6.33", "4.20", "5.19", "6.1.0", "6.18")
	{
		struct toy t;

		toy_new_machine(&t, *kernel, &two_cpus, zones, 2);
		for (uint16_t cpu = 0; cpu < 2; cpu++) {
			t.m->now.cpu = cpu;
			for (int i = 0; i < 2; i++)
				zone_pcp(t.m, &t.m->zones[i], cpu)->high =
					zone_pcp(t.m, &t.m->zones[i], cpu)->high_min = 8;
			zone_free(t.m, 4u * cpu, 0);
			zone_free(t.m, 32u + 4u * cpu, 0);
		}
		check_text(toy_events(&t), "");
		toy_drain(&t);
		check(t.m->now.cpu == 1);
		/* Up to 5.19 each CPU drains its own lists, later the caller drains all. */
		for (int i = 0; i < 4; i++)
			check(t.m->pcps[i].counters.drains ==
			      (t.m->kernel->drain_all_remote ? 2u * t.m->pcps[i].cpu : 1));
		check_text(toy_events(&t), "d(0,M) d(32,M) d(4,M) d(36,M)");
		end(&t);
	}
}

/* A zone of 24 free pages, three of them on the PCP, a block of 16 in the reserve; none above min.
 */
static void all_below_min(struct toy *t)
{
	toy_new(t, "6.18", (struct toy_geometry){4, 5, "HMMM", ZONE_DMA32});
	toy_pcp(t, 1, 8);
	toy_add_free(t, 0, 4, 'H');
	toy_add_free(t, 16, 3, 'M');
	t->zone->nr_reserved_highatomic = 32; /* of a block and more one goes */
	for (uint32_t pfn = 40; pfn < 43; pfn++)
		toy_free_page(t, pfn, 0);
	toy_events(t);
	t->zone->wmark[WMARK_HIGH] = t->zone->wmark[WMARK_LOW] = t->zone->wmark[WMARK_MIN] = 100;
	t->gfp_flags = GFP_DIRECT_RECLAIM;
}

static void below_min_nothing_is_drained_while_the_record_shows_no_reclaim(void)
{
	struct toy t;

	all_below_min(&t);
	check(toy_alloc(&t, 2, 'M') == 16);
	check_text(toy_blocks(&t), "HMMM");
	check(t.pcp->count == 3 && t.pcp->counters.below_min == 1);
	end(&t);
}

static void out_of_direct_reclaim_the_lists_are_drained_and_a_reserved_block_goes(void)
{
	for (int told = 0; told < 2; told++) {
		struct toy t;

		all_below_min(&t);
		t.reclaimed = true;
		t.m->drains_inferred = told;
		toy_alloc(&t, 2, 'M');
		check_text(toy_blocks(&t), "MMMM");
		check(t.pcp->count == (told ? 3 : 0));
		end(&t);
	}
}

static void where_no_page_is_left_the_lists_give_up_theirs(void)
{
	struct toy t;

	all_below_min(&t);
	toy_alloc(&t, 3, 'M');
	check(t.pcp->count == 3);
	toy_alloc(&t, 4, 'M');
	check(t.pcp->count == 0);
	check_text(toy_blocks(&t), "MMMM");
	end(&t);
}

static void a_block_across_the_edge_of_a_zone_stays_atomic_since_6_10(void)
{
	static const struct zone_spec zone = {
		.type = ZONE_DMA32, .spanned = 24, .present = 24, .managed = 24};
	static const struct {
		const char *kernel, *blocks;
	} cases[] = {{"6.12.19", "MH"}, {"6.18", "MH"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new_machine(&t, cases[i].kernel, &one_cpu, &zone, 1);
		set_block_type(t.m, 16, 0, MIGRATETYPE_HIGHATOMIC);
		toy_add_free(&t, 16, 2, 'H');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 2, 'U') == UINT64_MAX);
		check_text(toy_blocks(&t), cases[i].blocks);
		check_text(toy_list(&t, 2, 'H'), "16");
		end(&t);
	}
}

int main(void)
{
	test(TV1_a_refill_hands_out_in_the_order_of_the_buddy);
	test(TV2_a_page_about_to_merge_goes_to_the_tail);
	test(TV2_single_frees_merge_to_the_top);
	test(TV2_a_split_keeps_the_lower_half);
	test(TV3_half_a_block_of_alike_pages_is_claimed);
	test(TV3_fewer_alike_pages_are_not);
	test(TV4_movable_requests_mix_in_the_smallest_chunk);
	test(TV5_a_chunk_of_several_blocks_changes_owner_whole);
	test(TV6_a_pass_that_refuses_to_mix_leaves_its_mark_on_the_pcp);
	test(TV7_a_full_pcp_drains_by_the_rule_of_the_row);
	test(TV8_refills_grow_while_nothing_is_freed);
	test(TV9_high_orders_refill_by_pages);
	test(TV10_a_block_that_changed_owner_and_its_pcp_pages);
	test(TV11_movable_requests_steal_page_by_page);
	test(TV12_runs_of_high_order_frees_empty_the_pcp);
	test(TV13_reserve_pages_leak_in_2_6_32_and_no_more_in_2_6_33);
	test(only_2_6_kernels_know_cold_pages);
	test(a_refill_of_the_mixed_list_goes_before_its_old_pages);
	test(what_merges_is_said_by_the_type_a_page_is_freed_to);
	test(zone_locked_with_nothing_found_ended_with_5_0);
	test(zone_locked_of_2_6_tells_pages_of_the_reserve);
	test(pages_of_the_atomic_reserve_have_their_zone_locked);
	test(an_atomic_high_order_request_below_low_reserves_its_block);
	test(nomemalloc_takes_the_reserve_from_what_cannot_sleep_since_4_20);
	test(before_6_15_a_request_that_cannot_sleep_may_take_the_atomic_reserve);
	test(a_chunk_above_pageblock_order_is_reserved_whole_since_6_10);
	test(before_6_10_a_chunk_of_two_atomic_blocks_is_returned_with_its_first);
	test(zones_a_request_may_not_use_keep_their_atomic_reserve);
	test(at_the_start_of_a_zone_a_fallback_takes_from_the_chunk_on);
	test(draining_all_goes_from_cpu_to_cpu);
	test(below_min_nothing_is_drained_while_the_record_shows_no_reclaim);
	test(out_of_direct_reclaim_the_lists_are_drained_and_a_reserved_block_goes);
	test(where_no_page_is_left_the_lists_give_up_theirs);
	test(a_block_across_the_edge_of_a_zone_stays_atomic_since_6_10);
	return check_done();
}
