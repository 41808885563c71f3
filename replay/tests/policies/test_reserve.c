// SPDX-License-Identifier: Apache-2.0
/*
 * MIGRATE_RESERVE under the policy reserve, on rows that have it and rows that do not.
 */
#include "check.h"
#include "tape/snapshot.h"
#include "run/fragmentation_sample.h"
#include "toy.h"

#include <stdio.h>

static const char *const rows[] = {"2.6.32", "2.6.33", "4.20", "5.19", "6.8", "6.12.19", "6.18"};
enum { NR_ROWS = sizeof(rows) / sizeof(rows[0]) };

static void toy_reserve(struct toy *t, const char *row, const char *mode, const char *blocks)
{
	char policy[64];

	snprintf(policy, sizeof(policy), "reserve:%s", mode);
	toy_new_under(t, row, policy, (struct toy_geometry){4, 5, blocks, ZONE_DMA32});
	toy_pcp(t, 1, 8);
}

TEST(TV13_only_the_bug_drains_the_reserve_to_movable)
{
	static const struct {
		const char *mode, *events, *movable, *reserve;
		uint64_t leaked, past_pcp;
	} cases[] = {
		{"mode=bug", "f(100) d(100,M)", "100", "", 1, 0},
		{"mode=fix1", "f(100) d(100,V)", "", "100", 0, 0},
		{"mode=fix2", "f(100)", "", "100", 0, 1},
		{"mode=fix3", "f(100) d(100,V)", "", "100", 0, 0},
		{"mode=fix4", "f(100) d(100,V)", "", "100", 0, 0},
	};

	for (size_t i = 0; i < 5 * NR_ROWS; i++) {
		TOY(t, toy_reserve, rows[i / 5], cases[i % 5].mode, "MMMMMMVM");
		toy_free_page(&t, 100, 0);
		toy_drain(&t);
		check_text(toy_events(&t), cases[i % 5].events);
		check_text(toy_list(&t, 0, 'M'), cases[i % 5].movable);
		check_text(toy_list(&t, 0, 'V'), cases[i % 5].reserve);
		check(t.pcp->counters.reserve_leaked == cases[i % 5].leaked);
		check(t.pcp->counters.reserve_past_pcp == cases[i % 5].past_pcp);
	}
}

TEST(mode_none_removes_the_reserve_of_a_row)
{
	TOY(t, toy_reserve, "2.6.32", "mode=none", "MM");
	t.zone->wmark[WMARK_MIN] = 10;
	snapshot_complete(t.m);
	check_text(toy_blocks(&t), "MM");
	toy_add_free(&t, 0, 2, 'V');
	check(toy_alloc(&t, 2, 'U') == UINT64_MAX);
}

TEST(the_reserve_is_the_first_movable_blocks_and_their_free_pages)
{
	static const struct {
		const char *mode;
		int64_t min;
		const char *blocks;
	} cases[] = {
		{"mode=fix1,nr_reserve_blocks=1", 0, "UVMM"},
		{"mode=fix1,nr_reserve_blocks=3", 0, "UVVV"},
		{"mode=fix1,nr_reserve_blocks=0", 100, "UMMM"},
		{"mode=fix1", 0, "UMMM"},
		{"mode=fix1", 1, "UVMM"},
		{"mode=fix1", 17, "UVVM"},
		{"mode=fix1", 100, "UVVM"},
	};

	for (size_t i = 0; i < 7 * NR_ROWS; i++) {
		TOY(t, toy_reserve, rows[i / 7], cases[i % 7].mode, "UMMM");
		t.zone->wmark[WMARK_MIN] = cases[i % 7].min;
		toy_add_free(&t, 16, 2, 'M');
		toy_add_free(&t, 32, 5, 'M');
		snapshot_complete(t.m);
		check_text(toy_blocks(&t), cases[i % 7].blocks);
		check_text(toy_list(&t, 2, 'V'), cases[i % 7].blocks[1] == 'V' ? "16" : "");
		/* Only 2.6 moves a chunk of two pageblocks whole. */
		if (cases[i % 7].blocks[2] == 'V' && i / 7 >= 2)
			check(t.zone->nr_free[4][MIGRATETYPE_RESERVE] ==
			      (cases[i % 7].blocks[3] == 'V' ? 2 : 1));
	}
}

TEST(the_reserve_is_the_last_resort)
{
	for (size_t i = 0; i < NR_ROWS; i++) {
		TOY(t, toy_reserve, rows[i], "mode=fix1", "VMUM");
		toy_add_free(&t, 0, 2, 'V');
		toy_add_free(&t, 32, 2, 'U');
		check(toy_alloc(&t, 2, 'M') == 32);
		check(t.pcp->counters.reserve_taken == 0);
		check(toy_alloc(&t, 2, 'M') == 0);
		check(t.pcp->counters.reserve_taken == 4);
		check(t.pcp->counters.atomic_orders == 2);
		check(t.pcp->counters.atomic_orders_reserve == 1);
		check(toy_alloc(&t, 2, 'M') == UINT64_MAX);
		check(t.pcp->counters.atomic_orders_failed == 1);
	}
}

/* A request that may sleep takes the reserve, too. It fails only if no page can be moved for it. */
TEST(requests_that_may_sleep_are_counted_apart)
{
	static const struct {
		int order;
		uint64_t counted;
	} cases[] = {{0, 0}, {1, 1}, {3, 1}, {4, 0}};

	for (size_t i = 0; i < 4 * NR_ROWS; i++) {
		int order = cases[i % 4].order;
		uint64_t counted = cases[i % 4].counted;
		struct request rq = {
			.gfp_flags = GFP_DIRECT_RECLAIM,
			.order = (uint8_t)order,
			.migratetype = MIGRATETYPE_MOVABLE,
			.makes_room = true,
		};
		const struct counters *counters;

		TOY(t, toy_reserve, rows[i / 4], "mode=fix1", "VMUM");
		toy_add_free(&t, 0, order, 'V');
		toy_add_free(&t, 32, order, 'U');
		counters = &t.pcp->counters;
		t.gfp_flags = GFP_DIRECT_RECLAIM;
		check(toy_alloc(&t, order, 'M') == 32);
		check(toy_alloc(&t, order, 'M') == 0);
		check(counters->sleeping_orders == 2 * counted);
		check(counters->sleeping_orders_reserve == counted);
		rq.class_zone = (uint8_t)gfp_class_zone(t.m, rq.gfp_flags);
		check(zone_alloc(t.m, &rq) == NO_FRAME);
		check(counters->sleeping_orders_failed == 0);
		zone_unmark_live(t.m, 0, order);
		zone_hand_out(t.m, &rq, 0);
		check(counters->sleeping_orders == 3 * counted);
		check(counters->sleeping_orders_reserve == 2 * counted);
		check(toy_alloc(&t, order, 'M') == UINT64_MAX);
		check(counters->sleeping_orders_failed == counted);
		check(counters->atomic_orders + counters->atomic_orders_failed == 0);
	}
}

TEST(only_fix2_keeps_a_freed_page_of_the_reserve_from_movable_requests)
{
	static const struct {
		const char *mode;
		uint64_t page;
	} cases[] = {
		{"mode=bug", 100}, {"mode=fix1", 100}, {"mode=fix2", 0},
		{"mode=fix3", 0},  {"mode=fix4", 0},
	};

	for (size_t i = 0; i < 5 * NR_ROWS; i++) {
		TOY(t, toy_reserve, rows[i / 5], cases[i % 5].mode, "MMMMMMVM");
		toy_add_free(&t, 0, 0, 'M');
		toy_free_page(&t, 100, 0);
		check(toy_alloc(&t, 0, 'M') == cases[i % 5].page);
	}
}

TEST(the_separate_pcp_list_serves_requests_that_find_nothing_else)
{
	static const struct {
		const char *mode;
		char type;
		uint64_t drains; /* of the PCP, before a page is found */
	} cases[] = {
		{"mode=fix3", 'M', 0},
		{"mode=fix3", 'U', 0},
		{"mode=fix4", 'M', 0},
		{"mode=fix4", 'U', 1},
	};

	for (size_t i = 0; i < 4 * NR_ROWS; i++) {
		TOY(t, toy_reserve, rows[i / 4], cases[i % 4].mode, "IMMMMMVM");
		/* Free pages count for the watermark, but no request may take ISOLATE ones. */
		toy_add_free(&t, 0, 2, 'I');
		toy_free_page(&t, 100, 0);
		check(t.pcp->count == 1);
		check(toy_alloc(&t, 0, cases[i % 4].type) == 100);
		check(t.pcp->counters.drains == cases[i % 4].drains);
		check(t.pcp->counters.reserve_taken == cases[i % 4].drains);
		check(t.pcp->count == 0);
	}
}

/* The free pages of the reserve on other lists, by the table reserve. */
static uint32_t astray_pages(struct toy *t)
{
	struct output *outputs[NR_FRAGMENTATION_SAMPLE];
	const struct batch *batch;
	uint32_t astray;

	for (int i = 0; i < NR_FRAGMENTATION_SAMPLE; i++)
		check(!output_new(&outputs[i], fragmentation_sample_tables[i], 64, NULL));
	fragmentation_sample_write(t->m, outputs, 7);
	batch = output_pop(outputs[SAMPLE_RESERVE], true);
	check(batch && batch->nr == 1);
	astray = ((struct reserve_columns *)batch->slots)->astray_pages[0];
	check(((struct reserve_columns *)batch->slots)->blocks[0] == 2);
	for (int i = 0; i < NR_FRAGMENTATION_SAMPLE; i++)
		output_free(outputs[i]);
	return astray;
}

/* Rounds of more and more single pages, allocated and freed; every second page is free at first. */
static uint32_t astray_after_load(const char *row, const char *mode)
{
	uint32_t astray, pages = 8 * 16;
	struct toy t;

	toy_reserve(&t, row, mode, "VVMMMMMM");
	for (uint32_t page = 0; page < pages; page += 2)
		toy_free_page(&t, page, 0);
	for (int round = 0; round < 20; round++) {
		uint64_t used[32];
		int nr = round + 8;

		for (int i = 0; i < nr; i++)
			used[i] = toy_alloc(&t, 0, i % 3 ? 'M' : 'U');
		for (int i = 0; i < nr; i++)
			toy_free_page(&t, (uint32_t)used[i], 0);
	}
	toy_drain(&t);
	astray = astray_pages(&t);
	toy_end(&t);
	return astray;
}

TEST(no_fix_leaks_pages_on_a_load_where_the_bug_does)
{
	for (size_t i = 0; i < NR_ROWS; i++) {
		check(astray_after_load(rows[i], "mode=bug") > 0);
		check(astray_after_load(rows[i], "mode=fix1") == 0);
		check(astray_after_load(rows[i], "mode=fix2") == 0);
		check(astray_after_load(rows[i], "mode=fix3") == 0);
		check(astray_after_load(rows[i], "mode=fix4") == 0);
	}
}
