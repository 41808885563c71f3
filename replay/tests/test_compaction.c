// SPDX-License-Identifier: Apache-2.0
/* Compaction that the model runs itself: by kcompactd, for allocations, and when it is put off. */
#include "check.h"
#include "reclaim/compact_model.h"
#include "model/fragmentation.h"
#include "machinery.h"

#include <stdlib.h>
#include <string.h>

static struct zone *normal(struct machinery *w)
{
	return &w->toy.m->zones[NORMAL];
}

/* All that is used in the first `blocks` pageblocks of NORMAL is on LRU lists. */
static void make_movable(struct machinery *w, int blocks)
{
	for (int i = 0; i < blocks; i++) {
		struct pageblock *block = &w->toy.m->blocks[(normal(w)->start >> 9) + (uint32_t)i];

		block->old_lru = block->nr_old;
	}
}

/* `blocks` pageblocks that are half free and movable, and room for their pages behind. */
static void fragment(struct machinery *w, int blocks)
{
	make_free(w, NORMAL, blocks * BLOCK / 2, true);
	for (uint32_t i = 0; i < 3000; i++)
		toy_add_free(&w->toy, normal(w)->start + 16 * BLOCK + 2 * i, 0, 'M');
	make_movable(w, blocks);
}

static void machinery_fragmented(struct machinery *w, const char *policy, int blocks)
{
	machinery_new(w, "6.18", policy);
	fragment(w, blocks);
	machinery_start(w);
	w->serve.at = 50;
}

static void compaction_moves_pages_until_a_pageblock_is_free(void)
{
	const struct compact_goal goal = {.order = 9};
	const struct service_row row = {.moved = BLOCK};
	struct machinery w;

	machinery_fragmented(&w, NULL, 1);
	check(compact_suits(w.toy.m, normal(&w), 9, ZONE_NORMAL) == COMPACT_SUITS);
	check(compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2);
	check(normal(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
	check(normal(&w)->nr_free_pages == 3000 + BLOCK / 2);
	machinery_free(&w);
}

static void a_run_ends_where_its_budget_does(void)
{
	const struct compact_goal goal = {.order = 9};
	const struct service_row row = {.moved = BLOCK / 2 - 1};
	struct machinery w;

	machinery_fragmented(&w, NULL, 1);
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2 - 1);
	check(!normal(&w)->nr_free[9][MIGRATETYPE_MOVABLE]);
	machinery_free(&w);
}

/* A page in 512 fails: of each two pageblocks of 256 pages one stays behind. */
static void failures_add_up_until_they_are_a_page(void)
{
	const struct compact_goal goal = {.order = -1};
	const struct service_row row = {.moved = 511 * 4, .failed = 4};
	struct machinery w;

	machinery_fragmented(&w, NULL, 4);
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == 4 * BLOCK / 2 - 2);
	check(normal(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 2);
	check(w.feedback.compaction.zones[NORMAL].failing < 1e-9);
	machinery_free(&w);
}

/* Only a run for an allocation has kswapd forget them. */
static void what_had_nothing_to_move_is_skipped_until_kswapd_sleeps(void)
{
	const struct service_row row = {.moved = BLOCK};
	struct compact_goal goal = {.order = 9};
	struct machinery w;

	machinery_fragmented(&w, NULL, 1);
	frame_block(w.toy.m, normal(&w)->start)->old_lru = 0;
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	make_movable(&w, 1);
	compaction_kswapd_naps(&w.feedback.compaction, 0);
	goal.direct = true;
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	compaction_kswapd_naps(&w.feedback.compaction, 0);
	check(compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	machinery_free(&w);
}

/* Of what reclaim is to free, single pages move, and larger blocks do not, page by page. */
static void pages_that_are_freed_together_do_not_move(void)
{
	const struct service_row row = {.moved = BLOCK};
	struct compact_goal goal = {.order = 9};
	struct reclaimed held = {.order = 1}, *rows;
	struct machinery w;
	uint32_t page;

	machinery_fragmented(&w, NULL, 1);
	rows = w.feedback.supply.rows;
	w.feedback.supply.rows = &held;
	for (page = normal(&w)->start; w.toy.m->frames[page].state == FRAME_FREE; page++)
		;
	held.frame = page;
	w.feedback.supply.holders[page] = 1;
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	check(!counters(&w, DMA)->compacted_pages);
	held.order = 0;
	goal.thorough = true;
	check(compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	check(held.frame != page && w.feedback.supply.holders[held.frame] == 1);
	w.feedback.supply.rows = rows;
	machinery_free(&w);
}

static void a_thorough_run_and_the_last_that_is_put_off_look_everywhere(void)
{
	const struct service_row row = {.moved = BLOCK};
	struct compact_goal goal = {.order = 9};
	struct machinery w;

	machinery_fragmented(&w, NULL, 2);
	memset(w.feedback.compaction.skipped + (normal(&w)->start >> 9), SKIP_SOURCE, 2);
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	goal.thorough = true;
	check(compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	check(normal(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
	goal.thorough = false;
	check(!compact_model(&w.feedback.compaction, normal(&w), &goal, &row));
	w.feedback.compaction.zones[NORMAL].deferral = (struct deferral){64, 6, 9};
	compact_model(&w.feedback.compaction, normal(&w), &goal, &row);
	check(counters(&w, DMA)->compacted_pages == 2 * BLOCK / 2);
	machinery_free(&w);
}

static void pages_do_not_move_to_unmovable_pageblocks_or_into_free_ones(void)
{
	const struct compact_goal goal = {.order = 9};
	const struct service_row row = {.moved = BLOCK};
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, BLOCK / 2, true);
	make_movable(&w, 1);
	toy_add_free(&w.toy, normal(&w)->start + 20 * BLOCK, 9, 'M');
	for (uint32_t i = 0; i < BLOCK / 2; i++)
		toy_add_free(&w.toy, normal(&w)->start + 21 * BLOCK + 2 * i, 0, 'M');
	frame_block(w.toy.m, normal(&w)->start + 21 * BLOCK)->migratetype = MIGRATETYPE_UNMOVABLE;
	machinery_start(&w);
	compact_model(&w.feedback.compaction, normal(&w), &goal, &row);
	check(counters(&w, DMA)->compacted_pages == 0);
	machinery_free(&w);
}

/* 2^shift attempts, shift 0 to 6: so many are passed over before the next. */
static void each_failure_doubles_what_is_passed_over_up_to_64(void)
{
	static const int passed[] = {0, 1, 3, 7, 15, 31, 63, 63};
	struct deferral d = {0};

	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
		int n = 0;

		while (is_deferred(&d, 9))
			n++;
		check(n == passed[i]);
		defer(&d, 9);
	}
	defer_reset(&d, 9, true);
	check(d.shift == 0 && !is_deferred(&d, 9));
}

static void orders_below_the_one_that_failed_are_not_put_off(void)
{
	struct deferral d = {0};

	defer_reset(&d, 9, false);
	check(d.order_failed == 10);
	defer(&d, 9);
	check(d.order_failed == 9);
	check(!is_deferred(&d, 8));
	check(is_deferred(&d, 9));
	check(is_deferred(&d, 10) == false);
}

/* proactiveness 20: it starts above 90 and ends at 80. */
static void proactive_compaction_has_the_marks_of_its_kernel(void)
{
	static const struct {
		const char *kernel;
		int proactiveness, low, high;
	} rows[] = {
		{"6.18", 20, 80, 90}, {"6.18", 0, 100, 100},   {"6.18", 90, 10, 15},
		{"6.18", 100, 0, 0},  {"6.1.192", 20, 80, 90}, {"6.1.192", 100, 5, 15},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct kernel *kernel;
		struct error err = {""};
		struct score_marks marks;

		must(kernel_find(&kernel, rows[i].kernel, &err), &err);
		marks = score_marks(kernel, rows[i].proactiveness);
		check(marks.low == rows[i].low);
		check(marks.high == rows[i].high);
	}
}

/* Blocks by order, with the indices that the kernel printed for them (allocator of 6.18). */
static void indices_are_those_that_the_kernel_printed(void)
{
	static const uint32_t blocks[] = {111, 22, 801, 190, 346, 67, 42, 118, 11, 0, 0};
	struct machinery w;

	machinery_new(&w, "6.18", NULL);
	machinery_start(&w);
	for (int order = 0; order <= 10; order++)
		normal(&w)->nr_free[order][MIGRATETYPE_MOVABLE] = blocks[order];
	check(fragmentation_index(w.toy.m, normal(&w), 8) == -1000);
	check(fragmentation_index(w.toy.m, normal(&w), 9) == 962);
	check(fragmentation_index(w.toy.m, normal(&w), 10) == 981);
	check(fragmentation_score_zone(w.toy.m, normal(&w)) == 100);
	check(fragmentation_score_node(w.toy.m, 0) ==
	      (int)(NORMAL_PAGES * 100ull / (NORMAL_PAGES + DMA_PAGES + 1)));
	for (int order = 0; order <= 10; order++)
		normal(&w)->nr_free[order][MIGRATETYPE_MOVABLE] = 0;
	machinery_free(&w);
}

static void kcompactd_lowers_a_score_that_is_too_high_if_kswapd_is_off_the_cpu(void)
{
	struct machinery w;

	machinery_fragmented(&w, "mainline:proactiveness=90", 8);
	w.feedback.services.compaction.nr = 1;
	w.feedback.services.compaction.rows[0].moved = 4 * BLOCK / 2;
	/* DMA has no free page, and a score of 0. */
	check(fragmentation_score_node(w.toy.m, 0) == 79);
	w.feedback.kswapds[0].state = KSWAPD_BALANCING;
	reclaim_run_until(&w.feedback, 50, 1 * MS);
	check(counters(&w, DMA)->proactive_compactions == 0);
	w.feedback.kswapds[0].state = KSWAPD_ASLEEP;
	reclaim_run_until(&w.feedback, 50, 600 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	check(counters(&w, DMA)->kcompactd_wakes == 0);
	check(normal(&w)->nr_free[10][MIGRATETYPE_MOVABLE] == 2);
	/* It lowered the score, though not enough: it looks again after 500 ms. */
	reclaim_run_until(&w.feedback, 50, 1100 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
	check(normal(&w)->nr_free[10][MIGRATETYPE_MOVABLE] == 4);
	reclaim_run_until(&w.feedback, 50, 5000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
	machinery_free(&w);
}

static void proactive_compaction_in_vain_is_put_off_for_32_s(void)
{
	struct machinery w;

	machinery_new(&w, "6.18", "mainline:proactiveness=90");
	make_free(&w, NORMAL, 2000, true);
	machinery_start(&w);
	reclaim_run_until(&w.feedback, 50, 1 * MS);
	reclaim_run_until(&w.feedback, 50, 31000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	reclaim_run_until(&w.feedback, 50, 33000 * MS);
	check(counters(&w, DMA)->proactive_compactions == 2);
	machinery_free(&w);
}

static void without_proactiveness_kcompactd_sleeps_until_it_is_woken(void)
{
	struct machinery w;

	machinery_fragmented(&w, "mainline:proactiveness=0", 1);
	reclaim_run_until(&w.feedback, 50, 40000 * MS);
	check(w.feedback.kcompactds[0].due == UINT64_MAX);
	reclaim_run_wake_kcompactd(&w.feedback, 0, (struct kcompactd_wake){9, ZONE_NORMAL});
	reclaim_run_until(&w.feedback, 50, 41000 * MS);
	check(counters(&w, DMA)->kcompactd_wakes == 1);
	check(normal(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
	machinery_free(&w);
}

static void a_kcompactd_first_looks_when_it_did_on_the_record(void)
{
	struct machinery w;
	struct first_check *looks = calloc(1, sizeof(*looks));

	machinery_new(&w, "6.18", "mainline:proactiveness=90");
	fragment(&w, 8);
	*looks = (struct first_check){0, 700 * MS};
	w.feedback.first_checks = looks;
	w.feedback.nr_first_checks = 1;
	machinery_start(&w);
	reclaim_run_until(&w.feedback, 50, 699 * MS);
	check(counters(&w, DMA)->proactive_compactions == 0);
	reclaim_run_until(&w.feedback, 50, 701 * MS);
	check(counters(&w, DMA)->proactive_compactions == 1);
	machinery_free(&w);
}

static const uint32_t may_compact = GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM | GFP_IO;

static uint32_t ask(struct machinery *w, int order, int migratetype, uint32_t gfp_flags)
{
	struct request rq = {
		.gfp_flags = gfp_flags,
		.order = (uint8_t)order,
		.migratetype = (uint8_t)migratetype,
		.class_zone = ZONE_NORMAL,
	};

	return zone_alloc(w->toy.m, &rq);
}

static void a_costly_request_compacts_and_is_served(void)
{
	struct machinery w;

	machinery_fragmented(&w, NULL, 1);
	w.feedback.services.direct_compact.nr = 1;
	w.feedback.services.direct_compact.rows[0] = (struct service_row){3 * MS, BLOCK, 0};
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, may_compact) != NO_FRAME);
	check(counters(&w, DMA)->direct_compactions == 1);
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2);
	check(counters(&w, DMA)->modelled_stall_us == 3000);
	machinery_free(&w);
}

static void who_may_not_wait_or_do_io_does_not_compact(void)
{
	struct machinery w;

	machinery_fragmented(&w, NULL, 1);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, GFP_KSWAPD_RECLAIM | GFP_IO) == NO_FRAME);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, GFP_DIRECT_RECLAIM) == NO_FRAME);
	check(counters(&w, DMA)->direct_compactions == 0);
	machinery_free(&w);
}

static void compaction_in_vain_is_put_off_for_requests_too(void)
{
	struct machinery w;

	/* Room enough, but nothing that can move. */
	machinery_new(&w, "6.18", NULL);
	make_free(&w, NORMAL, 4000, true);
	machinery_start(&w);
	w.serve.at = 50;
	defer(&w.feedback.compaction.zones[NORMAL].deferral, 9);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, may_compact | GFP_NORETRY) == NO_FRAME);
	check(counters(&w, DMA)->direct_compactions_deferred == 1);
	check(counters(&w, DMA)->direct_compactions == 0);
	check(ask(&w, 9, MIGRATETYPE_MOVABLE, may_compact | GFP_NORETRY) == NO_FRAME);
	check(counters(&w, DMA)->direct_compactions == 1);
	/* An asynchronous run says nothing for those that come. */
	check(w.feedback.compaction.zones[NORMAL].deferral.shift == 1);
	machinery_free(&w);
}

int main(void)
{
	test(compaction_moves_pages_until_a_pageblock_is_free);
	test(a_run_ends_where_its_budget_does);
	test(failures_add_up_until_they_are_a_page);
	test(what_had_nothing_to_move_is_skipped_until_kswapd_sleeps);
	test(pages_that_are_freed_together_do_not_move);
	test(a_thorough_run_and_the_last_that_is_put_off_look_everywhere);
	test(pages_do_not_move_to_unmovable_pageblocks_or_into_free_ones);
	test(each_failure_doubles_what_is_passed_over_up_to_64);
	test(orders_below_the_one_that_failed_are_not_put_off);
	test(proactive_compaction_has_the_marks_of_its_kernel);
	test(indices_are_those_that_the_kernel_printed);
	test(kcompactd_lowers_a_score_that_is_too_high_if_kswapd_is_off_the_cpu);
	test(proactive_compaction_in_vain_is_put_off_for_32_s);
	test(without_proactiveness_kcompactd_sleeps_until_it_is_woken);
	test(a_kcompactd_first_looks_when_it_did_on_the_record);
	test(a_costly_request_compacts_and_is_served);
	test(who_may_not_wait_or_do_io_does_not_compact);
	test(compaction_in_vain_is_put_off_for_requests_too);
	return check_done();
}
