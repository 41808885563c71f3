// SPDX-License-Identifier: Apache-2.0
/*
 * Pageblocks in the HIGHATOMIC reserve: which requests reserve one, and which release it.
 * Pageblocks of 16 pages and a largest order of 5, unless a test says otherwise.
 */
#include "check.h"
#include "toy.h"

#include "freerun/zone_lock_queue.h"

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
		toy_end(&t);
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

		toy_new(&t, cases[i].kernel, toy_small("UUUU"));
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
		toy_end(&t);
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
		/* A request without the right gets the page only because the record granted it. */
		check_text(toy_events(&t), "zl(0,4,H)");
		check(t.pcp->counters.below_min == (cases[i].pfn != 0));
		toy_end(&t);
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

		toy_new(&t, cases[i].kernel, toy_small("UUUU"));
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
		toy_end(&t);
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

		toy_new(&t, cases[i].kernel, toy_small("HHMM"));
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

static void zones_a_request_may_not_use_keep_their_atomic_reserve(void)
{
	static const struct zone_spec zones[] = {
		{.type = ZONE_DMA32, .spanned = 32, .present = 32, .managed = 32},
		{.type = ZONE_NORMAL, .start_pfn = 32, .spanned = 32, .present = 32, .managed = 32},
	};
	const struct machine machine = toy_machine(4, 5);
	struct toy t;

	toy_new_machine(&t, "6.18", &machine, zones, 2);
	set_block_type(t.m, 32, 0, MIGRATETYPE_HIGHATOMIC);
	t.zone = &t.m->zones[1];
	toy_add_free(&t, 32, 3, 'H');
	t.gfp_flags = GFP_DMA32 | GFP_DIRECT_RECLAIM;
	check(toy_alloc(&t, 3, 'U') == UINT64_MAX);
	check_text(toy_blocks(&t), "MMHM");
	t.gfp_flags = GFP_DIRECT_RECLAIM;
	check(toy_alloc(&t, 3, 'U') == 32);
	toy_end(&t);
}

static void a_block_across_the_edge_of_a_zone_stays_atomic_since_6_10(void)
{
	static const struct zone_spec zone = {
		.type = ZONE_DMA32, .spanned = 24, .present = 24, .managed = 24};
	static const struct {
		const char *kernel, *blocks;
	} cases[] = {{"6.12.19", "MH"}, {"6.18", "MH"}};
	const struct machine machine = toy_machine(4, 5);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct toy t;

		toy_new_machine(&t, cases[i].kernel, &machine, &zone, 1);
		set_block_type(t.m, 16, 0, MIGRATETYPE_HIGHATOMIC);
		toy_add_free(&t, 16, 2, 'H');
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, 2, 'U') == UINT64_MAX);
		check_text(toy_blocks(&t), cases[i].blocks);
		check_text(toy_list(&t, 2, 'H'), "16");
		toy_end(&t);
	}
}

int main(void)
{
	test(pages_of_the_atomic_reserve_have_their_zone_locked);
	test(an_atomic_high_order_request_below_low_reserves_its_block);
	test(before_6_15_a_request_that_cannot_sleep_may_take_the_atomic_reserve);
	test(a_chunk_above_pageblock_order_is_reserved_whole_since_6_10);
	test(before_6_10_a_chunk_of_two_atomic_blocks_is_returned_with_its_first);
	test(zones_a_request_may_not_use_keep_their_atomic_reserve);
	test(a_block_across_the_edge_of_a_zone_stays_atomic_since_6_10);
	return check_done();
}
