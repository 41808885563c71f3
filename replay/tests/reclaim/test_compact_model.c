// SPDX-License-Identifier: Apache-2.0
/* One compaction run of the model: which pages move, from where, to where. */
#include "check.h"
#include "reclaim_machine.h"

#include "model/fragmentation.h"
#include "reclaim/compact_model.h"

#include <string.h>

TEST(compaction_moves_pages_until_a_pageblock_is_free)
{
	const struct compact_goal goal = {.order = 9};
	const struct request rq = {.order = 9, .class_zone = ZONE_NORMAL};
	const struct scan_row row = {.freed = BLOCK};

	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
	check(compact_suits(w.toy.m, normal_zone(&w), &rq, COMPACT_BY_KCOMPACTD) == COMPACT_SUITS);
	check(compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2);
	check(normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
	check(normal_zone(&w)->nr_free_pages == 3000 + BLOCK / 2);
}

TEST(a_run_ends_where_its_budget_does)
{
	const struct compact_goal goal = {.order = 9};
	const struct scan_row row = {.freed = BLOCK / 2 - 1};

	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2 - 1);
	check(!normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE]);
}

/* One page in 512 fails: of two pageblocks with 256 used pages each, one page stays behind. */
TEST(failures_add_up_until_they_are_a_page)
{
	const struct compact_goal goal = {.order = -1};
	const struct scan_row row = {.scanned = 512 * 4, .freed = 511 * 4};

	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 4);
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == 4 * BLOCK / 2 - 2);
	check(normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 2);
	check(w.run.compaction.zones[NORMAL].failing < 1e-9);
}

/* Only a run for an allocation lets a sleeping kswapd reset the skip marks. */
TEST(pageblocks_with_nothing_to_move_are_skipped_until_kswapd_sleeps)
{
	const struct scan_row row = {.freed = BLOCK};
	struct compact_goal goal = {.order = 9, .migratetype = MIGRATETYPE_MOVABLE};

	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
	frame_block(w.toy.m, normal_zone(&w)->start)->old_lru = 0;
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	make_movable(&w, 1);
	compaction_kswapd_naps(&w.run.compaction, 0);
	goal.direct = true;
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	compaction_kswapd_naps(&w.run.compaction, 0);
	check(compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
}

/* Of the pages that reclaim will free, single ones move; a larger block does not move. */
TEST(pages_that_are_freed_together_do_not_move)
{
	const struct scan_row row = {.freed = BLOCK};
	struct compact_goal goal = {
		.order = 9,
		.direct = true,
		.migratetype = MIGRATETYPE_MOVABLE,
	};
	struct reclaimed held = {.order = 1}, *rows;
	uint32_t page;

	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 1);
	rows = w.run.supply.rows;
	w.run.supply.rows = &held;
	for (page = normal_zone(&w)->start; w.toy.m->frames[page].state == FRAME_FREE; page++)
		;
	held.frame = page;
	w.run.supply.holders[page] = 1;
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(!counters(&w, DMA)->compacted_pages);
	held.order = 0;
	goal.thorough = true;
	check(compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(held.frame != page && w.run.supply.holders[held.frame] == 1);
	w.run.supply.rows = rows;
}

TEST(a_thorough_run_and_the_last_deferred_one_ignore_skip_marks)
{
	const struct scan_row row = {.freed = BLOCK};
	struct compact_goal goal = {.order = 9};

	RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 2);
	memset(w.run.compaction.skipped + (normal_zone(&w)->start >> 9), SKIP_SOURCE, 2);
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	goal.thorough = true;
	check(compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
	goal.thorough = false;
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	w.run.compaction.zones[NORMAL].deferral = (struct deferral){64, 6, 9};
	compact_model(&w.run.compaction, normal_zone(&w), &goal, &row);
	check(counters(&w, DMA)->compacted_pages == 2 * BLOCK / 2);
}

TEST(pages_do_not_move_to_unmovable_pageblocks_or_into_free_ones)
{
	const struct compact_goal goal = {.order = 9};
	const struct scan_row row = {.freed = BLOCK};

	RECLAIM_MACHINE(w, reclaim_machine_new, "6.18", NULL);
	make_free(&w, NORMAL, BLOCK / 2, true);
	make_movable(&w, 1);
	toy_add_free(&w.toy, normal_zone(&w)->start + 20 * BLOCK, 9, 'M');
	for (uint32_t i = 0; i < BLOCK / 2; i++)
		toy_add_free(&w.toy, normal_zone(&w)->start + 21 * BLOCK + 2 * i, 0, 'M');
	frame_block(w.toy.m, normal_zone(&w)->start + 21 * BLOCK)->migratetype =
		MIGRATETYPE_UNMOVABLE;
	reclaim_machine_start(&w);
	compact_model(&w.run.compaction, normal_zone(&w), &goal, &row);
	check(counters(&w, DMA)->compacted_pages == 0);
}

/* A pageblock half free, with one page that cannot move; single free pages behind it. */
static void with_a_pinned_page(struct reclaim_machine *w, int type)
{
	reclaim_machine_new(w, "6.18", NULL);
	fragment_normal(w, 1);
	frame_block(w->toy.m, normal_zone(w)->start)->migratetype = (uint8_t)type;
	zone_forget_old(w->toy.m, normal_zone(w)->start + 1, 0);
	reclaim_machine_start(w);
	w->serve.at = 50;
}

TEST(only_an_asynchronous_run_of_a_request_looks_at_types_and_leaves_mixed_parts)
{
	static const struct {
		struct compact_goal goal;
		int type;
		uint64_t moved;
	} cases[] = {
		/* kcompactd, then synchronous and asynchronous runs for a MOVABLE request */
		{{.order = 9}, MIGRATETYPE_UNMOVABLE, 255},
		{{.order = 9, .direct = true, .sync = true, .migratetype = 1},
		 MIGRATETYPE_UNMOVABLE,
		 255},
		{{.order = 9, .direct = true, .migratetype = 1}, MIGRATETYPE_MOVABLE, 0},
		/* Of parts of 4 pages, two used each, only the one of the pinned page stays. */
		{{.order = 2, .direct = true, .migratetype = 1}, MIGRATETYPE_MOVABLE, 254},
		{{.order = 2, .direct = true, .migratetype = 1}, MIGRATETYPE_UNMOVABLE, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct scan_row row = {.freed = 4 * BLOCK};

		RECLAIM_MACHINE(w, with_a_pinned_page, cases[i].type);
		/* One run to the end: no chunk is large enough. */
		compact_model(&w.run.compaction, normal_zone(&w), &cases[i].goal, &row);
		check(counters(&w, DMA)->compacted_pages == cases[i].moved);
		if (cases[i].type == MIGRATETYPE_MOVABLE)
			check_sound(w.toy.m);
	}
}

/* A used block of order 2 in a pageblock that has no other page. */
TEST(blocks_below_the_order_move_since_6_9)
{
	static const struct {
		const char *kernel;
		int order;
		uint64_t moved;
	} cases[] = {{"6.8", 9, 0}, {"6.12.117", 9, 4}, {"6.12.117", 2, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct compact_goal goal = {.order = cases[i].order};
		const struct scan_row row = {.freed = BLOCK};
		uint32_t start, page;

		RECLAIM_MACHINE(w, reclaim_machine_new, cases[i].kernel, NULL);
		start = normal_zone(&w)->start;
		w.toy.zone = normal_zone(&w);
		toy_add_free(&w.toy, start + 16 * BLOCK, 3, 'M');
		zone_forget_old(w.toy.m, start, 2);
		w.toy.m->frames[start].order = 2;
		zone_mark_live(w.toy.m, start, 2, MIGRATETYPE_MOVABLE);
		page_map_set(&w.serve.pages, start, 2, start + 1, true);
		reclaim_machine_start(&w);
		compact_model(&w.run.compaction, normal_zone(&w), &goal, &row);
		check(counters(&w, DMA)->compacted_pages == cases[i].moved);
		page = page_map_place(&w.serve.pages, start);
		check(page == (cases[i].moved ? start + 16 * BLOCK + 4 : start));
		check_sound(w.toy.m);
	}
}

/*
 * Pages of the first pageblock; the only free ones are in the last but one, which begins with a
 * free block of order 3.
 */
TEST(since_6_9_a_pageblock_that_begins_with_a_block_of_the_order_is_no_target)
{
	static const struct {
		const char *kernel;
		int order;
		bool thorough;
		char type;
		uint64_t moved;
	} cases[] = {
		{"6.8", 3, false, 'M', 8},      {"6.12.117", 3, false, 'M', 0},
		{"6.12.117", 4, false, 'M', 8}, {"6.12.117", 4, false, 'C', 8},
		{"6.12.117", 4, false, 'U', 0}, {"6.12.117", 4, true, 'U', 8},
		{"6.12.117", -1, true, 'M', 8}, {"6.12.117", -1, true, 'U', 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct compact_goal goal = {
			.order = cases[i].order,
			.thorough = cases[i].thorough,
			.sync = true,
			.direct = cases[i].order > 0,
			.migratetype = MIGRATETYPE_MOVABLE,
		};
		const struct scan_row row = {.freed = 8};
		uint32_t target;

		RECLAIM_MACHINE(w, reclaim_machine_new, cases[i].kernel, NULL);
		target = normal_zone(&w)->start + 30 * BLOCK;
		w.toy.zone = normal_zone(&w);
		toy_add_free(&w.toy, target, 3, cases[i].type);
		frame_block(w.toy.m, target)->migratetype =
			(uint8_t)(cases[i].type == 'C'   ? MIGRATETYPE_CMA
				  : cases[i].type == 'U' ? MIGRATETYPE_UNMOVABLE
							 : MIGRATETYPE_MOVABLE);
		make_movable(&w, 1);
		reclaim_machine_start(&w);
		w.serve.at = 50;
		compact_model(&w.run.compaction, normal_zone(&w), &goal, &row);
		check(counters(&w, DMA)->compacted_pages == cases[i].moved);
	}
}

TEST(since_7_2_requests_leave_CMA_pageblocks_that_they_cannot_use)
{
	static const struct {
		const char *kernel;
		bool direct;
		uint8_t migratetype;
		uint64_t moved;
	} cases[] = {
		{"7.1", true, MIGRATETYPE_UNMOVABLE, BLOCK / 2},
		{"7.2", true, MIGRATETYPE_UNMOVABLE, 0},
		{"7.2", true, MIGRATETYPE_MOVABLE, BLOCK / 2},
		{"7.2", false, MIGRATETYPE_UNMOVABLE, BLOCK / 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct compact_goal goal = {
			.order = 9,
			.sync = true,
			.direct = cases[i].direct,
			.migratetype = cases[i].migratetype,
		};
		const struct scan_row row = {.freed = BLOCK};

		RECLAIM_MACHINE(w, reclaim_machine_new, cases[i].kernel, NULL);
		fragment_normal(&w, 1);
		frame_block(w.toy.m, normal_zone(&w)->start)->migratetype = MIGRATETYPE_CMA;
		reclaim_machine_start(&w);
		w.serve.at = 50;
		compact_model(&w.run.compaction, normal_zone(&w), &goal, &row);
		check(counters(&w, DMA)->compacted_pages == cases[i].moved);
	}
}

/* The first pageblock became movable after the scanner passed it. */
TEST(a_thorough_run_begins_at_the_ends_of_the_zone)
{
	for (int thorough = 0; thorough < 2; thorough++) {
		const struct scan_row row = {.freed = BLOCK / 2};
		struct compact_goal goal = {.order = 10, .sync = true};
		struct zone_compaction *zc;

		RECLAIM_MACHINE(w, reclaim_machine_fragmented, NULL, 2);
		frame_block(w.toy.m, normal_zone(&w)->start)->old_lru = 0;
		zc = &w.run.compaction.zones[NORMAL];
		check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
		check(counters(&w, DMA)->compacted_pages == BLOCK / 2);
		check(zc->from == normal_zone(&w)->start + BLOCK);
		make_movable(&w, 1);
		goal.thorough = goal.direct = thorough;
		compact_model(&w.run.compaction, normal_zone(&w), &goal, &row);
		check(counters(&w, DMA)->compacted_pages ==
		      (uint64_t)(thorough ? BLOCK : BLOCK / 2));
	}
}
