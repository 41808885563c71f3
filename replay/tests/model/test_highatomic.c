// SPDX-License-Identifier: Apache-2.0
/*
 * Pageblocks in the HIGHATOMIC reserve: which requests reserve one, and which release it.
 * Pageblocks of 16 pages and a largest order of 5, unless a test says otherwise.
 */
#include "check.h"
#include "toy.h"

#include "freerun/zone_lock_queue.h"

#include <string.h>

TEST(pages_of_the_atomic_reserve_have_their_zone_locked)
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
		TOY(t, toy_new, cases[i].kernel, (struct toy_geometry){5, 6, "H", ZONE_DMA32});
		toy_add_free(&t, 0, 4, 'H');
		t.gfp_flags = GFP_HIGH | GFP_ATOMIC | GFP_KSWAPD_RECLAIM;
		toy_alloc(&t, 4, 'U');
		check_text(toy_events(&t), cases[i].events);
	}
}

TEST(an_atomic_high_order_request_below_low_reserves_its_block)
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
		TOY(t, toy_new, cases[i].kernel, toy_small("UUUU"));
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
		/* Without another free page, any request releases the block. */
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 3, 'U') == 8);
		check_text(toy_blocks(&t), "UUUU");
		check(t.zone->nr_reserved_highatomic == 0);
	}
}

TEST(before_6_15_a_request_that_cannot_sleep_may_take_the_atomic_reserve)
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

		TOY(t, toy_new, cases[i].kernel, (struct toy_geometry){5, 6, "HU", ZONE_DMA32});
		toy_add_free(&t, 0, 4, 'H');
		toy_add_free(&t, 32, 3, 'U');
		rq.class_zone = ZONE_NORMAL;
		zone_alloc(t.m, &rq);
		/* A request without the right gets the page only because the record granted it. */
		check_text(toy_events(&t), "zl(0,4,H)");
		check(t.pcp->counters.below_min == (cases[i].pfn != 0));
	}
}

/* The last events of a refill of 15 entries of order 2. */
TEST(TVD_the_right_to_the_reserve_goes_past_an_empty_pcp)
{
	static const struct {
		const char *kernel, *first, *list, *slow, *blocks;
		uint64_t reserved;
	} cases[] = {
		{"6.18", "zl(52,2,U) zl(56,2,U) a(0)", "4 8 12 16 20 24 28 32 36 40 44 48 52 56",
		 "zl(52,2,U) zl(56,2,U) a(0)", "HU", 512},
		{"7.0", "zl(52,2,U) zl(56,2,U) a(0)", "4 8 12 16 20 24 28 32 36 40 44 48 52 56",
		 "zl(52,2,U) zl(56,2,U) a(0)", "HU", 512},
		{"7.2", "zl(52,2,U) zl(56,2,U) a(0)", "4 8 12 16 20 24 28 32 36 40 44 48 52 56",
		 "zl(0,2,U) a(0)", "HU", 512},
		{"7.3", "zl(0,2,U) a(0)", "", "zl(0,2,U) a(0)", "HU", 512},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int slow = 0; slow < 2; slow++) {
			const char *wanted = slow ? cases[i].slow : cases[i].first, *events;

			TOY(t, toy_new, cases[i].kernel,
			    (struct toy_geometry){9, 10, "UU", ZONE_DMA32});
			t.zone->managed = 102400;
			toy_pcp(&t, 63, 378);
			toy_add_free(&t, 0, 10, 'U');
			t.zone->wmark[WMARK_LOW] = t.zone->wmark[WMARK_HIGH] = slow ? 2000 : 0;
			t.gfp_flags = GFP_HIGH | GFP_KSWAPD_RECLAIM;
			check(toy_alloc(&t, 2, 'U') == 0);
			events = toy_events(&t);
			check(strlen(events) >= strlen(wanted));
			check_text(events + strlen(events) - strlen(wanted), wanted);
			check_text(toy_blocks(&t), slow ? cases[i].blocks : "UU");
			check(t.zone->nr_reserved_highatomic == (slow ? cases[i].reserved : 0));
			if (!slow)
				check_text(toy_pcp_list(&t, 2, 'U'), cases[i].list);
			if (wanted[3] == '0') {
				check(t.pcp->count == 0);
				check_text(toy_list(&t, 2, slow ? 'H' : 'U'), "4");
				check_text(toy_list(&t, 3, slow ? 'H' : 'U'), "8");
			}
		}
	}
}

TEST(a_pcp_page_of_an_atomic_request_reserves_no_block_since_7_1)
{
	static const struct {
		const char *kernel, *blocks;
	} cases[] = {{"6.18", "HU"}, {"7.0", "HU"}, {"7.1", "UU"}, {"7.3", "UU"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new, cases[i].kernel, (struct toy_geometry){9, 10, "UU", ZONE_DMA32});
		t.zone->managed = 102400;
		toy_pcp(&t, 63, 378);
		toy_free_page(&t, 8, 2);
		t.zone->wmark[WMARK_LOW] = t.zone->wmark[WMARK_HIGH] = 2000;
		toy_add_free(&t, 16, 4, 'U');
		t.gfp_flags = GFP_HIGH | GFP_KSWAPD_RECLAIM;
		check(toy_alloc(&t, 2, 'U') == 8);
		check_text(toy_blocks(&t), cases[i].blocks);
	}
}

TEST(the_first_scan_takes_from_the_reserve_since_7_3)
{
	static const struct {
		const char *kernel, *events;
		uint32_t below_low;
	} cases[] = {
		{"7.2", "zl(0,2,H) a(0)", 1},
		{"7.3", "zl(0,2,H) a(0)", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* All free pages are of the reserve: they count only for a request with the right.
		 */
		TOY(t, toy_new, cases[i].kernel, (struct toy_geometry){9, 10, "HU", ZONE_DMA32});
		toy_pcp(&t, 63, 378);
		toy_add_free(&t, 0, 4, 'H');
		t.gfp_flags = GFP_HIGH | GFP_KSWAPD_RECLAIM;
		check(toy_alloc(&t, 2, 'U') == 0);
		check_text(toy_events(&t), cases[i].events);
		check(t.pcp->counters.below_low == cases[i].below_low);
		/* Direct reclaim takes the right away. */
		toy_add_free(&t, 512, 4, 'U');
		t.gfp_flags = GFP_HIGH | GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM;
		check(toy_alloc(&t, 2, 'U') == 512);
	}
}

TEST(a_chunk_above_pageblock_order_is_reserved_whole_since_6_10)
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
		TOY(t, toy_new, cases[i].kernel, toy_small("UUUU"));
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
	}
}

TEST(before_6_10_a_chunk_of_two_atomic_blocks_is_returned_with_its_first)
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
		TOY(t, toy_new, cases[i].kernel, toy_small("HHMM"));
		toy_add_free(&t, 0, 5, 'H');
		t.zone->nr_reserved_highatomic = 32;
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 4, 'U') == 0);
		check_text(toy_list(&t, 4, 'U'), "16");
		check_text(toy_blocks(&t), cases[i].blocks);
		check(t.zone->nr_reserved_highatomic == cases[i].reserved);
	}
}

TEST(zones_a_request_may_not_use_keep_their_atomic_reserve)
{
	static const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 32, .present = 32, .managed = 32},
	};
	const struct machine machine = toy_machine(4, 5);

	TOY(t, toy_new_machine, "6.18", &machine, zones, 2);
	set_block_type(t.m, 32, 0, MIGRATETYPE_HIGHATOMIC);
	t.zone = &t.m->zones[1];
	toy_add_free(&t, 32, 3, 'H');
	t.gfp_flags = GFP_DMA32 | GFP_DIRECT_RECLAIM;
	check(toy_alloc(&t, 3, 'U') == UINT64_MAX);
	check_text(toy_blocks(&t), "MMHM");
	t.gfp_flags = GFP_DIRECT_RECLAIM;
	check(toy_alloc(&t, 3, 'U') == 32);
}

TEST(a_block_across_the_edge_of_a_zone_stays_atomic_since_6_10)
{
	static const struct zone_spec zone = {
		.type = ZONE_DMA32, .spanned = 24, .present = 24, .managed = 24};
	static const struct {
		const char *kernel, *blocks;
	} cases[] = {{"6.12.19", "MH"}, {"6.18", "MH"}};
	const struct machine machine = toy_machine(4, 5);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TOY(t, toy_new_machine, cases[i].kernel, &machine, &zone, 1);
		set_block_type(t.m, 16, 0, MIGRATETYPE_HIGHATOMIC);
		toy_add_free(&t, 16, 2, 'H');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 2, 'U') == UINT64_MAX);
		check_text(toy_blocks(&t), cases[i].blocks);
		check_text(toy_list(&t, 2, 'H'), "16");
	}
}
