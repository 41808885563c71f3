// SPDX-License-Identifier: Apache-2.0
/*
 * Inferred rows, served as requests: the model's pages need not be the recorded ones.
 * Pageblocks are of 16 pages, the largest order is 5.
 */
#include "serve_world.h"

static void inferred(struct world *w, int kind, uint32_t pfn, int order)
{
	serve_inferred(&w->serve, &(struct inferred){
					  .at = w->serve.at,
					  .kind = (uint8_t)kind,
					  .frame = pfn,
					  .order = (uint8_t)order,
					  .migratetype = MIGRATETYPE_MOVABLE,
				  });
}

TEST(a_request_with_a_landed_row_asks_the_node_of_its_page_first)
{
	const struct zone_spec zones[] = {TOY_ZONE(0, ZONE_NORMAL, 0),
					  TOY_ZONE(1, ZONE_NORMAL, 32)};
	struct waiting e = {.kind = EVENT_KIND_ALLOC,
			    .frame = 40,
			    .gfp_flags = GFP_MOVABLE | GFP_HIGHMEM,
			    .migratetype = MIGRATETYPE_MOVABLE};
	struct world w = {0};

	toy_new_machine(&w.toy, "6.18", &toy_two_nodes, zones, 2);
	world_begin(&w);
	toy_add_free(&w.toy, 0, 4, 'M');
	toy_add_free(&w.toy, 48, 4, 'M');
	world_freed(&w, 40, 1);
	inferred(&w, INFERRED_KIND_LANDED, 40, 0);
	serve_request(&w.serve, &e);
	check(page_map_place(&w.serve.pages, 40) == 48);
	/* The row is about one request only. */
	e.frame = 41;
	serve_request(&w.serve, &e);
	check(page_map_place(&w.serve.pages, 41) == 0);
	world_free(&w);
}

TEST(isolated_pages_are_the_recorded_ones_if_those_are_free)
{
	WORLD(w, world_new_small, "MM");
	toy_add_free(&w.toy, 0, 3, 'M');
	toy_add_free(&w.toy, 16, 3, 'M');
	inferred(&w, INFERRED_KIND_ISOLATED, 4, 1);
	check(page_map_place(&w.serve.pages, 4) == 4 && page_map_place(&w.serve.pages, 5) == 5);
	check_text(toy_list(&w.toy, 1, 'M'), "6");
	check_text(toy_list(&w.toy, 2, 'M'), "0");
	check_text(toy_list(&w.toy, 3, 'M'), "16");
}

TEST(isolated_pages_that_are_in_use_are_replaced_from_their_pageblock)
{
	WORLD(w, world_new_small, "MM");
	toy_add_free(&w.toy, 0, 1, 'M');
	toy_add_free(&w.toy, 16, 1, 'M');
	world_freed(&w, 20, 1);
	inferred(&w, INFERRED_KIND_ISOLATED, 20, 1);
	check(page_map_place(&w.serve.pages, 20) == 16);
	check_text(toy_list(&w.toy, 1, 'M'), "0");
}

TEST(without_such_pages_isolated_ones_come_from_the_tail_of_their_type)
{
	WORLD(w, world_new_small, "UMMM");
	toy_add_free(&w.toy, 0, 1, 'U');
	toy_add_free(&w.toy, 16, 1, 'M');
	toy_add_free(&w.toy, 32, 1, 'M');
	world_freed(&w, 48, 3);
	inferred(&w, INFERRED_KIND_ISOLATED, 50, 1);
	check(page_map_place(&w.serve.pages, 50) == 32);
	inferred(&w, INFERRED_KIND_ISOLATED, 52, 1);
	inferred(&w, INFERRED_KIND_ISOLATED, 54, 1);
	check(page_map_place(&w.serve.pages, 54) == 0);
}

TEST(pages_isolated_in_one_piece_may_be_found_in_several)
{
	WORLD(w, world_new_small, "MM");
	toy_add_free(&w.toy, 0, 1, 'M');
	toy_add_free(&w.toy, 4, 0, 'M');
	world_freed(&w, 16, 2);
	inferred(&w, INFERRED_KIND_ISOLATED, 16, 2);
	check(page_map_place(&w.serve.pages, 16) == 0 && page_map_place(&w.serve.pages, 17) == 1);
	check(page_map_place(&w.serve.pages, 18) == 4 &&
	      page_map_place(&w.serve.pages, 19) == NO_FRAME);
	check(w.anomalies[ANOMALY_KIND_NO_FREE_PAGE] == 1);
	check(w.toy.zone->nr_free_pages == 0);
}

TEST(isolated_pages_are_of_another_type_only_if_their_own_has_none)
{
	WORLD(w, world_new_small, "UMM");
	toy_add_free(&w.toy, 0, 3, 'U');
	toy_add_free(&w.toy, 16, 1, 'M');
	toy_add_free(&w.toy, 20, 1, 'M');
	world_freed(&w, 32, 3);
	inferred(&w, INFERRED_KIND_ISOLATED, 32, 2);
	check(page_map_place(&w.serve.pages, 32) >= 16 && page_map_place(&w.serve.pages, 34) >= 16);
	check_text(toy_list(&w.toy, 3, 'U'), "0");
	inferred(&w, INFERRED_KIND_ISOLATED, 36, 1);
	check(page_map_place(&w.serve.pages, 36) < 8);
}

TEST(isolated_pages_are_movable_until_they_are_freed)
{
	WORLD(w, world_new_small, "MM");
	toy_pcp(&w.toy, 1, 0);
	toy_add_free(&w.toy, 16, 2, 'M');
	inferred(&w, INFERRED_KIND_ISOLATED, 16, 2);
	check(frame_block(w.toy.m, 16)->nr_live[MIGRATETYPE_MOVABLE] == 4);
	world_free_page(&w, 18, 1);
	check(frame_block(w.toy.m, 16)->nr_live[MIGRATETYPE_MOVABLE] == 2);
	check(w.toy.zone->nr_free_pages == 2);
}

TEST(an_undone_free_gives_no_page_back)
{
	WORLD(w, world_new_small, "MM");
	toy_pcp(&w.toy, 1, 0);
	toy_add_free(&w.toy, 16, 1, 'M');
	inferred(&w, INFERRED_KIND_ISOLATED, 16, 1);
	inferred(&w, INFERRED_KIND_UNDONE_FREE, 16, 1);
	world_free_page(&w, 16, 1);
	check(w.toy.zone->nr_free_pages == 0 && page_map_place(&w.serve.pages, 16) == 16);
	world_free_page(&w, 16, 1);
	check(w.toy.zone->nr_free_pages == 2);
}

TEST(a_late_free_gives_its_page_to_the_pcp)
{
	WORLD(w, world_new_small, "MM");
	toy_pcp(&w.toy, 1, 8);
	toy_add_free(&w.toy, 16, 0, 'M');
	inferred(&w, INFERRED_KIND_ISOLATED, 16, 0);
	inferred(&w, INFERRED_KIND_UNDONE_FREE, 16, 0);
	world_free_page(&w, 16, 0);
	check(!w.toy.pcp->count);
	inferred(&w, INFERRED_KIND_LATE_FREE, 16, 0);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "16");
}

TEST(a_late_free_drains_the_recorded_pages)
{
	WORLD(w, world_new_small, "MMMM");
	toy_pcp(&w.toy, 1, 100);
	for (uint32_t pfn = 0; pfn < 8; pfn += 2)
		toy_free_page(&w.toy, pfn, 0);
	toy_add_free(&w.toy, 16, 0, 'M');
	inferred(&w, INFERRED_KIND_ISOLATED, 16, 0);
	serve_inferred(&w.serve, &(struct inferred){.at = w.serve.at,
						    .kind = INFERRED_KIND_TUNED,
						    .fields = FIELD_PAGES,
						    .pages = 2});
	inferred(&w, INFERRED_KIND_LATE_FREE, 16, 0);
	check(w.toy.pcp->count == 3);
	/* The number is of that free alone. */
	world_free_page(&w, 32, 0);
	check(w.toy.pcp->count == 4);
}

static void alloc_(struct world *w, uint32_t pfn, int order)
{
	serve_request(&w->serve, &(struct waiting){
					 .kind = EVENT_KIND_ALLOC,
					 .frame = pfn,
					 .order = (uint8_t)order,
					 .migratetype = MIGRATETYPE_MOVABLE,
					 .gfp_flags = GFP_DMA,
				 });
	w->serve.at++;
}

TEST(a_captured_block_waits_for_its_alloc)
{
	WORLD(w, world_new_small, "MMMM");
	toy_add_free(&w.toy, 16, 4, 'M');
	toy_add_free(&w.toy, 32, 4, 'M');
	inferred(&w, INFERRED_KIND_CAPTURED, 32, 4);
	check_text(toy_list(&w.toy, 4, 'M'), "16");
	alloc_(&w, 32, 4);
	check(page_map_place(&w.serve.pages, 32) == 32 && !w.serve.nr_captured);
	world_free_page(&w, 32, 4);
	check(w.toy.zone->nr_free_pages == 32);
}

TEST(a_block_that_is_not_free_in_the_model_is_not_captured)
{
	WORLD(w, world_new_small, "MMMM");
	toy_add_free(&w.toy, 16, 4, 'M');
	world_freed(&w, 32, 4);
	inferred(&w, INFERRED_KIND_CAPTURED, 32, 4);
	check(!w.serve.nr_captured);
	alloc_(&w, 32, 4);
	check(page_map_place(&w.serve.pages, 32) == 16);
}

TEST(a_list_is_cut_behind_what_was_put_there_later)
{
	struct inferred row = {
		.kind = INFERRED_KIND_CUT,
		.frame = 32,
		.order = 4,
		.migratetype = MIGRATETYPE_MOVABLE,
	};

	WORLD(w, world_new_small, "MMMMMM");
	for (uint32_t pfn = 0; pfn < 80; pfn += 16)
		toy_add_free(&w.toy, pfn, 4, 'M');
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 4, 'M'), "32 48 64 0 16");
	row.frame = 0;
	row.behind = 2;
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 4, 'M'), "32 48 0 16 64");
	row.frame = 48;
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 4, 'M'), "32 48 0 16 64");
	row.behind = 0;
	row.order = 3;
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 4, 'M'), "32 48 0 16 64");
}

TEST(a_list_without_the_block_is_cut_at_the_nearest_one)
{
	const struct inferred row = {
		.kind = INFERRED_KIND_CUT,
		.frame = 64,
		.order = 3,
		.migratetype = MIGRATETYPE_MOVABLE,
	};

	WORLD(w, world_new_small, "MMMMMM");
	toy_add_free(&w.toy, 0, 3, 'M');
	toy_add_free(&w.toy, 48, 3, 'M');
	toy_add_free(&w.toy, 32, 3, 'M');
	toy_add_free(&w.toy, 64, 2, 'M');
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 3, 'M'), "48 32 0");
}

TEST(a_recorded_change_of_type_goes_to_the_pageblock_or_to_one_as_free)
{
	struct inferred row = {
		.kind = INFERRED_KIND_RETYPED, .order = 4, .migratetype = MIGRATETYPE_MOVABLE};

	WORLD(w, world_new_small, "RRRH");
	toy_add_free(&w.toy, 0, 4, 'R');
	toy_add_free(&w.toy, 32, 4, 'R');
	toy_add_free(&w.toy, 48, 1, 'H');
	w.toy.zone->nr_reserved_highatomic = 16;
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 4, 'M'), "0");
	row.frame = 16; /* in use */
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 4, 'R'), "");
	check(frame_block(w.toy.m, 16)->migratetype == MIGRATETYPE_RECLAIMABLE);
	check(frame_block(w.toy.m, 32)->migratetype == MIGRATETYPE_MOVABLE);
	row.frame = 50; /* in the reserve: the pageblock leaves it with its free pages */
	row.order = 1;
	serve_inferred(&w.serve, &row);
	check_text(toy_list(&w.toy, 1, 'M'), "48");
	check(frame_block(w.toy.m, 48)->migratetype == MIGRATETYPE_MOVABLE);
	check(!w.toy.zone->nr_reserved_highatomic);
}

TEST(isolating_most_of_a_pageblock_makes_it_movable)
{
	WORLD(w, world_new_small, "RR");
	toy_add_free(&w.toy, 0, 3, 'R');
	toy_add_free(&w.toy, 16, 2, 'R');
	serve_inferred(&w.serve, &(struct inferred){.kind = INFERRED_KIND_ISOLATED,
						    .order = 3,
						    .migratetype = MIGRATETYPE_RECLAIMABLE});
	serve_inferred(&w.serve, &(struct inferred){.kind = INFERRED_KIND_ISOLATED,
						    .frame = 16,
						    .order = 2,
						    .migratetype = MIGRATETYPE_RECLAIMABLE});
	check(frame_block(w.toy.m, 0)->migratetype == MIGRATETYPE_MOVABLE);
	check(frame_block(w.toy.m, 16)->migratetype == MIGRATETYPE_RECLAIMABLE);
}

TEST(an_inferred_drain_is_one_hold_of_the_lock)
{
	WORLD(w, world_new_small, "MMMMMMMMMM");
	toy_pcp(&w.toy, 1, 100);
	for (uint32_t pfn = 0; pfn < 80; pfn += 2)
		toy_free_page(&w.toy, pfn, 0);
	check(w.toy.pcp->count == 40);
	inferred(&w, INFERRED_KIND_DRAIN, 0, 0);
	check(w.toy.pcp->count == 40 - (1 << w.toy.m->kernel->pcp_scale_max));
	inferred(&w, INFERRED_KIND_DRAIN, 0, 0);
	check(w.toy.pcp->count == 0);
}

TEST(a_high_that_a_drain_showed_is_taken_over)
{
	WORLD(w, world_new_small, "MM");
	toy_pcp(&w.toy, 2, 8);
	serve_inferred(
		&w.serve,
		&(struct inferred){.kind = INFERRED_KIND_TUNED, .fields = FIELD_HIGH, .high = 6});
	check(w.toy.pcp->high == 6);
	serve_inferred(&w.serve, &(struct inferred){.kind = INFERRED_KIND_TUNED,
						    .fields = FIELD_ALLOC_FACTOR,
						    .alloc_factor = 3});
	check(w.toy.pcp->high == 6 && w.toy.pcp->alloc_factor == 3);
}

TEST(an_inferred_drain_has_the_recorded_number_of_pages)
{
	WORLD(w, world_new_small, "MMMM");
	toy_pcp(&w.toy, 1, 100);
	for (uint32_t pfn = 0; pfn < 20; pfn += 2)
		toy_free_page(&w.toy, pfn, 0);
	serve_inferred(
		&w.serve,
		&(struct inferred){.kind = INFERRED_KIND_DRAIN, .fields = FIELD_PAGES, .pages = 7});
	check(w.toy.pcp->count == 3);
	serve_inferred(
		&w.serve,
		&(struct inferred){.kind = INFERRED_KIND_TUNED, .fields = FIELD_PAGES, .pages = 2});
	world_free_page(&w, 32, 0);
	check(w.toy.pcp->count == 2);
}

TEST(a_drain_counts_on_the_cpu_that_ran_it)
{
	const struct zone_spec zone = TOY_ZONE(0, ZONE_NORMAL, 0);
	struct world w = {0};

	toy_new_machine(&w.toy, "6.18", &toy_two_nodes, &zone, 1);
	world_begin(&w);
	toy_pcp(&w.toy, 1, 100);
	w.toy.zone->stat_threshold = 100;
	for (uint32_t pfn = 0; pfn < 20; pfn += 2)
		toy_free_page(&w.toy, pfn, 0);
	serve_inferred(&w.serve, &(struct inferred){.kind = INFERRED_KIND_DRAIN,
						    .fields = FIELD_PAGES | FIELD_RAN_ON,
						    .pages = 7,
						    .ran_on = 1});
	check(w.toy.pcp->vmstat_diff == 0);
	check(zone_pcp(w.toy.m, w.toy.zone, 1)->vmstat_diff == 7);
	world_free(&w);
}

TEST(a_deferred_drain_takes_the_pages_that_were_due_at_its_free)
{
	const struct inferred put_off = {.kind = INFERRED_KIND_PUT_OFF},
			      overflow = {.kind = INFERRED_KIND_OVERFLOW};

	WORLD(w, world_new_small, "MMMM");
	toy_pcp(&w.toy, 1, 8);
	for (uint32_t pfn = 0; pfn < 14; pfn += 2)
		toy_free_page(&w.toy, pfn, 0);
	serve_inferred(&w.serve, &put_off);
	world_free_page(&w, 32, 0);
	check(w.toy.pcp->count == 8);
	serve_inferred(&w.serve, &overflow);
	check(w.toy.pcp->count == 1);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "32");
	/* No drain is pending any more. */
	serve_inferred(&w.serve, &overflow);
	check(w.toy.pcp->count == 1);
}

TEST(a_free_without_an_overflow_leaves_a_deferred_drain_as_it_is)
{
	const struct free_request no_drain = {.drain_pages = 0};

	WORLD(w, world_new_small, "MMMM");
	toy_pcp(&w.toy, 1, 8);
	for (uint32_t pfn = 0; pfn < 14; pfn += 2)
		toy_free_page(&w.toy, pfn, 0);
	serve_inferred(&w.serve, &(struct inferred){.kind = INFERRED_KIND_PUT_OFF});
	world_free_page(&w, 32, 0);
	zone_free_as(w.toy.m, 34, 0, &no_drain);
	check(w.toy.pcp->count == 9);
	serve_inferred(&w.serve, &(struct inferred){.kind = INFERRED_KIND_OVERFLOW});
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "34 32");
}

TEST(a_tuned_row_sets_the_fields_it_has_and_no_other)
{
	WORLD(w, world_new_small, "MMM");
	toy_pcp(&w.toy, 2, 8);
	w.toy.pcp->free_count = 3;
	serve_inferred(&w.serve, &(struct inferred){
					 .kind = INFERRED_KIND_TUNED,
					 .fields = FIELD_BELOW_HIGH | FIELD_RECLAIM_ACTIVE,
					 .below_high = true,
					 .reclaim_active = true,
				 });
	check(w.toy.zone->below_high && w.toy.zone->reclaim_active);
	check(w.toy.pcp->high == 8 && w.toy.pcp->free_count == 3);
	serve_inferred(&w.serve, &(struct inferred){
					 .kind = INFERRED_KIND_TUNED,
					 .fields = FIELD_FREE_COUNT | FIELD_BELOW_HIGH,
					 .free_count = 5,
				 });
	check(!w.toy.zone->below_high && w.toy.zone->reclaim_active);
	check(w.toy.pcp->free_count == 5);
}

TEST(a_block_that_moved_is_last_on_its_list)
{
	WORLD(w, world_new_small, "MMM");
	toy_pcp(&w.toy, 1, 100);
	toy_add_free(&w.toy, 16, 1, 'M');
	toy_add_free(&w.toy, 20, 1, 'M');
	inferred(&w, INFERRED_KIND_MOVED, 16, 1);
	check_text(toy_list(&w.toy, 1, 'M'), "20 16");
	toy_free_page(&w.toy, 32, 0);
	toy_free_page(&w.toy, 34, 0);
	inferred(&w, INFERRED_KIND_MOVED, 32, 0); /* drains begin at the tail */
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "32 34");
	inferred(&w, INFERRED_KIND_MOVED, 16, 0); /* of another order */
	check_text(toy_list(&w.toy, 1, 'M'), "20 16");
}

TEST(a_free_without_an_event_goes_past_the_pcp)
{
	WORLD(w, world_new_small, "MMM");
	toy_pcp(&w.toy, 1, 100);
	toy_add_free(&w.toy, 16, 1, 'M');
	inferred(&w, INFERRED_KIND_ISOLATED, 16, 0);
	inferred(&w, INFERRED_KIND_FREE, 16, 0);
	check_text(toy_list(&w.toy, 1, 'M'), "16");
	toy_free_page(&w.toy, 32, 0);
	inferred(&w, INFERRED_KIND_FREE, 32, 0);
	check(!w.toy.pcp->count);
	check_text(toy_list(&w.toy, 0, 'M'), "32");
}

TEST(a_refill_without_an_event_hands_nothing_out)
{
	WORLD(w, world_new_small, "MMM");
	toy_pcp(&w.toy, 2, 100);
	toy_add_free(&w.toy, 16, 3, 'M');
	inferred(&w, INFERRED_KIND_REFILL, 16, 0);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "16 17");
}

TEST(an_alloc_past_a_locked_pcp_leaves_the_pcp_alone)
{
	WORLD(w, world_new_small, "MMM");
	toy_pcp(&w.toy, 1, 100);
	toy_add_free(&w.toy, 16, 0, 'M');
	toy_free_page(&w.toy, 32, 0);
	serve_inferred(&w.serve, &(struct inferred){
					 .kind = INFERRED_KIND_DIRECT_ALLOC,
					 .frame = 16,
					 .migratetype = MIGRATETYPE_MOVABLE,
					 .gfp_flags = GFP_DMA,
				 });
	check(page_map_place(&w.serve.pages, 16) == 16 && w.toy.pcp->count == 1);
	alloc_(&w, 16, 0); /* its event */
	check(page_map_place(&w.serve.pages, 16) == 16 && w.toy.pcp->count == 1);
}

TEST(a_page_taken_without_an_event_has_its_event_later)
{
	WORLD(w, world_new_small, "MMM");
	toy_pcp(&w.toy, 1, 100);
	toy_free_page(&w.toy, 32, 0);
	toy_free_page(&w.toy, 34, 0);
	serve_inferred(&w.serve, &(struct inferred){
					 .kind = INFERRED_KIND_ALLOC,
					 .frame = 34,
					 .migratetype = MIGRATETYPE_MOVABLE,
					 .gfp_flags = GFP_DMA,
				 });
	alloc_(&w, 34, 0);
	check(page_map_place(&w.serve.pages, 34) == 34);
	check(!w.anomalies[ANOMALY_KIND_ALLOC_OF_USED]);
	alloc_(&w, 34, 0);
	check(w.anomalies[ANOMALY_KIND_ALLOC_OF_USED] == 1);
}

TEST(an_entry_does_not_move_to_a_list_that_no_pcp_has)
{
	const struct inferred moved = {
		.kind = INFERRED_KIND_MOVED, .frame = 16, .migratetype = MIGRATETYPE_RESERVE};

	WORLD(w, world_new_small, "MM");
	/* 6.18 has such a list, a row with a reserve past the PCP has none. */
	w.toy.m->pcp_lists[0][MIGRATETYPE_RESERVE] = NO_PCP_LIST;
	world_free_page(&w, 16, 0);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "16");
	serve_inferred(&w.serve, &moved);
	check_text(toy_pcp_list(&w.toy, 0, 'M'), "16");
}
