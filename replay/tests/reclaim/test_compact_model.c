// SPDX-License-Identifier: Apache-2.0
/* One compaction run of the model: which pages move, from where, to where. */
#include "check.h"
#include "reclaim_machine.h"

#include "model/fragmentation.h"
#include "reclaim/compact_model.h"

#include <string.h>

static void compaction_moves_pages_until_a_pageblock_is_free(void)
{
	const struct compact_goal goal = {.order = 9};
	const struct service_row row = {.moved = BLOCK};
	struct reclaim_machine w;

	reclaim_machine_fragmented(&w, NULL, 1);
	check(compact_suits(w.toy.m, normal_zone(&w), 9, ZONE_NORMAL) == COMPACT_SUITS);
	check(compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2);
	check(normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 1);
	check(normal_zone(&w)->nr_free_pages == 3000 + BLOCK / 2);
	reclaim_machine_free(&w);
}

static void a_run_ends_where_its_budget_does(void)
{
	const struct compact_goal goal = {.order = 9};
	const struct service_row row = {.moved = BLOCK / 2 - 1};
	struct reclaim_machine w;

	reclaim_machine_fragmented(&w, NULL, 1);
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == BLOCK / 2 - 1);
	check(!normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE]);
	reclaim_machine_free(&w);
}

/* One page in 512 fails: of two pageblocks with 256 used pages each, one page stays behind. */
static void failures_add_up_until_they_are_a_page(void)
{
	const struct compact_goal goal = {.order = -1};
	const struct service_row row = {.moved = 511 * 4, .failed = 4};
	struct reclaim_machine w;

	reclaim_machine_fragmented(&w, NULL, 4);
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	check(counters(&w, DMA)->compacted_pages == 4 * BLOCK / 2 - 2);
	check(normal_zone(&w)->nr_free[9][MIGRATETYPE_MOVABLE] == 2);
	check(w.run.compaction.zones[NORMAL].failing < 1e-9);
	reclaim_machine_free(&w);
}

/* Only a run for an allocation lets a sleeping kswapd reset the skip marks. */
static void pageblocks_with_nothing_to_move_are_skipped_until_kswapd_sleeps(void)
{
	const struct service_row row = {.moved = BLOCK};
	struct compact_goal goal = {.order = 9};
	struct reclaim_machine w;

	reclaim_machine_fragmented(&w, NULL, 1);
	frame_block(w.toy.m, normal_zone(&w)->start)->old_lru = 0;
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	make_movable(&w, 1);
	compaction_kswapd_naps(&w.run.compaction, 0);
	goal.direct = true;
	check(!compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	compaction_kswapd_naps(&w.run.compaction, 0);
	check(compact_model(&w.run.compaction, normal_zone(&w), &goal, &row));
	reclaim_machine_free(&w);
}

/* Of the pages that reclaim will free, single ones move; a larger block does not move. */
static void pages_that_are_freed_together_do_not_move(void)
{
	const struct service_row row = {.moved = BLOCK};
	struct compact_goal goal = {.order = 9};
	struct reclaimed held = {.order = 1}, *rows;
	struct reclaim_machine w;
	uint32_t page;

	reclaim_machine_fragmented(&w, NULL, 1);
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
	reclaim_machine_free(&w);
}

static void a_thorough_run_and_the_last_deferred_one_ignore_skip_marks(void)
{
	const struct service_row row = {.moved = BLOCK};
	struct compact_goal goal = {.order = 9};
	struct reclaim_machine w;

	reclaim_machine_fragmented(&w, NULL, 2);
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
	reclaim_machine_free(&w);
}

static void pages_do_not_move_to_unmovable_pageblocks_or_into_free_ones(void)
{
	const struct compact_goal goal = {.order = 9};
	const struct service_row row = {.moved = BLOCK};
	struct reclaim_machine w;

	reclaim_machine_new(&w, "6.18", NULL);
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
	reclaim_machine_free(&w);
}

int main(void)
{
	test(compaction_moves_pages_until_a_pageblock_is_free);
	test(a_run_ends_where_its_budget_does);
	test(failures_add_up_until_they_are_a_page);
	test(pageblocks_with_nothing_to_move_are_skipped_until_kswapd_sleeps);
	test(pages_that_are_freed_together_do_not_move);
	test(a_thorough_run_and_the_last_deferred_one_ignore_skip_marks);
	test(pages_do_not_move_to_unmovable_pageblocks_or_into_free_ones);
	return check_done();
}
